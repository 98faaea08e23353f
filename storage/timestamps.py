"""Finding offsets by time: ListOffsets queries on one log."""

from typing import NamedTuple

from storage.segment import Segment
from storage.segments import Segments
from wire.records.batch import MAGIC, BatchHeader
from wire.records.legacy import iter_legacy
from wire.records.record import Record, iter_records
from wire.types import NO_LEADER_EPOCH, LeaderEpoch, Offset, WallMs


class TimestampedOffset(NamedTuple):
    """An offset, its record's timestamp, and the leader epoch that it was written in; -1 where not known."""

    timestamp: WallMs
    offset: Offset
    leader_epoch: LeaderEpoch


def find_by_timestamp(segments: Segments, timestamp: WallMs, start: Offset) -> TimestampedOffset | None:
    """Find the first record at or above `start` whose timestamp is at least `timestamp`; None where there is
    none.

    Raises:
        CorruptRecordError: the batch that holds it is damaged.
        OSError: the disk failed.
    """
    for segment in segments:
        if segment.largest_timestamp < timestamp:
            continue
        found = _find_in_segment(segment, timestamp, start)
        if segment is not segments.active:
            segment.close()  # few are searched, but each opens three descriptors
        if found is not None:
            return found
    return None


def _find_in_segment(segment: Segment, timestamp: WallMs, start: Offset) -> TimestampedOffset | None:
    if not segment.indexes_checked:
        segment.check_indexes()
    hint = segment.time_index.lookup(timestamp).offset
    place = segment.find(max(hint, start, segment.base_offset))
    if place is None:
        return None
    for position, header in segment.batches_from(place.position):
        if header.max_timestamp < timestamp or header.last_offset < start:
            continue
        for record in _records(segment, position, header):
            if record.timestamp >= timestamp and record.offset >= start:
                return _found(record, header)
    return None


def find_max_timestamp(segments: Segments) -> TimestampedOffset | None:
    """Find the first record that has the greatest timestamp of the log (KIP-734); None where there is none.

    Raises:
        CorruptRecordError: the batch that holds it is damaged.
        OSError: the disk failed.
    """
    newest = max(segments, key=lambda segment: segment.max_timestamp.timestamp)
    timestamp, offset = newest.max_timestamp
    place = newest.find(offset) if timestamp >= 0 else None
    if place is None:
        return None
    for position, header in newest.batches_from(place.position):
        if header.max_timestamp != timestamp:
            continue
        for record in _records(newest, position, header):
            if record.timestamp == timestamp:
                return _found(record, header)
    return None


def _records(segment: Segment, position: int, header: BatchHeader) -> list[Record]:
    data = segment.file.pread(header.size, position)
    return list(iter_records(data, 0, header) if header.magic == MAGIC else iter_legacy(data))


def _found(record: Record, header: BatchHeader) -> TimestampedOffset:
    epoch = header.partition_leader_epoch if header.partition_leader_epoch >= 0 else NO_LEADER_EPOCH
    return TimestampedOffset(WallMs(record.timestamp), Offset(record.offset), epoch)
