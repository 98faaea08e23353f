"""The records of many batches decoded at once, with numpy; importing it imports numpy.

One by one, decoding costs microseconds a record. Here the record boundaries are found first: in a run of records of
equal size the length bytes repeat at equal distances, so a run is guessed and checked as a whole; records of changing
size are walked one by one. Every other field is then read for all records at once. The layout is drawn in ``record``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from wire.records.errors import CorruptRecordError
from wire.records.record import read_varint

Integers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_RUN_MIN: Final = 16
"""How many records of equal size in a row make a guess worthwhile."""
_WALK: Final = 64
"""Records walked one by one before the next guess."""


@dataclass(frozen=True, slots=True)
class RecordFields:
    """Where the fields of consecutive records are; deltas are relative to their batches.

    Keys and values that are null have a size of -1, and their end is their start.
    """

    timestamp_delta: Integers
    offset_delta: Integers
    key_start: Integers
    key_size: Integers
    key_end: Integers
    value_start: Integers
    value_size: Integers
    value_end: Integers
    header_count: Integers
    header_start: Integers


def record_starts(
    data: bytes | memoryview, spans: Sequence[tuple[int, int, int]]
) -> tuple[Integers, Integers]:
    """Find the boundaries of records.

    Args:
        data: Batches' records, decompressed.
        spans: For each batch: where its records begin and end in ``data``, and how many there are.

    Returns:
        Where each record begins, after its length, and where it ends.

    Raises:
        CorruptRecordError: the lengths do not fill the spans.
    """
    raw = np.frombuffer(data, np.uint8)
    starts: list[Integers] = []
    ends: list[Integers] = []
    for begin, end, count in spans:
        at = begin
        left = count
        try:
            while left:
                if left >= _RUN_MIN:
                    run, head, stride = _run(raw, data, at, end, left)
                    if run >= _RUN_MIN:
                        first = np.arange(at, at + run * stride, stride, dtype=np.int64)
                        starts.append(first + head)
                        ends.append(first + stride)
                        at += run * stride
                        left -= run
                        continue
                walked = min(left, _WALK)
                some_starts, some_ends, at = _walk(data, at, walked)
                starts.append(np.array(some_starts, np.int64))
                ends.append(np.array(some_ends, np.int64))
                left -= walked
        except IndexError:
            raise CorruptRecordError("a record leads out of its batch") from None
        if at != end:
            raise CorruptRecordError(
                f"{count} records take {at - begin} bytes of a batch that has {end - begin}"
            )
    if not starts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate(starts), np.concatenate(ends)


def _run(raw: Bytes, data: bytes | memoryview, at: int, end: int, left: int) -> tuple[int, int, int]:
    """Return how many records from ``at`` on have the size of the first, the bytes of its length, and its stride."""
    length, after = read_varint(data, at)
    if length < 0:
        raise CorruptRecordError(f"a record claims {length} bytes")
    head = after - at
    stride = head + length
    count = min(left, (end - at) // stride)
    if count < _RUN_MIN:
        return 0, head, stride
    same = raw[at : at + stride * count : stride] == raw[at]
    for byte in range(1, head):
        same &= raw[at + byte : at + stride * count : stride][:count] == raw[at + byte]
    return (count if same.all() else int(same.argmin())), head, stride


def _walk(data: bytes | memoryview, at: int, count: int) -> tuple[list[int], list[int], int]:
    starts: list[int] = []
    ends: list[int] = []
    for _ in range(count):
        low = data[at]
        if low < 0x80:
            length = low >> 1
            at += 1
        else:
            high = data[at + 1]
            if high < 0x80:
                length = ((low & 0x7F) | high << 7) >> 1
                at += 2
            else:
                length, at = read_varint(data, at)
        if low & 1:
            raise CorruptRecordError("a record claims a negative length")
        starts.append(at)
        at += length
        ends.append(at)
    return starts, ends, at


def record_fields(data: bytes | memoryview, starts: Integers, ends: Integers) -> RecordFields:
    """Find the fields of records.

    Args:
        data: As for ``record_starts``.
        starts: Where each record begins, after its length.
        ends: Where each ends.

    Raises:
        CorruptRecordError: a field reaches beyond its record.
    """
    raw = np.frombuffer(data, np.uint8)
    try:
        timestamp_delta, at = read_varints(raw, starts + 1)  # skips the attributes: none are defined
        offset_delta, at = read_varints(raw, at)
        key_size, key_start = read_varints(raw, at)
        key_end = key_start + np.maximum(key_size, 0)
        value_size, value_start = read_varints(raw, key_end)
        value_end = value_start + np.maximum(value_size, 0)
        header_count, at = read_varints(raw, value_end)
    except IndexError:
        raise CorruptRecordError("a field leads out of its record") from None
    # Without headers the record ends after their count.
    bare = header_count == 0
    if (key_size < -1).any() or (value_size < -1).any() or (header_count < 0).any():
        raise CorruptRecordError("a field of a record has a negative length")
    if (at > ends).any() or (at[bare] != ends[bare]).any():
        raise CorruptRecordError("the fields of a record do not fill it")
    return RecordFields(
        timestamp_delta,
        offset_delta,
        key_start,
        key_size,
        key_end,
        value_start,
        value_size,
        value_end,
        header_count,
        at,
    )


def read_varints(raw: Bytes, at: Integers) -> tuple[Integers, Integers]:
    """Read a zigzag varint at each position; return the values and the positions after them.

    Raises:
        IndexError: a position is beyond the end.
        CorruptRecordError: a varint does not end.
    """
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
