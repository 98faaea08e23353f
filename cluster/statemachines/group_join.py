"""JoinGroup: how a member gets into a group, and how a generation of the group is formed.

    Stable --reason--> PreparingRebalance --joins in, or time out--> CompletingRebalance

Read from the top: a request is refused or admitted; what it changes starts a rebalance; the rebalance waits for the
other members' joins, and ends with a generation, whose members are answered. Sync and all later requests of a member
are in `group_requests`.

A new dynamic member of a recent client is first given an id and sent back (KIP-394), so that a client that cannot reach
us twice leaves no dead member behind. A static member (KIP-345) is known by its instance id: when it returns under a
new member id, it takes its old place, without a rebalance if the group still chooses the same protocol.

The first rebalance of an empty group waits a little for further members (KIP-134), and a little more whenever one
joins. A static member that does not join keeps its place until its session ends (KIP-345); a dynamic one loses it.
"""

from dataclasses import dataclass, field

from cluster.statemachines.group import (
    GenerationFormed,
    Group,
    GroupEmptied,
    GroupState,
    Member,
    RebalanceStarted,
)
from cluster.statemachines.group_effects import (
    AnswerJoin,
    AnswerSync,
    AwaitJoins,
    AwaitSyncs,
    Effect,
    JoinAnswer,
    JoinedMember,
    StopAwaiting,
    StoreEmptyGroup,
    StoreStaticMember,
    SyncAnswer,
    UnwatchMember,
    WatchMember,
)
from wire.errors import Error
from wire.types import Generation, WallMs

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a member that does not know its id yet, and so sends no heartbeats, can wait for its first rebalance."""


@dataclass(frozen=True, slots=True)
class Join:
    """A JoinGroup request.

    Attributes:
        token: Identifies the request in the effect that answers it.
        new_member_id: The id to use if the member is given one: the shell draws it, because this module is
            deterministic.
        require_known_member_id: The client understands MEMBER_ID_REQUIRED (version 4 and later).
        skip_supported: The client understands that a returned static leader need not assign (version 9).
    """

    token: object = field(repr=False)
    member_id: str
    new_member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...] = field(repr=False)
    require_known_member_id: bool = True
    skip_supported: bool = True

    def member(self, member_id: str) -> Member:
        """Make the member that this request describes."""
        return Member(
            member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.protocols,
            is_new=True,
        )

    def refused(self, error: Error) -> list[Effect]:
        """Answer with an error."""
        return [AnswerJoin(self.token, JoinAnswer(error, self.member_id))]


def join(group: Group, request: Join, now: WallMs, *, max_size: int, initial_delay_ms: int) -> list[Effect]:
    """Handle a JoinGroup.

    Args:
        group: The group, which the caller created if the member has no id yet.
        request: The request; it is answered now or by a later step.
        now: Wall time, for dating state changes.
        max_size: ``group.max.size``.
        initial_delay_ms: ``group.initial.delay.ms``.
    """
    error = _refusal(group, request, max_size)
    if error is Error.NONE:
        effects = _admit(group, request, now, initial_delay_ms)
    elif error is Error.GROUP_MAX_SIZE_REACHED:
        group.remove(request.member_id)
        effects = [AnswerJoin(request.token, JoinAnswer(error, "")), UnwatchMember(request.member_id)]
    else:
        effects = request.refused(error)
    effects.extend(complete_joins_if_in(group, now))
    return effects


def _refusal(group: Group, request: Join, max_size: int) -> Error:
    """Return why a request is refused, in Kafka's order of checks; ``NONE`` where it is not."""
    if group.state is GroupState.DEAD:
        return Error.COORDINATOR_NOT_AVAILABLE
    if not _has_room(group, request.member_id, max_size):
        return Error.GROUP_MAX_SIZE_REACHED
    if not group.supports(request.protocol_type, {name for name, _ in request.protocols}):
        return Error.INCONSISTENT_GROUP_PROTOCOL
    if not request.member_id or _uses_given_id(group, request):
        return Error.NONE
    return check_member(group, request.member_id, request.instance_id)


def _has_room(group: Group, member_id: str, max_size: int) -> bool:
    if group.state in (GroupState.EMPTY, GroupState.DEAD):
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        member = group.members.get(member_id)
        return (member is not None and member.join is not None) or group.joins_waiting < max_size
    return member_id in group.members or len(group.members) < max_size


def _uses_given_id(group: Group, request: Join) -> bool:
    """Whether a member joins with an id that was given out (KIP-394)."""
    return request.instance_id is None and request.member_id in group.pending_members


def check_member(group: Group, member_id: str, instance_id: str | None) -> Error:
    """Return NONE for a member of the group under its present id, else the error."""
    if instance_id is not None:
        present = group.static_members.get(instance_id)
        if present is None:
            return Error.UNKNOWN_MEMBER_ID
        return Error.NONE if present == member_id else Error.FENCED_INSTANCE_ID
    return Error.NONE if member_id in group.members else Error.UNKNOWN_MEMBER_ID


