"""Requests of members to their group (sync, heartbeat, leave, commit), and the expiry of silent members.

    CompletingRebalance --assignment stored--> Stable

Each function checks in Kafka's order: the group, the member (and whether it is fenced), the generation, the state.
"""

from collections.abc import Mapping
from typing import assert_never

from cluster.statemachines.group import AssignmentStored, Group, GroupRemoved, GroupState, Member
from cluster.statemachines.group_effects import (
    AnswerJoin,
    AnswerSync,
    Effect,
    JoinAnswer,
    StopAwaiting,
    StoreAssignment,
    SyncAnswer,
    UnwatchMember,
    WatchMember,
)
from cluster.statemachines.group_join import (
    check_member,
    complete_joins_if_in,
    fail_syncs,
    start,
    start_if_possible,
)
from wire.errors import Error
from wire.types import Generation, WallMs


def sync(
    group: Group,
    *,
    token: object,
    member_id: str,
    instance_id: str | None,
    generation: Generation,
    protocol_type: str | None,
    protocol_name: str | None,
    assignments: Mapping[str, bytes],
) -> list[Effect]:
    """Handle a SyncGroup; the leader brings the ``assignments`` by member id."""

    def refused(error: Error) -> list[Effect]:
        return [AnswerSync(token, SyncAnswer(error))]

    error = _check(group, member_id, instance_id, generation)
    if error is not Error.NONE:
        return refused(error)
    if protocol_type is not None and group.protocol_type not in (None, protocol_type):
        return refused(Error.INCONSISTENT_GROUP_PROTOCOL)
    if protocol_name is not None and group.protocol_name not in (None, protocol_name):
        return refused(Error.INCONSISTENT_GROUP_PROTOCOL)
    match group.state:
        case GroupState.COMPLETING_REBALANCE:
            return _park_sync(group, group.members[member_id], token, assignments)
        case GroupState.STABLE:
            member = group.members[member_id]
            group.pending_syncs.discard(member_id)
            return [
                AnswerSync(token, _synced(group, member)),
                WatchMember(member_id, member.session_timeout_ms),
            ]
        case GroupState.PREPARING_REBALANCE:
            return refused(Error.REBALANCE_IN_PROGRESS)
        case GroupState.EMPTY | GroupState.DEAD:
            return refused(Error.UNKNOWN_MEMBER_ID)
        case _:
            assert_never(group.state)


def _park_sync(group: Group, member: Member, token: object, assignments: Mapping[str, bytes]) -> list[Effect]:
    """Park a SyncGroup of the generation that is completing; the leader's assignment is to be stored."""
    effects: list[Effect] = []
    if member.sync is not None:
        # The client asked again on another connection, and no longer reads the first answer.
        effects.append(AnswerSync(member.sync, SyncAnswer(Error.REBALANCE_IN_PROGRESS)))
    member.sync = token
    group.pending_syncs.discard(member.member_id)
    if member.member_id == group.leader_id:
        complete = {member_id: assignments.get(member_id, b"") for member_id in group.members}
        effects.append(StoreAssignment(group.generation, complete))
    return effects


def _synced(group: Group, member: Member) -> SyncAnswer:
    """Return a member's answer with its part of the present generation's assignment."""
    return SyncAnswer(Error.NONE, group.protocol_type, group.protocol_name, member.assignment)


def assignment_stored(
    group: Group, stored: StoreAssignment, error: Error, now: WallMs, initial_delay_ms: int
) -> list[Effect]:
    """Hand out the leader's assignment, now in the log; if it could not be written, rebalance again."""
    if group.state is not GroupState.COMPLETING_REBALANCE or stored.generation != group.generation:
        return []
    if error is not Error.NONE:
        effects = fail_syncs(group, error)
        effects.extend(start_if_possible(group, now, initial_delay_ms))
        return effects
    for member in group.members.values():
        member.assignment = stored.assignments.get(member.member_id, b"")
    effects = []
    for member in group.members.values():
        if member.sync is not None:
            effects.append(AnswerSync(member.sync, _synced(group, member)))
            member.sync = None
            effects.append(WatchMember(member.member_id, member.session_timeout_ms))
    group.apply(AssignmentStored(), now)
    return effects


def syncs_timed_out(group: Group, now: WallMs, initial_delay_ms: int) -> list[Effect]:
    """Remove the members of this generation that have not synced within the rebalance timeout (KAFKA-12890)."""
    if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not group.pending_syncs:
        return []
    effects: list[Effect] = []
    for member_id in sorted(group.pending_syncs):
        group.remove(member_id)
        effects.append(UnwatchMember(member_id))
    effects.extend(start(group, now, initial_delay_ms))
    effects.extend(complete_joins_if_in(group, now))
    return effects


