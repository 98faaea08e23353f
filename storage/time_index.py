"""The .timeindex file: which offset had the greatest timestamp so far, noted when the offset index is.

    timestamp       [8] int64   the greatest timestamp up to here, in milliseconds
    relative offset [4] int32   of the batch that had it, less the segment's base offset

An entry (T, o) says: every record with a timestamp above T comes after o. Timestamps rise strictly, offsets
do not fall.
"""

import struct
from typing import Final, NamedTuple

from storage.disk import Disk
from storage.entry_file import EntryFile
from storage.offset_index import RELATIVE_OFFSET_MAX
from wire.types import NO_TIMESTAMP, Offset, WallMs

ENTRY_SIZE: Final = 12
_ENTRY: Final = struct.Struct(">qi")
_TIMESTAMP: Final = struct.Struct(">q")
_RELATIVE: Final = struct.Struct(">i")


class TimestampOffset(NamedTuple):
    """A timestamp and the offset that goes with it."""

    timestamp: WallMs
    offset: Offset


def _timestamp(buffer: bytes | bytearray, position: int) -> int:
    key: int = _TIMESTAMP.unpack_from(buffer, position)[0]
    return key


def _relative_offset(buffer: bytes | bytearray, position: int) -> int:
    key: int = _RELATIVE.unpack_from(buffer, position + 8)[0]
    return key


class TimeIndex:
    """The time index of one segment."""

    __slots__ = ("_last", "base_offset", "entries")

    def __init__(self, disk: Disk, path: str, base_offset: Offset, *, new: bool = False) -> None:
        self.base_offset = base_offset
        self.entries = EntryFile(disk, path, ENTRY_SIZE, new=new)
        self._last: TimestampOffset | None = TimestampOffset(NO_TIMESTAMP, base_offset) if new else None

    def __len__(self) -> int:
        return len(self.entries)

    def is_full(self, limit_bytes: int) -> bool:
        """Return whether only the slot for a closing segment's last entry is left."""
        return len(self.entries) >= limit_bytes // ENTRY_SIZE - 1

    @property
    def last(self) -> TimestampOffset:
        """The last entry; no timestamp at the segment's start where there is none."""
        if self._last is None:
            count = len(self.entries)
            self._last = self._entry(count - 1) if count else TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return self._last

    def append(self, timestamp: WallMs, offset: Offset) -> None:
        """Add an entry where it says anything new: a timestamp above the last, at an offset not below it."""
        last = self._last or self.last
        if timestamp <= last.timestamp or not last.offset <= offset <= self.base_offset + RELATIVE_OFFSET_MAX:
            return
        self.entries.append(_ENTRY.pack(timestamp, offset - self.base_offset))
        self._last = TimestampOffset(timestamp, offset)

    def lookup(self, timestamp: WallMs) -> TimestampOffset:
        """Find the last entry at or before `timestamp`; no timestamp at the segment's start where there is
        none.
        """
        slot = self.entries.search(timestamp, _timestamp)
        return self._entry(slot) if slot >= 0 else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def looks_sane(self) -> bool:
        """Return whether the file can be a time index: whole entries, the last not before the first, no offset
        below the base.
        """
        if self.entries.stored_bytes() % ENTRY_SIZE:
            return False
        count = len(self.entries)
        if not count:
            return True
        first, last = self._entry(0), self._entry(count - 1)
        return first.timestamp <= last.timestamp and self.base_offset <= first.offset <= last.offset

    def truncate_to(self, offset: Offset) -> None:
        """Drop the entries at and above `offset`."""
        slot = self.entries.search(offset - self.base_offset - 1, _relative_offset)
        self.entries.truncate(slot + 1)
        self._last = None

    def reset(self) -> None:
        """Drop every entry."""
        self.entries.reset()
        self._last = TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def _entry(self, slot: int) -> TimestampOffset:
        timestamp, relative = _ENTRY.unpack(self.entries.entry(slot))
        return TimestampOffset(WallMs(timestamp), Offset(self.base_offset + relative))
