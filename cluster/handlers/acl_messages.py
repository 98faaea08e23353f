"""Converts between the ACL codes of the protocol and the rules of the authorizer."""

from enum import IntEnum
from typing import TYPE_CHECKING, Protocol, TypeVar

from cluster.security.acl import (
    ANY_CODE,
    CLUSTER_NAME,
    UNKNOWN_CODE,
    AclBinding,
    AclFilter,
    AclRule,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from cluster.zookeeper.acl_store import is_storable_name
from wire.errors import ApiError, Error

if TYPE_CHECKING:
    from wire.messages.create_acls import AclCreation

_Code = TypeVar("_Code", bound=IntEnum)


class _FilterFields(Protocol):
    """The fields of a filter; two messages have them."""

    @property
    def resource_type_filter(self) -> int: ...
    @property
    def resource_name_filter(self) -> str | None: ...
    @property
    def pattern_type_filter(self) -> int: ...
    @property
    def principal_filter(self) -> str | None: ...
    @property
    def host_filter(self) -> str | None: ...
    @property
    def operation(self) -> int: ...
    @property
    def permission_type(self) -> int: ...


def read_filter(fields: _FilterFields) -> AclFilter | None:
    """Read a filter; return None for one that selects nothing, because it has an unknown code.

    Raises:
        ApiError: a code is UNKNOWN, which no client may send.
    """
    codes = (
        fields.resource_type_filter,
        fields.pattern_type_filter,
        fields.operation,
        fields.permission_type,
    )
    refuse_unknown(codes)
    kind = _member(ResourceType, fields.resource_type_filter)
    pattern = _member(PatternType, fields.pattern_type_filter)
    operation = _member(Operation, fields.operation)
    permission = _member(Permission, fields.permission_type)
    for member, code in zip((kind, pattern, operation, permission), codes, strict=True):
        if member is None and code != ANY_CODE:
            return None
    return AclFilter(
        kind,
        fields.resource_name_filter,
        PatternType.ANY if pattern is None else pattern,
        fields.principal_filter,
        fields.host_filter,
        operation,
        permission,
    )


def read_creation(creation: "AclCreation") -> AclBinding:
    """Read a binding that is to be created.

    Raises:
        ApiError: it is invalid: INVALID_REQUEST for its resource or a code, UNKNOWN_SERVER_ERROR for its principal.
    """
    name = creation.resource_name
    if creation.resource_type == ResourceType.CLUSTER and name != CLUSTER_NAME:
        raise ApiError(Error.INVALID_REQUEST, f"the cluster is called {CLUSTER_NAME}")
    if not name:
        raise ApiError(Error.INVALID_REQUEST, "the resource has no name")
    kind = _member(ResourceType, creation.resource_type)
    pattern = _member(PatternType, creation.resource_pattern_type)
    operation = _member(Operation, creation.operation)
    permission = _member(Permission, creation.permission_type)
    if kind is None or pattern is None or operation is None or permission is None:
        raise ApiError(Error.INVALID_REQUEST, "a code of the rule is unknown")
    if not is_storable_name(name):
        raise ApiError(Error.INVALID_REQUEST, "ZooKeeper takes no node of this name")
    principal_type, colon, principal_name = creation.principal.partition(":")
    if not (colon and principal_type and principal_name):
        raise ApiError(Error.UNKNOWN_SERVER_ERROR, "a principal is given as Type:name")
    return AclBinding(
        ResourcePattern(kind, name, pattern),
        AclRule(creation.principal, creation.host, operation, permission),
    )


def is_filter_only(creation: "AclCreation") -> bool:
    """Whether a creation has a code that is allowed only in filters: one of the ANY codes, or MATCH."""
    codes = (
        creation.resource_type,
        creation.resource_pattern_type,
        creation.operation,
        creation.permission_type,
    )
    return ANY_CODE in codes or creation.resource_pattern_type == PatternType.MATCH


def refuse_unknown(codes: tuple[int, ...]) -> None:
    """Refuse UNKNOWN, the code for anything that the sender itself did not understand.

    Raises:
        ApiError: a code is UNKNOWN; Kafka closes the connection, and so does a caller that lets this error propagate.
    """
    if UNKNOWN_CODE in codes:
        raise ApiError(Error.INVALID_REQUEST, "a code of an access rule is UNKNOWN")


def _member(kind: type[_Code], code: int) -> _Code | None:
    try:
        return kind(code)
    except ValueError:
        return None
