"""Batches as Arrow tables; importing it imports pyarrow and numpy.

Keys and values are of type ``binary_view``: sixteen bytes each, which hold a short value itself or say where in the
fetched bytes a long one stands. So nothing is copied; the table keeps the fetch in memory.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from ottla.client.batch_decoding import PartitionRecords
from ottla.client.record_columns import Columns

_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA: Final = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("key", pa.binary_view()),
        pa.field("value", pa.binary_view()),
        pa.field("headers", _HEADERS),
    ]
)
"""The columns, whatever is in a batch; the timestamp counts milliseconds."""
_INLINE_MAX: Final = 12


def to_table(records: PartitionRecords, begin: int, end: int | None) -> Any:
    """Return records as a table.

    Args:
        records: What a fetch brought.
        begin: The first record to show.
        end: The record to stop before, None for all.

    Raises:
        CorruptRecordError: The bytes are damaged.
    """
    if not records.spans:
        return _from_columns(records.columns(), begin, end)
    fields, offsets, timestamps, _ = records.fields()
    skip = int(np.searchsorted(offsets, records.first_offset)) if len(offsets) else 0
    shown = slice(skip + begin, None if end is None else skip + end)
    data = np.frombuffer(records.data, np.uint8)
    count = len(offsets[shown])
    headers: Any = pa.nulls(count, _HEADERS)
    if fields.header_count[shown].any():
        columns = records.columns()
        headers = _headers(columns, begin, begin + count)
    return pa.table(
        [
            pa.array(offsets[shown]),
            pa.array(timestamps[shown]),
            _views(data, fields.key_start[shown], fields.key_size[shown]),
            _views(data, fields.value_start[shown], fields.value_size[shown]),
            headers,
        ],
        schema=SCHEMA,
    )


def _views(data: Any, starts: Any, sizes: Any) -> Any:
    """Make an array of views of slices; those of size -1 are null."""
    count = len(starts)
    views = np.zeros((count, 4), np.int32)
    present = np.maximum(sizes, 0)
    views[:, 0] = present
    is_long = present > _INLINE_MAX
    # Long ones: the first four bytes, the number of the buffer (there is one), the place in it.
    long_starts = starts[is_long]
    prefix = np.zeros((len(long_starts), 4), np.uint8)
    for byte in range(4):
        prefix[:, byte] = data[long_starts + byte]
    views[is_long, 1] = prefix.view(np.int32)[:, 0]
    views[is_long, 3] = long_starts
    short = np.flatnonzero(~is_long & (present > 0))
    if short.size:
        inline = views.view(np.uint8).reshape(count, 16)
        for byte in range(_INLINE_MAX):
            holders = short[present[short] > byte]
            if not holders.size:
                break
            inline[holders, 4 + byte] = data[starts[holders] + byte]
    is_null = sizes < 0
    validity = None
    if is_null.any():
        validity = pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    return pa.Array.from_buffers(
        pa.binary_view(), count, [validity, pa.py_buffer(views), pa.py_buffer(data)], int(is_null.sum())
    )


def _headers(columns: Columns, begin: int, end: int) -> Any:
    entries = [
        [
            {"key": name.encode(errors="surrogateescape").decode(errors="replace"), "value": value}
            for name, value in each
        ]
        if (each := columns.headers.get(index)) is not None
        else None
        for index in range(begin, end)
    ]
    return pa.array(entries, _HEADERS)


def _from_columns(columns: Columns, begin: int, end: int | None) -> Any:
    """Make a table of records that are decoded already: of old formats, or none at all."""
    shown = slice(begin, end)
    count = len(columns.offsets[shown])
    return pa.table(
        [
            pa.array(columns.offsets[shown], pa.int64()),
            pa.array(columns.timestamps[shown], pa.int64()),
            pa.array(columns.keys[shown], pa.binary_view()),
            pa.array(columns.values[shown], pa.binary_view()),
            _headers(columns, begin, begin + count) if count else pa.array([], _HEADERS),
        ],
        schema=SCHEMA,
    )
