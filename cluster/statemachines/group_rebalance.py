"""A rebalance of a consumer group: from the first reason for one to the last member's assignment.

    Stable --reason--> PreparingRebalance --joins in, or time out--> CompletingRebalance --assignment stored--> Stable

The first rebalance of an empty group waits a little for further members (KIP-134), and a little more whenever
one came. A static member that does not join keeps its place until its session ends (KIP-345); a dynamic one loses it.
"""

from collections.abc import Mapping

from cluster.statemachines.group import (
    AssignmentStored,
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
    StoreAssignment,
    StoreEmptyGroup,
    SyncAnswer,
    UnwatchMember,
    WatchMember,
)
from wire.errors import Error
from wire.types import Generation, WallMs


def start_if_possible(group: Group, now: WallMs, initial_delay_ms: int) -> list[Effect]:
    """Start a rebalance unless one is in its first half already; then the reason joins the others."""
    return start(group, now, initial_delay_ms) if group.can_rebalance else []


def start(group: Group, now: WallMs, initial_delay_ms: int) -> list[Effect]:
    """Start a rebalance.

    Args:
        group: In a state that allows it.
        now: The wall time that the state change is dated with.
        initial_delay_ms: ``group.initial.rebalance.delay.ms``.

    Raises:
        IllegalTransition: the group is in the first half of one, or dead.
    """
    effects: list[Effect] = []
    if group.state is GroupState.COMPLETING_REBALANCE:
        effects.extend(_fail_syncs(group, Error.REBALANCE_IN_PROGRESS))
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


def complete_joins_if_in(group: Group, now: WallMs) -> list[Effect]:
    """Go on as soon as nobody is missing; the first rebalance of a group always takes its delay."""
    if (
        group.state is GroupState.PREPARING_REBALANCE
        and group.initial_delay_left_ms is None
        and group.all_joined
    ):
        return complete_joins(group, now)
    return []


def joins_timed_out(group: Group, now: WallMs, initial_delay_ms: int) -> list[Effect]:
    """The wait for joins is over: extend it in the first rebalance if a new member came, else go on."""
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
    """Form the generation out of those that joined.

    Dynamic members that did not are removed. Where only static members remain and none of them joined, the wait is
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
    """Return a member's answer for the present generation; only the leader's lists the others."""
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
    """Return all members with what they said of the chosen protocol."""
    protocol = group.protocol_name
    assert protocol is not None
    return tuple(
        JoinedMember(m.member_id, m.instance_id, m.metadata(protocol)) for m in group.members.values()
    )


def sync(group: Group, member: Member, token: object, assignments: Mapping[str, bytes]) -> list[Effect]:
    """Take a SyncGroup of a member of the generation that is completing: it parks; the leader's is stored."""
    effects: list[Effect] = []
    if member.sync is not None:
        # A client that gave up on its connection asks again on another: the first question has no reader.
        effects.append(AnswerSync(member.sync, SyncAnswer(Error.REBALANCE_IN_PROGRESS)))
    member.sync = token
    group.pending_syncs.discard(member.member_id)
    if member.member_id == group.leader_id:
        complete = {member_id: assignments.get(member_id, b"") for member_id in group.members}
        effects.append(StoreAssignment(group.generation, complete))
    return effects


def assignment_stored(
    group: Group, stored: StoreAssignment, error: Error, now: WallMs, initial_delay_ms: int
) -> list[Effect]:
    """The leader's assignment is in the log, or could not be put there: hand it out, or rebalance again."""
    if group.state is not GroupState.COMPLETING_REBALANCE or stored.generation != group.generation:
        return []
    if error is not Error.NONE:
        effects = _fail_syncs(group, error)
        effects.extend(start_if_possible(group, now, initial_delay_ms))
        return effects
    for member in group.members.values():
        member.assignment = stored.assignments.get(member.member_id, b"")
    effects = []
    for member in group.members.values():
        if member.sync is not None:
            effects.append(AnswerSync(member.sync, synced(group, member)))
            member.sync = None
            effects.append(WatchMember(member.member_id, member.session_timeout_ms))
    group.apply(AssignmentStored(), now)
    return effects


def synced(group: Group, member: Member) -> SyncAnswer:
    """Return a member's answer with its part of the present generation's assignment."""
    return SyncAnswer(Error.NONE, group.protocol_type, group.protocol_name, member.assignment)


def syncs_timed_out(group: Group, now: WallMs, initial_delay_ms: int) -> list[Effect]:
    """Members of this generation have not synced in the time of a rebalance: they are gone (KAFKA-12890)."""
    if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not group.pending_syncs:
        return []
    effects: list[Effect] = []
    for member_id in sorted(group.pending_syncs):
        group.remove(member_id)
        effects.append(UnwatchMember(member_id))
    effects.extend(start(group, now, initial_delay_ms))
    effects.extend(complete_joins_if_in(group, now))
    return effects


def _fail_syncs(group: Group, error: Error) -> list[Effect]:
    effects: list[Effect] = []
    for member in group.members.values():
        member.assignment = b""
        if member.sync is not None:
            effects.append(AnswerSync(member.sync, SyncAnswer(error)))
            member.sync = None
            effects.append(WatchMember(member.member_id, member.session_timeout_ms))
    return effects
