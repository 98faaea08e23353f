"""Splitting a segment whose offsets exceed the range of its indexes.

Offsets in an index are relative, and 2^31 - 1 at most. Old versions of Apache Kafka could compact segments into one
that reaches beyond (KAFKA-6264). Such a segment is split where an offset is out of reach, as Kafka does at its start:

    0.log [0, 5, 3000000000]  ->  0.log [0, 5], 3000000000.log [3000000000]

The parts are written as `.cleaned` files and become `.swap` files, the last one first: a crash before the first one's
name leaves the old segment, a crash after it the new ones.

A damaged base offset, which no checksum covers, looks the same. So a segment is split only if another follows it, and
every offset after the split rises and stays below the next segment's.
"""

import logging
from typing import Final

from storage import names
from storage.offset_index import RELATIVE_OFFSET_MAX
from storage.segment import Segment
from storage.segments import Segments
from wire.records.errors import CorruptRecordError
from wire.types import Offset

_log: Final = logging.getLogger(__name__)


def split_overflowed(segments: Segments) -> bool:
    """Split the segments that reach too far into `.swap` files; the directory has to be read anew then.

    Returns:
        Whether there were any.

    Raises:
        OSError: the disk failed; reading the directory anew undoes or finishes what was begun.
    """
    for segment in segments:
        following = segments.higher(segment.base_offset)
        if following is None or following.base_offset - segment.base_offset <= RELATIVE_OFFSET_MAX:
            continue
        place = _first_out_of_reach(segment, following.base_offset)
        if place is not None:
            position, offset = place
            _log.warning(
                "%s reaches beyond offset %d and is split at %d",
                segment.path(names.LOG),
                segment.base_offset + RELATIVE_OFFSET_MAX,
                offset,
            )
            _split(segments, segment, position, offset)
            return True
    return False


def _first_out_of_reach(segment: Segment, bound: Offset) -> tuple[int, Offset] | None:
    """Return position and base offset of the first batch beyond the indexes, if all offsets after it are in order."""
    found = None
    expected = segment.base_offset
    end = 0
    try:
        for position, header in segment.batches_from(0):
            if header.base_offset < expected:
                return None
            if found is None and header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
                found = position, header.base_offset
            expected, end = header.next_offset, position + header.size
    except CorruptRecordError:
        return None
    return found if expected <= bound and end == segment.size else None


def _split(segments: Segments, segment: Segment, position: int, offset: Offset) -> None:
    disk, directory = segments.log_directory.disk, segments.directory
    # The first part may be empty: its name shows a start after a crash that the old segment was replaced.
    parts = [(offset, position, segment.size - position), (segment.base_offset, 0, position)]
    paths = []
    for base, start, size in parts:
        path = f"{directory}/{names.segment_name(base, names.LOG)}"
        disk.write(path + names.CLEANED, segment.file.pread(size, start), sync=True)
        paths.append(path)
    disk.sync_directory(directory)
    for path in paths:
        disk.rename(path + names.CLEANED, path + names.SWAP)
    disk.sync_directory(directory)
