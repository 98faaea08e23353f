"""Appending to a log: a leader's records, which get their offsets here, and a follower's, which already have theirs."""

from collections.abc import Callable
from typing import NamedTuple

from storage.append_validation import PreparedBatch, prepare_batch
from storage.batch_scan import check_checksum, header_at
from storage.errors import (
    CorruptBatchError,
    RecordBatchTooLargeError,
    UnexpectedAppendOffsetError,
)
from storage.flushing import LogFlusher
from storage.log_files import LogFiles
from storage.log_offsets import LogOffsets
from storage.offset_index import RELATIVE_OFFSET_MAX
from storage.producer_recovery import apply_batch, index_completed, read_marker
from storage.producer_table import AppendOrigin
from storage.segment import Segment
from storage.verification import VerificationToken
from wire.records.batch import BatchHeader
from wire.records.errors import CorruptRecordError
from wire.types import NO_OFFSET, NO_TIMESTAMP, LeaderEpoch, Offset, WallMs


class AppendResult(NamedTuple):
    """What an append did.

    Attributes:
        first_offset: of the first record; -1 where nothing was appended.
        last_offset: of the last record.
        max_timestamp: the greatest of the records.
        log_append_time: the leader's clock if the topic stamps with it, else -1; of the first append for a
            duplicate.
        log_start_offset: the log's start.
        duplicate: whether the batch had been appended before, and was not again.
        size: bytes appended.
    """

    first_offset: Offset
    last_offset: Offset
    max_timestamp: WallMs
    log_append_time: WallMs
    log_start_offset: Offset
    duplicate: bool = False
    size: int = 0


