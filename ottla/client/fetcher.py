"""Fetching ahead: a task per broker, a fetch session each, and batches that wait to be asked for.

A partition is fetched while its share of the room is free; pausing is not asking. What comes for a position that has
been moved meanwhile is dropped. While some partitions of a broker have no room, its fetches wait only briefly, so that
one of them is not left out for a whole ``max_wait`` after its batches were taken.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.client import runtime
from ottla.client.batch_decoding import AbortedTransaction, PartitionRecords, read_partition_records
from ottla.client.broker_link import BrokerLink
from ottla.client.broker_links import FETCH
from ottla.client.context import ClientContext
from ottla.client.errors import BrokerUnreachable, ClientError, CorruptData, OffsetLost, error_for
from ottla.client.fetch_requests import fetch_request, take_leader_hint
from ottla.client.fetch_sessions import FetchPlace, FetchSession
from ottla.client.fetch_settings import FetchSettings
from ottla.client.offset_lookup import look_up
from ottla.client.positions import Position, PositionState, Start
from wire.errors import Error, RemoteProtocolError
from wire.messages.fetch import FetchResponse, PartitionData
from wire.types import BrokerId, LeaderEpoch, TopicPartition

_log = logging.getLogger(__name__)

_BRIEF_WAIT_S: Final = 0.02
_DECODE_IN_THREAD_FROM: Final = 64 * 1024
"""Bytes of compressed records from which a thread decompresses them."""


@dataclass(slots=True)
class Fetched:
    """Records of one partition that wait to be asked for."""

    position_number: int
    records: PartitionRecords
    high_watermark: int


class PartitionFetch:
    """One partition that is read.

    Attributes:
        position: Where.
        waiting: What has come.
        error: What its reader must be told before anything else comes.
    """

    __slots__ = ("error", "held", "position", "waiting")

    def __init__(self, partition: TopicPartition) -> None:
        self.position = Position(partition)
        self.waiting: deque[Fetched] = deque()
        self.held = 0
        self.error: ClientError | None = None

    def drop_waiting(self) -> None:
        """Forget what has come: the position was moved."""
        self.waiting.clear()
        self.held = 0
        self.error = None


class Fetcher:
    """Fetches partitions, and hands out what came, a batch a partition in turn.

    Args:
        context: The client's connections.
        settings: How to fetch.

    Attributes:
        partitions: What is read.
        on_arrival: Called when there may be something to take.
    """

    def __init__(self, context: ClientContext, settings: FetchSettings) -> None:
        self.partitions: dict[TopicPartition, PartitionFetch] = {}
        self.on_arrival: Callable[[], None] = _ignore
        self._context = context
        self._settings = settings
        self._ready: deque[TopicPartition] = deque()
        self._arrived = runtime.new_event()
        self._nudged = False
        self._changed: dict[BrokerId, runtime.Event] = {}
        self._scope = runtime.cancel_scope()
        self._nursery: runtime.Nursery | None = None
        self._settle = runtime.new_event()

    async def run(self, *, task_status: Any = runtime.TASK_STATUS_IGNORED) -> None:
        """Fetch until cancelled."""
        self._context.refresh.on_update.append(self.wake)
        try:
            async with runtime.open_nursery() as nursery:
                self._nursery = nursery
                task_status.started()
                await self._settle_positions()
        finally:
            self._context.refresh.on_update.remove(self.wake)

    def assign(self, partition: TopicPartition) -> PartitionFetch:
        """Begin to read a partition; its position waits to be placed or started."""
        fetch = self.partitions[partition] = PartitionFetch(partition)
        self._context.refresh.pin(partition.topic)
        return fetch

    def start(self, partition: TopicPartition, start: Start) -> None:
        """Have a partition's start looked up."""
        self.partitions[partition].position.start = start
        self._settle.set()

    def seek(self, partition: TopicPartition, offset: int, epoch: LeaderEpoch = LeaderEpoch(-1)) -> None:  # noqa: B008 - a NewType call is the bare int
        """Read a partition from an offset on; what had come is forgotten."""
        fetch = self.partitions[partition]
        fetch.drop_waiting()
        fetch.position.place(offset, epoch)
        self.wake()

    def unassign(self, partition: TopicPartition) -> None:
        """Stop reading a partition; what comes for it is dropped."""
        if self.partitions.pop(partition, None) is not None:
            self._context.refresh.unpin(partition.topic)
            self.wake()

    def unassign_all(self) -> None:
        """Stop reading everything."""
        for partition in list(self.partitions):
            self.unassign(partition)

    async def wait_ready(self) -> None:
        """Wait until something can be taken by `take`."""
        while not self._ready and not self._nudged:
            if self._arrived.is_set():  # one that is not may have another task in it
                self._arrived = runtime.new_event()
            await self._arrived.wait()
        self._nudged = False

    def take(
        self, wanted: Callable[[TopicPartition], bool] | None = None
    ) -> tuple[TopicPartition, Fetched] | None:
        """Return the next partition's batch, None where none waits.

        Raises:
            ClientError: That partition has failed; it is raised once, and again after the next attempt.
        """
        for _ in range(len(self._ready)):
            partition = self._ready.popleft()
            fetch = self.partitions.get(partition)
            if fetch is None or not (fetch.waiting or fetch.error):
                continue
            if wanted is not None and not wanted(partition):
                self._ready.append(partition)
                continue
            if fetch.error is not None and not fetch.waiting:
                error, fetch.error = fetch.error, None
                # What failed is tried again, now that its error is known.
                self.wake()
                raise error
            fetched = fetch.waiting.popleft()
            fetch.held -= fetched.records.size
            if fetch.waiting or fetch.error:
                self._ready.append(partition)
            self._wake_reader_of(fetch.position)
            return partition, fetched
        return None

    def put_back(self, partition: TopicPartition, fetched: Fetched) -> None:
        """Undo `take`."""
        fetch = self.partitions.get(partition)
        if fetch is not None and fetch.position.number == fetched.position_number:
            fetch.waiting.appendleft(fetched)
            fetch.held += fetched.records.size
            self._announce(partition)

    def is_current(self, partition: TopicPartition, fetched: Fetched) -> bool:
        """Return whether the partition has been moved nowhere else since this was fetched."""
        fetch = self.partitions.get(partition)
        return fetch is not None and fetch.position.number == fetched.position_number

    def nudge(self) -> None:
        """Let a task in `wait_ready` look again."""
        self._nudged = True
        self._arrived.set()
        self.on_arrival()

    def _announce(self, partition: TopicPartition) -> None:
        if partition not in self._ready:
            self._ready.append(partition)
        self._arrived.set()
        self.on_arrival()

    def _fail(self, fetch: PartitionFetch, error: ClientError) -> None:
        fetch.error = error
        self._announce(fetch.position.partition)

    def wake(self) -> None:
        """Look again at what is to be fetched from whom."""
        for event in self._changed.values():
            event.set()
        if self._nursery is None:
            return
        now = runtime.current_time()
        for fetch in self.partitions.values():
            broker_id = self._broker_of(fetch.position, now)
            if broker_id is None:
                # No broker is asked that could say that the metadata are old: ask until there is a leader.
                self._context.refresh.ask()
            elif broker_id not in self._changed:
                self._changed[broker_id] = runtime.new_event()
                self._nursery.start_soon(self._fetch_from, broker_id)
        if any(fetch.position.state is PositionState.WAITING for fetch in self.partitions.values()):
            self._settle.set()

    def _wake_reader_of(self, position: Position) -> None:
        broker_id = self._broker_of(position, runtime.current_time())
        event = None if broker_id is None else self._changed.get(broker_id)
        if event is not None:
            event.set()

    def _broker_of(self, position: Position, now: float) -> BrokerId | None:
        known = self._context.metadata.partition(position.partition)
        if known is None or known.leader < 0:
            return None
        return position.read_from(known.leader, self._context.metadata.brokers, now)

    async def _settle_positions(self) -> None:
        """Look up the starts of partitions that wait for one."""
        while True:
            waiting = {
                partition: fetch.position.start
                for partition, fetch in self.partitions.items()
                if fetch.position.state is PositionState.WAITING
                and fetch.position.start is not None
                and fetch.error is None
            }
            if not waiting:
                self._settle = runtime.new_event()
                await self._settle.wait()
                continue
            numbers = {partition: self.partitions[partition].position.number for partition in waiting}
            try:
                found = await look_up(self._context, waiting, self._settings.isolation)
            except* ClientError as group:
                error = group.exceptions[0]
                while isinstance(error, BaseExceptionGroup):
                    error = error.exceptions[0]
                found = {}
                for partition in waiting:
                    fetch = self.partitions.get(partition)
                    if fetch is not None and fetch.position.number == numbers[partition]:
                        self._fail(fetch, error)
                await runtime.sleep(self._context.settings.retry_backoff_max)
            # The epoch that was found is that of the record at the offset, not of the one before it.
            for partition, (offset, _) in found.items():
                fetch = self.partitions.get(partition)
                if fetch is not None and fetch.position.number == numbers[partition]:
                    fetch.position.place(offset)
            self.wake()

    async def _fetch_from(self, broker_id: BrokerId) -> None:
        """Fetch from one broker for as long as it has partitions that we read."""
        session = FetchSession()
        failures = 0
        while True:
            self._changed[broker_id] = runtime.new_event()
            wanted, is_partial, has_any = self._wanted(broker_id)
            if not has_any:
                del self._changed[broker_id]
                return
            if not wanted:
                await self._changed[broker_id].wait()
                continue
            numbers = {partition: self.partitions[partition].position.number for partition in wanted}
            try:
                link = await self._context.links.get(broker_id, FETCH)
                answer = await self._ask(link, session, wanted, is_partial)
            except BrokerUnreachable as error:
                _log.info("broker %d: %s", broker_id, error)
                session.reset()
                self._leave_followers(broker_id)
                self._context.refresh.ask()
                await runtime.sleep(self._context.retry_backoff.delay_s(failures))
                failures += 1
                continue
            except ClientError as error:
                for partition in wanted:
                    fetch = self.partitions.get(partition)
                    if fetch is not None:
                        self._fail(fetch, error)
                await runtime.sleep(self._context.settings.retry_backoff_max)
                continue
            failed = await self._take_answer(answer, session, wanted, numbers)
            failures = failures + 1 if failed else 0
            if failed:
                await runtime.sleep(self._context.retry_backoff.delay_s(failures - 1))

    def _wanted(self, broker_id: BrokerId) -> tuple[dict[TopicPartition, FetchPlace], bool, bool]:
        """Return what to fetch from a broker, whether partitions without room are left out, and whether it has any."""
        now = runtime.current_time()
        share = max(1, self._settings.room // max(1, len(self.partitions)))
        share = max(share, 2 * self._settings.partition_bytes if len(self.partitions) <= 16 else share)
        wanted: dict[TopicPartition, FetchPlace] = {}
        has_any = is_partial = False
        for partition, fetch in self.partitions.items():
            position = fetch.position
            if self._broker_of(position, now) != broker_id:
                continue
            has_any = True
            if position.state is not PositionState.FETCHING or fetch.error is not None:
                continue
            if fetch.held >= share:
                is_partial = True
                continue
            known = self._context.metadata.partition(partition)
            assert known is not None
            wanted[partition] = position.fetch_place(known.leader_epoch, self._settings.partition_bytes)
        return wanted, is_partial, has_any

    async def _ask(
        self,
        link: BrokerLink,
        session: FetchSession,
        wanted: Mapping[TopicPartition, FetchPlace],
        is_partial: bool,
    ) -> FetchResponse:
        settings = self._settings
        max_wait = min(_BRIEF_WAIT_S, settings.max_wait) if is_partial else settings.max_wait
        request, at_most = fetch_request(
            self._context, link, session.next_request(wanted), settings, max_wait
        )
        timeout = self._context.settings.request_timeout + max_wait
        self._context.metrics.add("request-total")
        answer: FetchResponse = await link.request(request, timeout_s=timeout, at_most=at_most)
        self._context.metrics.add("fetch-total")
        return answer

    def _leave_followers(self, broker_id: BrokerId) -> None:
        now = runtime.current_time()
        for fetch in self.partitions.values():
            if fetch.position.reads_from_follower and self._broker_of(fetch.position, now) == broker_id:
                fetch.position.leave_follower()
        self.wake()

    async def _take_answer(
        self,
        answer: FetchResponse,
        session: FetchSession,
        wanted: Mapping[TopicPartition, FetchPlace],
        numbers: Mapping[TopicPartition, int],
    ) -> bool:
        """Take over an answer; return whether to wait before the next request."""
        error = Error.from_code(answer.error_code)
        if error is not Error.NONE:
            # The session is gone or out of step: everything in full next time.
            session.reset()
            if error.refresh_metadata or error is Error.FETCH_SESSION_TOPIC_ID_ERROR:
                self._context.refresh.ask()
            return error not in (Error.FETCH_SESSION_ID_NOT_FOUND, Error.INVALID_FETCH_SESSION_EPOCH)
        session.answered(answer.session_id)
        failed = False
        for topic in answer.responses:
            name = topic.topic or self._context.metadata.names_by_id.get(topic.topic_id, "")
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                fetch = self.partitions.get(partition)
                place = wanted.get(partition)
                if fetch is None or place is None or fetch.position.number != numbers[partition]:
                    continue
                take_leader_hint(self._context, partition, data, answer)
                if data.error_code:
                    failed = self._take_error(fetch, place, Error.from_code(data.error_code)) or failed
                else:
                    await self._take_records(fetch, place, data)
        return failed

    def _take_error(self, fetch: PartitionFetch, place: FetchPlace, error: Error) -> bool:
        position = fetch.position
        if position.reads_from_follower:
            # Whatever a follower says, the leader is asked before it counts.
            position.leave_follower()
            self.wake()
            return error is not Error.OFFSET_OUT_OF_RANGE
        if error is Error.OFFSET_OUT_OF_RANGE:
            if position.offset == place.offset:
                self._offset_lost(fetch, None)
            return False
        if error.retriable:
            if error.refresh_metadata:
                self._context.refresh.ask()
            return True
        topic, number = position.partition
        self._fail(fetch, error_for(error, f"reading {position.partition}", topic=topic, partition=number))
        return True

    def _offset_lost(self, fetch: PartitionFetch, truncated_to: int | None) -> None:
        position = fetch.position
        policy = self._settings.on_offset_lost
        if policy is not None:
            _log.warning(
                "%s: offset %d is lost; reading on from %s", position.partition, position.offset, policy.name
            )
            if truncated_to is not None:
                position.place(truncated_to)
            else:
                position.reset(policy)
            self.wake()
            return
        if truncated_to is not None:
            text = f"the log was truncated to {truncated_to}: what was read behind it is not there any more"
        else:
            text = "the log does not hold this offset (any more)"
        position.lose()
        self._fail(
            fetch,
            OffsetLost(
                f"{position.partition} at offset {position.offset}: {text}",
                position=position.offset,
                truncated_to=truncated_to,
                topic=position.partition.topic,
                partition=position.partition.partition,
                error=None if truncated_to is not None else Error.OFFSET_OUT_OF_RANGE,
            ),
        )

    async def _take_records(self, fetch: PartitionFetch, place: FetchPlace, data: PartitionData) -> None:
        position = fetch.position
        position.high_watermark = data.high_watermark
        position.last_stable_offset = data.last_stable_offset
        position.log_start_offset = data.log_start_offset
        if data.diverging_epoch.end_offset >= 0:
            self._offset_lost(fetch, min(data.diverging_epoch.end_offset, position.offset))
            return
        if data.preferred_read_replica >= 0:
            until = runtime.current_time() + self._context.settings.metadata_max_age
            position.prefer(data.preferred_read_replica, until)
            self.wake()
        buffer = data.records
        if buffer is None or not len(buffer):
            return
        number = position.number
        try:
            records = await self._read(buffer, place.offset, data)
        except RemoteProtocolError as error:
            self._fail(fetch, CorruptData(f"{position.partition} from offset {place.offset} on: {error}"))
            return
        if records is None or position.number != number or fetch.position.offset != place.offset:
            return
        self._context.metrics.add("bytes-consumed-total", len(buffer))
        position.advance(records.next_offset, records.last_epoch)
        if records.may_have_records or records.next_offset > place.offset:
            fetch.waiting.append(Fetched(number, records, data.high_watermark))
            fetch.held += records.size
            self._announce(position.partition)

    async def _read(self, buffer: memoryview, offset: int, data: PartitionData) -> PartitionRecords | None:
        aborted = [
            AbortedTransaction(each.producer_id, each.first_offset)
            for each in data.aborted_transactions or ()
        ]
        settings = self._settings

        def read() -> PartitionRecords | None:
            return read_partition_records(
                buffer,
                offset,
                aborted=aborted,
                check_crcs=settings.check_crcs,
                limit=max(settings.room, 1 << 27),
            )

        if len(buffer) >= _DECODE_IN_THREAD_FROM and len(buffer) > 22 and buffer[22] & 7:
            return await runtime.in_thread(read)
        return read()

    def positions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """Return the positions of those partitions that are read."""
        return {each: self.partitions[each].position for each in partitions if each in self.partitions}


def _ignore() -> None:
    return None
