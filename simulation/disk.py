"""A disk in memory that crashes, and forgets a chosen part of what was not synced.

What a crash may do to a file: keep all, none, or a prefix of each write and truncation since its last sync,
independently of the others; where a kept write lies beyond a lost one, the gap is zeroes. What it may do to a
directory: keep the first few of the names made, renamed and removed since its last sync, in order, as a journal does.
What was synced stays.

Faults are counted in changes, the calls that alter the disk: `crash_at` ends the program at the n-th by raising
`SimulatedCrash`, which is no `Exception`, so that nothing handles it; `fail_at` makes the n-th fail with an `OSError`,
a write perhaps half done. Reads are counted separately: `fail_read_at`.
"""

import errno
import os
from collections.abc import Callable, Sequence
from typing import Final

from simulation.disk_nodes import Choose, Directory, Inode, Truncate, Write, surviving, total_bytes
from storage.disk import DirectoryEntry, DirectoryLock, DiskFile, Space

__all__ = ["Choose", "SimulatedCrash", "SimulatedDisk", "SimulatedFile"]

_CAPACITY: Final = 1 << 40


class SimulatedCrash(BaseException):
    """The program ended here; `SimulatedDisk.crash` decides what is left."""


class SimulatedFile:
    """An open file of a simulated disk. Unusable after a crash."""

    __slots__ = ("_disk", "_generation", "_inode")

    def __init__(self, disk: "SimulatedDisk", inode: Inode) -> None:
        self._disk = disk
        self._inode = inode
        self._generation = disk.generation

    def fileno(self) -> int:
        """Return -1: there is no descriptor."""
        return -1

    def pread(self, size: int, position: int) -> bytes:
        """Read bytes."""
        self._disk.check_alive(self._generation)
        self._disk.note_read()
        if position < 0:
            raise OSError(errno.EINVAL, "a negative position")
        return bytes(self._inode.data[position : position + size])

    def is_cached(self, size: int, position: int) -> bool:  # noqa: ARG002
        """Return the disk's `is_cached`, which covers all of its files."""
        return self._disk.is_cached

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write bytes; a failing or crashing write may leave some of them."""
        self._disk.check_alive(self._generation)
        kept = self._disk.before_write(len(data))
        if kept is not None:
            self._inode.apply(Write(position, bytes(data[:kept])))
            self._disk.raise_fault()
        self._inode.apply(Write(position, bytes(data)))
        self._inode.modified_ms = self._disk.now_ms()

    def size(self) -> int:
        """Return the length."""
        self._disk.check_alive(self._generation)
        return len(self._inode.data)

    def truncate(self, size: int) -> None:
        """Cut or extend."""
        self._disk.change(self._generation)
        self._inode.apply(Truncate(size))
        self._inode.modified_ms = self._disk.now_ms()

    def sync(self) -> None:
        """Make the bytes survive the next crash."""
        self._disk.change(self._generation)
        self._inode.sync()

    def close(self) -> None:
        """Do nothing: there is no descriptor."""


class _Lock:
    __slots__ = ("_held", "_path")

    def __init__(self, held: set[str], path: str) -> None:
        self._held = held
        self._path = path
        held.add(path)

    def release(self) -> None:
        self._held.discard(self._path)


class SimulatedDisk:
    """A file system in memory; passes the contract suite of the real one.

    Attributes:
        changes: how many calls have altered it so far.
        reads: how many calls have read from it.
        is_cached: whether its content is in memory, so that reads do not wait.
        generation: how often it has crashed; files opened before are unusable.
        on_crash: called just before the program ends at a change.
    """

    def __init__(self, *, now_ms: Callable[[], int] = lambda: 0, choose: Choose = lambda _: 0) -> None:
        """Make an empty disk.

        Args:
            now_ms: wall time, for files' modification times.
            choose: decides how much of a failing write is done; `crash` has an argument of its own.
        """
        self.now_ms = now_ms
        self.changes = 0
        self.reads = 0
        self.is_cached = True
        self.generation = 0
        self.on_crash: Callable[[], None] = _nothing
        self._choose = choose
        self._root = Directory()
        self._locks: set[str] = set()
        self._crash_at: int | None = None
        self._fail_at: int | None = None
        self._fail_once = False
        self._fail_read_at: int | None = None
        self._fault: OSError | None = None

    # Faults

    def crash_at(self, change: int | None) -> None:
        """End the program at a change, counted from now; None cancels that."""
        self._crash_at = None if change is None else self.changes + change

    def fail_at(self, change: int | None, error: int = errno.EIO, *, once: bool = False) -> None:
        """Let a change, counted from now, fail, and all after it unless `once`; None mends the disk."""
        self._fail_at = None if change is None else self.changes + change
        self._fail_once = once
        self._fault = OSError(error, os.strerror(error))

    def fail_read_at(self, read: int | None, error: int = errno.EIO) -> None:
        """Let a read, counted from now, fail, and all after it; None mends the disk."""
        self._fail_read_at = None if read is None else self.reads + read
        self._fault = OSError(error, os.strerror(error))

    def crash(self, choose: Choose) -> None:
        """Lose power: keep what was synced, and the part of the rest that is chosen. The disk can be used again,
        without faults.
        """
        self._root = surviving(self._root, choose, {})
        self._locks.clear()
        self._crash_at = self._fail_at = self._fail_read_at = None
        self.generation += 1

    def stop(self) -> None:
        """End the program, not the machine: everything written stays, files are closed and locks released."""
        self._locks.clear()
        self._crash_at = self._fail_at = self._fail_read_at = None
        self.generation += 1

    def check_alive(self, generation: int) -> None:
        """Refuse a file that was opened before a crash."""
        if generation != self.generation:
            raise OSError(errno.EBADF, "opened before the crash")

    def before_write(self, size: int) -> int | None:
        """Count a write; return how much of it to do before `raise_fault` where it has to fail or crash, else None."""
        self.changes += 1
        return self._choose(size) if self._due() else None

    def change(self, generation: int | None = None) -> None:
        """Count a change, and raise where it has to fail or crash."""
        if generation is not None:
            self.check_alive(generation)
        self.changes += 1
        if self._due():
            self.raise_fault()

    def note_read(self) -> None:
        """Count a read, and raise where it has to fail."""
        self.reads += 1
        if self._fail_read_at is not None and self.reads >= self._fail_read_at:
            assert self._fault is not None
            raise OSError(self._fault.errno, self._fault.strerror)

    def raise_fault(self) -> None:
        """Raise the crash or the error of the current change."""
        if self._crash_at is not None and self.changes >= self._crash_at:
            self.on_crash()
            raise SimulatedCrash
        assert self._fault is not None
        raise OSError(self._fault.errno, self._fault.strerror)

    def _due(self) -> bool:
        return (self._crash_at is not None and self.changes >= self._crash_at) or (
            self._fail_at is not None
            and (self.changes == self._fail_at if self._fail_once else self.changes >= self._fail_at)
        )

    # Disk

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        """Open a file."""
        parent, name = self._parent(path)
        node = parent.names.get(name)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self.change()
            node = parent.names[name] = Inode(self.now_ms())
            parent.changed()
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, "a directory", path)
        return SimulatedFile(self, node)

    def read(self, path: str) -> bytes:
        """Read a whole file."""
        self.note_read()
        return bytes(self._file(path).data)

    def write(self, path: str, data: bytes, *, sync: bool) -> None:
        """Create or replace a file in place."""
        file = self.open(path, create=True)
        if file.size():
            file.truncate(0)
        file.write_at(data, 0)
        if sync:
            file.sync()

    def replace(self, path: str, data: bytes, *, sync: bool) -> None:
        """Replace a file atomically."""
        temporary = path + ".tmp"
        self.write(temporary, data, sync=sync)
        self.rename(temporary, path)
        if sync:
            self.sync_directory(os.path.dirname(path))

    def exists(self, path: str) -> bool:
        """Return whether there is such a name."""
        try:
            self._node(path)
        except FileNotFoundError:
            return False
        return True

    def list_directory(self, path: str) -> Sequence[DirectoryEntry]:
        """List a directory."""
        self.note_read()
        return [
            DirectoryEntry(name, isinstance(node, Directory))
            for name, node in self._directory(path).names.items()
        ]

    def size(self, path: str) -> int:
        """Return a file's length."""
        return len(self._file(path).data)

    def modified_ms(self, path: str) -> int:
        """Return the time of a file's last change."""
        return self._file(path).modified_ms

    def set_modified_ms(self, path: str, wall_ms: int) -> None:
        """Set the time of a file's last change."""
        self.change()
        self._file(path).modified_ms = wall_ms

    def make_directory(self, path: str) -> None:
        """Make a directory and its missing parents."""
        at = self._root
        for part in _parts(path):
            node = at.names.get(part)
            if node is None:
                self.change()
                node = at.names[part] = Directory()
                at.changed()
            if not isinstance(node, Directory):
                raise FileExistsError(errno.EEXIST, "a file", path)
            at = node

    def rename(self, old: str, new: str) -> None:
        """Rename within a directory, atomically; between directories a crash may keep both names or none."""
        old_parent, old_name = self._parent(old)
        new_parent, new_name = self._parent(new)
        if old_name not in old_parent.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        self.change()
        new_parent.names[new_name] = old_parent.names.pop(old_name)
        old_parent.changed()
        if new_parent is not old_parent:
            new_parent.changed()

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        self._unlink(path)

    def remove_directory(self, path: str) -> None:
        """Remove a directory with all that is in it, if it is there."""
        self._unlink(path)

    def sync_directory(self, path: str) -> None:
        """Make a directory's names survive the next crash."""
        self.change()
        self._directory(path).sync()

    def lock(self, path: str) -> DirectoryLock:
        """Take a lock."""
        if path in self._locks:
            raise BlockingIOError(errno.EAGAIN, "locked", path)
        self.open(path, create=True)
        return _Lock(self._locks, path)

    def space(self, path: str) -> Space:
        """Return the size of the disk."""
        self._node(path)
        return Space(_CAPACITY, _CAPACITY - total_bytes(self._root))

    def _unlink(self, path: str) -> None:
        parent, name = self._parent(path)
        if name in parent.names:
            self.change()
            del parent.names[name]
            parent.changed()

    def _node(self, path: str) -> "Inode | Directory":
        at: Inode | Directory = self._root
        for part in _parts(path):
            if not isinstance(at, Directory) or part not in at.names:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            at = at.names[part]
        return at

    def _directory(self, path: str) -> Directory:
        node = self._node(path)
        if not isinstance(node, Directory):
            raise NotADirectoryError(errno.ENOTDIR, "a file", path)
        return node

    def _file(self, path: str) -> Inode:
        node = self._node(path)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, "a directory", path)
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        directory, _, name = path.rstrip("/").rpartition("/")
        return self._directory(directory), name


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _nothing() -> None:
    """The default of `on_crash`: do nothing."""
