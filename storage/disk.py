"""The one door to the file system: everything the storage engine does to a file goes through a `Disk`.

`RealDisk` is the machine's; `simulation.disk` has one that crashes and forgets what was not synced. The
rules that both hold to:

- A write is in the page cache when it returns; it survives power loss only after `sync` of that file.
- A new, renamed or removed name survives power loss only after `sync_directory` of the directory that holds
it.
- Writes are positional: a file has no cursor, so an interrupted append leaves nothing to rewind.
- Failure is `OSError`, always; a failed `sync` is never retried by anyone, since the kernel may have dropped
the pages.

Paths are plain strings: opening thousands of partitions through pathlib costs more than reading them.
"""

import errno
import fcntl
import os
import shutil
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from wire.file_range import NOWAIT_UNSUPPORTED


class DirectoryEntry(NamedTuple):
    """One name in a directory."""

    name: str
    is_directory: bool


class Space(NamedTuple):
    """What a volume holds, in bytes."""

    total: int
    usable: int


class DiskFile(Protocol):
    """An open file. It closes itself when the last reference to it goes, so a reader's file cannot vanish
    under it.
    """

    def fileno(self) -> int:
        """Return the descriptor, for sendfile; a simulated file has none and answers -1."""
        ...

    def pread(self, size: int, position: int) -> bytes:
        """Read up to `size` bytes at `position`; fewer only at the end of the file."""
        ...

    def is_cached(self, size: int, position: int) -> bool:
        """Whether `pread` would find `size` bytes at `position` in memory; True where the system cannot tell."""
        ...

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of `data` at `position`. After an `OSError` any prefix of it may be in the file."""
        ...

    def size(self) -> int:
        """Return the file's length in bytes."""
        ...

    def truncate(self, size: int) -> None:
        """Cut or zero-extend the file to `size` bytes."""
        ...

    def sync(self) -> None:
        """Make the file's bytes and length survive power loss."""
        ...

    def close(self) -> None:
        """Close the descriptor. Closing twice is allowed."""
        ...


class DirectoryLock(Protocol):
    """A held lock on a directory."""

    def release(self) -> None:
        """Release the lock. Releasing twice is allowed."""
        ...


class Disk(Protocol):
    """A file system. Every method may raise `OSError` and nothing else."""

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        """Open for reading and writing; with `create`, make the file where there is none."""
        ...

    def read(self, path: str) -> bytes:
        """Read a whole small file."""
        ...

    def write(self, path: str, data: bytes, *, sync: bool) -> None:
        """Create or replace a file with `data` in place; with `sync`, its bytes survive power loss on
        return.
        """
        ...

    def replace(self, path: str, data: bytes, *, sync: bool) -> None:
        """Replace a file atomically: written beside it as `<path>.tmp`, then renamed over it.

        With `sync` the bytes are synced before the rename and the directory after it. Without, a power loss
        may leave the old file, the new one, or (on some file systems) an empty one.
        """
        ...

    def exists(self, path: str) -> bool:
        """Return whether there is such a file or directory."""
        ...

    def list_directory(self, path: str) -> Sequence[DirectoryEntry]:
        """List a directory, in no particular order."""
        ...

    def size(self, path: str) -> int:
        """Return a file's length in bytes."""
        ...

    def modified_ms(self, path: str) -> int:
        """Return the wall time of a file's last change, in milliseconds."""
        ...

    def set_modified_ms(self, path: str, wall_ms: int) -> None:
        """Set the wall time of a file's last change."""
        ...

    def make_directory(self, path: str) -> None:
        """Make a directory and its missing parents; one that is there already is left alone."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory, over an existing file if there is one."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; one that is not there is no error."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove a directory with all that is in it; one that is not there is no error."""
        ...

    def sync_directory(self, path: str) -> None:
        """Make a directory's names survive power loss."""
        ...

    def lock(self, path: str) -> DirectoryLock:
        """Take the exclusive lock on a lock file, creating the file; `BlockingIOError` where another holds
        it.
        """
        ...

    def space(self, path: str) -> Space:
        """Return the size of the volume that holds `path`."""
        ...


