"""What a log is: its offsets and files, opened, rolled, flushed and closed.

`storage.log_trimming` cuts it at either end, `storage.log` has what others do with it.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from storage import names
from storage.errors import CorruptBatchError, InconsistentTopicIdError, StorageError
from storage.leader_epochs import LeaderEpochCache
from storage.log_config import LogConfig
from storage.log_directory import LogDirectory
from storage.partition_metadata import write_topic_id
from storage.producer_state import ProducerState
from storage.producer_table import EXPIRATION_MS
from storage.recovery import load
from storage.segment import Segment
from storage.segments import LogOffsetMetadata, Segments
from wire.records.errors import CorruptRecordError
from wire.types import NO_TOPIC_ID, MonotonicSeconds, Offset, TopicId, TopicPartition, topic_id_text


class LogState:
    """The state of one partition's log, and what keeps it in order.

    Attributes:
        topic_partition: whose.
        topic_id: the topic's identity, `NO_TOPIC_ID` until it is known.
        config: the topic's settings; changed by `update_config`.
        log_directory: the log directory it is in.
        leader_epochs: where each leader epoch began.
        producer_state: idempotent and transactional producers.
        log_start_offset: the first offset that may be read.
        log_end_offset: the offset that the next record gets.
        recovery_point: what is below it is known to be on disk.
        truncations: how often the log's end has been cut off since it was opened.
        last_flush: when a flush last ended, or the log was opened.
    """

    __slots__ = (
        "_flush_lock",
        "_high_watermark",
        "_name_unsynced",
        "_removals",
        "_set_aside",
        "last_flush",
        "leader_epochs",
        "log_directory",
        "log_start_offset",
        "on_roll",
        "producer_state",
        "recovery_point",
        "segments",
        "topic_id",
        "topic_partition",
        "truncations",
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
        disk = log_directory.disk
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log_directory = log_directory
        self.segments = Segments(log_directory, directory, config)
        self.leader_epochs = LeaderEpochCache(disk, f"{directory}/{names.LEADER_EPOCHS}")
        self.producer_state = ProducerState(disk, directory, expiration_ms=producer_expiration_ms)
        self.log_start_offset = Offset(0)
        self.recovery_point = Offset(0)
        self.last_flush: MonotonicSeconds = log_directory.clock.monotonic()
        self.on_roll: Callable[[LogState], None] | None = None
        self._high_watermark = Offset(0)
        self._flush_lock = threading.Lock()
        self._removals = 0  # of segments: a flush that a removal overtakes may find no files
        self._name_unsynced = (
            False  # whether the log's directory was renamed since the log directory was synced
        )
        self._set_aside = False
        self.truncations = 0

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
            compacted_to: up to where it is compacted, as checkpointed.
            progress: told of recovered bytes.

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
            raise self._failed(error, "opening") from error
        self.log_start_offset, self.recovery_point, _ = loaded
        self._high_watermark = self.log_start_offset

    def __repr__(self) -> str:
        return (
            f"Log({self.topic_partition}, {self.log_start_offset} to {self.log_end_offset}, "
            f"high watermark {self._high_watermark})"
        )

    @property
    def config(self) -> LogConfig:
        """The topic's settings."""
        return self.segments.config

    def update_config(self, config: LogConfig) -> None:
        """Take new settings; they hold from the next append, roll and retention pass on."""
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

    # High watermark and stable offset

    @property
    def high_watermark(self) -> Offset:
        """The offset below which every in-sync replica has all records: what consumers may read."""
        return self._high_watermark

    def advance_high_watermark(self, offset: Offset) -> bool:
        """Raise the high watermark, to the log's end at most; a lower one changes nothing.

        Returns:
            Whether it rose.
        """
        offset = min(offset, self.segments.end_offset)
        if offset <= self._high_watermark:
            return False
        self._high_watermark = offset
        self.producer_state.on_high_watermark(offset)
        return True

    def set_high_watermark(self, offset: Offset) -> Offset:
        """Take a leader's or a checkpoint's high watermark, kept within the log; it may be lower than ours.
        Gives what it is now.
        """
        self._high_watermark = max(min(offset, self.segments.end_offset), self.log_start_offset)
        self.producer_state.on_high_watermark(self._high_watermark)
        return self._high_watermark

    @property
    def high_watermark_metadata(self) -> LogOffsetMetadata:
        """The high watermark with its place.

        Raises:
            StorageError: the disk failed.
        """
        return self.offset_metadata(self._high_watermark)

    @property
    def last_stable_offset(self) -> Offset:
        """The offset below which no transaction is open: what readers of committed data may read."""
        first = self.producer_state.first_unstable_offset
        if first is None or first >= self._high_watermark:
            return self._high_watermark
        return max(first, self.log_start_offset)

    def offset_metadata(self, offset: Offset) -> LogOffsetMetadata:
        """Return an offset with the place of its batch.

        Raises:
            CorruptBatchError: the .log is damaged before that batch.
            StorageError: the disk failed.
        """
        try:
            return self.segments.metadata(offset)
        except CorruptRecordError as error:
            raise CorruptBatchError(f"{self.topic_partition}: {error}") from error
        except OSError as error:
            raise self._failed(error, "looking up an offset") from error

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
            raise self._failed(error, "rolling") from error
        if self.on_roll is not None:
            self.on_roll(self)
        return segment

    def flush(self, to: Offset | None = None) -> None:
        """Make the log below an offset survive power loss, and move the recovery point there.

        May run in a thread while the loop appends. Order: the data of the segments, then what is derived
        from it, then the directory's names, then the recovery point.

        Args:
            to: the offset, the log's end where None.

        Raises:
            StorageError: the disk failed. A sync that failed is not tried again: the directory is offline.
        """
        self.log_directory.check_online()
        removals = self._removals
        end = self.segments.end_offset
        target = end if to is None else min(to, end)
        if target <= self.recovery_point and not (self.segments.names_changed or self._name_unsynced):
            return
        try:
            pending = self.segments.between(self.recovery_point, target)
            active = self.segments.active
            for segment in pending:
                segment.sync(with_indexes=segment is not active)
            self.leader_epochs.sync()
            for segment in pending:
                snapshot = self.producer_state.snapshot_path(segment.base_offset)
                self._sync_if_there(snapshot)
            if self.segments.names_changed:
                # Cleared first: a change that comes meanwhile is synced next time.
                self.segments.names_changed = False
                self.log_directory.disk.sync_directory(self.segments.directory)
            if self._name_unsynced:
                self._name_unsynced = False
                self.log_directory.disk.sync_directory(self.log_directory.path)
        except FileNotFoundError as error:
            if removals != self._removals:
                return  # a segment went while we were at it; whoever truncated has seen to the recovery point
            raise self._failed(error, "flushing") from error
        except OSError as error:
            raise self._failed(error, "flushing") from error
        with self._flush_lock:
            if removals == self._removals:
                self.recovery_point = max(self.recovery_point, target)
        self.last_flush = self.log_directory.clock.monotonic()

    def _sync_if_there(self, path: str) -> None:
        try:
            file = self.log_directory.disk.open(path)
        except FileNotFoundError:
            return
        try:
            file.sync()
        finally:
            file.close()

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
            raise self._failed(error, "writing the topic id") from error
        self.topic_id = topic_id

    def rename(self, name: str) -> None:
        """Return the log's directory another name within its log directory; the log goes on in it.

        The name survives power loss after the next `flush`.

        Raises:
            StorageError: the disk failed.
        """
        path = f"{self.log_directory.path}/{name}"
        with self._flush_lock:
            self._removals += 1
            try:
                self.log_directory.disk.rename(self.segments.directory, path)
            except OSError as error:
                raise self._failed(error, "renaming the directory") from error
            self._moved_to(path)
            self._name_unsynced = True

    def set_aside(self, mark: str = names.DELETE_DIRECTORY) -> str:
        """Rename the log's directory to `<topic>-<partition>.<unique><mark>`, and close the log. Gives the new path.

        Raises:
            StorageError: the disk failed.
        """
        self._set_aside = True
        self.rename(names.marked_directory(self.topic_partition, uuid4().hex, mark))
        self.segments.close()
        return self.segments.directory

    def _moved_to(self, directory: str) -> None:
        self.segments.moved_to(directory)
        self.leader_epochs.moved_to(f"{directory}/{names.LEADER_EPOCHS}")
        self.producer_state.moved_to(directory)

    def close(self, *, clean: bool = True) -> None:
        """Stop using the log's files.

        Args:
            clean: flush everything first, and leave a snapshot of the producers at the end, so that the next
                start reads next to nothing.

        Raises:
            StorageError: the disk failed.
        """
        if clean and not self.log_directory.is_offline:
            try:
                if self.segments.active.seal():
                    self.segments.active.sync(with_indexes=True)
                    self.segments.names_changed = True
                if self.producer_state.take_snapshot(sync=True) is not None:
                    self.segments.names_changed = True
                self.flush()
            except OSError as error:
                raise self._failed(error, "closing") from error
        self.segments.close()

    def _failed(self, error: OSError, doing: str) -> StorageError:
        if self._set_aside and isinstance(error, FileNotFoundError):
            # Whoever still holds the log of a deleted or moved replica learns nothing of the disk by it.
            return StorageError(f"{doing} {self.topic_partition}: the log is not in use any more")
        return self.log_directory.fail(error, f"{doing} {self.topic_partition}")
