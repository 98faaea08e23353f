"""Decides who may do what, remembers what it decided, and writes the audit log (Kafka's AclAuthorizer).

Verdicts are kept for each subject, which is a principal at an address, until any rule changes: produce and fetch pay
one dict look-up for each topic. The audit log is the logger `ottla.audit`: a denial at INFO, a permission at DEBUG,
and checks that refuse nothing (lists, authorized operations) not at all. Its fields are quoted, because names are
untrusted.
"""

import json
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeAlias

from cluster.security.acl import Operation, ResourceType, java_address, pascal
from cluster.security.acl_table import AclTable

if TYPE_CHECKING:
    from collections.abc import Collection

audit_logger = logging.getLogger("ottla.audit")

SUBJECTS_MAX: Final = 10_000
"""How many subjects' verdicts are kept; the least recently seen are dropped."""
VERDICTS_MAX: Final = 20_000
"""How many verdicts are kept of one subject: a client can ask about any number of names."""
_LOGGED_TEXT_MAX: Final = 300
_Question: TypeAlias = tuple[Operation, ResourceType, str | None]
"""An operation, a type of resource, and a name; None for any resource of the type."""


class Subject:
    """A principal at an address, as an authorizer sees it; `Authorizer.subject` makes them.

    Attributes:
        principal: `Type:name`.
        host: The address as Java writes it.
        is_super_user: Whether everything is allowed.
    """

    __slots__ = ("_authorizer", "_generation", "_verdicts", "host", "is_super_user", "principal")

    def __init__(self, authorizer: "Authorizer", principal: str, host: str, *, is_super_user: bool) -> None:
        self.principal = principal
        self.host = host
        self.is_super_user = is_super_user
        self._authorizer = authorizer
        self._generation = -1
        self._verdicts: dict[_Question, bool] = {}

    @property
    def generation(self) -> int:
        """The generation of the rules: verdicts of an earlier one must be decided again."""
        return self._authorizer.table.generation

    def may(
        self,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        api: str = "",
        count: int = 1,
        quiet: bool = False,
    ) -> bool:
        """Return whether this subject is allowed an operation on a resource.

        Args:
            operation: The operation.
            resource_type: The type of the resource.
            name: The resource's name.
            api: The API that is served, for the audit log.
            count: How often the resource occurs in the request, for the audit log.
            quiet: Whether not to log a refusal: the answer decides only what is shown, or another check follows.
        """
        key: _Question = (operation, resource_type, name)
        verdict = self._kept().get(key)
        if verdict is None:
            verdict = self._authorizer.decide(self, operation, resource_type, name)
            self._keep(key, verdict)
        if not (verdict or quiet):
            self._audit(logging.INFO, "denied", key, api, count)
        elif audit_logger.isEnabledFor(logging.DEBUG) and not quiet:
            self._audit(logging.DEBUG, "allowed", key, api, count)
        return verdict

    def may_somewhere(self, operation: Operation, resource_type: ResourceType, *, api: str = "") -> bool:
        """Return whether this subject is allowed an operation on at least one resource of a type, existing or not."""
        key: _Question = (operation, resource_type, None)
        verdict = self._kept().get(key)
        if verdict is None:
            verdict = self._authorizer.decide_somewhere(self, operation, resource_type)
            self._keep(key, verdict)
        if not verdict:
            self._audit(logging.INFO, "denied", key, api, 1)
        return verdict

    def _kept(self) -> dict[_Question, bool]:
        generation = self._authorizer.table.generation
        if generation != self._generation:
            self._generation = generation
            self._verdicts.clear()
        return self._verdicts

    def _keep(self, key: _Question, verdict: bool) -> None:
        if len(self._verdicts) >= VERDICTS_MAX:
            self._verdicts.clear()
        self._verdicts[key] = verdict

    def _audit(self, level: int, result: str, key: _Question, api: str, count: int) -> None:
        if not audit_logger.isEnabledFor(level):
            return
        operation, resource_type, name = key
        audit_logger.log(
            level,
            "principal=%s result=%s operation=%s host=%s resource=%s request=%s count=%d",
            quoted(self.principal),
            result,
            pascal(operation),
            quoted(self.host),
            quoted(f"{pascal(resource_type)}:{'ANY' if name is None else 'LITERAL:' + name}"),
            api or "-",
            count,
        )


class Authorizer:
    """Decides by super users, rules, and the default for resources without rules.

    Args:
        super_users: The principals that may do everything, as `super.users` lists them.
        allow_without_rules: `allow.everyone.if.no.acl.found`: whether a resource without rules is open to everybody.

    Attributes:
        table: The rules, kept current by their reader in ZooKeeper.
    """

    __slots__ = ("_allow_without_rules", "_subjects", "_super_users", "table")

    def __init__(self, super_users: "Collection[str]" = (), *, allow_without_rules: bool = False) -> None:
        self.table = AclTable()
        self._super_users = frozenset(super_users)
        self._allow_without_rules = allow_without_rules
        self._subjects: OrderedDict[tuple[str, str], Subject] = OrderedDict()

    def subject(self, principal: str, address: str) -> Subject:
        """Return the subject of a principal at an address, with its cached verdicts.

        Args:
            principal: `Type:name`.
            address: The peer's address as the socket gives it.
        """
        key = (principal, address)
        found = self._subjects.get(key)
        if found is None:
            found = Subject(
                self, principal, java_address(address), is_super_user=principal in self._super_users
            )
            self._subjects[key] = found
            if len(self._subjects) > SUBJECTS_MAX:
                self._subjects.popitem(last=False)
        else:
            self._subjects.move_to_end(key)
        return found

    def decide(self, subject: Subject, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Decide without the cached verdicts."""
        if subject.is_super_user:
            return True
        verdict = self.table.decide(subject.principal, subject.host, operation, resource_type, name)
        return self._allow_without_rules if verdict is None else verdict

    def decide_somewhere(self, subject: Subject, operation: Operation, resource_type: ResourceType) -> bool:
        """Decide whether some resource of a type is allowed (Kafka's authorizeByResourceType)."""
        if subject.is_super_user:
            return True
        asked = (subject.principal, subject.host, operation, resource_type)
        if self.table.denies_everywhere(*asked):
            return False
        return self._allow_without_rules or self.table.allows_somewhere(*asked)


def quoted(text: str) -> str:
    """Return untrusted text for a log line: quoted, controls escaped, cut to a bounded length."""
    return json.dumps(text if len(text) <= _LOGGED_TEXT_MAX else text[:_LOGGED_TEXT_MAX] + "...")
