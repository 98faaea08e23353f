"""Encoding many records at once, as the batch leaves. No I/O.

A record on the wire is, around its value::

    length varint | 0 | timestamp delta | offset delta | key length, key | value length | value | header count

What stands before a value depends on few things: with sizes and timestamps alike only the offset changes. So the
pieces come from tables by size, and one join makes the batch: a few tenths of a microsecond a record, where building
each record takes several times that. Null values, headers and timestamps far apart take the slow way, a record at a
time.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from operator import add
from typing import Final, NamedTuple

from wire.records.batch import (
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    patch_crc,
)
from wire.records.builder import BatchBuilder, encode_varint
from wire.records.compression import Compression, compress
from wire.records.record import Header
from wire.types import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerEpoch, ProducerId

RECORD_OVERHEAD_MAX: Final = 24
"""The most bytes that a record takes beside its key, value and headers: five varints, attributes, count."""
HEADER_OVERHEAD_MAX: Final = 10
"""The most bytes that a record's header takes beside its name and value."""
BATCH_OVERHEAD: Final = HEADER_SIZE
_HEADER_ROOM: Final = bytes(HEADER_SIZE)

_ONE_BYTE_MAX: Final = 63
"""The largest number that a zigzag varint holds in one byte."""


class EncodedRecords(NamedTuple):
    """The records of a batch as they stand behind its header, compressed if asked for.

    Attributes:
        body: The records' bytes.
        batch: The whole batch, where the body was written into it at once: its header is still to be filled in.
    """

    body: bytes | memoryview
    compression: Compression
    record_count: int
    base_timestamp: int
    max_timestamp: int
    batch: bytearray | None = None


class ProducerIdentity(NamedTuple):
    """The producer id and epoch that a batch is written under."""

    producer_id: ProducerId
    epoch: ProducerEpoch


NO_IDENTITY: Final = ProducerIdentity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class _Varints(dict[int, bytes]):
    """Varints by number, made on first use."""

    def __missing__(self, number: int) -> bytes:
        made = encode_varint(number)
        if len(self) < 100_000:
            self[number] = made
        return made


_VARINTS: Final = _Varints()


class _Heads(dict[int, bytes]):
    """``length varint | attributes`` by the size of what follows the attributes, behind the count of no headers.

    That count ends the record before: so two pieces are one. The first record's is cut off.
    """

    def __missing__(self, size: int) -> bytes:
        made = b"\0" + encode_varint(size + 1) + b"\0"
        if len(self) < 100_000:
            self[size] = made
        return made


_HEADS: Final = _Heads()


class _ValueLengths(dict[int, bytes]):
    """``null key | value length`` by the value's size."""

    def __missing__(self, size: int) -> bytes:
        made = b"\x01" + encode_varint(size)
        if len(self) < 100_000:
            self[size] = made
        return made


_NULL_KEY_AND_LENGTH: Final = _ValueLengths()


class _Prefixes(dict[int, list[bytes]]):
    """All that stands before the values of records of one size, without keys, of one time: by size, then by record."""

    def __missing__(self, size: int) -> list[bytes]:
        if len(self) >= 32:
            self.clear()
        made = self[size] = []
        return made

    def first(self, count: int, size: int) -> list[bytes]:
        """Return what stands before each of the first ``count`` values."""
        made = self[size]
        if len(made) < count:
            middle = _NULL_KEY_AND_LENGTH[size]
            for number in range(len(made), min(2 * count, len(_OFFSETS))):
                offset = _OFFSETS[number]
                made.append(_HEADS[1 + len(offset) + len(middle) + size + 1] + b"\0" + offset + middle)
        return made[:count]


_PREFIXES: Final = _Prefixes()
_OFFSETS: Final = [encode_varint(number) for number in range(64)] + [
    bytes((number << 1 & 0x7F | 0x80, number >> 6)) for number in range(64, 1 << 13)
]
"""The offset deltas of most batches: those that take one byte or two."""
_OFFSET_SIZES: Final = [len(offset) for offset in _OFFSETS]


