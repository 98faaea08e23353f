"""The codes of access rules on the wire: resource types, pattern types, operations and permissions.

`pascal` and `from_pascal` convert to and from the names that znodes and Kafka's tools use, such as `DescribeConfigs`.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, TypeVar

Member = TypeVar("Member", bound=IntEnum)

UNKNOWN_CODE: Final = 0
ANY_CODE: Final = 1


class ResourceType(IntEnum):
    """What a rule protects."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a pattern's name matches; ANY and MATCH occur in filters only."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What a rule allows or denies; the number is also the operation's bit in authorized-operations fields."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class Permission(IntEnum):
    """Whether a rule denies or allows."""

    DENY = 2
    ALLOW = 3


OPERATIONS_OF: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations that make sense on each type of resource; authorized-operations fields report these."""


def pascal(value: IntEnum) -> str:
    """Return the name of an enum's member in Pascal case, as znodes and Kafka's tools write it."""
    return "".join(part.capitalize() for part in value.name.split("_"))


def from_pascal(kind: type[Member], text: str) -> Member | None:
    """Return the member with a Pascal-case name, ignoring case; None for an unknown name."""
    wanted = text.casefold()
    return next((each for each in kind if pascal(each).casefold() == wanted), None)
