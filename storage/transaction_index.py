"""The .txnindex file: the aborted transactions that ended in a segment, for readers of committed data only.

    version            [2] int16   0
    producer id        [8] int64
    first offset       [8] int64   of the transaction
    last offset        [8] int64   of its abort marker
    last stable offset [8] int64   at the moment the marker was written

The file exists only where there was such a transaction, and entries rise in last offset.
"""

import struct
from typing import Final, NamedTuple

from storage.disk import Disk
from storage.entry_file import EntryFile
from wire.types import Offset, ProducerId

ENTRY_SIZE: Final = 34
_ENTRY: Final = struct.Struct(">hqqqq")
_LAST_OFFSET: Final = struct.Struct(">q")
_LAST_OFFSET_AT: Final = 18
_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """A transaction whose records readers of committed data must skip."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


def _last_offset(buffer: bytes | bytearray, position: int) -> int:
    key: int = _LAST_OFFSET.unpack_from(buffer, position + _LAST_OFFSET_AT)[0]
    return key


class TransactionIndex:
    """The aborted transactions of one segment."""

    __slots__ = ("base_offset", "entries")

    def __init__(self, disk: Disk, path: str, base_offset: Offset, *, new: bool = False) -> None:
        self.base_offset = base_offset
        self.entries = EntryFile(disk, path, ENTRY_SIZE, new=new)

    def append(self, aborted: AbortedTransaction) -> None:
        """Add a transaction, to the file at once: these are few, and later segments' readers look here too.

        Raises:
            OSError: the disk failed.
        """
        self.entries.append(_ENTRY.pack(_VERSION, *aborted))
        self.entries.write_out()

    def all(self) -> list[AbortedTransaction]:
        """Return every entry, in order of last offset."""
        return [self._entry(slot) for slot in range(self._count())]

    def collect(self, from_offset: Offset, to_offset: Offset) -> tuple[list[AbortedTransaction], bool]:
        """Return the transactions that touch [from_offset, to_offset), and whether later segments can hold no
        more of them.

        An entry whose last stable offset had passed `to_offset` proves it: whatever aborted later began
        later.
        """
        found: list[AbortedTransaction] = []
        for slot in range(self.entries.search(from_offset - 1, _last_offset) + 1, self._count()):
            aborted = self._entry(slot)
            if aborted.first_offset < to_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= to_offset:
                return found, True
        return found, False

    def looks_sane(self) -> bool:
        """Return whether the file holds whole entries of this segment."""
        if self.entries.stored_bytes() % ENTRY_SIZE:
            return False
        for slot in range(self._count()):
            version, _, first, last, _ = _ENTRY.unpack(self.entries.entry(slot))
            if version != _VERSION or last < self.base_offset or first > last:
                return False
        return True

    def truncate_to(self, offset: Offset) -> None:
        """Drop the transactions that ended at or above `offset`."""
        count = self._count()
        keep = count
        while keep and self._entry(keep - 1).last_offset >= offset:
            keep -= 1
        if keep < count:
            self.entries.truncate(keep)

    def reset(self) -> None:
        """Drop every entry; makes no file where there is none."""
        if self._count() or self.entries.stored_bytes():
            self.entries.reset()

    def _count(self) -> int:
        return len(self.entries)

    def _entry(self, slot: int) -> AbortedTransaction:
        _, producer_id, first, last, stable = _ENTRY.unpack(self.entries.entry(slot))
        return AbortedTransaction(ProducerId(producer_id), Offset(first), Offset(last), Offset(stable))
