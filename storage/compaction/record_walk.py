"""Walking the records of a v2 batch for their keys and places, without making an object of any.

`wire.records.record` has the layout. The varints that nearly all records have are read in place, since a call would
cost as much as all the rest. Bounds are checked by the record's own length: a field that reaches beyond its record is
damage.
"""

from typing import NamedTuple

from storage.compaction.offset_map import EXACT_LENGTH_MAX, OffsetMap, digest
from wire.records.errors import CorruptRecordError
from wire.records.record import read_varint, read_varlong


class Chosen(NamedTuple):
    """The records of a batch that stay.

    Attributes:
        ranges: where they are, as (start, end); neighbours are one range.
        kept: how many they are.
        has_tombstone: whether one of them has no value.
    """

    ranges: list[tuple[int, int]]
    kept: int
    has_tombstone: bool


def collect_keys(data: bytes, count: int, base_offset: int, first_offset: int, into: OffsetMap) -> None:
    """Put the key of each record at or above `first_offset` into a map.

    Raises:
        CorruptRecordError: the bytes do not parse as `count` records.
    """
    offsets = into.offsets
    at, size = 0, len(data)
    try:
        for _ in range(count):
            end, at = _record_end(data, at)
            while data[at] > 0x7F:
                at += 1  # timestamp delta
            at += 1
            if (byte := data[at]) < 0x80:
                offset = base_offset + (byte >> 1)
                at += 1
            else:
                delta, at = read_varint(data, at)
                offset = base_offset + delta
            if (byte := data[at]) < 0x80:
                length = -1 if byte & 1 else byte >> 1
                at += 1
            else:
                length, at = read_varint(data, at)
            if length >= 0:
                if at + length > end:
                    raise CorruptRecordError("a record's key leads out of it")
                if offset >= first_offset:
                    key = data[at : at + length]
                    offsets[key if length <= EXACT_LENGTH_MAX else digest(key)] = offset
            at = end
    except IndexError:
        raise CorruptRecordError("the batch ends inside a record") from None
    if at != size:
        raise CorruptRecordError(f"the records end {at - size} bytes off the batch's end")


def choose_records(
    data: bytes, count: int, base_offset: int, known: OffsetMap, *, tombstones_stay: bool
) -> Chosen:
    """Find the records that stay: those beyond the map, and those that are the latest of their key as far as the map
    knows.

    Args:
        data: the batch's records, decompressed.
        count: how many.
        base_offset: the batch's.
        known: the latest offset of each key.
        tombstones_stay: whether records without a value stay if they are the latest.

    Raises:
        CorruptRecordError: the bytes do not parse as `count` records.
    """
    latest_of, latest = known.offsets.get, known.latest
    ranges: list[tuple[int, int]] = []
    kept = tombstones = 0
    run_start = run_end = -1
    at, size = 0, len(data)
    try:
        for _ in range(count):
            start = at
            end, at = _record_end(data, at)
            while data[at] > 0x7F:
                at += 1  # timestamp delta
            at += 1
            if (byte := data[at]) < 0x80:
                offset = base_offset + (byte >> 1)
                at += 1
            else:
                delta, at = read_varint(data, at)
                offset = base_offset + delta
            if (byte := data[at]) < 0x80:
                length = -1 if byte & 1 else byte >> 1
                at += 1
            else:
                length, at = read_varint(data, at)
            stays = offset > latest
            if length >= 0:
                if at + length > end:
                    raise CorruptRecordError("a record's key leads out of it")
                key = data[at : at + length]
                at += length
                if not stays:
                    stays = offset >= latest_of(key if length <= EXACT_LENGTH_MAX else digest(key), -1)
            if stays and data[at] & 1 and data[at] < 0x80:  # a null value: -1 is the one-byte varint 1
                if tombstones_stay or offset > latest:
                    tombstones += 1
                else:
                    stays = False
            if stays:
                kept += 1
                if start != run_end:
                    if run_end >= 0:
                        ranges.append((run_start, run_end))
                    run_start = start
                run_end = end
            at = end
    except IndexError:
        raise CorruptRecordError("the batch ends inside a record") from None
    if at != size:
        raise CorruptRecordError(f"the records end {at - size} bytes off the batch's end")
    if run_end >= 0:
        ranges.append((run_start, run_end))
    return Chosen(ranges, kept, tombstones > 0)


def max_timestamp_delta(data: bytes, ranges: list[tuple[int, int]]) -> int:
    """Return the greatest timestamp, less the batch's base, of records in a batch that has been walked before."""
    greatest: int | None = None
    for start, end in ranges:
        at = start
        while at < end:
            following, at = _record_end(data, at)
            delta, _ = read_varlong(data, at)
            if greatest is None or delta > greatest:
                greatest = delta
            at = following
    return greatest or 0


def _record_end(data: bytes, at: int) -> tuple[int, int]:
    """Read a record's length; return where it ends, and where its timestamp delta begins."""
    byte = data[at]
    if byte < 0x80:
        at += 1
        length = -1 if byte & 1 else byte >> 1
    else:
        following = data[at + 1]
        if following < 0x80:
            at += 2
            length = -1 if byte & 1 else (byte & 0x7F | following << 7) >> 1
        else:
            length, at = read_varint(data, at)
    if length < 0:
        raise CorruptRecordError("a record of negative length")
    return at + length, at + 1
