"""Lookups that would wait for the disk: find them, and read what they need in a thread.

A reader that is far behind asks for offsets whose index and batches have left the page cache. Looking them up on the
loop would block it for as long as the disk takes. So a thread first reads what the lookup will touch, through
descriptors of its own, since segments come and go meanwhile. The lookup itself stays on the loop, where it finds its
pages in memory.
"""

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from storage import names
from storage.disk import Disk
from storage.offset_index import ENTRY_SIZE
from storage.segment import Segment
from storage.segments import Segments
from wire.types import Offset

INDEX_STAYS_S: Final = 30.0
"""How long an index is assumed to stay in memory after its use, in seconds."""
LOOKED_AT: Final = 8192
"""How much of a .log a lookup reads first, in bytes, from the indexed position on."""
_AHEAD: Final = 256 * 1024


class ColdPlace(NamedTuple):
    """The files to read before an offset is looked up.

    Attributes:
        disk: The disk that holds them.
        segment: The segment that holds the offset.
        offset: The offset.
        paths: Of its .log, offset index, time index and transaction index.
    """

    disk: Disk
    segment: Segment
    offset: Offset
    paths: Sequence[str]

    def read(self) -> None:
        """Read the files; for a thread. An error here is ignored: the lookup meets it again, and reports it."""
        log, *indexes = self.paths
        with suppress(OSError):
            index, *_ = [_read_whole(self.disk, path) for path in indexes]
            file = self.disk.open(log)
            try:
                file.pread(_AHEAD, _position(index, self.offset - self.segment.base_offset))
            finally:
                file.close()


def cold_place(segments: Segments, offset: Offset, now: float) -> ColdPlace | None:
    """Return the files to read before an offset is looked up; None where the lookup does not wait for the disk.

    Args:
        segments: The log's.
        offset: The offset that will be looked up.
        now: A reading of the monotonic clock, in seconds.
    """
    if offset >= segments.end_offset or segments.is_position_known(offset):
        return None
    segment = segments.floor(offset)
    if segment is None:
        return None
    is_known = now - segment.index_used_at < INDEX_STAYS_S
    segment.index_used_at = now
    if is_known:
        try:
            position = segment.offset_index.lookup(offset).position
            if segment.file.is_cached(min(LOOKED_AT, max(segment.size - position, 0)), position):
                return None
        except OSError:
            return None  # the lookup reports it
    suffixes = (names.LOG, names.INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX)
    return ColdPlace(segments.log_directory.disk, segment, offset, [segment.path(each) for each in suffixes])


def _read_whole(disk: Disk, path: str) -> bytes:
    try:
        return disk.read(path)
    except FileNotFoundError:
        return b""


def _position(index: bytes, relative: int) -> int:
    """Return the position at which a lookup will begin, as `OffsetIndex.lookup` does."""
    count = len(index) // ENTRY_SIZE
    slot = bisect_right(range(count), relative, key=lambda slot: _field(index, slot * ENTRY_SIZE)) - 1
    return 0 if slot < 0 else max(0, _field(index, slot * ENTRY_SIZE + 4))


def _field(index: bytes, at: int) -> int:
    return int.from_bytes(index[at : at + 4], "big", signed=True)
