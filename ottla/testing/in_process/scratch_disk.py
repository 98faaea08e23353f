"""The disk of a broker in a test: the machine's files, never synced, and full on demand.

The data of a test is worth nothing after it, so no sync waits for the device. Late writes of a killed broker's threads
are refused.
"""

import errno
import os

from simulation.disk import SimulatedCrash
from storage.disk import DirectoryLock, DiskFile, RealDisk, RealFile, Space


class ScratchVolume:
    """The faults of a broker's volume, which outlast the broker's lives.

    Attributes:
        is_full: Whether writes find no space.
    """

    def __init__(self) -> None:
        self.is_full = False


class ScratchDisk(RealDisk):
    """A volume as one life of a broker sees it.

    Args:
        volume: Its faults.
    """

    __slots__ = ("_is_over", "_locks", "_volume")

    def __init__(self, volume: ScratchVolume) -> None:
        self._volume = volume
        self._is_over = False
        self._locks: list[DirectoryLock] = []

    def end(self) -> None:
        """End this life: nothing is changed through this disk any more, and no lock is held."""
        self._is_over = True
        for lock in self._locks:
            lock.release()

    def check(self) -> None:
        """Allow a change, or raise.

        Raises:
            OSError: the volume is full.
            SimulatedCrash: the broker is dead.
        """
        if self._is_over:
            raise SimulatedCrash
        if self._volume.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        """Open for reading and writing."""
        if create and not os.path.exists(path):
            self.check()
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return _ScratchFile(os.open(path, flags, 0o644), self)

    def write(self, path: str, data: bytes, *, sync: bool) -> None:  # noqa: ARG002
        """Create or replace a file in place."""
        self.check()
        super().write(path, data, sync=False)

    def replace(self, path: str, data: bytes, *, sync: bool) -> None:  # noqa: ARG002
        """Replace a file atomically."""
        self.check()
        super().replace(path, data, sync=False)

    def make_directory(self, path: str) -> None:
        """Make a directory and its missing parents."""
        if not os.path.isdir(path):
            self.check()
        super().make_directory(path)

    def sync_directory(self, path: str) -> None:
        """Do nothing: names need not survive."""

    def lock(self, path: str) -> DirectoryLock:
        """Take the lock on a lock file; it is released with this life at the latest."""
        lock = super().lock(path)
        self._locks.append(lock)
        return lock

    def space(self, path: str) -> Space:
        """Return the size of the volume; nothing of it is usable while it is full."""
        space = super().space(path)
        return Space(space.total, 0) if self._volume.is_full else space


class _ScratchFile(RealFile):
    __slots__ = ("_disk",)

    def __init__(self, fd: int, disk: ScratchDisk) -> None:
        super().__init__(fd)
        self._disk = disk

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of `data` at `position`."""
        self._disk.check()
        super().write_at(data, position)

    def sync(self) -> None:
        """Do nothing: bytes need not survive, as long as the disk takes them."""
        self._disk.check()
