"""The rules of a cluster, indexed for decisions: which of them apply to a resource, and what they decide.

The order of a decision (`decide`): without any rule on the resource, `AclTable` has no opinion; a DENY that matches
wins over every ALLOW; without a matching ALLOW the answer is no. The resource asked about is a plain name: rules of
LITERAL `name`, of LITERAL `*` and of every PREFIXED pattern that begins the name apply.

A look-up costs one dict access for each distinct length of prefix, not one for each prefix.
"""

from collections.abc import Iterable, Iterator

from cluster.security.acl import (
    EVERY_USER,
    IMPLIED_BY,
    WILDCARD,
    AclBinding,
    AclFilter,
    AclRule,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)


class _PatternRules:
    """The rules of one pattern, by principal."""

    __slots__ = ("by_principal", "rules")

    def __init__(self, rules: frozenset[AclRule]) -> None:
        self.rules = rules
        self.by_principal: dict[str, list[AclRule]] = {}
        for rule in rules:
            self.by_principal.setdefault(rule.principal, []).append(rule)

    def matching(self, principal: str, host: str) -> Iterator[AclRule]:
        """Yield the rules that match a principal at an address."""
        for name in (principal, EVERY_USER):
            for rule in self.by_principal.get(name, ()):
                if rule.host in (host, WILDCARD):
                    yield rule


class AclTable:
    """All rules of the cluster.

    Attributes:
        generation: Grows with every change: verdicts of an earlier generation are stale.
    """

    __slots__ = ("_lengths", "_literal", "_prefixed", "generation")

    def __init__(self) -> None:
        self.generation = 0
        self._literal: dict[tuple[ResourceType, str], _PatternRules] = {}
        self._prefixed: dict[tuple[ResourceType, str], _PatternRules] = {}
        self._lengths: dict[ResourceType, dict[int, int]] = {kind: {} for kind in ResourceType}

    def __len__(self) -> int:
        return sum(len(each.rules) for table in (self._literal, self._prefixed) for each in table.values())

    def set_rules(self, pattern: ResourcePattern, rules: Iterable[AclRule]) -> None:
        """Replace a pattern's rules; a pattern without rules is forgotten."""
        table = self._prefixed if pattern.pattern_type is PatternType.PREFIXED else self._literal
        key = (pattern.resource_type, pattern.name)
        had = key in table
        found = frozenset(rules)
        if found:
            table[key] = _PatternRules(found)
        else:
            table.pop(key, None)
        if pattern.pattern_type is PatternType.PREFIXED:
            self._count_length(pattern, (1 if found else 0) - (1 if had else 0))
        self.generation += 1

    def replace_all(self, rules: Iterable[tuple[ResourcePattern, frozenset[AclRule]]]) -> None:
        """Replace all rules."""
        self._literal.clear()
        self._prefixed.clear()
        for lengths in self._lengths.values():
            lengths.clear()
        for pattern, its_rules in rules:
            self.set_rules(pattern, its_rules)
        self.generation += 1

    def rules_of(self, pattern: ResourcePattern) -> frozenset[AclRule]:
        """Return the rules of exactly this pattern."""
        table = self._prefixed if pattern.pattern_type is PatternType.PREFIXED else self._literal
        found = table.get((pattern.resource_type, pattern.name))
        return frozenset() if found is None else found.rules

    def patterns(self) -> Iterator[ResourcePattern]:
        """Yield every pattern that has rules."""
        for kind, table in ((PatternType.LITERAL, self._literal), (PatternType.PREFIXED, self._prefixed)):
            for resource_type, name in table:
                yield ResourcePattern(resource_type, name, kind)

    def find(self, wanted: AclFilter) -> Iterator[AclBinding]:
        """Yield the bindings that a filter selects."""
        for pattern in self.patterns():
            if wanted.matches_pattern(pattern):
                for rule in self.rules_of(pattern):
                    if wanted.matches_rule(rule):
                        yield AclBinding(pattern, rule)

    def decide(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool | None:
        """Decide by the rules whether a principal may do something.

        Args:
            principal: `Type:name`, compared with its case.
            host: The client's address as Java writes it.
            operation: What it wants to do.
            resource_type: The type of resource to do it to.
            name: The resource's name.

        Returns:
            The verdict, or None if the resource has no rule at all, for any principal.
        """
        applying = list(self._applying(resource_type, name))
        if not applying:
            return None
        denying = (operation, Operation.ALL)
        allowing = frozenset({operation, Operation.ALL}) | IMPLIED_BY.get(operation, frozenset())
        allowed = False
        for rules in applying:
            for rule in rules.matching(principal, host):
                if rule.permission is Permission.DENY:
                    if rule.operation in denying:
                        return False
                elif rule.operation in allowing:
                    allowed = True
        return allowed

    def denies_everywhere(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether a DENY on LITERAL `*` covers every resource of a type."""
        rules = self._literal.get((resource_type, WILDCARD))
        return rules is not None and _has(rules, principal, host, operation, Permission.DENY)

    def allows_somewhere(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether some ALLOW of a type is not covered by a DENY: the same literal, or a prefix of it."""
        denied_names = self._names(self._literal, principal, host, operation, resource_type, Permission.DENY)
        denied_prefixes = tuple(
            self._names(self._prefixed, principal, host, operation, resource_type, Permission.DENY)
        )
        allowed = self._names(self._literal, principal, host, operation, resource_type, Permission.ALLOW)
        for name in allowed:
            if name == WILDCARD or not (name in denied_names or name.startswith(denied_prefixes)):
                return True
        prefixes = self._names(self._prefixed, principal, host, operation, resource_type, Permission.ALLOW)
        return any(not prefix.startswith(denied_prefixes) for prefix in prefixes)

    def _applying(self, resource_type: ResourceType, name: str) -> Iterator[_PatternRules]:
        literal = self._literal
        found = literal.get((resource_type, name))
        if found is not None:
            yield found
        if name != WILDCARD:
            found = literal.get((resource_type, WILDCARD))
            if found is not None:
                yield found
        for length in self._lengths[resource_type]:
            if length <= len(name):
                found = self._prefixed.get((resource_type, name[:length]))
                if found is not None:
                    yield found

    @staticmethod
    def _names(
        table: dict[tuple[ResourceType, str], _PatternRules],
        principal: str,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        permission: Permission,
    ) -> set[str]:
        return {
            name
            for (kind, name), rules in table.items()
            if kind is resource_type and _has(rules, principal, host, operation, permission)
        }

    def _count_length(self, pattern: ResourcePattern, change: int) -> None:
        lengths = self._lengths[pattern.resource_type]
        count = lengths.get(len(pattern.name), 0) + change
        if count:
            lengths[len(pattern.name)] = count
        else:
            lengths.pop(len(pattern.name), None)


def _has(
    rules: _PatternRules, principal: str, host: str, operation: Operation, permission: Permission
) -> bool:
    return any(
        rule.permission is permission and rule.operation in (operation, Operation.ALL)
        for rule in rules.matching(principal, host)
    )