def heartbeat(
    group: Group, member_id: str, instance_id: str | None, generation: Generation
) -> tuple[Error, list[Effect]]:
    """Handle a Heartbeat; return its error and the effects."""
    error = _check(group, member_id, instance_id, generation)
    if error is not Error.NONE:
        return error, []
    member = group.members[member_id]
    alive: list[Effect] = [WatchMember(member_id, member.session_timeout_ms)]
    if group.state is GroupState.PREPARING_REBALANCE:
        return Error.REBALANCE_IN_PROGRESS, alive
    return Error.NONE, alive


def leave(
    group: Group, member_id: str, instance_id: str | None, now: WallMs, initial_delay_ms: int
) -> tuple[Error, list[Effect]]:
    """Remove one member that leaves: by its id, or a static one by its instance id alone."""
    if group.state is GroupState.DEAD:
        return Error.COORDINATOR_NOT_AVAILABLE, []
    if not member_id and instance_id is not None:
        present = group.static_members.get(instance_id)
        if present is None:
            return Error.UNKNOWN_MEMBER_ID, []
        member_id = present
    elif member_id in group.pending_members and instance_id is None:
        return Error.NONE, _forget_pending(group, member_id, now)
    else:
        error = check_member(group, member_id, instance_id)
        if error is not Error.NONE:
            return error, []
    return Error.NONE, [UnwatchMember(member_id), *_remove(group, member_id, now, initial_delay_ms)]


def member_silent(group: Group, member_id: str, now: WallMs, initial_delay_ms: int) -> list[Effect]:
    """Remove a member whose watch ran out, unless it knows its id and waits for our answer."""
    if group.state is GroupState.DEAD:
        return []
    if member_id in group.pending_members:
        return _forget_pending(group, member_id, now)
    member = group.members.get(member_id)
    if member is None or (member.is_waiting and not member.is_new):
        return []
    return _remove(group, member_id, now, initial_delay_ms)


def check_commit(
    group: Group,
    member_id: str,
    instance_id: str | None,
    generation: Generation,
    *,
    transactional: bool = False,
) -> tuple[Error, list[Effect]]:
    """Return whether offsets may be committed, and the effects of the commit, which counts as a heartbeat.

    Without member, instance and generation the request comes from a client that assigns its partitions by hand, or
    from a tool: it may commit while the group has no members.
    """
    if group.state is GroupState.DEAD:
        return Error.COORDINATOR_NOT_AVAILABLE, []
    if generation < 0 and group.state is GroupState.EMPTY:
        return Error.NONE, []
    if generation >= 0 or member_id or instance_id is not None:
        error = _check(group, member_id, instance_id, generation)
        if error is not Error.NONE:
            return error, []
    elif not transactional:
        return Error.UNKNOWN_MEMBER_ID, []
    if transactional or group.state is GroupState.EMPTY:
        return Error.NONE, []
    if group.state is GroupState.COMPLETING_REBALANCE:
        return Error.REBALANCE_IN_PROGRESS, []
    return Error.NONE, [WatchMember(member_id, group.members[member_id].session_timeout_ms)]


def remove_group(group: Group, now: WallMs, error: Error) -> list[Effect]:
    """End the group here, and answer every waiting request with ``error``."""
    effects: list[Effect] = [StopAwaiting()]
    for member in group.members.values():
        effects.append(UnwatchMember(member.member_id))
        if member.join is not None:
            effects.append(AnswerJoin(member.join, JoinAnswer(error, member.member_id)))
            group.park_join(member, None)
        if member.sync is not None:
            effects.append(AnswerSync(member.sync, SyncAnswer(error)))
            member.sync = None
    effects.extend(UnwatchMember(member_id) for member_id in sorted(group.pending_members))
    group.apply(GroupRemoved(), now)
    return effects


def _check(group: Group, member_id: str, instance_id: str | None, generation: Generation) -> Error:
    if group.state is GroupState.DEAD:
        return Error.COORDINATOR_NOT_AVAILABLE
    error = check_member(group, member_id, instance_id)
    if error is Error.NONE and generation != group.generation:
        return Error.ILLEGAL_GENERATION
    return error


def _remove(group: Group, member_id: str, now: WallMs, initial_delay_ms: int) -> list[Effect]:
    member = group.members[member_id]
    effects: list[Effect] = []
    if member.join is not None:
        effects.append(AnswerJoin(member.join, JoinAnswer(Error.UNKNOWN_MEMBER_ID, "")))
    if member.sync is not None:
        effects.append(AnswerSync(member.sync, SyncAnswer(Error.UNKNOWN_MEMBER_ID)))
        member.sync = None
    group.remove(member_id)
    effects.extend(start_if_possible(group, now, initial_delay_ms))
    effects.extend(complete_joins_if_in(group, now))
    return effects


def _forget_pending(group: Group, member_id: str, now: WallMs) -> list[Effect]:
    group.pending_members.discard(member_id)
    return [UnwatchMember(member_id), *complete_joins_if_in(group, now)]
