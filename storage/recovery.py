"""Opening a log's directory: whatever a stop left behind becomes a log that can be trusted.

After a clean stop the files are believed as they are, and almost none of them is read. After any other:

1. `.deleted` and `.cleaned` files go. `.swap` files are complete: the segments that they replace go, they take their
   names.
2. Every segment from the one that holds the recovery point on is read: batch by batch its checksum is compared, and
   indexes, leader epochs and producer state are rebuilt. At the first damage the log is cut, and later segments are
   removed.
3. Leader epochs and snapshots beyond the end go.

The recovery point itself does not move: only a flush moves it.
"""

import logging
from collections.abc import Callable
from itertools import pairwise
from typing import Final, NamedTuple

from storage import names
from storage.batch_scan import check_checksum, scan_batches
from storage.leader_epochs import LeaderEpochCache
from storage.offset_index import RELATIVE_OFFSET_MAX
from storage.producer_recovery import apply_batch, index_completed, rebuild_producers
from storage.producer_state import ProducerState
from storage.segment import Segment
from storage.segment_split import split_overflowed
from storage.segments import Segments
from wire.records.batch import BatchHeader
from wire.records.errors import CorruptRecordError, UnsupportedCompressionError
from wire.types import NO_LEADER_EPOCH, LeaderEpoch, Offset, WallMs

_log: Final = logging.getLogger(__name__)


class LoadedOffsets(NamedTuple):
    """Where a loaded log starts, what of it is known to be on disk, and where it ends."""

    log_start: Offset
    recovery_point: Offset
    end: Offset


def load(
    segments: Segments,
    epochs: LeaderEpochCache,
    producers: ProducerState,
    *,
    log_start: Offset,
    recovery_point: Offset,
    clean: bool,
    compacted_to: Offset = Offset(0),  # noqa: B008 - a NewType call is the bare int
    progress: Callable[[int], None] | None = None,
) -> LoadedOffsets:
    """Open the segments of a log's directory, recovering what must be.

    Args:
        segments: empty; filled with what is found, one empty segment where that is nothing.
        epochs: empty; filled.
        producers: empty; brought to the log's end.
        log_start: the checkpointed log start, 0 where there is none.
        recovery_point: the checkpointed recovery point, 0 where there is none.
        clean: whether the directory holds the clean-shutdown marker.
        compacted_to: up to where the log was compacted, so that offsets may be missing between segments.
        progress: called with the bytes recovered so far, now and then; for display.

    Raises:
        OSError: the disk failed.
    """
    producers.found_snapshots(_open_segments(segments))
    while split_overflowed(segments):
        segments.forget()
        producers.found_snapshots(_open_segments(segments))
    epochs.load()
    if not clean:
        _recover(segments, epochs, producers, log_start, recovery_point, progress, compacted_to)
    end = _find_end(segments, epochs, producers, log_start, clean=clean)
    segments.end_offset = end
    epochs.truncate_suffix(end)
    first = epochs.earliest_entry
    if not clean and first is not None and first.start_offset > max(log_start, segments.first.base_offset):
        # The log start was moved, and the crash has undone it; the epochs before it were forgotten for good.
        epochs.clear()
        _rebuild_epochs(segments, epochs, end)
    epochs.truncate_prefix(log_start)
    epochs.write()
    start = max(log_start, segments.first.base_offset)
    producers.remove_strays(segment.base_offset for segment in segments)
    rebuild_producers(producers, segments, start, end, trust_absence=clean)
    return LoadedOffsets(start, end if clean else min(recovery_point, end), end)


def _open_segments(segments: Segments) -> list[Offset]:
    """Open the segments that are there; return the offsets of the snapshots."""
    bases, snapshots = _tidy(segments)
    for base in bases:
        segments.add(segments.open_segment(base))
    return snapshots


def _tidy(segments: Segments) -> tuple[list[Offset], list[Offset]]:
    """Finish the file operations that a crash interrupted; return the remaining base offsets and snapshot offsets."""
    disk, directory = segments.log_directory.disk, segments.directory
    names_found = {entry.name for entry in disk.list_directory(directory) if not entry.is_directory}
    cleaned = [name for name in names_found if name.endswith(names.CLEANED)]
    swaps = {name for name in names_found if name.endswith(names.SWAP)}
    # A swap beyond the first .cleaned file belongs to a split that was not finished.
    first_cleaned = min((names.parse_offset(name) or Offset(0) for name in cleaned), default=None)
    if first_cleaned is not None:
        unfinished = {name for name in swaps if (names.parse_offset(name) or 0) >= first_cleaned}
        swaps -= unfinished
        cleaned.extend(unfinished)
    for name in [*cleaned, *(name for name in names_found if name.endswith((names.DELETED, ".tmp")))]:
        disk.remove(f"{directory}/{name}")
        names_found.discard(name)
    if swaps:
        names_found = _finish_swap(segments, names_found, swaps)
    bases = sorted(
        offset
        for name in names_found
        if name.endswith(names.LOG) and (offset := names.parse_offset(name)) is not None
    )
    snapshots = []
    for name in names_found:
        offset = names.parse_offset(name)
        if offset is None:
            continue
        if name.endswith(names.SNAPSHOT):
            snapshots.append(offset)
        elif name.endswith((names.INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX)) and (
            names.segment_name(offset, names.LOG) not in names_found
        ):
            disk.remove(f"{directory}/{name}")
    return bases, snapshots


