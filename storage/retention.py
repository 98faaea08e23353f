"""Which old segments may go: by age, by size, or because the log starts beyond them.

Always a prefix of the log, never a segment that reaches past the high watermark, and never an empty active
one.
"""

from collections.abc import Callable

from storage.segment import Segment
from storage.segments import Segments
from wire.types import Offset, WallMs

Predicate = Callable[[Segment, Segment | None], bool]
"""Of a segment and its successor: whether the first may go."""


def deletable(segments: Segments, high_watermark: Offset, may_go: Predicate) -> list[Segment]:
    """Return the longest prefix of the log that may go.

    Raises:
        OSError: the disk failed.
    """
    listed = list(segments)
    found: list[Segment] = []
    for slot, segment in enumerate(listed):
        following = listed[slot + 1] if slot + 1 < len(listed) else None
        upper = following.base_offset if following else segments.end_offset
        if following is None and not segment.size:
            break
        if high_watermark < upper or not may_go(segment, following):
            break
        found.append(segment)
    return found


def before_log_start(log_start: Offset) -> Predicate:
    """Segments whose every offset is below the log's start."""
    return lambda _, following: following is not None and following.base_offset <= log_start


def older_than(retention_ms: int, now: WallMs) -> Predicate:
    """Segments whose largest timestamp is more than `retention_ms` ago."""
    return lambda segment, _: now - segment.largest_timestamp > retention_ms


def beyond_size(size_bytes: int, retention_bytes: int) -> Predicate:
    """Segments without which the log still has `retention_bytes`. Good for one pass: it counts what it lets
    go.
    """
    excess = size_bytes - retention_bytes

    def may_go(segment: Segment, _: Segment | None) -> bool:
        nonlocal excess
        if excess - segment.size < 0:
            return False
        excess -= segment.size
        return True

    return may_go
