"""Access control rules as values: resources, patterns, rules, and the filters that administrators search with.

The codes themselves are in `wire.acl_codes`, because clients use them, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Final, NamedTuple

from wire.acl_codes import (
    ANY_CODE,
    OPERATIONS_OF,
    UNKNOWN_CODE,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    from_pascal,
    pascal,
)

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""
WILDCARD: Final = "*"
"""As a LITERAL resource name, a host, or the name part of `User:*`: everything."""
EVERY_USER: Final = "User:*"


IMPLIED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""The operations whose ALLOW also allows the key. A DENY implies nothing."""


class ResourcePattern(NamedTuple):
    """The resources that rules apply to: one name, a prefix, or with LITERAL `*` every name."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType

    def __str__(self) -> str:
        return f"{pascal(self.resource_type)}:{self.pattern_type.name}:{self.name}"


class AclRule(NamedTuple):
    """One rule of a resource pattern.

    Attributes:
        principal: `Type:name`; `User:*` is every user.
        host: The client's address as Java writes it, or `*`.
        operation: What is allowed or denied; ALL includes every operation.
        permission: Which of the two.
    """

    principal: str
    host: str
    operation: Operation
    permission: Permission


class AclBinding(NamedTuple):
    """A rule together with the pattern that it belongs to."""

    pattern: ResourcePattern
    rule: AclRule


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Selects bindings; None matches everything.

    Attributes:
        resource_type: The type of resource.
        name: The resource's name; how it is compared depends on `pattern_type`.
        pattern_type: LITERAL and PREFIXED compare type and name; ANY compares the name only; MATCH selects every
            pattern that applies to a resource of this name.
        principal: The principal exactly as rules have it; `User:*` matches only itself.
        host: The host, likewise.
        operation: The operation.
        permission: The permission.
    """

    resource_type: ResourceType | None = None
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation | None = None
    permission: Permission | None = None

    def matches_pattern(self, pattern: ResourcePattern) -> bool:
        """Whether rules of this pattern are selected, as far as the pattern decides."""
        if self.resource_type is not None and pattern.resource_type is not self.resource_type:
            return False
        exact = self.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
        if exact and pattern.pattern_type is not self.pattern_type:
            return False
        if self.name is None or pattern.name == self.name:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return False
        if pattern.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name == WILDCARD

    def matches_rule(self, rule: AclRule) -> bool:
        """Whether a rule of a selected pattern is selected."""
        return (
            (self.principal is None or rule.principal == self.principal)
            and (self.host is None or rule.host == self.host)
            and (self.operation is None or rule.operation is self.operation)
            and (self.permission is None or rule.permission is self.permission)
        )

    @property
    def named_patterns(self) -> tuple[ResourcePattern, ...]:
        """The patterns that the filter names exactly, whether or not they have rules."""
        if self.resource_type is None or self.name is None or self.pattern_type is PatternType.MATCH:
            return ()
        kinds = (PatternType.LITERAL, PatternType.PREFIXED)
        wanted = kinds if self.pattern_type is PatternType.ANY else (self.pattern_type,)
        return tuple(ResourcePattern(self.resource_type, self.name, kind) for kind in wanted)


def java_address(address: str) -> str:
    """Return a peer's address as Java writes it: IPv6 in eight groups without leading zeros or `::`."""
    if ":" not in address:
        return address
    text, percent, zone = address.partition("%")
    try:
        parsed = IPv6Address(text)
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    groups = (f"{int(group, 16):x}" for group in parsed.exploded.split(":"))
    return ":".join(groups) + percent + zone


__all__ = [
    "ANY_CODE",
    "CLUSTER_NAME",
    "EVERY_USER",
    "IMPLIED_BY",
    "OPERATIONS_OF",
    "UNKNOWN_CODE",
    "WILDCARD",
    "AclBinding",
    "AclFilter",
    "AclRule",
    "Operation",
    "PatternType",
    "Permission",
    "ResourcePattern",
    "ResourceType",
    "from_pascal",
    "java_address",
    "pascal",
]
