"""Making a log survive power loss, while it is appended to, cut and renamed."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from storage.log_files import LogFiles
from wire.types import MonotonicSeconds, Offset


class LogFlusher:
    """The recovery point of a log, and the syncs that move it.

    Attributes:
        recovery_point: the offset below which all is known to be on disk.
        last_flush: when a flush last ended, or the log was opened.
        unsettled: whether the log's end was cut off and a crash may undo that: `settle` has to run before an append.
    """

    __slots__ = (
        "_files",
        "_lock",
        "_name_unsynced",
        "_removals",
        "last_flush",
        "recovery_point",
        "unsettled",
    )

    def __init__(self, files: LogFiles) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._removals = 0  # of segments: a flush that a removal overtakes may find no files
        self._name_unsynced = False  # whether the log's directory was renamed since its parent was synced
        self.recovery_point = Offset(0)
        self.unsettled = False
        self.last_flush: MonotonicSeconds = files.log_directory.clock.monotonic()

    @contextmanager
    def removing(self) -> Iterator[None]:
        """Hold this while files are renamed or removed: a flush under way then does not move the recovery point."""
        with self._lock:
            self._removals += 1
            yield

    def lower_recovery_point(self, offset: Offset) -> None:
        """Lower the recovery point before the log is cut there; call it within `removing`, and `settle` afterwards.

        New records there must not count as flushed.
        """
        self.unsettled = True
        self.recovery_point = min(self.recovery_point, offset)
        self._files.log_directory.lower_recovery_point(self._files.topic_partition, offset)

    def settle(self) -> None:
        """Make a cut survive power loss, so that the log may be appended to; may run in a thread.

        New records overwrite those that were cut. If a crash lost the new ones, but kept what follows them or the old
        recovery point, the old ones would reappear in their place.

        Raises:
            StorageError: the disk failed.
        """
        files = self._files
        with self._lock:
            removals, active = self._removals, files.segments.active
        try:
            files.leader_epochs.write()
            active.sync(with_indexes=False)
            files.log_directory.write_lowered()
        except FileNotFoundError as error:
            if removals != self._removals:
                return
            raise files.failed(error, "settling a truncation") from error
        except OSError as error:
            raise files.failed(error, "settling a truncation") from error
        with self._lock:
            if removals == self._removals:
                self.unsettled = False

    def rename(self, name: str) -> None:
        """Rename the log's directory within its log directory. The name survives power loss after the next `flush`.

        Raises:
            StorageError: the disk failed.
        """
        with self.removing():
            try:
                self._files.rename(name)
            except OSError as error:
                raise self._files.failed(error, "renaming the directory") from error
            self._name_unsynced = True

    def flush(self, to: Offset | None = None) -> None:
        """Make the log below an offset survive power loss, and move the recovery point there.

        May run in a thread while the loop appends. Order: the data of the segments, then what is derived
        from it, then the directory's names, then the recovery point.

        Args:
            to: the offset, the log's end where None.

        Raises:
            StorageError: the disk failed. A sync that failed is not tried again: the directory is offline.
        """
        files = self._files
        segments, log_directory = files.segments, files.log_directory
        log_directory.check_online()
        with self._lock:
            # Not while the log is being cut: an end from before a cut must not become the recovery point after it.
            removals = self._removals
            end = segments.end_offset
            target = end if to is None else min(to, end)
            if target <= self.recovery_point and not (segments.names_changed or self._name_unsynced):
                return
            pending = segments.between(self.recovery_point, target)
            active = segments.active
        try:
            for segment in pending:
                segment.sync(with_indexes=segment is not active)
            files.leader_epochs.sync()
            for segment in pending:
                self._sync_if_there(files.producer_state.snapshot_path(segment.base_offset))
            if segments.names_changed:
                # Cleared first: a change that comes meanwhile is synced next time.
                segments.names_changed = False
                log_directory.disk.sync_directory(segments.directory)
            if self._name_unsynced:
                self._name_unsynced = False
                log_directory.disk.sync_directory(log_directory.path)
        except FileNotFoundError as error:
            if removals != self._removals:
                return  # a segment was removed meanwhile; the truncation has set the recovery point
            raise files.failed(error, "flushing") from error
        except OSError as error:
            raise files.failed(error, "flushing") from error
        with self._lock:
            if removals == self._removals:
                self.recovery_point = max(self.recovery_point, target)
        self.last_flush = log_directory.clock.monotonic()

    def _sync_if_there(self, path: str) -> None:
        try:
            file = self._files.log_directory.disk.open(path)
        except FileNotFoundError:
            return
        try:
            file.sync()
        finally:
            file.close()

    def flush_to_close(self) -> None:
        """Seal and flush everything, and leave a snapshot of the producers at the end, for the next start.

        Raises:
            StorageError: the disk failed.
        """
        segments = self._files.segments
        if self.unsettled:
            self.settle()
        try:
            self._files.leader_epochs.write()
            if segments.active.seal():
                segments.active.sync(with_indexes=True)
                segments.names_changed = True
            if self._files.producer_state.take_snapshot(sync=True) is not None:
                segments.names_changed = True
            self.flush()
        except OSError as error:
            raise self._files.failed(error, "closing") from error