def _finish_swap(segments: Segments, names_found: set[str], swaps: set[str]) -> set[str]:
    disk, directory = segments.log_directory.disk, segments.directory
    low, high = Offset(1 << 62), Offset(-1)
    for name in swaps:
        base = names.parse_offset(name)
        if base is None or not name.endswith(names.LOG + names.SWAP):
            continue
        swapped = Segment(disk, directory, base, created_ms=WallMs(0), suffix=names.SWAP)
        low, high = min(low, base), max(high, _end_or(swapped, base))
        swapped.close()
    remaining = set()
    for name in names_found - swaps:
        offset = names.parse_offset(name)
        if offset is not None and low <= offset < high:
            disk.remove(f"{directory}/{name}")
        else:
            remaining.add(name)
    for name in swaps:
        final = name.removesuffix(names.SWAP)
        disk.rename(f"{directory}/{name}", f"{directory}/{final}")
        remaining.add(final)
    return remaining


def _recover(
    segments: Segments,
    epochs: LeaderEpochCache,
    producers: ProducerState,
    log_start: Offset,
    recovery_point: Offset,
    progress: Callable[[int], None] | None,
    compacted_to: Offset,
) -> None:
    if not len(segments):
        return
    pending = segments.between(_trusted_end(segments, recovery_point, compacted_to), Offset(1 << 62))
    # Believe the epochs of flushed segments only; those of the rest are in their batches.
    epochs.truncate_suffix(max(pending[0].base_offset, Offset(0)))
    if not epochs and len(pending) < len(segments):
        _rebuild_epochs(segments, epochs, pending[0].base_offset)
    segments.end_offset = pending[0].base_offset
    rebuild_producers(
        producers,
        segments,
        max(log_start, segments.first.base_offset),
        pending[0].base_offset,
        trust_absence=False,
    )
    tail = RecoveredTail(pending[0].base_offset, NO_LEADER_EPOCH, 0, has_gaps=False)
    for slot, segment in enumerate(pending):
        size = segment.size
        if not _follows(segment, tail, compacted_to):
            _log.warning(
                "%s: segment %d does not follow %d", segments.directory, segment.base_offset, tail.end
            )
            segments.remove(pending[slot:])
            break
        tail = recover_segment(segment, epochs, producers, segments.config.index_interval_bytes, tail.epoch)
        if progress is not None:
            progress(size)
        if tail.cut:
            later = pending[slot + 1 :]
            _log.warning("%s was cut by %d bytes, %d later segments go", segment, tail.cut, len(later))
            segments.remove(later)
            break
        producers.take_snapshot()


def _trusted_end(segments: Segments, recovery_point: Offset, compacted_to: Offset) -> Offset:
    """Return the offset from which on the log has to be read: the recovery point, or the start of an earlier segment
    that does not end where the next one begins.

    A power loss leaves such a hole when a truncation crossed two segments: it kept the cut of the first, but undid the
    removal of the second and the lowering of the recovery point.
    """
    trusted = segments.between(Offset(0), recovery_point)
    for segment, following in pairwise(trusted):
        if following.base_offset <= compacted_to:
            continue
        end = segment.end()
        segment.close()
        if end is None or end.next_offset != following.base_offset:
            return segment.base_offset
    return recovery_point


class RecoveredTail(NamedTuple):
    """How a recovered segment ends.

    Attributes:
        end: the offset after its last batch.
        epoch: that batch's leader epoch.
        cut: bytes that were cut off.
        has_gaps: whether records are missing within it: whether it was compacted.
    """

    end: Offset
    epoch: LeaderEpoch
    cut: int
    has_gaps: bool


def _follows(segment: Segment, before: RecoveredTail, compacted_to: Offset) -> bool:
    """Return whether a segment can follow a recovered one; False where the crash lost records between them.

    Only compaction leaves offsets out, and its segments are synced before they are used. Our own leaves none out
    between segments.
    """
    gap = segment.base_offset - before.end
    if gap == 0:
        return True
    if gap < 0:
        return False
    return segment.base_offset <= compacted_to or before.has_gaps or gap > RELATIVE_OFFSET_MAX