def encode_records(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    headers: Mapping[int, Sequence[Header]] | None,
    timestamps: list[int],
    compression: Compression = Compression.NONE,
    level: int | None = None,
) -> EncodedRecords:
    """Encode the records of a batch.

    Args:
        values: One a record; not empty.
        keys: One a record, None where no record has a key.
        headers: The headers of those records that have some, by index.
        timestamps: One a record, in milliseconds.
        compression: The codec.
        level: The codec's level, None for its default.
    """
    base = timestamps[0]
    at_once = timestamps.count(base) == len(timestamps)
    newest = base if at_once else max(timestamps)
    batch = None
    if not headers and newest - base <= _ONE_BYTE_MAX and (at_once or sorted(timestamps) == timestamps):
        try:
            if keys is None:
                batch = _encode_values(values, timestamps, base, newest)  # type: ignore[arg-type]  # a None raises
            else:
                batch = _encode_pairs(keys, values, timestamps, base, newest)  # type: ignore[arg-type]  # likewise
        except TypeError:
            pass  # a null key or value: it has no length
    if batch is None:
        batch = _encode_each(values, keys, headers, timestamps)
    body = memoryview(batch)[HEADER_SIZE:]
    if compression:
        return EncodedRecords(compress(compression, body, level), compression, len(values), base, newest)
    return EncodedRecords(body, compression, len(values), base, newest, batch)


def _offsets(count: int) -> list[bytes]:
    return _OFFSETS[:count] if count <= len(_OFFSETS) else [_VARINTS[i] for i in range(count)]


def _offset_sizes(offsets: list[bytes]) -> list[int]:
    return _OFFSET_SIZES[: len(offsets)] if len(offsets) <= len(_OFFSETS) else list(map(len, offsets))


def _deltas(timestamps: list[int], base: int, newest: int) -> list[bytes]:
    """Return the timestamps as varints of one byte each."""
    if newest == base:
        return [b"\0"] * len(timestamps)
    table = {base + delta: _OFFSETS[delta] for delta in range(newest - base + 1)}
    return list(map(table.__getitem__, timestamps))


def _runs(timestamps: list[int], base: int) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield the runs of records whose heads differ by sizes only: begin, end, size of an offset, time."""
    begin, count = 0, len(timestamps)
    while begin < count:
        time, offset_size = timestamps[begin], _OFFSET_SIZES[begin]
        end = min(bisect_right(timestamps, time, begin), bisect_right(_OFFSET_SIZES, offset_size, begin))
        yield begin, end, offset_size, _OFFSETS[time - base]
        begin = end


class _HeadsOfRun(dict[int, bytes]):
    """The heads of a run's records, with their time, by the size of the one field whose size varies."""

    def __init__(self, field: dict[int, bytes], fixed: int, time: bytes) -> None:
        super().__init__()
        self._field = field
        self._fixed = fixed
        self._time = time

    def __missing__(self, size: int) -> bytes:
        made = self[size] = _HEADS[self._fixed + len(self._field[size]) + size] + self._time
        return made


def _encode_values(values: Sequence[bytes], timestamps: list[int], base: int, newest: int) -> bytearray:
    """Encode records without keys: what stands around their values comes from tables by size.

    Raises:
        TypeError: A value is null.
    """
    count = len(values)
    sizes = list(map(len, values))
    size = sizes[0]
    if count > len(_OFFSETS):
        return _encode_many(None, values, timestamps, base, newest)
    if sizes.count(size) == count:
        return _encode_even(values, size, timestamps, base, newest)
    pieces: list[bytes] = [b""] * (4 * count)
    pieces[1::4] = _OFFSETS[:count]
    pieces[2::4] = map(_NULL_KEY_AND_LENGTH.__getitem__, sizes)
    pieces[3::4] = values
    for begin, end, offset_size, time in _runs(timestamps, base):
        # Behind the attributes: one byte of time, the offset, null key and length, the value, the count of headers.
        heads = _HeadsOfRun(_NULL_KEY_AND_LENGTH, 1 + offset_size + 1, time)
        pieces[4 * begin : 4 * end : 4] = map(heads.__getitem__, sizes[begin:end])
    return _joined(pieces)


def _encode_even(
    values: Sequence[bytes], size: int, timestamps: list[int], base: int, newest: int
) -> bytearray:
    """Encode records of one size without keys."""
    count = len(values)
    if newest == base:
        pieces: list[bytes] = [b""] * (2 * count)
        pieces[0::2] = _PREFIXES.first(count, size)
        pieces[1::2] = values
        return _joined(pieces)
    pieces = [b""] * (4 * count)
    pieces[1::4] = _OFFSETS[:count]
    middle = _NULL_KEY_AND_LENGTH[size]
    pieces[2::4] = [middle] * count
    pieces[3::4] = values
    for begin, end, offset_size, time in _runs(timestamps, base):
        head = _HEADS[1 + offset_size + len(middle) + size + 1] + time
        pieces[4 * begin : 4 * end : 4] = [head] * (end - begin)
    return _joined(pieces)