def _admit(group: Group, request: Join, now: WallMs, initial_delay_ms: int) -> list[Effect]:
    """Admit a request that was not refused: as a new member, or in the place of one that is there."""
    present = _present_member(group, request)
    is_anonymous = not request.member_id and request.instance_id is None
    if is_anonymous and request.require_known_member_id:
        return _give_id(group, request)
    if present is None:
        return _add(group, request, request.member_id or request.new_member_id, now, initial_delay_ms)
    if not request.member_id:
        return _replace_static(group, present, request, now, initial_delay_ms)
    if _has_answer_already(group, present, request):
        return [AnswerJoin(request.token, joined(group, present))]
    return [*_park(group, present, request), *start_if_possible(group, now, initial_delay_ms)]


def _present_member(group: Group, request: Join) -> Member | None:
    """Return the member that joins again: by its id, or a static one without an id by its instance id."""
    if request.member_id or request.instance_id is None:
        return group.members.get(request.member_id)
    return group.members.get(group.static_members.get(request.instance_id, ""))


def _has_answer_already(group: Group, member: Member, request: Join) -> bool:
    """Whether the present generation answers a member that joins again.

    While the generation completes, the member did not get our answer. In a stable one a follower changes nothing; the
    leader joins again to assign anew, because partitions were added or topics appeared.
    """
    if member.protocols != request.protocols:
        return False
    if group.state is GroupState.STABLE:
        return group.leader_id != member.member_id
    return group.state is GroupState.COMPLETING_REBALANCE


def _give_id(group: Group, request: Join) -> list[Effect]:
    group.pending_members.add(request.new_member_id)
    answer = JoinAnswer(Error.MEMBER_ID_REQUIRED, request.new_member_id)
    return [
        AnswerJoin(request.token, answer),
        WatchMember(request.new_member_id, request.session_timeout_ms),
    ]


def _add(group: Group, request: Join, member_id: str, now: WallMs, initial_delay_ms: int) -> list[Effect]:
    if group.state is GroupState.PREPARING_REBALANCE and group.generation == 0:
        group.new_member_added = True
    if not group.members:
        group.protocol_type = request.protocol_type
    group.add(request.member(member_id), request.token)
    return [
        WatchMember(member_id, NEW_MEMBER_JOIN_TIMEOUT_MS),
        *start_if_possible(group, now, initial_delay_ms),
    ]


def _park(group: Group, member: Member, request: Join) -> list[Effect]:
    effects: list[Effect] = []
    if member.join is not None:
        # The client asked again on another connection, and no longer reads the first answer.
        effects.append(AnswerJoin(member.join, JoinAnswer(Error.REBALANCE_IN_PROGRESS, member.member_id)))
    group.update(
        member,
        request.protocols,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        token=request.token,
    )
    return effects


def _replace_static(
    group: Group, member: Member, request: Join, now: WallMs, initial_delay_ms: int
) -> list[Effect]:
    old_id = member.member_id
    old_leader_id = group.leader_id or ""
    effects: list[Effect] = [UnwatchMember(old_id)]
    if member.join is not None:
        effects.append(AnswerJoin(member.join, JoinAnswer(Error.FENCED_INSTANCE_ID, old_id)))
        group.park_join(member, None)
    if member.sync is not None:
        effects.append(AnswerSync(member.sync, SyncAnswer(Error.FENCED_INSTANCE_ID)))
        member.sync = None
    group.replace(member, request.new_member_id)
    effects.append(WatchMember(member.member_id, request.session_timeout_ms))
    effects.extend(_park(group, member, request))
    if group.state is GroupState.STABLE and group.selected_protocol() == group.protocol_name:
        group.park_join(member, None)
        effects.append(
            StoreStaticMember(old_id, member.member_id, old_leader_id, request.skip_supported, request.token)
        )
    elif group.can_rebalance:
        effects.extend(start(group, now, initial_delay_ms))
    return effects


def static_member_stored(group: Group, stored: StoreStaticMember, error: Error) -> list[Effect]:
    """Finish a static member's change of id; if its record could not be written, restore the old id."""
    member = group.members.get(stored.new_member_id)
    if error is not Error.NONE:
        if member is not None:
            group.replace(member, stored.old_member_id)
        return [
            UnwatchMember(stored.new_member_id),
            AnswerJoin(stored.token, JoinAnswer(error, "")),
            *([WatchMember(member.member_id, member.session_timeout_ms)] if member is not None else ()),
        ]
    if member is None or group.state is not GroupState.STABLE:
        # The group has changed meanwhile; the member becomes part of it by joining again.
        return [AnswerJoin(stored.token, JoinAnswer(Error.UNKNOWN_MEMBER_ID, stored.new_member_id))]
    leads = group.leader_id == member.member_id
    # A client that does not know how to skip an assignment must not believe that it leads: its answer names the old id.
    answer = JoinAnswer(
        Error.NONE,
        member.member_id,
        group.generation,
        group.protocol_type,
        group.protocol_name,
        (group.leader_id or "") if stored.skip_supported else stored.old_leader_id,
        member_list(group) if leads and stored.skip_supported else (),
        skip_assignment=leads and stored.skip_supported,
    )
    return [AnswerJoin(stored.token, answer)]