def recover_segment(
    segment: Segment,
    epochs: LeaderEpochCache,
    producers: ProducerState,
    index_interval: int,
    epoch: LeaderEpoch = NO_LEADER_EPOCH,
) -> RecoveredTail:
    """Read a segment batch by batch, rebuild all that is derived from it, and cut it where it is damaged.

    Args:
        segment: the segment to recover.
        epochs: gets the leader epochs of its batches.
        producers: gets their producers; must stand at the segment's base offset.
        index_interval: bytes between index entries.
        epoch: the leader epoch of the batch before the segment.

    Raises:
        OSError: the disk failed.
    """
    segment.reset_indexes()
    segment.transaction_index.reset()
    valid = last_indexed = 0
    has_gaps = False
    next_offset = segment.base_offset
    try:
        for position, header, data, at in scan_batches(segment.file, 0, segment.size):
            _check_batch(segment, header, data, at, next_offset, epoch)
            segment.note_timestamp(header.max_timestamp, header.last_offset)
            if position - last_indexed > index_interval:
                segment.index_batch(header.last_offset, position)
                last_indexed = position
            if header.partition_leader_epoch > epochs.latest:
                epochs.assign(header.partition_leader_epoch, header.base_offset)
            completed = apply_batch(producers, header, header.base_offset, data, at)
            if completed is not None:
                index_completed(producers, completed, segment)
            missing = header.last_offset_delta + 1 - header.record_count
            has_gaps = has_gaps or missing > 0 or header.base_offset > next_offset
            valid, epoch = position + header.size, header.partition_leader_epoch
            next_offset = producers.end_offset = header.next_offset
    except (CorruptRecordError, UnsupportedCompressionError) as error:
        _log.warning("%s is damaged at %d: %s", segment.path(names.LOG), valid, error)
    cut = segment.size - valid
    if cut:
        segment.truncate_bytes(valid)
    segment.time_index.append(*segment.max_timestamp)
    segment.offset_index.entries.trim()
    segment.time_index.entries.trim()
    return RecoveredTail(next_offset, epoch, cut, has_gaps)


def _check_batch(
    segment: Segment, header: BatchHeader, data: bytes, position: int, next_offset: Offset, epoch: LeaderEpoch
) -> None:
    check_checksum(data, position, header)
    if header.base_offset < next_offset or header.last_offset_delta < 0:
        raise CorruptRecordError(
            f"the batch of offsets {header.base_offset} to {header.last_offset} follows offset {next_offset}"
        )
    if header.partition_leader_epoch < epoch:
        # Bytes of a log that was truncated and written again, and whose truncation the crash has undone.
        raise CorruptRecordError(f"leader epoch {header.partition_leader_epoch} follows {epoch}")
    if header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
        raise CorruptRecordError(
            f"offset {header.last_offset} is out of reach of a segment that starts at {segment.base_offset}"
        )


def _rebuild_epochs(segments: Segments, epochs: LeaderEpochCache, end: Offset) -> None:
    """Read the leader epochs out of the batches below `end`."""
    for segment in segments:
        if segment.base_offset >= end:
            return
        try:
            for _, header in segment.batches_from(0):
                if header.partition_leader_epoch > epochs.latest:
                    epochs.assign(header.partition_leader_epoch, header.base_offset)
        except CorruptRecordError:
            return


def _end_or(segment: Segment, otherwise: Offset) -> Offset:
    end = segment.end()
    return otherwise if end is None else end.next_offset


def _find_end(
    segments: Segments, epochs: LeaderEpochCache, producers: ProducerState, log_start: Offset, *, clean: bool
) -> Offset:
    """Return the log's end; a log that ends before its start is dropped, and one that has no segment gets
    one.
    """
    if len(segments):
        found = segments.active.end()
        if found is not None:
            end = found.next_offset
            if clean and found.leader_epoch not in (
                NO_LEADER_EPOCH,
                epochs.epoch_for_offset(found.last_base_offset),
            ):
                _log.warning(
                    "%s: the leader epochs are not those of the last batch, and are read anew",
                    segments.directory,
                )
                epochs.clear()
                _rebuild_epochs(segments, epochs, end)
        else:
            # A clean marker and a torn file: it was copied or cut by hand. Only the bytes can tell what is left.
            active = segments.active
            _log.warning("%s does not end with a whole batch, and is recovered", active.path(names.LOG))
            segments.end_offset = active.base_offset
            start = max(log_start, segments.first.base_offset)
            rebuild_producers(producers, segments, start, active.base_offset, trust_absence=clean)
            epochs.truncate_suffix(active.base_offset)
            end = recover_segment(active, epochs, producers, segments.config.index_interval_bytes).end
        if end >= log_start:
            return end
        _log.warning(
            "%s ends at %d, before its start %d, and begins anew", segments.directory, end, log_start
        )
        epochs.clear()
        producers.truncate_fully(log_start)
        segments.truncate_fully(log_start)
    else:
        segments.add(segments.open_new(log_start))
    return log_start
