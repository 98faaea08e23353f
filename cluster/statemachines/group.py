"""A consumer group in the classic protocol: its states, its members, and what can be asked of both.

Rules:

- All state of a group is here; what requests do to it is in `group_join` and `group_requests`, as functions that change
  the group and return effects. None of them waits, writes, sends or reads a clock.
- A member that waits for an answer holds the caller's *token*: an opaque value that comes back in the effect
  that answers it.
- The members' votes and the number of waiting joins are kept as counters, so that a join costs the same in a
  group of ten thousand.

The table is the only statement of which state follows which.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from cluster.statemachines.transition import IllegalTransition
from wire.types import Generation, WallMs

FIRST_GENERATION: Final = Generation(0)
CONSUMER_PROTOCOL_TYPE: Final = "consumer"
"""The protocol type whose metadata are subscriptions, from which the coordinator learns the topics."""


class GroupState(Enum):
    """Where a group stands; the values are the names that clients and tools see."""

    EMPTY = "Empty"
    """No members; at most committed offsets. Joins start a rebalance; any other member request gets UNKNOWN_MEMBER_ID.
    The first join moves us on; deletion, or the expiry of the last offset, ends the group."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are asked to join again. Joins park; heartbeats and syncs get REBALANCE_IN_PROGRESS; commits are
    accepted. We move on when all members have joined, or the time to do so has run out."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The generation is formed, but has no assignment yet. Syncs park until the leader's brings it; commits get
    REBALANCE_IN_PROGRESS. The stored assignment moves us on; a join, a leave or a failure moves us back."""
    STABLE = "Stable"
    """Every member has or can have its assignment. A new, changed or lost member, or a join of the leader, moves
    us on."""
    DEAD = "Dead"
    """Removed here, or moved to another coordinator. Requests get an error that makes clients look for it again."""


@dataclass(frozen=True, slots=True)
class RebalanceStarted:
    """A member joined, left, changed or asked for a rebalance."""


@dataclass(frozen=True, slots=True)
class GenerationFormed:
    """The wait for joins is over, and there is at least one member."""


@dataclass(frozen=True, slots=True)
class GroupEmptied:
    """The wait for joins is over, and no member is left."""


@dataclass(frozen=True, slots=True)
class AssignmentStored:
    """The leader's assignment is in the log."""


@dataclass(frozen=True, slots=True)
class GroupRemoved:
    """The group was deleted, expired, or its partition moved away."""


GroupEvent = RebalanceStarted | GenerationFormed | GroupEmptied | AssignmentStored | GroupRemoved

TRANSITIONS: Mapping[tuple[GroupState, type[GroupEvent]], GroupState] = {
    (GroupState.EMPTY, RebalanceStarted): GroupState.PREPARING_REBALANCE,
    (GroupState.EMPTY, GroupRemoved): GroupState.DEAD,
    (GroupState.PREPARING_REBALANCE, GenerationFormed): GroupState.COMPLETING_REBALANCE,
    (GroupState.PREPARING_REBALANCE, GroupEmptied): GroupState.EMPTY,
    (GroupState.PREPARING_REBALANCE, GroupRemoved): GroupState.DEAD,
    (GroupState.COMPLETING_REBALANCE, RebalanceStarted): GroupState.PREPARING_REBALANCE,
    (GroupState.COMPLETING_REBALANCE, AssignmentStored): GroupState.STABLE,
    (GroupState.COMPLETING_REBALANCE, GroupRemoved): GroupState.DEAD,
    (GroupState.STABLE, RebalanceStarted): GroupState.PREPARING_REBALANCE,
    (GroupState.STABLE, GroupRemoved): GroupState.DEAD,
    (GroupState.DEAD, GroupRemoved): GroupState.DEAD,
}


def step(state: GroupState, event: GroupEvent) -> GroupState:
    """Return the state after ``event``.

    Raises:
        IllegalTransition: the table does not name the pair.
    """
    try:
        return TRANSITIONS[state, type(event)]
    except KeyError:
        raise IllegalTransition(state, event) from None


@dataclass(slots=True, eq=False)
class Member:
    """One member of a group.

    Attributes:
        protocols: What it supports, most preferred first: pairs of a name and opaque metadata.
        is_new: Whether it has not completed a rebalance yet, so it does not know its own id and sends no heartbeats.
        join: The token of its parked JoinGroup; None if it has none.
        sync: The token of its parked SyncGroup; None if it has none.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""
    is_new: bool = False
    join: object | None = None
    sync: object | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for an answer: then it cannot be expected to send heartbeats."""
        return self.join is not None or self.sync is not None

    def metadata(self, protocol: str) -> bytes:
        """Return its metadata for one of its protocols."""
        return next(data for name, data in self.protocols if name == protocol)

    def vote(self, candidates: set[str]) -> str:
        """Return its favourite among protocols that all members support."""
        return next(name for name, _ in self.protocols if name in candidates)


