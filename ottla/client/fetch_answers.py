"""Apply Fetch answers to the partitions that are read: records, errors, lost offsets, closer replicas."""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.client import runtime
from ottla.client.batch_decoding import AbortedTransaction, PartitionRecords, read_partition_records
from ottla.client.context import ClientContext
from ottla.client.errors import ClientError, CorruptData, OffsetLost, error_for
from ottla.client.fetch_requests import take_leader_hint
from ottla.client.fetch_sessions import FetchPlace, FetchSession
from ottla.client.fetch_settings import FetchSettings
from ottla.client.positions import Position
from wire.errors import Error, RemoteProtocolError
from wire.messages.fetch import FetchResponse, PartitionData
from wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from wire.types import TopicPartition

_log = logging.getLogger(__name__)

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
        error: What its reader gets before anything else.
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


class FetchAnswers:
    """Applies answers to the partitions that are read.

    Args:
        context: The client's connections.
        settings: How to fetch.
        partitions: What is read.
        announce: Called with a partition that has something for its reader.
        wake: Makes the fetcher decide anew what to fetch from which broker.
    """

    def __init__(
        self,
        context: ClientContext,
        settings: FetchSettings,
        partitions: Mapping[TopicPartition, PartitionFetch],
        announce: Callable[[TopicPartition], None],
        wake: Callable[[], None],
    ) -> None:
        self._context = context
        self._settings = settings
        self._partitions = partitions
        self._announce = announce
        self._wake = wake

    def fail(self, fetch: PartitionFetch, error: ClientError) -> None:
        """Have a partition's reader raise an error."""
        fetch.error = error
        self._announce(fetch.position.partition)

    async def take(
        self,
        answer: FetchResponse,
        session: FetchSession,
        wanted: Mapping[TopicPartition, FetchPlace],
        numbers: Mapping[TopicPartition, int],
    ) -> bool:
        """Apply an answer; return whether to wait before the next request."""
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
                fetch = self._partitions.get(partition)
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
            self._wake()
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
        self.fail(fetch, error_for(error, f"reading {position.partition}", topic=topic, partition=number))
        return True

    def take_epoch_ends(
        self,
        answer: OffsetForLeaderEpochResponse,
        asked: Mapping[TopicPartition, FetchPlace],
        numbers: Mapping[TopicPartition, int],
    ) -> bool:
        """Apply the ends of leader epochs; return whether to wait before asking again."""
        failed = False
        for topic in answer.topics:
            for end in topic.partitions:
                partition = TopicPartition(topic.topic, end.partition)
                fetch, place = self._partitions.get(partition), asked.get(partition)
                if fetch is None or place is None or fetch.position.number != numbers[partition]:
                    continue
                error = Error.from_code(end.error_code)
                if error is not Error.NONE:
                    failed = self._take_error(fetch, place, error) or failed
                elif end.end_offset < place.offset:
                    # -1: the leader does not know the epoch at all.
                    self._offset_lost(fetch, None if end.end_offset < 0 else end.end_offset)
                else:
                    fetch.position.validated_in = place.leader_epoch
        return failed

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
            self._wake()
            return
        if truncated_to is not None:
            text = f"the log was truncated to {truncated_to}: what was read behind it is not there any more"
        else:
            text = "the log does not hold this offset (any more)"
        position.lose()
        self.fail(
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
            self._wake()
        buffer = data.records
        if buffer is None or not len(buffer):
            return
        number = position.number
        try:
            records = await self._read(buffer, place.offset, data)
        except RemoteProtocolError as error:
            self.fail(fetch, CorruptData(f"{position.partition} from offset {place.offset} on: {error}"))
            return
        if records is None or position.number != number or fetch.position.offset != place.offset:
            return
        self._context.metrics.add("bytes-consumed-total", len(buffer))
        position.advance(records.next_offset, records.last_epoch)
        position.validated_in = place.leader_epoch
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
                packed=settings.packed,
            )

        if (
            not settings.packed
            and len(buffer) >= _DECODE_IN_THREAD_FROM
            and len(buffer) > 22
            and buffer[22] & 7
        ):
            return await runtime.in_thread(read)
        return read()
