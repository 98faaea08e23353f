"""JoinGroup: how a member gets into a group, stays in it, or is told why not.

A new dynamic member of a recent client is first given an id and sent back (KIP-394), so that a client that
cannot reach us twice leaves no ghost. A static member (KIP-345) is known by its instance id: returning under a
new member id, it takes its old place, without a rebalance if its protocols leave the group's choice as it is.
"""

from dataclasses import dataclass, field

from cluster.statemachines import group_rebalance as rebalance
from cluster.statemachines.group import Group, GroupState, Member
from cluster.statemachines.group_effects import (
    AnswerJoin,
    AnswerSync,
    Effect,
    JoinAnswer,
    StoreStaticMember,
    SyncAnswer,
    UnwatchMember,
    WatchMember,
)
from wire.errors import Error
from wire.types import WallMs

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a member that does not know its id yet, and so sends no heartbeats, may wait for its first rebalance."""


@dataclass(frozen=True, slots=True)
class Join:
    """A JoinGroup request.

    Attributes:
        token: What stands for the request in the effect that answers it.
        new_member_id: The id to use if the member is given one: the shell draws it, chance has no place here.
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
        initial_delay_ms: ``group.initial.rebalance.delay.ms``.
    """
    if group.state is GroupState.DEAD:
        return request.refused(Error.COORDINATOR_NOT_AVAILABLE)
    if not _has_room(group, request.member_id, max_size):
        effects: list[Effect] = [
            AnswerJoin(request.token, JoinAnswer(Error.GROUP_MAX_SIZE_REACHED, "")),
            UnwatchMember(request.member_id),
        ]
        group.remove(request.member_id)
        effects.extend(rebalance.complete_joins_if_in(group, now))
        return effects
    names = {name for name, _ in request.protocols}
    if not group.supports(request.protocol_type, names):
        return request.refused(Error.INCONSISTENT_GROUP_PROTOCOL)
    if request.member_id:
        effects = _known_member(group, request, now, initial_delay_ms)
    else:
        effects = _new_member(group, request, now, initial_delay_ms)
    effects.extend(rebalance.complete_joins_if_in(group, now))
    return effects


def static_member_stored(group: Group, stored: StoreStaticMember, error: Error) -> list[Effect]:
    """A static member's new id is in the log, or could not be put there: then it has its old id again."""
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
        # Something else happened meanwhile; joining again, the member becomes part of it.
        return [AnswerJoin(stored.token, JoinAnswer(Error.UNKNOWN_MEMBER_ID, stored.new_member_id))]
    leads = group.leader_id == member.member_id
    # A client that does not know how to skip an assignment must not believe that it leads: it is told the old id.
    answer = JoinAnswer(
        Error.NONE,
        member.member_id,
        group.generation,
        group.protocol_type,
        group.protocol_name,
        (group.leader_id or "") if stored.skip_supported else stored.old_leader_id,
        rebalance.member_list(group) if leads and stored.skip_supported else (),
        skip_assignment=leads and stored.skip_supported,
    )
    return [AnswerJoin(stored.token, answer)]


def _has_room(group: Group, member_id: str, max_size: int) -> bool:
    if group.state in (GroupState.EMPTY, GroupState.DEAD):
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        member = group.members.get(member_id)
        return (member is not None and member.join is not None) or group.joins_waiting < max_size
    return member_id in group.members or len(group.members) < max_size


def _new_member(group: Group, request: Join, now: WallMs, initial_delay_ms: int) -> list[Effect]:
    if request.instance_id is not None:
        present = group.static_members.get(request.instance_id)
        if present is not None:
            return _replace_static(group, group.members[present], request, now, initial_delay_ms)
        return _add(group, request, request.new_member_id, now, initial_delay_ms)
    if request.require_known_member_id:
        group.pending_members.add(request.new_member_id)
        answer = JoinAnswer(Error.MEMBER_ID_REQUIRED, request.new_member_id)
        return [
            AnswerJoin(request.token, answer),
            WatchMember(request.new_member_id, request.session_timeout_ms),
        ]
    return _add(group, request, request.new_member_id, now, initial_delay_ms)


def _known_member(group: Group, request: Join, now: WallMs, initial_delay_ms: int) -> list[Effect]:
    if request.member_id in group.pending_members and request.instance_id is None:
        return _add(group, request, request.member_id, now, initial_delay_ms)
    error = check_member(group, request.member_id, request.instance_id)
    if error is not Error.NONE:
        return request.refused(error)
    member = group.members[request.member_id]
    match group.state:
        case GroupState.PREPARING_REBALANCE:
            return _update(group, member, request, now, initial_delay_ms)
        case GroupState.COMPLETING_REBALANCE:
            if member.protocols == request.protocols:
                # It did not get our answer; it is told the same again.
                return [AnswerJoin(request.token, rebalance.joined(group, member))]
            return _update(group, member, request, now, initial_delay_ms)
        case GroupState.STABLE:
            if group.leader_id == member.member_id or member.protocols != request.protocols:
                # The leader joins again to assign anew: partitions were added, or topics appeared.
                return _update(group, member, request, now, initial_delay_ms)
            return [AnswerJoin(request.token, rebalance.joined(group, member))]
        case _:
            return request.refused(Error.UNKNOWN_MEMBER_ID)


def check_member(group: Group, member_id: str, instance_id: str | None) -> Error:
    """Return NONE for a member of the group under its present id, else why not."""
    if instance_id is not None:
        present = group.static_members.get(instance_id)
        if present is None:
            return Error.UNKNOWN_MEMBER_ID
        return Error.NONE if present == member_id else Error.FENCED_INSTANCE_ID
    return Error.NONE if member_id in group.members else Error.UNKNOWN_MEMBER_ID


def _add(group: Group, request: Join, member_id: str, now: WallMs, initial_delay_ms: int) -> list[Effect]:
    if group.state is GroupState.PREPARING_REBALANCE and group.generation == 0:
        group.new_member_added = True
    if not group.members:
        group.protocol_type = request.protocol_type
    group.add(request.member(member_id), request.token)
    return [
        WatchMember(member_id, NEW_MEMBER_JOIN_TIMEOUT_MS),
        *rebalance.start_if_possible(group, now, initial_delay_ms),
    ]


def _update(group: Group, member: Member, request: Join, now: WallMs, initial_delay_ms: int) -> list[Effect]:
    effects = _park(group, member, request)
    effects.extend(rebalance.start_if_possible(group, now, initial_delay_ms))
    return effects


def _park(group: Group, member: Member, request: Join) -> list[Effect]:
    effects: list[Effect] = []
    if member.join is not None:
        # The client asked again on another connection: the earlier question has no reader.
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
        effects.extend(rebalance.start(group, now, initial_delay_ms))
    return effects