def _encode_pairs(
    keys: Sequence[bytes], values: Sequence[bytes], timestamps: list[int], base: int, newest: int
) -> bytearray:
    """Encode records that all have a key and a value.

    Raises:
        TypeError: A key or value is null.
    """
    count = len(values)
    sizes = list(map(len, values))
    size = sizes[0]
    if count > len(_OFFSETS) or sizes.count(size) != count:
        return _encode_many(keys, values, timestamps, base, newest)
    key_sizes = list(map(len, keys))
    value_length = _VARINTS[size]
    pieces: list[bytes] = [b""] * (6 * count)
    pieces[1::6] = _OFFSETS[:count]
    pieces[2::6] = map(_VARINTS.__getitem__, key_sizes)
    pieces[3::6] = keys
    pieces[4::6] = [value_length] * count
    pieces[5::6] = values
    for begin, end, offset_size, time in _runs(timestamps, base):
        # Behind the attributes: one byte of time, the offset, length and key, length and value, the count of headers.
        heads = _HeadsOfRun(_VARINTS, 1 + offset_size + len(value_length) + size + 1, time)
        pieces[6 * begin : 6 * end : 6] = map(heads.__getitem__, key_sizes[begin:end])
    return _joined(pieces)


def _encode_many(
    keys: Sequence[bytes] | None, values: Sequence[bytes], timestamps: list[int], base: int, newest: int
) -> bytearray:
    """Encode records of any sizes and any number, all with a key or all without.

    Raises:
        TypeError: A key or value is null.
    """
    count = len(values)
    value_sizes = list(map(len, values))
    value_lengths = list(map(_VARINTS.__getitem__, value_sizes))
    key_sizes = [0] * count if keys is None else list(map(len, keys))
    key_lengths = [b"\x01"] * count if keys is None else list(map(_VARINTS.__getitem__, key_sizes))
    offsets = _offsets(count)
    key_totals = map(add, map(len, key_lengths), key_sizes)
    value_totals = map(add, map(len, value_lengths), value_sizes)
    totals = map(add, map(add, key_totals, value_totals), _offset_sizes(offsets))
    pieces: list[bytes] = [b""] * (7 * count)
    pieces[0::7] = map(_HEADS.__getitem__, map((2).__add__, totals))
    pieces[1::7] = _deltas(timestamps, base, newest)
    pieces[2::7] = offsets
    pieces[3::7] = key_lengths
    if keys is not None:
        pieces[4::7] = keys
    pieces[5::7] = value_lengths
    pieces[6::7] = values
    return _joined(pieces)


def _joined(pieces: list[bytes]) -> bytearray:
    """Join records behind the room for a header; the count of headers of each stands in front of the next."""
    pieces[0] = _HEADER_ROOM + pieces[0][1:]
    pieces.append(b"\0")
    return bytearray().join(pieces)


def _encode_each(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    headers: Mapping[int, Sequence[Header]] | None,
    timestamps: list[int],
) -> bytearray:
    builder = BatchBuilder()
    for index, value in enumerate(values):
        key = None if keys is None else keys[index]
        extra = () if headers is None else headers.get(index, ())
        builder.append(timestamps[index], key, value, extra)
    return builder.build()


def frame_batch(
    records: EncodedRecords,
    identity: ProducerIdentity = NO_IDENTITY,
    base_sequence: int = NO_SEQUENCE,
    *,
    transactional: bool = False,
) -> bytearray:
    """Return the whole batch: encoded records behind their header, checksum included.

    A batch that `encode_records` has left room in is filled in, not copied: framed again, it is the same bytes.
    """
    batch, size = records.batch, len(records.body)
    if batch is None:
        batch = bytearray(_HEADER_ROOM)
        batch += records.body
    HEADER.pack_into(
        batch,
        0,
        0,
        HEADER_SIZE - LOG_OVERHEAD + size,
        NO_LEADER_EPOCH,
        MAGIC,
        0,
        records.compression | (TRANSACTIONAL_BIT if transactional else 0),
        records.record_count - 1,
        records.base_timestamp,
        records.max_timestamp,
        identity.producer_id,
        identity.epoch,
        base_sequence,
        records.record_count,
    )
    patch_crc(batch, 0)
    return batch


def headers_bound(headers: Sequence[Header]) -> int:
    """Return the most bytes that a record's headers take."""
    return sum(
        HEADER_OVERHEAD_MAX + 4 * len(name) + (0 if value is None else len(value)) for name, value in headers
    )
