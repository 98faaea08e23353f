"""Cutting a log: its end, where it parted from the leader's; its front, where retention or DeleteRecords let go of
it.
"""

from storage import names, retention
from storage.errors import CorruptBatchError, OffsetOutOfRangeError
from storage.log_state import LogState
from storage.producer_recovery import rebuild_producers
from storage.segment import Segment
from wire.records.errors import CorruptRecordError
from wire.types import Offset, WallMs


class TrimmableLog(LogState):
    """A log that can be cut at both ends."""

    __slots__ = ()

    # Cutting the end off

    def truncate_suffix(self, to: Offset) -> bool:
        """Cut off every record at or above an offset, so that the log ends there; or before it, where it falls into a
        batch.

            before: [0 .. 1200) [1200 .. 1500)
            truncate_suffix(1300): [0 .. 1200) [1200 .. 1300)

        Takes a sync where there is anything to cut.

        Returns:
            Whether there was.

        Raises:
            CorruptBatchError: the .log is damaged before that offset; nothing was cut.
            StorageError: the disk failed.
            ValueError: a negative offset.
        """
        if to < 0:
            raise ValueError(f"a log cannot be truncated to {to}")
        self.log_directory.check_online()
        try:
            if to >= self.log_end_offset:
                # A leader that was elected, wrote nothing and was succeeded leaves an epoch at the log's end that
                # nobody else has.
                self.leader_epochs.truncate_suffix(self.log_end_offset)
                return False
            if self.segments.first.base_offset > to:
                self._truncate_fully(to, to)
                return True
            # Before the cut: what is beyond it may be written anew, and must not pass for flushed then.
            with self._flush_lock:
                self._removals += 1
                self.truncations += 1
                cut = min(to, self._batch_start(to))
                self.recovery_point = min(self.recovery_point, cut)
                self.log_directory.lower_recovery_point(self.topic_partition, cut)
                removed = self.segments.truncate_to(to)
            end = self.segments.end_offset
            self._forget_snapshots(removed)
            self.leader_epochs.truncate_suffix(end)
            self.log_start_offset = min(self.log_start_offset, end)
            rebuild_producers(
                self.producer_state, self.segments, self.log_start_offset, end, trust_absence=False
            )
        except CorruptRecordError as error:
            raise CorruptBatchError(f"{self.topic_partition}: {error}") from error
        except OSError as error:
            raise self._failed(error, "truncating") from error
        self._high_watermark = min(self._high_watermark, end)
        return True

    def _batch_start(self, offset: Offset) -> Offset:
        segment = self.segments.floor(offset)
        found = segment.find(offset) if segment is not None else None
        return found.header.base_offset if found is not None else offset

    def truncate_fully_and_start_at(self, offset: Offset, log_start: Offset | None = None) -> None:
        """Drop every record; the log begins anew at `offset`.

        Args:
            offset: of the next record.
            log_start: what may be read from, `offset` where None.

        Raises:
            StorageError: the disk failed.
        """
        self.log_directory.check_online()
        try:
            self._truncate_fully(offset, offset if log_start is None else log_start)
        except OSError as error:
            raise self._failed(error, "truncating") from error

    def _truncate_fully(self, offset: Offset, log_start: Offset) -> None:
        with self._flush_lock:
            self._removals += 1
            self.truncations += 1
            self.recovery_point = min(self.recovery_point, offset)
            self.log_directory.lower_recovery_point(self.topic_partition, offset)
            self.segments.truncate_fully(offset)
        self.leader_epochs.clear()
        self.producer_state.truncate_fully(offset)
        self.log_start_offset = log_start
        self._high_watermark = offset

    def _forget_snapshots(self, segments: list[Segment]) -> None:
        paths = []
        for segment in segments:
            path = self.producer_state.forget_snapshot(segment.base_offset)
            if path is not None and self.log_directory.disk.exists(path):
                self.log_directory.disk.rename(path, path + names.DELETED)
                paths.append(path + names.DELETED)
        self.log_directory.remove_later(paths, self.config.file_delete_delay_ms)

    # Cutting the middle out

    def replace_segments(self, base_offset: Offset, replaced: list[Segment]) -> None:
        """Put a segment that compaction has finished, `.cleaned` and synced, in the place of those it was made from.

        Raises:
            StorageError: the disk failed; opening the log anew finishes it or undoes it.
        """
        self.log_directory.check_online()
        try:
            with self._flush_lock:
                self._removals += 1
                self.segments.swap_in(base_offset, replaced)
            self._forget_snapshots([old for old in replaced if old.base_offset != base_offset])
        except OSError as error:
            raise self._failed(error, "replacing segments") from error

    # Cutting the front off

    def advance_log_start(self, offset: Offset) -> bool:
        """Let the log start at a later offset (DeleteRecords, or what a leader says); segments below go at
        the next retention pass.

        Returns:
            Whether it rose.

        Raises:
            OffsetOutOfRangeError: beyond the high watermark.
            StorageError: the disk failed.
        """
        if offset > self._high_watermark:
            raise OffsetOutOfRangeError(
                f"the log start of {self.topic_partition} cannot be moved to {offset}, "
                f"beyond the high watermark {self._high_watermark}"
            )
        if offset <= self.log_start_offset:
            return False
        # The recovery point stays, unlike Kafka's: segments below the new start are there until retention takes
        # them, and what was not flushed of them may be damaged after a crash.
        self.log_start_offset = offset
        try:
            self.leader_epochs.truncate_prefix(offset)
        except OSError as error:
            raise self._failed(error, "moving the log start") from error
        self.producer_state.on_log_start(offset)
        return True

    def delete_old_segments(self, now: WallMs) -> int:
        """Remove the segments that the topic's settings and the log start let go; gives how many.

        Raises:
            StorageError: the disk failed.
        """
        self.log_directory.check_online()
        config = self.config
        try:
            removed = self._delete(retention.before_log_start(self.log_start_offset))
            if config.deletes:
                size = self.size_bytes
                if 0 <= config.retention_bytes <= size:
                    removed += self._delete(retention.beyond_size(size, config.retention_bytes))
                if config.retention_ms >= 0:
                    removed += self._delete(retention.older_than(config.retention_ms, now))
        except OSError as error:
            raise self._failed(error, "deleting segments") from error
        return removed

    def _delete(self, may_go: retention.Predicate) -> int:
        doomed = retention.deletable(self.segments, self._high_watermark, may_go)
        if not doomed:
            return 0
        if doomed[-1] is self.segments.active:
            self.roll()
        following = self.segments.higher(doomed[-1].base_offset)
        if following is not None and following.base_offset > self.log_start_offset:
            self.advance_log_start(following.base_offset)
        with self._flush_lock:
            self._removals += 1
            self.segments.remove(doomed)
        self._forget_snapshots(doomed)
        return len(doomed)
