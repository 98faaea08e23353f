"""Removing a log's front: which segments may go, by age, by size, or because the log starts beyond them.

Always a prefix of the log, never a segment that reaches past the high watermark, and never an empty active
one.
"""

from collections.abc import Callable

from storage.errors import OffsetOutOfRangeError
from storage.flushing import LogFlusher
from storage.log_files import LogFiles
from storage.log_offsets import LogOffsets
from storage.segment import Segment
from storage.segments import Segments
from wire.types import Offset, WallMs

Predicate = Callable[[Segment, Segment | None], bool]
"""Given a segment and its successor, returns whether the segment may be removed."""


def deletable(segments: Segments, high_watermark: Offset, may_go: Predicate) -> list[Segment]:
    """Return the longest prefix of the log that may go.

    Raises:
        OSError: the disk failed.
    """
    listed = list(segments)
    found: list[Segment] = []
    for slot, segment in enumerate(listed):
        following = listed[slot + 1] if slot + 1 < len(listed) else None
        upper = following.base_offset if following else segments.end_offset
        if following is None and not segment.size:
            break
        if high_watermark < upper or not may_go(segment, following):
            break
        found.append(segment)
    return found


def before_log_start(log_start: Offset) -> Predicate:
    """Segments whose every offset is below the log's start."""
    return lambda _, following: following is not None and following.base_offset <= log_start


def older_than(retention_ms: int, now: WallMs) -> Predicate:
    """Segments whose largest timestamp is more than `retention_ms` ago."""
    return lambda segment, _: now - segment.largest_timestamp > retention_ms


def beyond_size(size_bytes: int, retention_bytes: int) -> Predicate:
    """Segments without which the log still has `retention_bytes`. Good for one pass only: it counts the bytes that it
    has allowed to go.
    """
    excess = size_bytes - retention_bytes

    def may_go(segment: Segment, _: Segment | None) -> bool:
        nonlocal excess
        if excess - segment.size < 0:
            return False
        excess -= segment.size
        return True

    return may_go


class Retention:
    """Moves the start of one log, and removes the segments below it."""

    __slots__ = ("_files", "_flusher", "_offsets", "_roll")

    def __init__(
        self, files: LogFiles, offsets: LogOffsets, flusher: LogFlusher, roll: Callable[[], Segment]
    ) -> None:
        self._files = files
        self._offsets = offsets
        self._flusher = flusher
        self._roll = roll

    def advance_log_start(self, offset: Offset) -> bool:
        """Let the log start at a later offset (DeleteRecords, or what a leader says); segments below go at
        the next retention pass.

        Returns:
            Whether it rose.

        Raises:
            OffsetOutOfRangeError: beyond the high watermark.
            StorageError: the disk failed.
        """
        files, offsets = self._files, self._offsets
        if offset > offsets.high_watermark:
            raise OffsetOutOfRangeError(
                f"the log start of {files.topic_partition} cannot be moved to {offset}, "
                f"beyond the high watermark {offsets.high_watermark}"
            )
        if offset <= offsets.log_start:
            return False
        # The recovery point stays, unlike Kafka's: segments below the new start are there until retention takes
        # them, and what was not flushed of them may be damaged after a crash.
        offsets.log_start = offset
        try:
            files.leader_epochs.truncate_prefix(offset)
        except OSError as error:
            raise files.failed(error, "moving the log start") from error
        files.producer_state.on_log_start(offset)
        return True

    def delete_old_segments(self, now: WallMs) -> int:
        """Remove the segments past retention or below the log start; return how many.

        Raises:
            StorageError: the disk failed.
        """
        files = self._files
        files.log_directory.check_online()
        config = files.segments.config
        try:
            removed = self._delete(before_log_start(self._offsets.log_start))
            if config.deletes:
                size = files.segments.size_bytes
                if 0 <= config.retention_bytes <= size:
                    removed += self._delete(beyond_size(size, config.retention_bytes))
                if config.retention_ms >= 0:
                    removed += self._delete(older_than(config.retention_ms, now))
        except OSError as error:
            raise files.failed(error, "deleting segments") from error
        return removed

    def _delete(self, may_go: Predicate) -> int:
        files, offsets = self._files, self._offsets
        doomed = deletable(files.segments, offsets.high_watermark, may_go)
        if not doomed:
            return 0
        if doomed[-1] is files.segments.active:
            self._roll()
        following = files.segments.higher(doomed[-1].base_offset)
        if following is not None and following.base_offset > offsets.log_start:
            self.advance_log_start(following.base_offset)
        with self._flusher.removing():
            files.segments.remove(doomed)
        files.forget_snapshots(doomed)
        return len(doomed)
