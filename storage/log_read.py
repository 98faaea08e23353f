"""Reading a log: which bytes of which .log answer a fetch, without reading them."""

import os
from typing import Final, NamedTuple

from storage.errors import OffsetOutOfRangeError
from storage.segments import LogOffsetMetadata, Segments
from wire.file_range import FileRange
from wire.records.batch import LOG_OVERHEAD
from wire.types import Offset

HOT_BYTES: Final = 64 << 20
"""How many bytes at the end of a log are recent enough to be in memory."""


class LogRead(NamedTuple):
    """What a read found.

    Attributes:
        file_range: the bytes; None where there are none.
        start: the offset that was asked for, with the place of the batch that holds it.
        records_size: bytes in `file_range`.
        first_batch_incomplete: whether even the first batch is cut off, since it exceeds the size asked for.
    """

    file_range: FileRange | None
    start: LogOffsetMetadata
    records_size: int
    first_batch_incomplete: bool


def read_segments(
    segments: Segments,
    offset: Offset,
    max_bytes: int,
    upper_bound: Offset,
    *,
    min_one_batch: bool,
) -> LogRead:
    """Find the bytes that answer a fetch; `Log.read` has the semantics.

    Raises:
        OffsetOutOfRangeError: `offset` lies beyond the log's end.
        OSError: the disk failed.
    """
    end_offset = segments.end_offset
    if offset > end_offset:
        raise OffsetOutOfRangeError(f"offset {offset} is beyond the log's end {end_offset}")
    if offset == end_offset:
        return LogRead(None, segments.end, 0, False)
    place = segments.locate(offset)
    if place is None:
        raise OffsetOutOfRangeError(f"offset {offset} is before the log's first segment")
    segment, position = place
    start = LogOffsetMetadata(offset, segment.base_offset, position)
    if offset >= upper_bound:
        return LogRead(None, start, 0, False)
    end = segment.size
    if upper_bound < end_offset:
        bound = segments.locate(upper_bound)
        if bound is not None and bound[0] is segment:
            end = bound[1]
        elif bound is not None and bound[0].base_offset < segment.base_offset:
            end = position
    available = end - position
    if available <= 0:
        return LogRead(None, start, 0, False)
    size, incomplete = available, False
    if max_bytes < available:
        first = _batch_size(segments, segment.file.pread(LOG_OVERHEAD, position))
        incomplete = max_bytes < first
        size = max(max_bytes, first) if min_one_batch else max_bytes
        incomplete = incomplete and not min_one_batch
        size = min(size, available)
    if size <= 0:
        return LogRead(None, start, 0, incomplete)
    hot = segment is segments.active and segment.size - position <= HOT_BYTES
    return LogRead(FileRange(segment.file, position, size, hot), start, size, incomplete)


def _batch_size(segments: Segments, overhead: bytes) -> int:
    if len(overhead) < LOG_OVERHEAD:
        raise OSError(f"a segment in {segments.directory} is shorter than it was")
    return LOG_OVERHEAD + int.from_bytes(overhead[8:12], "big", signed=True)


def read_range(file_range: FileRange) -> bytes:
    """Return the bytes of a range; fewer where the file was cut since.

    Raises:
        OSError: the disk failed.
    """
    file = file_range.file
    pread = getattr(file, "pread", None)
    if pread is not None:
        data: bytes = pread(file_range.size, file_range.position)
        return data
    return os.pread(file.fileno(), file_range.size, file_range.position)