class RealFile:
    """A file of the machine."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._fd

    def pread(self, size: int, position: int) -> bytes:
        """Read up to `size` bytes at `position`."""
        data = os.pread(self._fd, size, position)
        if len(data) == size or not data:
            return data
        # The kernel reads at most 2 GiB at a time, and less where a signal interrupts it.
        parts = [data]
        got = len(data)
        while got < size and (data := os.pread(self._fd, size - got, position + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def is_cached(self, size: int, position: int) -> bool:
        """Whether bytes are in the page cache; a file system in memory may not support the question."""
        if not size:
            return True
        try:
            return os.preadv(self._fd, [bytearray(size)], position, os.RWF_NOWAIT) == size
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in NOWAIT_UNSUPPORTED:
                raise
            return True

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of `data` at `position`."""
        written = os.pwrite(self._fd, data, position)
        total = len(data)
        if written == total:
            return
        view = memoryview(data)
        while written < total:
            count = os.pwrite(self._fd, view[written:], position + written)
            if count == 0:
                raise OSError(errno.EIO, "a write of some bytes wrote none")
            written += count

    def size(self) -> int:
        """Return the file's length."""
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        """Cut or zero-extend the file."""
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        """Sync bytes and length; times are not worth a journal write."""
        os.fdatasync(self._fd)

    def close(self) -> None:
        """Close the descriptor."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class RealLock:
    """A held lock file.

    Two locks are taken: the POSIX record lock, which is what Java's `FileLock` takes, so that we and Apache
    Kafka exclude each other; and flock, which unlike the first also excludes a second opening within one
    process.
    """

    __slots__ = ("_fd",)

    def __init__(self, path: str) -> None:
        self._fd = -1
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd

    def release(self) -> None:
        """Close the file, which releases both locks."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.release()


class RealDisk:
    """The machine's file system."""

    __slots__ = ()

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        """Open for reading and writing."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return RealFile(os.open(path, flags, 0o644))

    def read(self, path: str) -> bytes:
        """Read a whole small file."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            data = os.read(fd, size + 1)
            while len(data) < size and (more := os.read(fd, size + 1 - len(data))):
                data += more
            return data
        finally:
            os.close(fd)

    def write(self, path: str, data: bytes, *, sync: bool) -> None:
        """Create or replace a file in place."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)

    def replace(self, path: str, data: bytes, *, sync: bool) -> None:
        """Replace a file atomically."""
        temporary = path + ".tmp"
        self.write(temporary, data, sync=sync)
        os.replace(temporary, path)
        if sync:
            self.sync_directory(os.path.dirname(path))

    def exists(self, path: str) -> bool:
        """Return whether there is such a file or directory."""
        return os.path.exists(path)

    def list_directory(self, path: str) -> Sequence[DirectoryEntry]:
        """List a directory."""
        with os.scandir(path) as entries:
            return [DirectoryEntry(entry.name, entry.is_dir()) for entry in entries]

    def size(self, path: str) -> int:
        """Return a file's length."""
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        """Return the time of a file's last change."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, wall_ms: int) -> None:
        """Set the time of a file's last change."""
        os.utime(path, ns=(wall_ms * 1_000_000, wall_ms * 1_000_000))

    def make_directory(self, path: str) -> None:
        """Make a directory and its missing parents."""
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory."""
        os.replace(old, new)

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def remove_directory(self, path: str) -> None:
        """Remove a directory with all that is in it, if it is there."""
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            pass

    def sync_directory(self, path: str) -> None:
        """Sync a directory's names."""
        fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: str) -> DirectoryLock:
        """Take the lock on a lock file."""
        try:
            return RealLock(path)
        except PermissionError as error:
            # POSIX lets a lock that is held answer EACCES in place of EAGAIN.
            if error.filename is not None:
                raise
            raise BlockingIOError(error.errno, error.strerror) from error

    def space(self, path: str) -> Space:
        """Return the size of the volume that holds `path`."""
        stat = os.statvfs(path)
        return Space(stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize)
