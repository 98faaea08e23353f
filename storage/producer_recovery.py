"""Bringing a partition's producer state up to an offset: the newest snapshot at or below it, then the log
from there.
"""

from storage.batch_scan import scan_batches
from storage.producer_state import ProducerState
from storage.producer_table import CompletedTransaction
from storage.segment import Segment
from storage.segments import Segments
from storage.transaction_index import AbortedTransaction
from wire.records.batch import BatchHeader
from wire.records.end_transaction import EndTransactionMarker, read_end_transaction_marker
from wire.records.errors import CorruptRecordError
from wire.records.record import iter_records
from wire.types import Offset, WallMs


def read_marker(
    data: bytes | bytearray | memoryview, position: int, header: BatchHeader
) -> tuple[EndTransactionMarker, WallMs] | None:
    """Read the end marker and its timestamp out of a control batch; None where it holds another kind of
    record, or none.

    Raises:
        CorruptRecordError: the batch or the marker is damaged.
    """
    record = next(iter_records(data, position, header), None)
    if record is None:
        return None
    marker = read_end_transaction_marker(record)
    return None if marker is None else (marker, WallMs(record.timestamp))


def apply_batch(
    producers: ProducerState,
    header: BatchHeader,
    first_offset: Offset,
    data: bytes | bytearray | memoryview,
    position: int,
    timestamp: WallMs | None = None,
) -> CompletedTransaction | None:
    """Take an appended batch into account, whatever its kind.

    Args:
        producers: the state to update.
        header: of the batch.
        first_offset: the offset of its first record in the log.
        data: where its records are.
        position: where it begins in `data`.
        timestamp: its greatest, where the header is from before the leader stamped it.

    Returns:
        The transaction that its marker ended, already completed in `producers`.
    """
    if header.producer_id < 0:
        return None
    if not header.is_control:
        producers.apply(header, first_offset, header.max_timestamp if timestamp is None else timestamp)
        return None
    found = read_marker(data, position, header)
    if found is None:
        return None
    return producers.apply_marker(header, found[0], first_offset, found[1])


def index_completed(producers: ProducerState, completed: CompletedTransaction, segment: Segment) -> None:
    """Write an ended transaction to its segment's index if it was aborted, and complete it in the producer state.

    Raises:
        OSError: the disk failed.
    """
    if completed.aborted:
        stable = producers.stable_offset_after(completed)
        segment.transaction_index.append(
            AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable)
        )
    producers.complete(completed)


def rebuild_producers(
    producers: ProducerState, segments: Segments, log_start: Offset, end: Offset, *, trust_absence: bool
) -> None:
    """Bring producer state to `end`, and leave a snapshot there.

    Args:
        producers: the state to bring up; its snapshot files are read.
        segments: the log. Transaction indexes are left alone: the recovery of a segment writes those.
        log_start: where the log starts.
        end: the offset to reach.
        trust_absence: whether the lack of any snapshot means that there never was a producer (after a clean end).

    Raises:
        OSError: the disk failed.
    """
    now = segments.log_directory.clock.wall_ms()
    if trust_absence and not producers.snapshots:
        producers.end_offset = end
        producers.take_snapshot()
        return
    nothing_to_find = producers.is_empty and producers.end_offset >= end > 0
    producers.truncate_and_reload(log_start, end, now)
    if end > producers.end_offset and not nothing_to_find:
        newest = {segment.base_offset for segment in list(segments)[-2:]}
        for segment in segments.between(producers.end_offset, end):
            start = max(segment.base_offset, producers.end_offset, log_start)
            producers.end_offset = start
            if segment.base_offset in newest:
                producers.take_snapshot()
            scan_segment(producers, segment, start, end)
    producers.end_offset = end
    producers.take_snapshot()


def scan_segment(producers: ProducerState, segment: Segment, start: Offset, end: Offset) -> None:
    """Take the batches of [start, end) in one segment into account; damage ends it, since recovery cuts
    there.

    Raises:
        OSError: the disk failed.
    """
    try:
        found = segment.find(start)
        if found is None:
            return
        for _, header, data, position in scan_batches(segment.file, found.position, segment.size):
            if header.base_offset >= end:
                return
            completed = apply_batch(producers, header, header.base_offset, data, position)
            if completed is not None:
                producers.complete(completed)
    except CorruptRecordError:
        return
