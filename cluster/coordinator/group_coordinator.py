"""The group coordinator: the shell around the group machine.

It finds the group, runs the step, and does what the step's effects say: answers requests, sets timers, writes
records. Everything here is synchronous on the broker's loop; an answer that waits for a write is given by the
write's completion. Requests are callables: the token of a parked JoinGroup is the function that answers it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from cluster.coordinator.committed_offsets import CommittedOffset
from cluster.coordinator.group_records import group_record, offset_record
from cluster.coordinator.group_settings import GroupSettings
from cluster.coordinator.hosted_groups import CallTimer, HostedGroup, HostedGroups
from cluster.coordinator.java_hash import partition_for
from cluster.coordinator.offsets_log import OffsetsLog, group_error, offset_error
from cluster.replication.timing_wheel import Timer, TimerEntry
from cluster.statemachines import group_join, group_rebalance, group_requests
from cluster.statemachines.group import Group, GroupState
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
from storage.clock import Clock
from wire.errors import Error
from wire.types import Generation, Offset, TopicPartition

OnJoined = Callable[[JoinAnswer], None]
OnSynced = Callable[[SyncAnswer], None]
OnCommitted = Callable[[Mapping[TopicPartition, Error]], None]


class GroupCoordinator:
    """Coordinates the groups whose partitions of ``__consumer_offsets`` this broker leads.

    Args:
        settings: The configuration.
        hosted: The groups that are here; the loader fills it.
        log: Where groups and offsets are written.
        timer: Watches members and rebalances.
        clock: Wall time.
        new_id: Draws what makes a member id unique.
        partition_count: How many partitions ``__consumer_offsets`` has.
    """

    def __init__(
        self,
        settings: GroupSettings,
        hosted: HostedGroups,
        log: OffsetsLog,
        timer: Timer,
        clock: Clock,
        new_id: Callable[[], str],
        partition_count: int,
    ) -> None:
        self.settings = settings
        self.hosted = hosted
        self.log = log
        self.timer = timer
        self.clock = clock
        self.partition_count = partition_count
        self._new_id = new_id

    # --- finding a group

    def status(self, group_id: str, *, empty_allowed: bool = False) -> Error:
        """Give NONE if this broker coordinates the group and knows it, else what a client is told."""
        if not group_id and not empty_allowed:
            return Error.INVALID_GROUP_ID
        partition = self.hosted.get(partition_for(group_id, self.partition_count))
        if partition is None:
            return Error.NOT_COORDINATOR
        return Error.COORDINATOR_LOAD_IN_PROGRESS if partition.is_loading else Error.NONE

    def find(self, group_id: str) -> HostedGroup | None:
        """Give a known group; call it only where ``status`` is NONE."""
        partition = self.hosted.get(partition_for(group_id, self.partition_count))
        return None if partition is None else partition.groups.get(group_id)

    def _found_or_made(self, group_id: str) -> HostedGroup:
        number = partition_for(group_id, self.partition_count)
        partition = self.hosted.get(number)
        assert partition is not None
        found = partition.groups.get(group_id)
        if found is None:
            found = partition.groups[group_id] = HostedGroup(Group(group_id), number)
        return found

    # --- membership

    def join(self, group_id: str, request: Join, on_done: OnJoined) -> None:
        """Handle a JoinGroup; ``on_done`` is called once, now or when the rebalance has come to it."""
        error = self.status(group_id)
        settings = self.settings
        if error is Error.NONE and not (
            settings.session_timeout_min_ms <= request.session_timeout_ms <= settings.session_timeout_max_ms
        ):
            error = Error.INVALID_SESSION_TIMEOUT
        hosted = None
        if error is Error.NONE:
            hosted = self.find(group_id) if request.member_id else self._found_or_made(group_id)
            error = Error.UNKNOWN_MEMBER_ID if hosted is None else Error.NONE
        if hosted is None:
            on_done(JoinAnswer(error, request.member_id))
            return
        named = request.instance_id if request.instance_id is not None else request.client_id
        asked = replace(request, token=on_done, new_member_id=f"{named}-{self._new_id()}")
        self._run(
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
        """Handle a SyncGroup; ``on_done`` is called once, now or when the assignment is there."""
        error = self.status(group_id)
        if error is Error.COORDINATOR_LOAD_IN_PROGRESS:
            # The rebalance was lost with the former coordinator: the member has to join again.
            error = Error.REBALANCE_IN_PROGRESS
        hosted = self.find(group_id) if error is Error.NONE else None
        if hosted is None:
            on_done(SyncAnswer(Error.UNKNOWN_MEMBER_ID if error is Error.NONE else error))
            return
        self._run(
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
        """Handle a Heartbeat. While the group loads every member counts as alive."""
        error = self.status(group_id)
        if error is Error.COORDINATOR_LOAD_IN_PROGRESS:
            return Error.NONE
        if error is not Error.NONE:
            return error
        hosted = self.find(group_id)
        if hosted is None:
            return Error.UNKNOWN_MEMBER_ID
        error, effects = group_requests.heartbeat(hosted.group, member_id, instance_id, generation)
        self._run(hosted, effects)
        return error

    def leave(self, group_id: str, members: Sequence[tuple[str, str | None]]) -> tuple[Error, list[Error]]:
        """Let members go, each given by its id and instance id: an error for all, else one for each."""
        error = self.status(group_id)
        if error is not Error.NONE:
            return error, []
        hosted = self.find(group_id)
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
            self._run(hosted, effects)
            errors.append(error)
        return Error.NONE, errors

    # --- offsets

    def commit(
        self,
        group_id: str,
        *,
        member_id: str,
        instance_id: str | None,
        generation: Generation,
        offsets: Mapping[TopicPartition, CommittedOffset],
        on_done: OnCommitted,
    ) -> None:
        """Commit offsets; ``on_done`` is called once with each partition's outcome, when they are written."""
        error = self.status(group_id, empty_allowed=True)
        hosted = None
        if error is Error.NONE:
            hosted = self.find(group_id)
            if hosted is None:
                if generation < 0:
                    hosted = self._found_or_made(group_id)
                else:
                    error = Error.ILLEGAL_GENERATION
        if hosted is not None:
            error, effects = group_requests.check_commit(hosted.group, member_id, instance_id, generation)
            self._run(hosted, effects)
        if hosted is None or error is not Error.NONE:
            on_done(dict.fromkeys(offsets, error))
            return
        self._write_offsets(hosted, offsets, on_done)

    def _write_offsets(
        self, hosted: HostedGroup, offsets: Mapping[TopicPartition, CommittedOffset], on_done: OnCommitted
    ) -> None:
        limit = self.settings.offset_metadata_max
        results: dict[TopicPartition, Error] = {}
        written: dict[TopicPartition, CommittedOffset] = {}
        for partition, committed in offsets.items():
            if len(committed.metadata) > limit:
                results[partition] = Error.OFFSET_METADATA_TOO_LARGE
            else:
                written[partition] = committed
        if not written:
            on_done(results)
            return
        now = self.clock.wall_ms()
        group_id = hosted.group.group_id
        records = [
            offset_record(group_id, partition, committed, now) for partition, committed in written.items()
        ]
        hosted.offsets.begin_commit(written)

        def done(error: Error, offset: Offset) -> None:
            hosted.offsets.end_commit(written, offset if error is Error.NONE else None)
            on_done({**results, **dict.fromkeys(written, offset_error(error))})

        self.log.append(hosted.partition, records, done)

    def committed(
        self, group_id: str, partitions: Iterable[TopicPartition] | None, *, require_stable: bool
    ) -> tuple[Error, dict[TopicPartition, CommittedOffset | Error | None]]:
        """Give committed offsets: of these partitions (None where there is none), or of all that have one.

        With ``require_stable`` a partition that an open transaction will change answers UNSTABLE_OFFSET_COMMIT.
        """
        error = self.status(group_id, empty_allowed=True)
        if error is not Error.NONE:
            return error, {}
        hosted = self.find(group_id)
        if hosted is None or hosted.group.state is GroupState.DEAD:
            return Error.NONE, dict.fromkeys(partitions or ())
        offsets = hosted.offsets
        found: dict[TopicPartition, CommittedOffset | Error | None] = (
            dict(offsets)
            if partitions is None
            else {partition: offsets.get(partition) for partition in partitions}
        )
        if require_stable:
            for partition in found:
                if offsets.has_transaction_on(partition):
                    found[partition] = Error.UNSTABLE_OFFSET_COMMIT
        return Error.NONE, found

    # --- what the machine wants done

    def watch(self, hosted: HostedGroup, member_id: str, timeout_ms: int) -> None:
        """Expect a member to be heard of within a time."""
        timer = hosted.members.get(member_id)
        if timer is None:
            timer = hosted.members[member_id] = CallTimer(lambda: self._silent(hosted, member_id))
        else:
            self.timer.cancel(timer)
        self.timer.add(timer, timeout_ms)

    def end(self, hosted: HostedGroup, error: Error) -> None:
        """End a group here: everybody who waits is answered with ``error``, its timers stop."""
        self._run(hosted, group_requests.remove_group(hosted.group, self.clock.wall_ms(), error))
        for timer in tuple(hosted.timers()):
            self.timer.cancel(timer)

    def rebalance_oversized(self, hosted: HostedGroup) -> None:
        """A group was loaded that is larger than is allowed now: have its members join again, as far as they fit."""
        delay = self.settings.initial_rebalance_delay_ms
        self._run(hosted, group_rebalance.start_if_possible(hosted.group, self.clock.wall_ms(), delay))

    def _run(self, hosted: HostedGroup, effects: Iterable[Effect]) -> None:
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
        record = group_record(hosted.group, assignments, self.clock.wall_ms())

        def done(error: Error, offset: Offset) -> None:
            del offset
            told = group_error(error)
            match effect:
                case StoreAssignment():
                    delay = self.settings.initial_rebalance_delay_ms
                    now = self.clock.wall_ms()
                    self._run(
                        hosted, group_rebalance.assignment_stored(hosted.group, effect, told, now, delay)
                    )
                case StoreStaticMember():
                    self._run(hosted, group_join.static_member_stored(hosted.group, effect, told))
                case StoreEmptyGroup():
                    pass

        self.log.append(hosted.partition, [record], done)

    def _cancel(self, timer: TimerEntry | None) -> None:
        if timer is not None:
            self.timer.cancel(timer)

    def _silent(self, hosted: HostedGroup, member_id: str) -> None:
        hosted.members.pop(member_id, None)
        delay = self.settings.initial_rebalance_delay_ms
        self._run(hosted, group_requests.member_silent(hosted.group, member_id, self.clock.wall_ms(), delay))

    def _joins_over(self, hosted: HostedGroup) -> None:
        delay = self.settings.initial_rebalance_delay_ms
        self._run(hosted, group_rebalance.joins_timed_out(hosted.group, self.clock.wall_ms(), delay))

    def _syncs_over(self, hosted: HostedGroup) -> None:
        delay = self.settings.initial_rebalance_delay_ms
        self._run(hosted, group_rebalance.syncs_timed_out(hosted.group, self.clock.wall_ms(), delay))
