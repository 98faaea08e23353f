"""Cutting off a log's end, where it diverged from the leader's."""

from storage.errors import CorruptBatchError
from storage.flushing import LogFlusher
from storage.log_files import LogFiles
from storage.log_offsets import LogOffsets
from storage.producer_recovery import rebuild_producers
from wire.records.errors import CorruptRecordError
from wire.types import Offset


class Truncation:
    """Cuts the end off one log.

    Attributes:
        count: how often the end has been cut off since the log was opened.
    """

    __slots__ = ("_files", "_flusher", "_offsets", "count")

    def __init__(self, files: LogFiles, offsets: LogOffsets, flusher: LogFlusher) -> None:
        self._files = files
        self._offsets = offsets
        self._flusher = flusher
        self.count = 0

    def truncate_suffix(self, to: Offset) -> bool:
        """Cut off every record at or above an offset, so that the log ends there; or before it, where it falls into a
        batch.

            before: [0 .. 1200) [1200 .. 1500)
            truncate_suffix(1300): [0 .. 1200) [1200 .. 1300)

        Quick, unless a producer's last batches are all cut: then the log is read from the newest snapshot on. The syncs
        that a cut needs are left to `LogFlusher.settle`, which the next append calls if it has not run yet.

        Returns:
            Whether there was any.

        Raises:
            CorruptBatchError: the .log is damaged before that offset; nothing was cut.
            StorageError: the disk failed.
            ValueError: a negative offset.
        """
        files, offsets = self._files, self._offsets
        segments = files.segments
        if to < 0:
            raise ValueError(f"a log cannot be truncated to {to}")
        files.log_directory.check_online()
        try:
            if to >= segments.end_offset:
                # A leader that was elected, wrote nothing and was succeeded leaves an epoch at the log's end that
                # nobody else has.
                files.leader_epochs.truncate_suffix(segments.end_offset)
                return False
            if segments.first.base_offset > to:
                self._truncate_fully(to, to)
                return True
            # Before the cut: what is beyond it may be written anew, and must not count as flushed then.
            with self._flusher.removing():
                self.count += 1
                self._flusher.lower_recovery_point(min(to, self._batch_start(to)))
                removed = segments.truncate_to(to)
            end = segments.end_offset
            files.forget_snapshots(removed)
            files.leader_epochs.truncate_suffix(end)
            offsets.log_start = min(offsets.log_start, end)
            if not files.producer_state.roll_back(offsets.log_start, end):
                rebuild_producers(files.producer_state, segments, offsets.log_start, end, trust_absence=False)
        except CorruptRecordError as error:
            raise CorruptBatchError(f"{files.topic_partition}: {error}") from error
        except OSError as error:
            raise files.failed(error, "truncating") from error
        offsets.high_watermark = min(offsets.high_watermark, end)
        return True

    def _batch_start(self, offset: Offset) -> Offset:
        segment = self._files.segments.floor(offset)
        found = segment.find(offset) if segment is not None else None
        return found.header.base_offset if found is not None else offset

    def truncate_fully_and_start_at(self, offset: Offset, log_start: Offset | None = None) -> None:
        """Drop every record; the log begins anew at `offset`.

        Args:
            offset: of the next record.
            log_start: the first offset that may be read, `offset` where None.

        Raises:
            StorageError: the disk failed.
        """
        self._files.log_directory.check_online()
        try:
            self._truncate_fully(offset, offset if log_start is None else log_start)
        except OSError as error:
            raise self._files.failed(error, "truncating") from error

    def _truncate_fully(self, offset: Offset, log_start: Offset) -> None:
        files = self._files
        with self._flusher.removing():
            self.count += 1
            self._flusher.lower_recovery_point(offset)
            files.segments.truncate_fully(offset)
        files.leader_epochs.clear()
        files.producer_state.truncate_fully(offset)
        self._offsets.log_start = log_start
        self._offsets.high_watermark = offset
