"""How dirty a log is, and which of its segments are cleaned into one."""

from typing import NamedTuple

from storage.log import Log
from storage.offset_index import RELATIVE_OFFSET_MAX
from storage.segment import Segment
from wire.types import Offset, WallMs


class Dirt(NamedTuple):
    """How dirty a log is.

    Attributes:
        log: the log.
        first_dirty: the offset up to which it is clean.
        end: the base offset of the first segment that must stay as it is.
        clean_bytes: below `first_dirty`.
        dirty_bytes: from there to `end`.
        delay_ms: how long a record has waited beyond `max.compaction.lag.ms`.
    """

    log: Log
    first_dirty: Offset
    end: Offset
    clean_bytes: int
    dirty_bytes: int
    delay_ms: int

    @property
    def is_wanted(self) -> bool:
        """Whether the log needs cleaning."""
        if not self.dirty_bytes:
            return False
        return self.delay_ms > 0 or self.ratio > self.log.config.min_cleanable_dirty_ratio

    @property
    def ratio(self) -> float:
        """The dirty share of the bytes that may be cleaned."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def measure(log: Log, now: WallMs) -> Dirt:
    """Measure how dirty a log is.

    Raises:
        CorruptRecordError: a segment cannot be parsed.
        OSError: the disk failed.
    """
    segments, config = log.segments, log.config
    start = log.log_start_offset
    first_dirty = log.log_directory.cleaned.get(log.topic_partition, start)
    if not start <= first_dirty <= log.log_end_offset:
        first_dirty = start
    bound = min(log.last_stable_offset, segments.active.base_offset)
    sealed = [segment for segment in segments.between(first_dirty, bound) if segment is not segments.active]
    if config.min_compaction_lag_ms > 0:
        for segment in sealed:
            if segment.largest_timestamp > now - config.min_compaction_lag_ms:
                bound = min(bound, segment.base_offset)
                break
    # A segment that reaches beyond the bound stays as it is.
    end = segments.floor(bound)
    last = end.base_offset if end is not None else bound
    last = max(last, segments.first.base_offset)
    dirty = [segment for segment in sealed if segment.base_offset < last]
    clean_bytes = sum(
        segment.size for segment in segments if segment.base_offset < first_dirty and segment not in dirty
    )
    limit = now - config.max_compaction_lag_ms
    oldest = min((at for segment in dirty if (at := segment.rolling_timestamp) > 0), default=limit)
    delay_ms = max(limit - oldest, 0)
    return Dirt(log, first_dirty, last, clean_bytes, sum(segment.size for segment in dirty), delay_ms)


def group_segments(segments: list[Segment], end: Offset, log: Log) -> list[list[Segment]]:
    """Put neighbours together as long as the result cannot exceed what a segment may hold.

    Args:
        segments: to be cleaned, in order.
        end: where the part ends that may be cleaned.
        log: the log that they belong to.
    """
    config = log.config
    groups: list[list[Segment]] = []
    sizes = [0, 0, 0]
    for slot, segment in enumerate(segments):
        added = [segment.size, len(segment.offset_index) * 8, len(segment.time_index) * 12]
        following = segments[slot + 1].base_offset if slot + 1 < len(segments) else end
        fits = (
            bool(groups)
            and sizes[0] + added[0] <= config.segment_bytes
            and sizes[1] + added[1] <= config.segment_index_bytes
            and sizes[2] + added[2] <= config.segment_index_bytes
            and following - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX
        )
        if fits:
            groups[-1].append(segment)
            sizes = [one + more for one, more in zip(sizes, added, strict=True)]
        else:
            groups.append([segment])
            sizes = added
    return groups