class LogAppender:
    """Appends to one log; `Log` says what its operations promise."""

    __slots__ = ("_files", "_flusher", "_leader_epochs", "_offsets", "_producer_state", "_roll", "_segments")

    def __init__(
        self,
        files: LogFiles,
        offsets: LogOffsets,
        flusher: LogFlusher,
        roll: Callable[[Offset], Segment],
    ) -> None:
        self._files = files
        self._segments = files.segments
        self._leader_epochs = files.leader_epochs
        self._producer_state = files.producer_state
        self._offsets = offsets
        self._flusher = flusher
        self._roll = roll

    def append_as_leader(
        self,
        records: memoryview | bytearray,
        leader_epoch: LeaderEpoch,
        now: WallMs,
        origin: AppendOrigin,
        token: VerificationToken | None = None,
    ) -> AppendResult:
        """Check records, give them their offsets, and write them.

        Worked example: the log ends at 1200, and a client sends a batch of three records. It is patched to
        base offset 1200 and our epoch, written, and the log ends at 1203; the result says 1200 to 1202.

        Args:
            records: a whole message set as received, one v2 batch or messages of older formats. Patched in
                place where it can be.
            leader_epoch: ours.
            now: wall time.
            origin: who sent them.
            token: the proof that a transaction is known to its coordinator; None where none is required.

        Raises:
            StorageError: the disk failed; only recovery can tell whether the records are in the log.
            LogError: any other one: the records were refused, and nothing was written. `prepare_batch` and
                `ProducerState.check` say why.
        """
        self._files.log_directory.check_online()
        segments = self._segments
        end = segments.end_offset
        batch = prepare_batch(records, segments.config, end, leader_epoch, now, origin)
        header = batch.header
        if header.producer_id >= 0:
            duplicate = self._check_producer(batch, origin, token)
            if duplicate is not None:
                return duplicate
        data = batch.data
        size = len(data)
        if size > segments.config.segment_bytes:
            raise RecordBatchTooLargeError(
                f"{size} bytes exceed the maximum segment size of {segments.config.segment_bytes}"
            )
        last_offset, max_timestamp = batch.last_offset, batch.max_timestamp
        if self._flusher.unsettled:
            self._flusher.settle()
        try:
            segment = self._segment_for(size, end, last_offset, max_timestamp, now)
            position = segment.size
            segment.append(
                data, last_offset, max_timestamp, last_offset, segments.config.index_interval_bytes
            )
            segments.note_position(end, segment, position)
            segments.end_offset = Offset(last_offset + 1)
            if leader_epoch != self._leader_epochs.latest:
                self._leader_epochs.assign(leader_epoch, end)
            producers = self._producer_state
            if header.producer_id >= 0:
                completed = apply_batch(producers, header, end, data, 0, max_timestamp)
                if completed is not None:
                    index_completed(producers, completed, segment)
            producers.end_offset = segments.end_offset
        except OSError as error:
            raise self._files.failed(error, "appending") from error
        return AppendResult(
            end, last_offset, max_timestamp, batch.log_append_time, self._offsets.log_start, size=size
        )

    def _check_producer(
        self, batch: PreparedBatch, origin: AppendOrigin, token: VerificationToken | None
    ) -> AppendResult | None:
        header, first_offset = batch.header, batch.first_offset
        if header.is_control:
            found = read_marker(batch.data, 0, header)
            if found is not None:
                self._producer_state.check_marker(header, found[0], first_offset)
            return None
        duplicate = self._producer_state.check(header, first_offset, origin, token)
        if duplicate is None:
            return None
        return AppendResult(
            duplicate.first_offset,
            duplicate.last_offset,
            batch.max_timestamp,
            duplicate.timestamp,
            self._offsets.log_start,
            duplicate=True,
        )

    def append_as_follower(self, records: memoryview | bytes | bytearray) -> AppendResult:
        """Write what the leader sent, as it is.

        Args:
            records: batches and, from old logs, messages; an incomplete last one is ignored.

        Returns:
            What was appended; both offsets are -1 where `records` holds no complete batch.

        Raises:
            CorruptBatchError: a checksum does not match; nothing was written.
            UnexpectedAppendOffsetError: the batches are out of order, or begin below the log's end; nothing
                was written.
            RecordBatchTooLargeError: more bytes than a segment may have.
            StorageError: the disk failed.
        """
        self._files.log_directory.check_online()
        segments = self._segments
        batches = self._check_replicated(records)
        if not batches:
            return AppendResult(NO_OFFSET, NO_OFFSET, NO_TIMESTAMP, NO_TIMESTAMP, self._offsets.log_start)
        last_position, last_header = batches[-1]
        size = last_position + last_header.size
        if size > segments.config.segment_bytes and len(batches) == 1:
            raise RecordBatchTooLargeError(
                f"{size} bytes exceed the maximum segment size of {segments.config.segment_bytes}"
            )
        first_offset = batches[0][1].base_offset
        max_timestamp = max(header.max_timestamp for _, header in batches)
        view = memoryview(records)
        if self._flusher.unsettled:
            self._flusher.settle()
        try:
            start = 0
            while start < len(batches):
                start = self._append_some(view, batches, start, size)
        except OSError as error:
            raise self._files.failed(error, "appending") from error
        if self._offsets.high_watermark > segments.end_offset:
            self._offsets.high_watermark = segments.end_offset
        return AppendResult(
            first_offset,
            Offset(segments.end_offset - 1),
            max_timestamp,
            NO_TIMESTAMP,
            self._offsets.log_start,
            size=size,
        )

    def _check_replicated(self, records: memoryview | bytes | bytearray) -> list[tuple[int, BatchHeader]]:
        view = memoryview(records)
        batches: list[tuple[int, BatchHeader]] = []
        expected = self._segments.end_offset
        position, size = 0, len(view)
        try:
            while position < size:
                header = header_at(view, position)
                if header is None or position + header.size > size:
                    break
                check_checksum(view, position, header)
                # Of an old wrapper message only the last offset is known.
                if header.base_offset < expected or header.last_offset_delta < 0:
                    raise UnexpectedAppendOffsetError(
                        f"an append to {self._files.topic_partition} begins at offset {header.base_offset}, "
                        f"below the next offset {expected}",
                        header.base_offset,
                        header.last_offset,
                    )
                batches.append((position, header))
                expected = header.next_offset
                position += header.size
        except CorruptRecordError as error:
            raise CorruptBatchError(f"{self._files.topic_partition}: {error}") from error
        return batches

    def _append_some(
        self, view: memoryview, batches: list[tuple[int, BatchHeader]], start: int, size: int
    ) -> int:
        """Append the batches from `start` on that fit into one segment; return the index of the first that did not."""
        segments, now = self._segments, self._files.log_directory.clock.wall_ms()
        first_position, first = batches[start]
        stop = len(batches)
        if size - first_position > segments.config.segment_bytes:
            # A fetch may return more than a segment can hold.
            stop = start + 1
            limit = first_position + segments.config.segment_bytes
            while stop < len(batches) and batches[stop][0] + batches[stop][1].size <= limit:
                stop += 1
        last_position, last = batches[stop - 1]
        data = view[first_position : last_position + last.size]
        newest = max(batches[start:stop], key=lambda batch: batch[1].max_timestamp)[1]
        segment = self._segment_for(len(data), first.base_offset, last.last_offset, newest.max_timestamp, now)
        base_position = segment.size
        segment.append_batches(
            data, first_position, batches[start:stop], segments.config.index_interval_bytes
        )
        segments.note_position(first.base_offset, segment, base_position)
        segments.end_offset = last.next_offset
        producers = self._producer_state
        for position, header in batches[start:stop]:
            if header.partition_leader_epoch not in (self._leader_epochs.latest, -1):
                self._leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                completed = apply_batch(producers, header, header.base_offset, view, position)
                if completed is not None:
                    index_completed(producers, completed, segment)
        producers.end_offset = segments.end_offset
        return stop

    def _segment_for(
        self, size: int, first_offset: Offset, last_offset: Offset, max_timestamp: WallMs, now: WallMs
    ) -> Segment:
        active, config = self._segments.active, self._segments.config
        if active.should_roll(
            size,
            last_offset,
            max_timestamp,
            now,
            config.segment_bytes,
            config.roll_ms,
            config.segment_index_bytes,
        ):
            # At the log's end, even if a follower's next batch comes after a gap. The segments of a log that was never
            # compacted then have no gaps between them, so recovery can tell when a crash has lost the end of a segment.
            reachable = last_offset - self._segments.end_offset <= RELATIVE_OFFSET_MAX
            return self._roll(self._segments.end_offset if reachable else first_offset)
        return active
