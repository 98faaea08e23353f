"""Walking the records of a v2 batch for their keys, places and times, without making an object of any.

`wire.records.record` has the layout. Bounds are checked by the record's own length: what leads out of its record is
damage.
"""

from typing import NamedTuple

from wire.records.errors import CorruptRecordError
from wire.records.record import read_varint, read_varlong


class RecordPlace(NamedTuple):
    """One record in a batch's decompressed records."""

    start: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    is_tombstone: bool


def collect_keys(data: bytes, count: int, base_offset: int) -> list[tuple[bytes, int]]:
    """Give key and offset of each record that has a key.

    Raises:
        CorruptRecordError: the records do not read as `count` records.
    """
    found: list[tuple[bytes, int]] = []
    at, size = 0, len(data)
    try:
        for _ in range(count):
            length, at = _length(data, at)
            end = at + length
            at += 1  # attributes
            while data[at] > 0x7F:
                at += 1  # timestamp delta
            offset_delta, at = _length(data, at + 1)
            key_length, at = _length(data, at)
            if end > size or at + key_length > end:
                raise CorruptRecordError("a record's key leads out of it")
            if key_length >= 0:
                found.append((data[at : at + key_length], base_offset + offset_delta))
            at = end
    except IndexError:
        raise CorruptRecordError("the batch ends inside a record") from None
    if at != size:
        raise CorruptRecordError(f"{size - at} bytes follow the batch's records")
    return found


def walk_records(data: bytes, count: int) -> list[RecordPlace]:
    """Give the place of each record, with its key and times.

    Raises:
        CorruptRecordError: the records do not read as `count` records.
    """
    found: list[RecordPlace] = []
    at, size = 0, len(data)
    try:
        for _ in range(count):
            start = at
            length, at = _length(data, at)
            end = at + length
            timestamp_delta, at = read_varlong(data, at + 1)
            offset_delta, at = _length(data, at)
            key_length, at = _length(data, at)
            key = None
            if key_length >= 0:
                key = data[at : at + key_length]
                at += key_length
            value_length, at = _length(data, at)
            if end > size or at + max(value_length, 0) > end:
                raise CorruptRecordError("a record's fields lead out of it")
            found.append(RecordPlace(start, end, timestamp_delta, offset_delta, key, value_length < 0))
            at = end
    except IndexError:
        raise CorruptRecordError("the batch ends inside a record") from None
    if at != size:
        raise CorruptRecordError(f"{size - at} bytes follow the batch's records")
    return found


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Read a varint, the one- and two-byte ones that nearly all are without a loop."""
    first = data[at]
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), at + 1
    second = data[at + 1]
    if second < 0x80:
        value = (first & 0x7F) | second << 7
        return (value >> 1) ^ -(value & 1), at + 2
    return read_varint(data, at)
