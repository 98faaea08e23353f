"""The effects of a step of a consumer group, as values; the coordinator's shell carries them out, in order."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from wire.errors import Error
from wire.types import Generation

NO_GENERATION = Generation(-1)


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member as the leader's JoinGroup response lists it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """The content of a JoinGroup response."""

    error: Error
    member_id: str
    generation: Generation = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    """The content of a SyncGroup response."""

    error: Error
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class AnswerJoin:
    """Answer the JoinGroup that ``token`` identifies."""

    token: object
    answer: JoinAnswer


@dataclass(frozen=True, slots=True)
class AnswerSync:
    """Answer the SyncGroup that ``token`` identifies."""

    token: object
    answer: SyncAnswer


@dataclass(frozen=True, slots=True)
class WatchMember:
    """Expect a request of a member (or an id that was given out) within a time; replaces an earlier watch of it."""

    member_id: str
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class UnwatchMember:
    """Stop watching a member that left, or was removed."""

    member_id: str


@dataclass(frozen=True, slots=True)
class AwaitJoins:
    """Wait up to a time for the members to join; replaces an earlier wait of the group."""

    timeout_ms: int


@dataclass(frozen=True, slots=True)
class AwaitSyncs:
    """Wait up to a time for the members of the generation to sync; replaces an earlier wait of the group."""

    timeout_ms: int


@dataclass(frozen=True, slots=True)
class StopAwaiting:
    """Cancel the wait: the rebalance needs no time-out any more."""


@dataclass(frozen=True, slots=True)
class StoreAssignment:
    """Write the group with this assignment; ``group_requests.assignment_stored`` takes the outcome."""

    generation: Generation
    assignments: Mapping[str, bytes] = field(hash=False)


@dataclass(frozen=True, slots=True)
class StoreEmptyGroup:
    """Write that the group has no members. Nothing waits for the outcome; a repetition is harmless."""


@dataclass(frozen=True, slots=True)
class StoreStaticMember:
    """Write the group in which a static member got a new id; ``group_join.static_member_stored`` takes the
    outcome."""

    old_member_id: str
    new_member_id: str
    old_leader_id: str
    skip_supported: bool
    token: object


Effect = (
    AnswerJoin
    | AnswerSync
    | WatchMember
    | UnwatchMember
    | AwaitJoins
    | AwaitSyncs
    | StopAwaiting
    | StoreAssignment
    | StoreEmptyGroup
    | StoreStaticMember
)
