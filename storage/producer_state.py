"""A partition's producers with their files: `ProducerTable` has the rules.

State at an offset is kept in snapshot files, one at each segment's start and one at a clean end, so that recovery
scans only what lies beyond the newest one it can trust.
"""

import logging
from collections.abc import Iterable
from typing import Final

from storage import names
from storage.disk import Disk
from storage.producer_entry import ProducerEntry
from storage.producer_snapshot import CorruptSnapshotError, decode_snapshot, encode_snapshot
from storage.producer_table import (
    EXPIRATION_MS,
    AppendOrigin,
    CompletedTransaction,
    OpenTransaction,
    ProducerTable,
)
from wire.types import Offset, WallMs

__all__ = ["EXPIRATION_MS", "AppendOrigin", "CompletedTransaction", "OpenTransaction", "ProducerState"]

_log: Final = logging.getLogger(__name__)


class ProducerState(ProducerTable):
    """The producers of one partition, as of `end_offset`, and the snapshots of them on disk."""

    __slots__ = ("_directory", "_disk", "_last_snapshot", "_snapshots")

    def __init__(self, disk: Disk, directory: str, *, expiration_ms: int = EXPIRATION_MS) -> None:
        super().__init__(expiration_ms)
        self._disk = disk
        self._directory = directory
        self._snapshots: list[Offset] = []  # rising
        self._last_snapshot = Offset(0)

    def on_log_start(self, log_start: Offset) -> None:
        """Note that the log begins at `log_start` now."""
        super().on_log_start(log_start)
        self._last_snapshot = self._snapshots[-1] if self._snapshots else log_start

    @property
    def snapshots(self) -> tuple[Offset, ...]:
        """The offsets of the snapshot files, rising."""
        return tuple(self._snapshots)

    def found_snapshots(self, offsets: Iterable[Offset]) -> None:
        """Take note of the snapshot files that the log's directory holds."""
        self._snapshots = sorted(offsets)

    def take_snapshot(self, *, sync: bool = False) -> Offset | None:
        """Write a snapshot at `end_offset`, unless there is one.

        Returns:
            Its offset; None where none was written.

        Raises:
            OSError: the disk failed.
        """
        if self.end_offset <= self._last_snapshot:
            return None
        offset = self.end_offset
        self._disk.write(self.snapshot_path(offset), encode_snapshot(self.entries.values()), sync=sync)
        if offset not in self._snapshots:
            self._snapshots.append(offset)
            self._snapshots.sort()
        self._last_snapshot = offset
        return offset

    def snapshot_path(self, offset: Offset) -> str:
        """Return the path of the snapshot at an offset."""
        return f"{self._directory}/{names.segment_name(offset, names.SNAPSHOT)}"

    def forget_snapshot(self, offset: Offset) -> str | None:
        """Take a snapshot off the list and return its path, for the caller to remove; None where there is no
        such one.
        """
        try:
            self._snapshots.remove(offset)
        except ValueError:
            return None
        return self.snapshot_path(offset)

    def remove_strays(self, base_offsets: Iterable[Offset]) -> None:
        """Remove the snapshots that are at no segment's start, except the newest if it is above all starts.

        Raises:
            OSError: the disk failed.
        """
        bases = set(base_offsets)
        strays = [offset for offset in self._snapshots if offset not in bases]
        if strays and (not bases or strays[-1] > max(bases)):
            strays.pop()
        for offset in strays:
            self._remove_snapshot(offset)

    def roll_back(self, log_start: Offset, log_end: Offset) -> bool:
        """Roll back to the log's new end without reading the log; return False, and change nothing, where that is
        impossible.

        Raises:
            OSError: the disk failed.
        """
        if self.end_offset < log_end or not self.forget_from(log_end):
            return False
        for offset in self.snapshots:
            if not log_start < offset <= log_end:
                self._remove_snapshot(offset)
        self._last_snapshot = self._snapshots[-1] if self._snapshots else log_start
        self.take_snapshot()
        return True

    def truncate_and_reload(self, log_start: Offset, log_end: Offset, now: WallMs) -> None:
        """Go back to the newest snapshot within (log_start, log_end]; the caller scans the log from
        `end_offset` on.

        Raises:
            OSError: the disk failed.
        """
        for offset in self.snapshots:
            if not log_start < offset <= log_end:
                self._remove_snapshot(offset)
        if log_end == self.end_offset:
            self.on_log_start(log_start)
            return
        self._clear()
        while self._snapshots:
            offset = self._snapshots[-1]
            entries = self._read_snapshot(offset)
            if entries is not None:
                self._load(entries, now)
                self._last_snapshot = self.end_offset = offset
                return
            self._remove_snapshot(offset)
        self._last_snapshot = self.end_offset = log_start

    def truncate_fully(self, offset: Offset) -> None:
        """Forget everything, snapshots too; the log starts anew at `offset`.

        Raises:
            OSError: the disk failed.
        """
        self._clear()
        for snapshot in self.snapshots:
            self._remove_snapshot(snapshot)
        self._last_snapshot = Offset(0)
        self.end_offset = offset

    def moved_to(self, directory: str) -> None:
        """Note that the log's directory was renamed."""
        self._directory = directory

    def _read_snapshot(self, offset: Offset) -> list[ProducerEntry] | None:
        path = self.snapshot_path(offset)
        try:
            return decode_snapshot(self._disk.read(path))
        except FileNotFoundError:
            return None
        except CorruptSnapshotError as error:
            _log.warning("producer snapshot %s is ignored: %s", path, error)
            return None

    def _remove_snapshot(self, offset: Offset) -> None:
        self._snapshots.remove(offset)
        self._disk.remove(self.snapshot_path(offset))
