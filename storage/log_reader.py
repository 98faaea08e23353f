"""Reading a log: by offset, by timestamp, and what a reader of committed data must leave out."""

from storage.errors import CorruptBatchError, OffsetOutOfRangeError
from storage.log_files import LogFiles
from storage.log_offsets import LogOffsets
from storage.log_read import LogRead, read_segments
from storage.segments import LogOffsetMetadata
from storage.timestamps import TimestampedOffset, find_by_timestamp, find_max_timestamp
from storage.transaction_index import AbortedTransaction
from wire.records.errors import CorruptRecordError
from wire.types import NO_LEADER_EPOCH, NO_TIMESTAMP, Offset, WallMs


class LogReader:
    """Reads one log."""

    __slots__ = ("_files", "_leader_epochs", "_offsets", "_segments")

    def __init__(self, files: LogFiles, offsets: LogOffsets) -> None:
        self._files = files
        self._segments = files.segments
        self._leader_epochs = files.leader_epochs
        self._offsets = offsets

    def offset_metadata(self, offset: Offset) -> LogOffsetMetadata:
        """Return an offset with the place of its batch.

        Raises:
            CorruptBatchError: the .log is damaged before that batch.
            StorageError: the disk failed.
        """
        try:
            return self._segments.metadata(offset)
        except CorruptRecordError as error:
            raise CorruptBatchError(f"{self._files.topic_partition}: {error}") from error
        except OSError as error:
            raise self._files.failed(error, "looking up an offset") from error

    def read(self, offset: Offset, max_bytes: int, *, upper_bound: Offset, min_one_batch: bool) -> LogRead:
        """Find the bytes that answer a fetch, without reading them.

        The range begins with the batch that holds `offset`, which may begin before it, and lies in one
        segment. Its end may cut a batch.

        Args:
            offset: the first offset wanted; where compaction left a gap, the next batch is returned.
            max_bytes: the most bytes wanted.
            upper_bound: read nothing at or above it: the high watermark, the last stable offset or the log's
                end.
            min_one_batch: return the first batch whole even if it is larger than `max_bytes`.

        Raises:
            OffsetOutOfRangeError: below the log's start or above its end.
            CorruptBatchError: the .log is damaged before the batch that was looked for.
            StorageError: the disk failed.
        """
        if offset < self._offsets.log_start:
            raise OffsetOutOfRangeError(
                f"offset {offset} of {self._files.topic_partition} is below the log's start {self._offsets.log_start}"
            )
        self._files.log_directory.check_online()
        try:
            return read_segments(self._segments, offset, max_bytes, upper_bound, min_one_batch=min_one_batch)
        except CorruptRecordError as error:
            raise CorruptBatchError(f"{self._files.topic_partition}: {error}") from error
        except OSError as error:
            raise self._files.failed(error, "reading") from error

    def collect_aborted_transactions(self, start: Offset, end: Offset) -> list[AbortedTransaction]:
        """Return the aborted transactions that touch [start, end), for a reader of committed data.

        Raises:
            StorageError: the disk failed.
        """
        found: list[AbortedTransaction] = []
        segment = self._segments.floor(start) or self._segments.first
        try:
            for candidate in self._segments.between(segment.base_offset, self._segments.end_offset):
                aborted, complete = candidate.transaction_index.collect(start, end)
                found.extend(aborted)
                if complete:
                    break
        except OSError as error:
            raise self._files.failed(error, "reading aborted transactions") from error
        return found

    def aborted_transactions_of(self, read: LogRead, end: Offset) -> list[AbortedTransaction]:
        """Return the aborted transactions that a reader of the found range needs.

        The offset index bounds them: as in Kafka there may be a few too many, which readers ignore.

        Args:
            read: What `read` found, in one segment.
            end: The end of what is readable.

        Raises:
            StorageError: the disk failed.
        """
        start = read.start
        segment = self._segments.floor(start.segment_base_offset)
        following = self._segments.higher(start.segment_base_offset)
        try:
            stop = None
            if segment is not None:
                stop = segment.offset_index.offset_beyond(start.position + read.records_size)
        except OSError as error:
            raise self._files.failed(error, "reading an offset index") from error
        if stop is None:
            stop = end if following is None else following.base_offset
        return self.collect_aborted_transactions(start.offset, min(stop, end))

    def earliest(self) -> TimestampedOffset:
        """Return the log's start; its epoch where the log knows it."""
        first = self._leader_epochs.earliest_entry
        known = first is not None and first.start_offset <= self._offsets.log_start
        epoch = first.epoch if first is not None and known else NO_LEADER_EPOCH
        return TimestampedOffset(NO_TIMESTAMP, self._offsets.log_start, epoch)

    def latest(self) -> TimestampedOffset:
        """Return the log's end and the newest epoch."""
        return TimestampedOffset(NO_TIMESTAMP, self._segments.end_offset, self._leader_epochs.latest)

    def find_offset_by_timestamp(self, timestamp: WallMs) -> TimestampedOffset | None:
        """Find the first record whose timestamp is at least `timestamp`; None where there is none.

        Raises:
            CorruptBatchError: the batch that holds it is damaged.
            StorageError: the disk failed.
        """
        try:
            return find_by_timestamp(self._segments, timestamp, self._offsets.log_start)
        except CorruptRecordError as error:
            raise CorruptBatchError(f"{self._files.topic_partition}: {error}") from error
        except OSError as error:
            raise self._files.failed(error, "searching by timestamp") from error

    def find_max_timestamp(self) -> TimestampedOffset | None:
        """Find the record with the greatest timestamp; None where no record has any.

        Raises:
            CorruptBatchError: the batch that holds it is damaged.
            StorageError: the disk failed.
        """
        try:
            return find_max_timestamp(self._segments)
        except CorruptRecordError as error:
            raise CorruptBatchError(f"{self._files.topic_partition}: {error}") from error
        except OSError as error:
            raise self._files.failed(error, "searching by timestamp") from error