@dataclass(slots=True, eq=False)
class Group:
    """A group and its members. Only the functions of the ``group_*`` modules change it.

    Attributes:
        generation: Counts the rebalances; goes on counting when the group empties.
        protocol_name: What the members chose in this generation; None while there is no generation with members.
        leader_id: The member that assigns.
        static_members: Member ids by group instance id (KIP-345).
        pending_members: Ids that were given out, and with which no member has joined yet (KIP-394).
        pending_syncs: Members of this generation that have not sent their SyncGroup.
        new_member_added: Whether a member joined during the first rebalance since its delay was last extended.
        initial_delay_left_ms: For how long the first rebalance can still be delayed; None outside of it.
        state_since: When the state was entered; None if the log does not say.
    """

    group_id: str
    state: GroupState = GroupState.EMPTY
    protocol_type: str | None = None
    generation: Generation = FIRST_GENERATION
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending_members: set[str] = field(default_factory=set)
    pending_syncs: set[str] = field(default_factory=set)
    new_member_added: bool = False
    initial_delay_left_ms: int | None = None
    state_since: WallMs | None = None
    joins_waiting: int = 0
    support: Counter[str] = field(default_factory=Counter)

    def apply(self, event: GroupEvent, now: WallMs) -> None:
        """Move to the state that the table gives.

        Raises:
            IllegalTransition: the table does not name the pair; nothing was changed.
        """
        self.state = step(self.state, event)
        self.state_since = now

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance can be started: none is in its first half, and the group is not dead."""
        return (self.state, RebalanceStarted) in TRANSITIONS

    @property
    def all_joined(self) -> bool:
        """Whether no further join is awaited."""
        return self.joins_waiting == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest time that any member wants for a rebalance."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def supports(self, protocol_type: str, names: set[str]) -> bool:
        """Whether a member with these protocols can be in the group with the others."""
        if not self.members:
            return bool(protocol_type) and bool(names)
        return self.protocol_type == protocol_type and any(
            self.support[name] == len(self.members) for name in names
        )

    def candidates(self) -> set[str]:
        """Return the protocols that every member supports."""
        return {name for name, count in self.support.items() if count == len(self.members)}

    def selected_protocol(self) -> str:
        """Return the winner of the members' votes; of equals, the one that was voted for first."""
        candidates = self.candidates()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def add(self, member: Member, token: object | None) -> None:
        """Add a member; the first becomes the leader."""
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self.pending_members.discard(member.member_id)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._count(member, 1)
        self.park_join(member, token)

    def remove(self, member_id: str) -> Member | None:
        """Remove a member; if it was the leader, another becomes it."""
        member = self.members.pop(member_id, None)
        self.pending_members.discard(member_id)
        self.pending_syncs.discard(member_id)
        if member is None:
            return None
        self._count(member, -1)
        self.park_join(member, None)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def replace(self, old: Member, new_id: str) -> Member:
        """Give a static member its new id in the old one's place, leadership and order included."""
        self.members = {
            (new_id if key == old.member_id else key): member for key, member in self.members.items()
        }
        if old.instance_id is not None:
            self.static_members[old.instance_id] = new_id
        if self.leader_id == old.member_id:
            self.leader_id = new_id
        if old.member_id in self.pending_syncs:
            self.pending_syncs.discard(old.member_id)
            self.pending_syncs.add(new_id)
        old.member_id = new_id
        return old

    def update(
        self,
        member: Member,
        protocols: tuple[tuple[str, bytes], ...],
        *,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        token: object | None,
    ) -> None:
        """Update a member from its latest JoinGroup, and park it."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self.park_join(member, token)

    def park_join(self, member: Member, token: object | None) -> None:
        """Set (or, with None, clear) the token of a member's parked JoinGroup."""
        self.joins_waiting += (token is not None) - (member.join is not None)
        member.join = token

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it has joined, else make a member that has the leader; return False if there is none."""
        leader = self.members.get(self.leader_id or "")
        if leader is None:
            return False
        if leader.join is not None:
            return True
        for member_id, member in self.members.items():
            if member.join is not None:
                self.leader_id = member_id
                return True
        return False

    def _count(self, member: Member, by: int) -> None:
        # A protocol that a member names twice counts once.
        for name in {name for name, _ in member.protocols}:
            self.support[name] += by
            if not self.support[name]:
                del self.support[name]
