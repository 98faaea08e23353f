"""Fixed-width entries, appended: what the offset and the time index are made of.

Kafka maps its index files into memory. We hold the newest entries in memory, at most a page of them, and
write a page at a time. That costs less than either a mapping or a write per entry, and loses nothing: an index is only
ever trusted for a segment that was flushed after it was closed, or after a clean shutdown; in all other cases recovery
rebuilds it. The file is read on first use, so opening a log touches none of its indexes.
"""

from collections.abc import Callable
from typing import Final

from storage.disk import Disk, DiskFile

PAGE: Final = 4096


class EntryFile:
    """An append-only list of fixed-width entries in a file, the last page of it in memory."""

    __slots__ = ("_disk", "_file", "_stored", "_tail", "entry_size", "path")

    def __init__(self, disk: Disk, path: str, entry_size: int, *, new: bool = False) -> None:
        self._disk = disk
        self.path = path
        self.entry_size = entry_size
        self._file: DiskFile | None = None
        self._tail = bytearray()
        self._stored = 0 if new else -1  # entries in the file; -1 until it is looked at

    def stored_bytes(self) -> int:
        """Return the length of the file as it is, be it a multiple of the entry size or not; 0 where there is
        no file.
        """
        try:
            return self._open().size()
        except FileNotFoundError:
            return 0

    def __len__(self) -> int:
        if self._stored < 0:
            self._stored = self.stored_bytes() // self.entry_size
        return self._stored + len(self._tail) // self.entry_size

    def append(self, entry: bytes) -> None:
        """Add an entry, in memory; a full page goes to the file.

        Raises:
            OSError: the page could not be written; it is still held in memory.
        """
        if self._stored < 0:
            len(self)
        self._tail += entry
        if len(self._tail) >= PAGE:
            self.write_out()

    def entry(self, slot: int) -> bytes:
        """Return the entry at `slot`, counted from 0."""
        count = len(self)
        if not 0 <= slot < count:
            raise IndexError(slot)
        width = self.entry_size
        if slot >= self._stored:
            start = (slot - self._stored) * width
            return bytes(self._tail[start : start + width])
        return self._open().pread(width, slot * width)

    def search(self, target: int, key: Callable[[bytes | bytearray, int], int]) -> int:
        """Find the last slot whose key is at most `target`; -1 where even the first is greater.

        Args:
            target: the key looked for.
            key: reads the key of the entry at a position in a buffer. Keys must not fall from slot to slot.
        """
        high = len(self) - 1
        if high < 0:
            return -1
        low, width = 0, self.entry_size
        stored = self._stored
        if stored <= high and key(self._tail, 0) <= target:
            return stored + _bisect(self._tail, 0, high - stored, width, target, key)
        high = min(high, stored - 1)
        per_page = PAGE // width
        while high - low >= per_page:
            middle = (low + high + 1) // 2
            if key(self.entry(middle), 0) <= target:
                low = middle
            else:
                high = middle - 1
        if high < low:
            return -1
        page = self._open().pread((high - low + 1) * width, low * width)
        if key(page, 0) > target:
            return low - 1
        return low + _bisect(page, 0, high - low, width, target, key)

    def truncate(self, count: int) -> None:
        """Keep the first `count` entries.

        Raises:
            OSError: the disk failed.
        """
        if count >= len(self):
            return
        if count >= self._stored:
            del self._tail[(count - self._stored) * self.entry_size :]
            return
        self._tail.clear()
        self._open().truncate(count * self.entry_size)
        self._stored = count

    def reset(self) -> None:
        """Drop everything, and the odd bytes at the end of a damaged file too."""
        self._tail.clear()
        self._open(create=True).truncate(0)
        self._stored = 0

    def write_out(self) -> None:
        """Write the entries in memory to the file, and make the file where there is none."""
        count = len(self)
        file = self._open(create=True)
        if self._tail:
            file.write_at(self._tail, self._stored * self.entry_size)
            self._tail.clear()
            self._stored = count

    def trim(self) -> None:
        """Cut what a crashed or foreign writer left beyond the last entry, and write the rest out."""
        self.write_out()
        file = self._open(create=True)
        if file.size() != self._stored * self.entry_size:
            file.truncate(self._stored * self.entry_size)

    def sync(self) -> None:
        """Make what was written out survive power loss."""
        self._open(create=True).sync()

    def close(self) -> None:
        """Close the descriptor; the next use opens the file again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, *, create: bool = False) -> DiskFile:
        if self._file is None:
            self._file = self._disk.open(self.path, create=create)
        return self._file


def _bisect(
    page: bytes | bytearray,
    low: int,
    high: int,
    width: int,
    target: int,
    key: Callable[[bytes | bytearray, int], int],
) -> int:
    while low < high:
        middle = (low + high + 1) // 2
        if key(page, middle * width) <= target:
            low = middle
        else:
            high = middle - 1
    return low
