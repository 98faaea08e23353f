"""A partition's log: leaders and followers append to it, clients and followers read it.

    log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset
    recovery_point <= log_end_offset: all below the recovery point is known to be on disk

All methods are synchronous and meant for one thread, the broker's loop; those that may take long (`open`, `flush`,
`close`) are safe to run in another thread beside appends and reads. An operation that the disk fails takes the log's
whole directory offline and raises `StorageError`; any other error leaves the log as it was.
"""

from collections.abc import Callable
from pathlib import Path

from storage import names
from storage.appending import AppendResult, LogAppender
from storage.cold_reads import ColdPlace, cold_place
from storage.errors import InconsistentTopicIdError
from storage.flushing import LogFlusher
from storage.log_config import LogConfig
from storage.log_directory import LogDirectory
from storage.log_files import LogFiles
from storage.log_offsets import LogOffsets
from storage.log_read import LogRead
from storage.log_reader import LogReader
from storage.partition_metadata import write_topic_id
from storage.producer_table import EXPIRATION_MS, AppendOrigin
from storage.recovery import load
from storage.retention import Retention
from storage.segment import Segment
from storage.segments import LogOffsetMetadata
from storage.timestamps import TimestampedOffset
from storage.transaction_index import AbortedTransaction
from storage.truncation import Truncation
from storage.verification import VerificationToken
from wire.types import (
    NO_TOPIC_ID,
    LeaderEpoch,
    MonotonicSeconds,
    Offset,
    TopicId,
    TopicPartition,
    WallMs,
    topic_id_text,
)

__all__ = ["AppendOrigin", "AppendResult", "Log", "LogOffsetMetadata", "LogRead"]


