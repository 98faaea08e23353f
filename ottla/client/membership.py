"""A member's life in a group, in the classic protocol: what each answer means. No I/O.

    OUTSIDE  --Joined-->   SYNCING    the coordinator has collected the members
    SYNCING  --Synced-->   STABLE     the assignment is here
    STABLE   --Rebalance-> OUTSIDE    join again, as the same member
    any      --Lost-->     OUTSIDE    the coordinator does not count us any more: join anew

A commit is legal under the old generation while members join, and must wait between join and sync.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ottla.client.assignors import (
    ASSIGNORS,
    Assignor,
    MemberSubscription,
    read_sticky_user_data,
    sticky_user_data,
)
from ottla.client.errors import ClientError, FencedInstance, GroupMismatch, error_for
from wire.errors import Error, RemoteProtocolError
from wire.formats.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from wire.formats.consumer_protocol import TopicPartition as TopicPartitions
from wire.formats.versioned import decode_forward_compatible, encode_versioned
from wire.messages.join_group import JoinGroupResponseMember
from wire.types import Generation, TopicPartition

PROTOCOL_TYPE: Final = "consumer"
NO_GENERATION: Final = Generation(-1)
_SUBSCRIPTION_VERSION: Final = 3
_ASSIGNMENT_VERSION: Final = 3


class MemberState(Enum):
    """Where a member stands."""

    OUTSIDE = "outside"
    SYNCING = "syncing"
    STABLE = "stable"


class MemberEvent(Enum):
    """What happens to a member."""

    JOINED = "joined"
    SYNCED = "synced"
    REBALANCE = "rebalance"
    LOST = "lost"


TRANSITIONS: Final[Mapping[tuple[MemberState, MemberEvent], MemberState]] = {
    (MemberState.OUTSIDE, MemberEvent.JOINED): MemberState.SYNCING,
    (MemberState.SYNCING, MemberEvent.SYNCED): MemberState.STABLE,
    (MemberState.SYNCING, MemberEvent.REBALANCE): MemberState.OUTSIDE,
    (MemberState.STABLE, MemberEvent.REBALANCE): MemberState.OUTSIDE,
    (MemberState.OUTSIDE, MemberEvent.LOST): MemberState.OUTSIDE,
    (MemberState.SYNCING, MemberEvent.LOST): MemberState.OUTSIDE,
    (MemberState.STABLE, MemberEvent.LOST): MemberState.OUTSIDE,
}


class IllegalTransition(Exception):
    """A member cannot do this in its state: a defect of the client."""

    def __init__(self, state: MemberState, event: MemberEvent) -> None:
        super().__init__(f"{event.value} in state {state.value}")


class Reaction(Enum):
    """What to do about an answer."""

    GO_ON = "go on"
    RETRY = "ask again after the back-off"
    FIND_COORDINATOR = "another broker is the coordinator now"
    REJOIN = "join again, as the same member"
    LOST = "partitions are lost; join anew"


_REACTIONS: Final = {
    Error.NONE: Reaction.GO_ON,
    Error.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
    Error.UNSTABLE_OFFSET_COMMIT: Reaction.RETRY,
    Error.GROUP_MAX_SIZE_REACHED: Reaction.RETRY,
    Error.NOT_COORDINATOR: Reaction.FIND_COORDINATOR,
    Error.COORDINATOR_NOT_AVAILABLE: Reaction.FIND_COORDINATOR,
    Error.REQUEST_TIMED_OUT: Reaction.FIND_COORDINATOR,
    Error.REBALANCE_IN_PROGRESS: Reaction.REJOIN,
    Error.MEMBER_ID_REQUIRED: Reaction.REJOIN,
    Error.ILLEGAL_GENERATION: Reaction.LOST,
    Error.UNKNOWN_MEMBER_ID: Reaction.LOST,
}


def reaction_to(code: int, group_id: str, instance_id: str | None) -> Reaction:
    """Return what to do about a coordinator's answer.

    Raises:
        FencedInstance: Another member has our instance id.
        GroupMismatch: The group's members use other assignors.
        ClientError: Another error that no retry repairs.
    """
    error = Error.from_code(code)
    known = _REACTIONS.get(error)
    if known is not None:
        return known
    if error is Error.FENCED_INSTANCE_ID:
        raise FencedInstance(
            f"group {group_id!r}: another member has joined with the instance id {instance_id!r}", error=error
        )
    raise error_for(error, f"group {group_id!r}")


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """What the leader knows of a member."""

    member_id: str
    subscription: MemberSubscription


class Membership:
    """One member.

    Args:
        group_id: The group.
        instance_id: The static member's id, None for a dynamic one.
        assignors: What we offer, the preferred first.
        rack: Where we stand.

    Attributes:
        state: Where we stand in the protocol.
        member_id: What the coordinator calls us, empty before the first join.
        generation: The generation that we are in, -1 outside of any.
        protocol: The assignor that the group uses, None before the first join.
        is_leader: Whether we assign.
        owned: What we have.
        counts: The leader: the partition counts that it assigned by, 0 for topics that do not exist yet.
    """

    def __init__(
        self, group_id: str, instance_id: str | None, assignors: Sequence[Assignor], rack: str | None
    ) -> None:
        self.group_id = group_id
        self.instance_id = instance_id
        self.state = MemberState.OUTSIDE
        self.member_id = ""
        self.generation = NO_GENERATION
        self.protocol: Assignor | None = None
        self.is_leader = False
        self.owned: set[TopicPartition] = set()
        self.counts: Mapping[str, int] = {}
        self.assignors = assignors
        self._owned_in = NO_GENERATION
        self._rack = rack

    @property
    def is_cooperative(self) -> bool:
        """Whether we keep what we have while joining: all that we offer must allow it."""
        return all(assignor.cooperative for assignor in self.assignors)

    def move(self, event: MemberEvent) -> None:
        """Change the state.

        Raises:
            IllegalTransition: It cannot in this state.
        """
        following = TRANSITIONS.get((self.state, event))
        if following is None:
            raise IllegalTransition(self.state, event)
        self.state = following
        if event is MemberEvent.LOST:
            self.generation = NO_GENERATION
            self.owned = set()
            if self.instance_id is None:
                self.member_id = ""

    def protocols(self, topics: Sequence[str]) -> list[tuple[str, bytes]]:
        """Return what JoinGroup offers: each assignor with our subscription."""
        owned = sorted(self.owned) if self.is_cooperative else []
        grouped: dict[str, list[int]] = {}
        for partition in owned:
            grouped.setdefault(partition.topic, []).append(partition.partition)
        offered = []
        for assignor in self.assignors:
            user_data = None
            if assignor.name == "sticky":
                user_data = sticky_user_data(sorted(self.owned), self._owned_in)
            subscription = ConsumerProtocolSubscription(
                topics=sorted(topics),
                user_data=user_data,
                owned_partitions=[
                    TopicPartitions(topic=name, partitions=some) for name, some in grouped.items()
                ],
                generation_id=self._owned_in if owned else NO_GENERATION,
                rack_id=self._rack,
            )
            offered.append((assignor.name, encode_versioned(subscription, _SUBSCRIPTION_VERSION)))
        return offered

    def joined(self, member_id: str, generation: Generation, protocol: str | None, leader: str) -> None:
        """Take over the answer to a join."""
        self.move(MemberEvent.JOINED)
        self.member_id = member_id
        self.generation = generation
        self.protocol = ASSIGNORS.get(protocol or "")
        if self.protocol is None:
            raise GroupMismatch(
                f"group {self.group_id!r} uses the protocol {protocol!r}, which we did not offer"
            )
        self.is_leader = leader == member_id

    def synced(self, assigned: Sequence[TopicPartition]) -> None:
        """Take over the assignment, without the partitions that other members must release first."""
        self.move(MemberEvent.SYNCED)
        self.owned = set(assigned)
        self._owned_in = self.generation

    def members(self, answered: Sequence[JoinGroupResponseMember]) -> list[JoinedMember]:
        """Read what the members of the group want; one that is malformed wants nothing."""
        found = []
        for member in answered:
            try:
                said = decode_forward_compatible(ConsumerProtocolSubscription, member.metadata)
            except RemoteProtocolError:
                said = ConsumerProtocolSubscription()
            owned = [
                TopicPartition(some.topic, number)
                for some in said.owned_partitions
                for number in some.partitions
            ]
            generation = int(said.generation_id)
            if self.protocol is not None and self.protocol.name == "sticky" and said.user_data:
                owned, generation = read_sticky_user_data(bytes(said.user_data))
            subscription = MemberSubscription(
                tuple(said.topics), member.group_instance_id, tuple(owned), generation, said.rack_id
            )
            found.append(JoinedMember(member.member_id, subscription))
        return found

    def assign(self, members: Sequence[JoinedMember], counts: Mapping[str, int]) -> dict[str, bytes]:
        """Divide the partitions; return each member's assignment as SyncGroup carries it."""
        assert self.protocol is not None
        wanted = {topic for each in members for topic in each.subscription.topics}
        self.counts = {topic: counts.get(topic, 0) for topic in wanted}
        assigned = self.protocol.assign(counts, {each.member_id: each.subscription for each in members})
        return {member: encode_assignment(partitions) for member, partitions in assigned.items()}


def encode_assignment(partitions: Sequence[TopicPartition]) -> bytes:
    """Write an assignment as members read it."""
    grouped: dict[str, list[int]] = {}
    for partition in partitions:
        grouped.setdefault(partition.topic, []).append(partition.partition)
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartitions(topic=name, partitions=some) for name, some in grouped.items()]
    )
    return encode_versioned(assignment, _ASSIGNMENT_VERSION)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """Read an assignment; nothing at all means no partitions.

    Raises:
        ClientError: It is malformed.
    """
    if not data:
        return []
    try:
        said = decode_forward_compatible(ConsumerProtocolAssignment, data)
    except RemoteProtocolError as error:
        raise ClientError(f"the group's leader gave a malformed assignment: {error}") from None
    return [
        TopicPartition(some.topic, number) for some in said.assigned_partitions for number in some.partitions
    ]
