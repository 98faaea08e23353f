"""Serves fetches: reads what there is, and parks a fetch until there is enough.

A fetch is answered at once if it may not wait, names no partitions, has its ``min_bytes``, met an error or a diverging
epoch, or is sent to a nearer replica. Otherwise it is parked on its session, and changes of its partitions wake it by
direct call. It is answered exactly once, with a new read: because of data, a change of leadership, its timeout, or the
session's next fetch.

A follower's fetch also says how far the follower is. The partition records that before the read, so that produces that
wait for replicas are acknowledged first; only the fetch itself records it, never the read that ends its parking.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from cluster.replication.leader.fetch_answers import (
    divergence,
    empty_partition,
    failed_partition,
    readable_end,
)
from cluster.replication.leader.fetch_session import (
    FetchItem,
    FetchParams,
    FetchSession,
    Isolation,
    OnFetched,
    ParkedFetch,
)
from cluster.replication.throttle import UNLIMITED
from storage.errors import LogError, OffsetOutOfRangeError
from wire.errors import ApiError, Error
from wire.messages.fetch import AbortedTransaction, PartitionData
from wire.types import (
    NO_BROKER,
    NO_LEADER_EPOCH,
    NO_TOPIC_ID,
    BrokerId,
    MonotonicSeconds,
    Offset,
    TopicId,
)

if TYPE_CHECKING:
    from cluster.replication.metadata_cache import MetadataCache
    from cluster.replication.partition.partition import Partition
    from cluster.replication.throttle import Throttle
    from storage.log import Log
    from timing.clock import Clock
    from timing.timing_wheel import Timer
    from wire.types import TopicPartition

SelectReplica = Callable[["Partition", "FetchItem", "FetchParams"], BrokerId]
"""Returns a better replica for a consumer, or ``NO_BROKER`` if the leader is as good as any."""


class FetchService:
    """All fetches under way at one broker.

    Args:
        find: Returns the hosted partition.
        metadata: Resolves topic ids that a session named before this broker knew them.
        clock: Timestamps followers' fetches.
        timer: Ends the wait of parked fetches.
        select_replica: Chooses nearer replicas (KIP-392); None if that is not configured.
        throttle: Limits what is sent to followers that catch up; None for no limit.
    """

    __slots__ = ("_clock", "_find", "_metadata", "_parked_followers", "_throttle", "_timer", "select_replica")

    def __init__(
        self,
        find: "Callable[[TopicPartition], Partition]",
        metadata: "MetadataCache",
        clock: "Clock",
        timer: "Timer",
        select_replica: SelectReplica | None = None,
        throttle: "Throttle | None" = None,
    ) -> None:
        self._find = find
        self._metadata = metadata
        self._clock = clock
        self._timer = timer
        self.select_replica = select_replica
        self._throttle = throttle
        self._parked_followers: dict[BrokerId, dict[FetchSession, None]] = {}

    @property
    def parked(self) -> int:
        """How many followers' fetches are parked."""
        return sum(len(sessions) for sessions in self._parked_followers.values())

    def fetch(self, session: FetchSession, params: FetchParams, on_done: OnFetched) -> None:
        """Answer a fetch, at once or later.

        Args:
            session: The partitions to fetch; already updated with this request.
            params: The other arguments of the fetch.
            on_done: Called exactly once with the partitions of the answer, in the order in which they were read.
        """
        if session.parked is not None:
            self._complete(session)
        now = self._clock.monotonic()
        session.last_fetch = now
        session.isolation = params.isolation
        answers, size, urgent = self._read(session, params, now, is_fetch=True)
        late = _moved_meanwhile(session, answers)
        if urgent or size >= params.min_bytes or params.max_wait_ms <= 0 or not session.items:
            self._answer(session, params, answers, on_done)
            return
        parked = ParkedFetch(params, on_done, lambda item: self._woken(session, item))
        session.parked = parked
        for item, data in answers:
            if data.records:
                parked.found(item, len(data.records))
            self._rest(item, data)
            if session.parked is not parked:
                return
        for item in late:
            self._woken(session, item)
        if session.parked is parked:
            self._timer.add(parked, params.max_wait_ms)
            if params.is_follower:
                self._parked_followers.setdefault(params.replica_id, {})[session] = None

    def wake_follower(self, broker_id: BrokerId) -> None:
        """Answer a follower's parked fetches: it has become a replica of a partition that they do not name."""
        for session in tuple(self._parked_followers.get(broker_id, ())):
            self._complete(session)

    # Parking

    def _rest(self, item: FetchItem, data: PartitionData) -> None:
        """Register an item without records for its partition's next change; clean if its client knows the rest."""
        topic_partition = item.topic_partition
        if topic_partition is None:
            return
        try:
            partition = self._find(topic_partition)
            log = partition.local_log(NO_LEADER_EPOCH, require_leader=False)
        except ApiError:
            return
        if readable_end(log, item.session.isolation) != item.fetch_offset:
            # Either a completion during the read has appended, and fired before the item was registered, or a throttle
            # holds records back.
            if item.session.parked is not None:
                self._woken(item.session, item)
            return
        session = item.session
        if session.is_persistent and (
            data.high_watermark == item.sent_high_watermark and data.log_start_offset == item.sent_log_start
        ):
            session.dirty.pop(item, None)
        item.watch(partition)

    def _woken(self, session: FetchSession, item: FetchItem | None) -> None:
        parked = session.parked
        if parked is None:
            return
        if item is None or item.topic_partition is None:
            self._complete(session)
            return
        params = parked.params
        try:
            partition = self._find(item.topic_partition)
            log = partition.local_log(item.current_leader_epoch, require_leader=params.require_leader)
        except ApiError:
            self._complete(session)
            return
        end = readable_end(log, params.isolation)
        if end == item.fetch_offset:
            item.watch(partition)  # the watermark moved, but not what may be read
        elif end > item.fetch_offset and self._room(partition, log, params) == 0:
            pass  # it is read again when the fetch's time is over
        elif end < item.fetch_offset or params.min_bytes <= 1 or self._has_enough(parked, item, log, end):
            self._complete(session)
        else:
            item.watch(partition)

    def _room(self, partition: "Partition", log: "Log", params: FetchParams) -> int:
        if not params.is_follower or self._throttle is None:
            return UNLIMITED
        return self._throttle.room_for(params.replica_id, partition, log)

    def _has_enough(self, parked: ParkedFetch, item: FetchItem, log: "Log", end: Offset) -> bool:
        """Whether the items have ``min_bytes`` together, or this one can return no more in one read.

        Only the item whose partition has changed is checked: otherwise every append to one partition would count
        through all items of a fetch that waits for more.
        """
        try:
            start = log.offset_metadata(item.fetch_offset)
            stop = log.offset_metadata(end)
        except LogError:
            return True
        if not start.on_same_segment(stop):
            return True  # one read returns bytes of one file only
        parked.found(item, min(start.bytes_behind(stop), item.max_bytes))
        return parked.size >= parked.params.min_bytes

    def _complete(self, session: FetchSession) -> None:
        parked, session.parked = session.parked, None
        if parked is None:
            return
        self._timer.cancel(parked)
        params = parked.params
        if params.is_follower:
            sessions = self._parked_followers.get(params.replica_id)
            if sessions is not None:
                sessions.pop(session, None)
                if not sessions:
                    del self._parked_followers[params.replica_id]
        answers, _, _ = self._read(session, params, session.last_fetch, is_fetch=False)
        self._answer(session, params, answers, parked.on_done)

    def _answer(
        self,
        session: FetchSession,
        params: FetchParams,
        answers: list[tuple[FetchItem, PartitionData]],
        on_done: OnFetched,
    ) -> None:
        if params.is_follower and self._throttle is not None and self._throttle.is_on:
            self._throttle.note_sent(answers, self._find)
        if params.admit is not None and not params.admit(answers):
            # The items stay dirty, as if the session had not been answered.
            if not session.is_persistent:
                session.close()
            on_done([])
            return
        if not session.is_persistent:
            session.close()
            on_done(answers)
            return
        due = []
        dirty = session.dirty
        for item, data in answers:
            if session.must_answer(item, data) or not session.is_incremental:
                due.append((item, data))
            if data.error_code or data.records or data.diverging_epoch.end_offset >= 0:
                # To the end of the order: under a response limit, the others come first.
                dirty.pop(item, None)
                dirty[item] = None
            elif data.preferred_read_replica < 0:
                self._settle(item, data)
        on_done(due)

    def _settle(self, item: FetchItem, data: PartitionData) -> None:
        """Mark an item as clean that was answered without records, unless its partition has changed meanwhile."""
        topic_partition = item.topic_partition
        if topic_partition is None:
            return
        try:
            partition = self._find(topic_partition)
            log = partition.local_log(NO_LEADER_EPOCH, require_leader=False)
        except ApiError:
            return
        if (
            item.fetch_offset >= readable_end(log, item.session.isolation)
            and log.high_watermark == data.high_watermark
            and log.log_start_offset == data.log_start_offset
        ):
            item.session.dirty.pop(item, None)
            item.watch(partition)

    # Reading

    def _read(
        self, session: FetchSession, params: FetchParams, now: MonotonicSeconds, *, is_fetch: bool
    ) -> tuple[list[tuple[FetchItem, PartitionData]], int, bool]:
        """Read every dirty item; return the answers, their bytes, and whether one of them must not wait."""
        answers: list[tuple[FetchItem, PartitionData]] = []
        limit, total, urgent = params.max_bytes, 0, False
        min_one = not params.hard_limit
        names = self._metadata.snapshot.topic_names
        for item in tuple(session.dirty):
            data = self._read_item(item, params, limit, min_one, now, is_fetch, names)
            answers.append((item, data))
            size = len(data.records) if data.records is not None else 0
            if size:
                min_one = False
                total += size
                limit = max(0, limit - size)
            elif data.error_code or data.diverging_epoch.end_offset >= 0 or data.preferred_read_replica >= 0:
                urgent = True
        return answers, total, urgent

    def _read_item(
        self,
        item: FetchItem,
        params: FetchParams,
        limit: int,
        min_one: bool,
        now: MonotonicSeconds,
        is_fetch: bool,
        names: Mapping[TopicId, str],
    ) -> PartitionData:
        item.leave_level()
        if item.topic_partition is None:
            item.resolve(names)
        topic_partition = item.topic_partition
        if topic_partition is None:
            return failed_partition(item.partition_index, Error.UNKNOWN_TOPIC_ID)
        if item.topic in item.session.denied:
            return failed_partition(item.partition_index, Error.TOPIC_AUTHORIZATION_FAILED)
        try:
            partition = self._find(topic_partition)
            if item.topic_id != NO_TOPIC_ID and partition.topic_id not in (NO_TOPIC_ID, item.topic_id):
                raise ApiError(Error.INCONSISTENT_TOPIC_ID)
            if params.client is not None and self.select_replica is not None and partition.is_leader:
                preferred = self.select_replica(partition, item, params)
                if preferred != NO_BROKER:
                    log = partition.local_log(item.current_leader_epoch, require_leader=False)
                    return empty_partition(item, log, preferred)
            log = partition.local_log(item.current_leader_epoch, require_leader=params.require_leader)
            return self._read_log(item, partition, log, params, limit, min_one, now, is_fetch)
        except ApiError as failure:
            return failed_partition(item.partition_index, failure.error)
        except LogError as failure:
            return failed_partition(item.partition_index, failure.kafka_error)

    def _read_log(
        self,
        item: FetchItem,
        partition: "Partition",
        log: "Log",
        params: FetchParams,
        limit: int,
        min_one: bool,
        now: MonotonicSeconds,
        is_fetch: bool,
    ) -> PartitionData:
        offset = item.fetch_offset
        leader_end = log.log_end_offset
        remote = (
            partition.leader_or_error().followers.get(params.replica_id, item.current_leader_epoch)
            if params.is_follower
            else None
        )
        if item.last_fetched_epoch >= 0:
            diverging = divergence(log, item, leader_end)
            if diverging is not None:
                return empty_partition(item, log, NO_BROKER, diverging)
        if not log.log_start_offset <= offset <= leader_end:
            raise OffsetOutOfRangeError(f"{partition.topic_partition} has no offset {offset}")
        if remote is not None:
            if is_fetch:
                partition.leader_or_error().follower_fetched(
                    remote, offset, item.log_start_offset, leader_end, now
                )
            end = leader_end
            if offset == leader_end:
                item.is_level(remote)
            else:
                room = self._room(partition, log, params)
                limit = min(limit, room)
                min_one = min_one and room > 0
        else:
            end = readable_end(log, params.isolation)
        if offset >= end or (limit <= 0 and not min_one):
            return empty_partition(item, log, NO_BROKER)
        high_watermark, stable = log.high_watermark, log.last_stable_offset
        read = log.read(offset, min(limit, item.max_bytes), upper_bound=end, min_one_batch=min_one)
        records = read.file_range
        if records is None or (read.first_batch_incomplete and not params.hard_limit):
            return empty_partition(item, log, NO_BROKER)
        aborted = None
        if params.isolation is Isolation.COMMITTED:
            aborted = [
                AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
                for one in log.aborted_transactions_of(read, end)
            ]
        return PartitionData(
            partition_index=item.partition_index,
            high_watermark=high_watermark,
            last_stable_offset=stable,
            log_start_offset=log.log_start_offset,
            aborted_transactions=aborted,
            records=records,
        )


def _moved_meanwhile(
    session: FetchSession, answers: list[tuple[FetchItem, PartitionData]]
) -> list[FetchItem]:
    """Return the items that were clean before a read, and whose partitions have changed during it.

    A follower's fetch raises high watermarks, and the produces that complete can append elsewhere at once: a
    transaction's markers, or the record that all of them are written. At that moment no fetch was parked that could
    be woken.
    """
    if len(session.dirty) == len(answers):
        return []
    read = {item for item, _ in answers}
    return [item for item in session.dirty if item not in read]
