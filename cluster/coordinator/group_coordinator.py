"""The group coordinator: the shell around the group machine.

It finds the group, runs the step, and does what the step's effects say: answers requests, sets timers, writes
records. Everything here is synchronous on the broker's loop; an answer that waits for a write is sent by the write's
completion. Requests are callables: the token of a parked JoinGroup is the function that answers it.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from cluster.coordinator.group_records import group_record, group_value
from cluster.coordinator.group_settings import GroupSettings
from cluster.coordinator.hosted_groups import HostedGroup, HostedGroups
from cluster.coordinator.offsets_log import OffsetsLog, group_error
from cluster.statemachines import group_join, group_requests
from cluster.statemachines.group import GroupState
from cluster.statemachines.group_effects import (
    AnswerJoin,
    AnswerSync,
    AwaitJoins,
    AwaitSyncs,
    Effect,
    JoinAnswer,
    StopAwaiting,
    StoreAssignment,
    StoreEmptyGroup,
    StoreStaticMember,
    SyncAnswer,
    UnwatchMember,
    WatchMember,
)
from cluster.statemachines.group_join import Join
from timing.clock import Clock
from timing.timing_wheel import CallTimer, Timer, TimerEntry
from wire.errors import Error
from wire.types import Generation, Offset

logger = logging.getLogger(__name__)

OnJoined = Callable[[JoinAnswer], None]
OnSynced = Callable[[SyncAnswer], None]


class GroupCoordinator:
    """Coordinates the groups whose partitions of ``__consumer_offsets`` this broker leads.

    Args:
        settings: The configuration.
        hosted: The groups on this broker; the loader fills it.
        log: Where groups and offsets are written.
        timer: Runs the timeouts of members and rebalances.
        clock: Wall time.
        new_id: Returns the random part of a member id.
    """

    def __init__(
        self,
        settings: GroupSettings,
        hosted: HostedGroups,
        log: OffsetsLog,
        timer: Timer,
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        self.settings = settings
        self.hosted = hosted
        self.log = log
        self.timer = timer
        self.clock = clock
        self._new_id = new_id

    def join(self, group_id: str, request: Join, on_done: OnJoined) -> None:
        """Handle a JoinGroup; ``on_done`` is called once, now or when the rebalance has gathered its members."""
        error = self.hosted.status(group_id)
        settings = self.settings
        if error is Error.NONE and not (
            settings.session_timeout_min_ms <= request.session_timeout_ms <= settings.session_timeout_max_ms
        ):
            error = Error.INVALID_SESSION_TIMEOUT
        hosted = None
        if error is Error.NONE:
            hosted = self.hosted.find(group_id) if request.member_id else self.hosted.find_or_make(group_id)
            error = Error.UNKNOWN_MEMBER_ID if hosted is None else Error.NONE
        if hosted is None:
            on_done(JoinAnswer(error, request.member_id))
            return
        named = request.instance_id if request.instance_id is not None else request.client_id
        asked = replace(request, token=on_done, new_member_id=f"{named}-{self._new_id()}")
        self.carry_out(
            hosted,
            group_join.join(
                hosted.group,
                asked,
                self.clock.wall_ms(),
                max_size=settings.max_size,
                initial_delay_ms=settings.initial_rebalance_delay_ms,
            ),
        )

    def sync(
        self,
        group_id: str,
        *,
        member_id: str,
        instance_id: str | None,
        generation: Generation,
        protocol_type: str | None,
        protocol_name: str | None,
        assignments: Mapping[str, bytes],
        on_done: OnSynced,
    ) -> None:
        """Handle a SyncGroup; ``on_done`` is called once, now or when the assignment is known."""
        error = self.hosted.status(group_id)
        if error is Error.COORDINATOR_LOAD_IN_PROGRESS:
            # The rebalance was lost with the former coordinator: the member has to join again.
            error = Error.REBALANCE_IN_PROGRESS
        hosted = self.hosted.find(group_id) if error is Error.NONE else None
        if hosted is None:
            on_done(SyncAnswer(Error.UNKNOWN_MEMBER_ID if error is Error.NONE else error))
            return
        self.carry_out(
            hosted,
            group_requests.sync(
                hosted.group,
                token=on_done,
                member_id=member_id,
                instance_id=instance_id,
                generation=generation,
                protocol_type=protocol_type,
                protocol_name=protocol_name,
                assignments=assignments,
            ),
        )

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: Generation
    ) -> Error:
        """Handle a Heartbeat. While the group loads, every member counts as alive."""
        error = self.hosted.status(group_id)
        if error is Error.COORDINATOR_LOAD_IN_PROGRESS:
            return Error.NONE
        if error is not Error.NONE:
            return error
        hosted = self.hosted.find(group_id)
        if hosted is None:
            return Error.UNKNOWN_MEMBER_ID
        error, effects = group_requests.heartbeat(hosted.group, member_id, instance_id, generation)
        self.carry_out(hosted, effects)
        return error

    def leave(self, group_id: str, members: Sequence[tuple[str, str | None]]) -> tuple[Error, list[Error]]:
        """Remove members, each given by its id and instance id; return an error for all, else one for each."""
        error = self.hosted.status(group_id)
        if error is not Error.NONE:
            return error, []
        hosted = self.hosted.find(group_id)
        if hosted is None:
            return Error.NONE, [Error.UNKNOWN_MEMBER_ID] * len(members)
        if hosted.group.state is GroupState.DEAD:
            return Error.COORDINATOR_NOT_AVAILABLE, []
        errors = []
        for member_id, instance_id in members:
            error, effects = group_requests.leave(
                hosted.group,
                member_id,
                instance_id,
                self.clock.wall_ms(),
                self.settings.initial_rebalance_delay_ms,
            )
            self.carry_out(hosted, effects)
            errors.append(error)
        return Error.NONE, errors

    # effects of the machine

    def watch(self, hosted: HostedGroup, member_id: str, timeout_ms: int) -> None:
        """Remove a member unless it sends a request within ``timeout_ms``."""
        timer = hosted.members.get(member_id)
        if timer is None:
            timer = hosted.members[member_id] = CallTimer(lambda: self._silent(hosted, member_id))
        else:
            self.timer.cancel(timer)
        self.timer.add(timer, timeout_ms)

    def end(self, hosted: HostedGroup, error: Error) -> None:
        """End a group here: answer every waiting request with ``error``, and stop its timers."""
        self.carry_out(hosted, group_requests.remove_group(hosted.group, self.clock.wall_ms(), error))
        for timer in tuple(hosted.timers()):
            self.timer.cancel(timer)

    def rebalance_oversized(self, hosted: HostedGroup) -> None:
        """Rebalance a loaded group that exceeds the present size limit: only as many members as fit can join again."""
        delay = self.settings.initial_rebalance_delay_ms
        self.carry_out(hosted, group_join.start_if_possible(hosted.group, self.clock.wall_ms(), delay))

    def carry_out(self, hosted: HostedGroup, effects: Iterable[Effect]) -> None:
        """Carry out the effects of a step of the machine, in their order."""
        for effect in effects:
            match effect:
                case WatchMember(member_id, timeout_ms):
                    self.watch(hosted, member_id, timeout_ms)
                case UnwatchMember(member_id):
                    self._cancel(hosted.members.pop(member_id, None))
                case AnswerJoin(token, join_answer):
                    token(join_answer)  # type: ignore[operator]  # the token is the OnJoined of its request
                case AnswerSync(token, sync_answer):
                    token(sync_answer)  # type: ignore[operator]  # the token is the OnSynced of its request
                case AwaitJoins(timeout_ms):
                    self._cancel(hosted.joins)
                    self._cancel(hosted.syncs)
                    hosted.joins = CallTimer(lambda: self._joins_over(hosted))
                    self.timer.add(hosted.joins, timeout_ms)
                case AwaitSyncs(timeout_ms):
                    self._cancel(hosted.joins)
                    self._cancel(hosted.syncs)
                    hosted.syncs = CallTimer(lambda: self._syncs_over(hosted))
                    self.timer.add(hosted.syncs, timeout_ms)
                case StopAwaiting():
                    self._cancel(hosted.joins)
                    self._cancel(hosted.syncs)
                case StoreAssignment() | StoreEmptyGroup() | StoreStaticMember():
                    self._store(hosted, effect)
                case _:
                    assert_never(effect)

    def _store(
        self, hosted: HostedGroup, effect: StoreAssignment | StoreEmptyGroup | StoreStaticMember
    ) -> None:
        assignments = effect.assignments if isinstance(effect, StoreAssignment) else None
        group = hosted.group
        value = group_value(group, assignments)

        def done(error: Error, offset: Offset) -> None:
            del offset
            answer = group_error(error)
            if error is Error.NONE:
                hosted.stored.value = value
            else:
                logger.warning("group %s could not be written: %s", group.group_id, error.name)
            match effect:
                case StoreAssignment():
                    delay = self.settings.initial_rebalance_delay_ms
                    now = self.clock.wall_ms()
                    self.carry_out(
                        hosted, group_requests.assignment_stored(hosted.group, effect, answer, now, delay)
                    )
                case StoreStaticMember():
                    self.carry_out(hosted, group_join.static_member_stored(hosted.group, effect, answer))
                case StoreEmptyGroup():
                    pass

        record = group_record(group.group_id, value, self.clock.wall_ms())
        self.log.append(hosted.partition, [record], done)

    def _cancel(self, timer: TimerEntry | None) -> None:
        if timer is not None:
            self.timer.cancel(timer)

    def _silent(self, hosted: HostedGroup, member_id: str) -> None:
        hosted.members.pop(member_id, None)
        delay = self.settings.initial_rebalance_delay_ms
        self.carry_out(
            hosted, group_requests.member_silent(hosted.group, member_id, self.clock.wall_ms(), delay)
        )

    def _joins_over(self, hosted: HostedGroup) -> None:
        delay = self.settings.initial_rebalance_delay_ms
        self.carry_out(hosted, group_join.joins_timed_out(hosted.group, self.clock.wall_ms(), delay))

    def _syncs_over(self, hosted: HostedGroup) -> None:
        delay = self.settings.initial_rebalance_delay_ms
        self.carry_out(hosted, group_requests.syncs_timed_out(hosted.group, self.clock.wall_ms(), delay))