class Log:
    """One partition's log. Its parts do the work, one for each concern.

    Attributes:
        topic_partition: whose.
        topic_id: the topic's identity, `NO_TOPIC_ID` until it is known.
        log_directory: the log directory it is in.
        segments: the records, and the log's end.
        leader_epochs: where each leader epoch began.
        producer_state: idempotent and transactional producers.
        offsets: the log start and the high watermark.
        flusher: the recovery point.
        on_roll: called with the log when it has rolled.
    """

    __slots__ = (
        "_appender",
        "_files",
        "_reader",
        "_retention",
        "_truncation",
        "flusher",
        "leader_epochs",
        "log_directory",
        "offsets",
        "on_roll",
        "producer_state",
        "segments",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        log_directory: LogDirectory,
        directory: str,
        config: LogConfig,
        *,
        topic_id: TopicId = NO_TOPIC_ID,
        producer_expiration_ms: int = EXPIRATION_MS,
    ) -> None:
        """Make the object for a log that `open` then reads from its directory."""
        files = LogFiles(topic_partition, log_directory, directory, config, producer_expiration_ms)
        self._files = files
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log_directory = log_directory
        self.segments = files.segments
        self.leader_epochs = files.leader_epochs
        self.producer_state = files.producer_state
        self.offsets = LogOffsets(files)
        self.flusher = LogFlusher(files)
        self._appender = LogAppender(files, self.offsets, self.flusher, self.roll)
        self._reader = LogReader(files, self.offsets)
        self._truncation = Truncation(files, self.offsets, self.flusher)
        self._retention = Retention(files, self.offsets, self.flusher, self.roll)
        self.on_roll: Callable[[Log], None] | None = None

    def open(
        self,
        *,
        log_start: Offset = Offset(0),  # noqa: B008 - a NewType call is the bare int
        recovery_point: Offset = Offset(0),  # noqa: B008
        clean: bool = True,
        compacted_to: Offset = Offset(0),  # noqa: B008
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Read the log's directory, and recover it unless the last stop was clean.

        Args:
            log_start: as checkpointed.
            recovery_point: as checkpointed.
            clean: whether its log directory was closed cleanly.
            compacted_to: the offset up to which it is compacted, as checkpointed.
            progress: called with the number of bytes recovered.

        Raises:
            StorageError: the disk failed.
        """
        try:
            loaded = load(
                self.segments,
                self.leader_epochs,
                self.producer_state,
                log_start=log_start,
                recovery_point=recovery_point,
                clean=clean,
                compacted_to=compacted_to,
                progress=progress,
            )
        except OSError as error:
            raise self._files.failed(error, "opening") from error
        log_start_offset, self.flusher.recovery_point, _ = loaded
        self.offsets.log_start = self.offsets.high_watermark = log_start_offset

    def __repr__(self) -> str:
        return (
            f"Log({self.topic_partition}, {self.log_start_offset} to {self.log_end_offset}, "
            f"high watermark {self.high_watermark})"
        )

    @property
    def config(self) -> LogConfig:
        """The topic's settings."""
        return self.segments.config

    def update_config(self, config: LogConfig) -> None:
        """Take new settings; they apply from the next append, roll and retention pass on."""
        self.segments.config = config

    @property
    def directory(self) -> Path:
        """The log's own directory."""
        return Path(self.segments.directory)

    @property
    def log_end_offset(self) -> Offset:
        """The offset that the next record gets."""
        return self.segments.end_offset

    @property
    def log_end(self) -> LogOffsetMetadata:
        """The log's end with its place."""
        return self.segments.end

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments together."""
        return self.segments.size_bytes

    @property
    def active_segment(self) -> Segment:
        """The segment that is written to."""
        return self.segments.active

    @property
    def log_start_offset(self) -> Offset:
        """The first offset that may be read."""
        return self.offsets.log_start

    @property
    def recovery_point(self) -> Offset:
        """The offset below which all is known to be on disk."""
        return self.flusher.recovery_point

    @property
    def last_flush(self) -> MonotonicSeconds:
        """When a flush last ended, or the log was opened."""
        return self.flusher.last_flush

    @property
    def truncations(self) -> int:
        """How often the log's end has been cut off since it was opened."""
        return self._truncation.count

    # High watermark and stable offset

    @property
    def high_watermark(self) -> Offset:
        """The offset below which every in-sync replica has all records: what consumers may read."""
        return self.offsets.high_watermark

    def advance_high_watermark(self, offset: Offset) -> bool:
        """Raise the high watermark, to the log's end at most; a lower one changes nothing.

        Returns:
            Whether it rose.
        """
        return self.offsets.advance_high_watermark(offset)

    def set_high_watermark(self, offset: Offset) -> Offset:
        """Adopt a leader's or a checkpoint's high watermark, kept within the log; it may be lower than ours.

        Returns:
            What it is now.
        """
        return self.offsets.set_high_watermark(offset)

    @property
    def high_watermark_metadata(self) -> LogOffsetMetadata:
        """The high watermark with its place.

        Raises:
            StorageError: the disk failed.
        """
        return self.offset_metadata(self.offsets.high_watermark)

    @property
    def last_stable_offset(self) -> Offset:
        """The offset below which no transaction is open: what readers of committed data may read."""
        return self.offsets.last_stable_offset

    def offset_metadata(self, offset: Offset) -> LogOffsetMetadata:
        """Return an offset with the place of its batch."""
        return self._reader.offset_metadata(offset)

    # Appending

    def append_as_leader(
        self,
        records: memoryview | bytearray,
        leader_epoch: LeaderEpoch,
        now: WallMs,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        token: VerificationToken | None = None,
    ) -> AppendResult:
        """Check records, give them their offsets, and write them, as `LogAppender` does."""
        return self._appender.append_as_leader(records, leader_epoch, now, origin, token)

    def append_as_follower(self, records: memoryview | bytes | bytearray) -> AppendResult:
        """Write what the leader sent, as it is, as `LogAppender` does."""
        return self._appender.append_as_follower(records)

    # Reading

    def cold_place(self, offset: Offset, now: float) -> ColdPlace | None:
        """Return the files to read in a thread before an offset is looked up; None where the lookup does not wait for
        the disk.
        """
        return cold_place(self._files.segments, offset, now)

    def read(self, offset: Offset, max_bytes: int, *, upper_bound: Offset, min_one_batch: bool) -> LogRead:
        """Find the bytes that answer a fetch, without reading them, as `LogReader` does."""
        return self._reader.read(offset, max_bytes, upper_bound=upper_bound, min_one_batch=min_one_batch)

    def collect_aborted_transactions(self, start: Offset, end: Offset) -> list[AbortedTransaction]:
        """Return the aborted transactions that touch [start, end), for a reader of committed data."""
        return self._reader.collect_aborted_transactions(start, end)

    def aborted_transactions_of(self, read: LogRead, end: Offset) -> list[AbortedTransaction]:
        """Return the aborted transactions that a reader of the found range needs, as `LogReader` does."""
        return self._reader.aborted_transactions_of(read, end)

    def earliest(self) -> TimestampedOffset:
        """Return the log's start; its epoch where the log knows it."""
        return self._reader.earliest()

    def latest(self) -> TimestampedOffset:
        """Return the log's end and the newest epoch."""
        return self._reader.latest()

    def find_offset_by_timestamp(self, timestamp: WallMs) -> TimestampedOffset | None:
        """Find the first record whose timestamp is at least `timestamp`; None where there is none."""
        return self._reader.find_offset_by_timestamp(timestamp)

    def find_max_timestamp(self) -> TimestampedOffset | None:
        """Find the record with the greatest timestamp; None where no record has any."""
        return self._reader.find_max_timestamp()

    # Rolling and flushing

    def roll(self, base_offset: Offset | None = None) -> Segment:
        """Begin a new segment at the log's end, or at `base_offset` beyond it; a snapshot of the producers
        goes with it.

        Raises:
            StorageError: the disk failed.
        """
        try:
            segment = self.segments.roll(self.log_end_offset if base_offset is None else base_offset)
            self.producer_state.end_offset = segment.base_offset
            self.producer_state.take_snapshot()
        except OSError as error:
            raise self._files.failed(error, "rolling") from error
        if self.on_roll is not None:
            self.on_roll(self)
        return segment

    @property
    def is_flush_due(self) -> bool:
        """Whether `flush.messages` records wait for a flush. The appender flushes them, beside the loop."""
        return self.segments.end_offset - self.flusher.recovery_point >= self.segments.config.flush_messages

    def flush(self, to: Offset | None = None) -> None:
        """Make the log below an offset (its end where None) survive power loss, as `LogFlusher` does."""
        self.flusher.flush(to)

    # Cutting

    def settle(self) -> None:
        """Make a truncation survive power loss, as `LogFlusher` does, before an append would; may run in a thread."""
        if self.flusher.unsettled:
            self.flusher.settle()

    def truncate_suffix(self, to: Offset) -> bool:
        """Cut off every record at or above an offset, as `Truncation` does; return whether there was any."""
        return self._truncation.truncate_suffix(to)

    def truncate_fully_and_start_at(self, offset: Offset, log_start: Offset | None = None) -> None:
        """Drop every record; the log begins anew at `offset`."""
        self._truncation.truncate_fully_and_start_at(offset, log_start)

    def replace_segments(self, base_offset: Offset, replaced: list[Segment]) -> None:
        """Replace segments with the one that compaction made from them, `.cleaned` and synced.

        Raises:
            StorageError: the disk failed; opening the log anew finishes it or undoes it.
        """
        self.log_directory.check_online()
        try:
            with self.flusher.removing():
                self.segments.swap_in(base_offset, replaced)
            self._files.forget_snapshots([old for old in replaced if old.base_offset != base_offset])
        except OSError as error:
            raise self._files.failed(error, "replacing segments") from error

    def advance_log_start(self, offset: Offset) -> bool:
        """Let the log start at a later offset, as `Retention` does; return whether it rose."""
        return self._retention.advance_log_start(offset)

    def delete_old_segments(self, now: WallMs) -> int:
        """Remove the segments past retention or below the log start; return how many."""
        return self._retention.delete_old_segments(now)

    # Identity, name and end

    def assign_topic_id(self, topic_id: TopicId) -> None:
        """Note which topic this log is of, on disk too.

        Raises:
            InconsistentTopicIdError: it is another topic's.
            StorageError: the disk failed.
        """
        if self.topic_id == topic_id:
            return
        if self.topic_id != NO_TOPIC_ID:
            raise InconsistentTopicIdError(
                f"the log of {self.topic_partition} belongs to topic id {topic_id_text(self.topic_id)}, "
                f"not {topic_id_text(topic_id)}"
            )
        try:
            write_topic_id(self.log_directory.disk, self.segments.directory, topic_id)
        except OSError as error:
            raise self._files.failed(error, "writing the topic id") from error
        self.topic_id = topic_id

    def rename(self, name: str) -> None:
        """Rename the log's directory within its log directory; the log stays in use.

        The name survives power loss after the next `flush`.

        Raises:
            StorageError: the disk failed.
        """
        self.flusher.rename(name)

    def set_aside(self, mark: str = names.DELETE_DIRECTORY) -> str:
        """Rename the log's directory to `<topic>-<partition>.<unique><mark>`, close the log, and return the new path.

        Raises:
            StorageError: the disk failed.
        """
        self.flusher.rename(self._files.set_aside_name(mark))
        self.segments.close()
        return self.segments.directory

    def close(self, *, clean: bool = True) -> None:
        """Stop using the log's files.

        Args:
            clean: flush everything first, and leave a snapshot of the producers at the end, so that the next
                start reads next to nothing.

        Raises:
            StorageError: the disk failed.
        """
        if clean and not self.log_directory.is_offline:
            self.flusher.flush_to_close()
        self.segments.close()
