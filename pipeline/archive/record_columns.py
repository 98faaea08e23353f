"""Records to columns, many at a time.

wire/records/columns.py finds the fields of all records at once; here Arrow gathers keys and values.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wire.records.columns import Integers, record_fields
from wire.records.errors import CorruptRecordError
from wire.records.record import read_varint

PADDING: Final = bytes(32)
"""Follows the records, so that a damaged last one shows in its lengths rather than at the end of the buffer."""

_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """The fields of consecutive records; deltas are relative to their batches."""

    timestamp_delta: Integers
    offset_delta: Integers
    key: Any
    value: Any
    headers: Any


def decode_columns(data: bytes, starts: Integers, ends: Integers) -> RecordColumns:
    """Decode all fields of records.

    Args:
        data: As for ``record_starts``, with ``PADDING`` after it.
        starts: Where each record begins, after its length.
        ends: Where each ends.

    Raises:
        CorruptRecordError: a field reaches beyond its record.
    """
    fields = record_fields(data, starts, ends)
    buffer = pa.py_buffer(data)
    return RecordColumns(
        fields.timestamp_delta,
        fields.offset_delta,
        _gather(buffer, fields.key_start, fields.key_end, fields.key_size < 0),
        _gather(buffer, fields.value_start, fields.value_end, fields.value_size < 0),
        _headers(data, fields.header_count, fields.header_start, ends),
    )


def _gather(buffer: Any, starts: Integers, ends: Integers, is_null: npt.NDArray[np.bool_]) -> Any:
    """Copy slices of a buffer into a binary array.

    The buffer is seen as a binary array of slices and the gaps between them, of which every second element is taken.
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
