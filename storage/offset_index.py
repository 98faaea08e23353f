"""The .index file: where in the .log the batches are, for about one batch in every `index.interval.bytes`.

    relative offset [4] int32   last offset of what was appended, less the segment's base offset
    position        [4] int32   where in the .log that append begins

Entries rise in both fields. There is no checksum: an entry is a hint, checked against the batch it points to.
"""

import struct
from typing import Final, NamedTuple

from storage.disk import Disk
from storage.entry_file import EntryFile
from wire.types import Offset

ENTRY_SIZE: Final = 8
RELATIVE_OFFSET_MAX: Final = 0x7FFFFFFF
"""How far an offset may be from its segment's base: the most that an index entry can hold."""
_ENTRY: Final = struct.Struct(">ii")
_RELATIVE: Final = struct.Struct(">i")
_POSITION_AT: Final = 4


class OffsetPosition(NamedTuple):
    """An offset and the position in the .log at which a search for it may begin."""

    offset: Offset
    position: int


def _relative_offset(buffer: bytes | bytearray, position: int) -> int:
    key: int = _RELATIVE.unpack_from(buffer, position)[0]
    return key


def _position(buffer: bytes | bytearray, position: int) -> int:
    key: int = _RELATIVE.unpack_from(buffer, position + _POSITION_AT)[0]
    return key


class OffsetIndex:
    """The offset index of one segment."""

    __slots__ = ("_last_relative", "base_offset", "entries")

    def __init__(self, disk: Disk, path: str, base_offset: Offset, *, new: bool = False) -> None:
        self.base_offset = base_offset
        self.entries = EntryFile(disk, path, ENTRY_SIZE, new=new)
        self._last_relative = -1 if new else -2  # -1: empty; -2: not looked at

    def __len__(self) -> int:
        return len(self.entries)

    def is_full(self, limit_bytes: int) -> bool:
        """Return whether a file of `limit_bytes` (`segment.index.bytes`) would have no room for another entry."""
        return len(self.entries) >= limit_bytes // ENTRY_SIZE

    @property
    def last(self) -> OffsetPosition:
        """The last entry; the segment's start where there is none."""
        count = len(self.entries)
        if not count:
            return OffsetPosition(self.base_offset, 0)
        relative, position = _ENTRY.unpack(self.entries.entry(count - 1))
        return OffsetPosition(Offset(self.base_offset + relative), position)

    def append(self, offset: Offset, position: int) -> None:
        """Add an entry. One whose offset is not greater than the last is dropped: the entry before it leads
        there too. So is one that is out of an index's reach: the file is damaged, or not of our making.
        """
        relative = offset - self.base_offset
        if self._last_relative == -2:
            self._load_last()
        if relative <= self._last_relative or relative > RELATIVE_OFFSET_MAX:
            return
        self.entries.append(_ENTRY.pack(relative, position))
        self._last_relative = relative

    def lookup(self, offset: Offset) -> OffsetPosition:
        """Find the greatest entry at or below `offset`; the segment's start where there is none."""
        slot = self.entries.search(offset - self.base_offset, _relative_offset)
        if slot < 0:
            return OffsetPosition(self.base_offset, 0)
        relative, position = _ENTRY.unpack(self.entries.entry(slot))
        return OffsetPosition(Offset(self.base_offset + relative), position)

    def offset_beyond(self, position: int) -> Offset | None:
        """Return an offset above all records before a position; None where the index has none."""
        slot = self.entries.search(position - 1, _position) + 1
        if slot >= len(self.entries):
            return None
        return Offset(self.base_offset + _ENTRY.unpack(self.entries.entry(slot))[0])

    def looks_sane(self, log_size: int) -> bool:
        """Return whether the file can be this segment's index: whole entries, rising, the last one inside the
        log.

        A file that Kafka left behind in a crash is full of zeroes, and fails here.
        """
        if self.entries.stored_bytes() % ENTRY_SIZE:
            return False
        count = len(self.entries)
        if not count:
            return True
        relative, position = _ENTRY.unpack(self.entries.entry(count - 1))
        first_relative, first_position = _ENTRY.unpack(self.entries.entry(0))
        if not (0 <= first_relative <= relative and 0 <= first_position <= position < max(log_size, 1)):
            return False
        # Zeroes are valid only as the first entry: offset 0 of the segment, at its start.
        return count == 1 or relative > 0

    def truncate_to(self, offset: Offset) -> None:
        """Drop the entries at and above `offset`."""
        slot = self.entries.search(offset - self.base_offset - 1, _relative_offset)
        self.entries.truncate(slot + 1)
        self._last_relative = -2

    def reset(self) -> None:
        """Drop every entry."""
        self.entries.reset()
        self._last_relative = -1

    def _load_last(self) -> None:
        count = len(self.entries)
        self._last_relative = _relative_offset(self.entries.entry(count - 1), 0) if count else -1
