"""Records to columns, many at a time.

One by one, decoding costs microseconds a record. Here only the lengths are walked, which gives where each record
starts; every other field is then read for all records at once with numpy, and keys and values are gathered by Arrow.
The layout is drawn in wire/records/record.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wire.records.errors import CorruptRecordError
from wire.records.record import read_varint

Integers = npt.NDArray[np.int64]

PADDING: Final = bytes(32)
"""Follows the records, so that a damaged last one is noticed by its numbers rather than by the end of the buffer."""

_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """The fields of consecutive records; deltas are against their batches."""

    timestamp_delta: Integers
    offset_delta: Integers
    key: Any
    value: Any
    headers: Any


def record_starts(data: bytes, spans: Sequence[tuple[int, int, int]]) -> tuple[Integers, Integers]:
    """Walk the lengths of records.

    Args:
        data: Batches' records, decompressed.
        spans: Of each batch: where its records begin and end in ``data``, and how many there are.

    Returns:
        Where each record begins, after its length, and where it ends.

    Raises:
        CorruptRecordError: the lengths do not fill the spans.
    """
    starts: list[int] = []
    append = starts.append
    ends: list[int] = []
    end_append = ends.append
    for begin, end, count in spans:
        at = begin
        try:
            for _ in range(count):
                low = data[at]
                if low < 0x80 and not low & 1:
                    at += 1
                    append(at)
                    at += low >> 1
                else:
                    length, at = read_varint(data, at)
                    if length < 0:
                        raise CorruptRecordError(f"a record claims {length} bytes")
                    append(at)
                    at += length
                end_append(at)
        except IndexError:
            raise CorruptRecordError("a record leads out of its batch") from None
        if at != end:
            raise CorruptRecordError(
                f"{count} records take {at - begin} bytes of a batch that has {end - begin}"
            )
    return np.array(starts, np.int64), np.array(ends, np.int64)


def decode_columns(data: bytes, starts: Integers, ends: Integers) -> RecordColumns:
    """Decode all fields of records.

    Args:
        data: As for ``record_starts``, with ``PADDING`` behind it.
        starts: Where each record begins, after its length.
        ends: Where each ends.

    Raises:
        CorruptRecordError: a field leads out of its record.
    """
    raw = np.frombuffer(data, np.uint8)
    try:
        timestamp_delta, at = _varints(raw, starts + 1)  # past the attributes: none are defined
        offset_delta, at = _varints(raw, at)
        key_size, key_at = _varints(raw, at)
        key_end = key_at + np.maximum(key_size, 0)
        value_size, value_at = _varints(raw, key_end)
        value_end = value_at + np.maximum(value_size, 0)
        header_count, at = _varints(raw, value_end)
    except IndexError:
        raise CorruptRecordError("a field leads out of its record") from None
    # Without headers the record ends behind their count.
    bare = header_count == 0
    if (key_size < -1).any() or (value_size < -1).any() or (header_count < 0).any():
        raise CorruptRecordError("a field of a record has a negative length")
    if (at > ends).any() or (at[bare] != ends[bare]).any():
        raise CorruptRecordError("the fields of a record do not fill it")
    buffer = pa.py_buffer(data)
    return RecordColumns(
        timestamp_delta,
        offset_delta,
        _gather(buffer, key_at, key_end, key_size < 0),
        _gather(buffer, value_at, value_end, value_size < 0),
        _headers(data, header_count, at, ends),
    )


def _varints(raw: npt.NDArray[np.uint8], at: Integers) -> tuple[Integers, Integers]:
    """Read a zigzag varint at each position; give the values and the positions after them."""
    byte = raw[at].astype(np.int64)
    value = byte & 0x7F
    following = at + 1
    more = np.flatnonzero(byte >= 0x80)
    shift = 7
    while more.size:
        if shift > 63:
            raise CorruptRecordError("a varint is longer than 10 bytes")
        byte = raw[following[more]].astype(np.int64)
        value[more] |= (byte & 0x7F) << shift
        following[more] += 1
        more = more[byte >= 0x80]
        shift += 7
    unsigned = value.view(np.uint64)
    return (unsigned >> np.uint64(1)).view(np.int64) ^ -(value & 1), following


def _gather(buffer: Any, starts: Integers, ends: Integers, is_null: npt.NDArray[np.bool_]) -> Any:
    """Copy slices of a buffer into a binary array.

    The buffer is taken as a binary array of slices and the gaps between them; every second element is wanted.
    """
    count = len(starts)
    if not count:
        return pa.array([], pa.binary())
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = starts
    offsets[1::2] = ends
    slices = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), buffer])
    wanted = np.arange(0, 2 * count, 2, dtype=np.int32)
    return slices.take(pa.array(wanted, mask=is_null if is_null.any() else None))


def _headers(data: bytes, counts: Integers, at: Integers, ends: Integers) -> Any:
    """Decode headers: few records have any, so these are read one by one."""
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    entries: list[dict[str, Any]] = []
    try:
        for index in np.flatnonzero(counts).tolist():
            position, end = int(at[index]), int(ends[index])
            for _ in range(int(counts[index])):
                size, position = read_varint(data, position)
                key = data[position : position + size].decode(errors="replace")
                size, position = read_varint(data, position + size)
                value = None if size < 0 else data[position : position + size]
                position += max(size, 0)
                entries.append({"key": key, "value": value})
            if position != end:
                raise CorruptRecordError("the headers of a record do not fill it")
    except IndexError:
        raise CorruptRecordError("the headers of a record are damaged") from None
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(entries, _HEADERS.value_type))