def start_if_possible(group: Group, now: WallMs, initial_delay_ms: int) -> list[Effect]:
    """Start a rebalance, unless one is already in its first half, which then covers this reason too."""
    return start(group, now, initial_delay_ms) if group.can_rebalance else []


def start(group: Group, now: WallMs, initial_delay_ms: int) -> list[Effect]:
    """Start a rebalance.

    Args:
        group: In a state that allows it.
        now: The wall time that the state change is dated with.
        initial_delay_ms: ``group.initial.delay.ms``.

    Raises:
        IllegalTransition: the group is in the first half of one, or dead.
    """
    effects: list[Effect] = []
    if group.state is GroupState.COMPLETING_REBALANCE:
        effects.extend(fail_syncs(group, Error.REBALANCE_IN_PROGRESS))
    initially = group.state is GroupState.EMPTY
    group.apply(RebalanceStarted(), now)
    group.pending_syncs.clear()
    if initially:
        group.initial_delay_left_ms = max(group.rebalance_timeout_ms - initial_delay_ms, 0)
        effects.append(AwaitJoins(initial_delay_ms))
    else:
        group.initial_delay_left_ms = None
        effects.append(AwaitJoins(group.rebalance_timeout_ms))
    return effects


def fail_syncs(group: Group, error: Error) -> list[Effect]:
    """Refuse the parked SyncGroups: the generation gets no assignment."""
    effects: list[Effect] = []
    for member in group.members.values():
        member.assignment = b""
        if member.sync is not None:
            effects.append(AnswerSync(member.sync, SyncAnswer(error)))
            member.sync = None
            effects.append(WatchMember(member.member_id, member.session_timeout_ms))
    return effects


def complete_joins_if_in(group: Group, now: WallMs) -> list[Effect]:
    """Complete the joins if none is missing; the first rebalance of a group always takes its delay."""
    if (
        group.state is GroupState.PREPARING_REBALANCE
        and group.initial_delay_left_ms is None
        and group.all_joined
    ):
        return complete_joins(group, now)
    return []


def joins_timed_out(group: Group, now: WallMs, initial_delay_ms: int) -> list[Effect]:
    """End the wait for joins; in the first rebalance, extend it if a new member joined."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        return []
    left = group.initial_delay_left_ms
    if left and group.new_member_added:
        group.new_member_added = False
        delay = min(initial_delay_ms, left)
        group.initial_delay_left_ms = left - delay
        return [AwaitJoins(delay)]
    return complete_joins(group, now)


def complete_joins(group: Group, now: WallMs) -> list[Effect]:
    """Form the generation out of the members that joined.

    Dynamic members that did not are removed. If only static members remain and none of them joined, the wait is
    repeated: their sessions decide.
    """
    effects: list[Effect] = []
    for member in [m for m in group.members.values() if m.join is None and m.instance_id is None]:
        group.remove(member.member_id)
        effects.append(UnwatchMember(member.member_id))
    if group.members and not group.elect_joined_leader():
        group.initial_delay_left_ms = None
        effects.append(AwaitJoins(group.rebalance_timeout_ms))
        return effects
    group.generation = Generation(group.generation + 1)
    group.initial_delay_left_ms = None
    group.new_member_added = False
    group.pending_syncs.clear()
    if not group.members:
        group.protocol_name = None
        group.apply(GroupEmptied(), now)
        return [*effects, StopAwaiting(), StoreEmptyGroup()]
    group.protocol_name = group.selected_protocol()
    group.apply(GenerationFormed(), now)
    for member in group.members.values():
        if member.join is not None:
            effects.append(AnswerJoin(member.join, joined(group, member)))
            group.park_join(member, None)
        member.is_new = False
        group.pending_syncs.add(member.member_id)
        effects.append(WatchMember(member.member_id, member.session_timeout_ms))
    effects.append(AwaitSyncs(group.rebalance_timeout_ms))
    return effects


def joined(group: Group, member: Member) -> JoinAnswer:
    """Return a member's answer for the present generation; only the leader's lists the members."""
    leads = group.leader_id == member.member_id
    return JoinAnswer(
        Error.NONE,
        member.member_id,
        group.generation,
        group.protocol_type,
        group.protocol_name,
        group.leader_id or "",
        member_list(group) if leads else (),
    )


def member_list(group: Group) -> tuple[JoinedMember, ...]:
    """Return all members with their metadata for the chosen protocol."""
    protocol = group.protocol_name
    assert protocol is not None
    return tuple(
        JoinedMember(m.member_id, m.instance_id, m.metadata(protocol)) for m in group.members.values()
    )
