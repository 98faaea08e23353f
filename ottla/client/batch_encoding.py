"""Encoding many records at once, as the batch leaves. No I/O.

A record on the wire is, around its value::

    length varint | 0 | timestamp delta | offset delta | key length, key | value length | value | header count

What stands before a value depends on few things: with sizes and timestamps alike only the offset changes. So the
pieces come from tables by size, and one join makes the batch: a few tenths of a microsecond a record, where building
each record takes several times that. Null values, headers and timestamps far apart take the slow way, a record at a
time.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
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

_ONE_BYTE_MAX: Final = 63
"""The largest number that a zigzag varint holds in one byte."""


class EncodedRecords(NamedTuple):
    """The records of a batch as they stand behind its header, compressed if asked for."""

    body: bytes
    compression: Compression
    record_count: int
    base_timestamp: int
    max_timestamp: int


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
_OFFSETS: Final = [encode_varint(number) for number in range(1 << 14)]
"""The offset deltas of most batches."""
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
    body = None
    if not headers and newest - base <= _ONE_BYTE_MAX and (at_once or sorted(timestamps) == timestamps):
        try:
            if keys is None:
                body = _encode_values(values, timestamps, base, newest)  # type: ignore[arg-type]  # a None raises
            else:
                body = _encode_pairs(keys, values, timestamps, base, newest)  # type: ignore[arg-type]  # likewise
        except TypeError:
            pass  # a null key or value: it has no length
    if body is None:
        body = _encode_each(values, keys, headers, timestamps)
    if compression:
        body = compress(compression, body, level)
    return EncodedRecords(body, compression, len(values), base, newest)


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


def _encode_values(values: Sequence[bytes], timestamps: list[int], base: int, newest: int) -> bytes:
    """Encode records without keys: what stands around their values comes from tables by size.

    Raises:
        TypeError: A value is null.
    """
    count = len(values)
    sizes = list(map(len, values))
    size = sizes[0]
    if count <= len(_OFFSETS) and sizes.count(size) == count:
        return _encode_even(values, size, timestamps, base, newest)
    offsets = _offsets(count)
    middles = list(map(_NULL_KEY_AND_LENGTH.__getitem__, sizes))
    # Behind the attributes: one byte of time, the offset, the middle, the value and the count of headers.
    totals = map(add, map(add, _offset_sizes(offsets), map(len, middles)), sizes)
    pieces = [b""] * (5 * count)
    pieces[0::5] = map(_HEADS.__getitem__, map((2).__add__, totals))
    pieces[1::5] = _deltas(timestamps, base, newest)
    pieces[2::5] = offsets
    pieces[3::5] = middles
    pieces[4::5] = values
    return _joined(pieces)


def _encode_even(values: Sequence[bytes], size: int, timestamps: list[int], base: int, newest: int) -> bytes:
    """Encode records of one size without keys: runs of one time and one length of offset."""
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
    begin = 0
    while begin < count:
        offset_size = _OFFSET_SIZES[begin]
        end = bisect_right(timestamps, timestamps[begin], begin)
        end = min(end, bisect_right(_OFFSET_SIZES, offset_size, begin))
        head = _HEADS[1 + offset_size + len(middle) + size + 1] + _OFFSETS[timestamps[begin] - base]
        pieces[4 * begin : 4 * end : 4] = [head] * (end - begin)
        begin = end
    return _joined(pieces)


def _encode_pairs(
    keys: Sequence[bytes], values: Sequence[bytes], timestamps: list[int], base: int, newest: int
) -> bytes:
    """Encode records that all have a key and a value.

    Raises:
        TypeError: A key or value is null.
    """
    count = len(values)
    key_sizes, value_sizes = list(map(len, keys)), list(map(len, values))
    key_lengths = list(map(_VARINTS.__getitem__, key_sizes))
    value_lengths = list(map(_VARINTS.__getitem__, value_sizes))
    offsets = _offsets(count)
    key_totals = map(add, map(len, key_lengths), key_sizes)
    value_totals = map(add, map(len, value_lengths), value_sizes)
    totals = map(add, map(add, key_totals, value_totals), _offset_sizes(offsets))
    pieces: list[bytes] = [b""] * (7 * count)
    pieces[0::7] = map(_HEADS.__getitem__, map((2).__add__, totals))
    pieces[1::7] = _deltas(timestamps, base, newest)
    pieces[2::7] = offsets
    pieces[3::7] = key_lengths
    pieces[4::7] = keys
    pieces[5::7] = value_lengths
    pieces[6::7] = values
    return _joined(pieces)


def _joined(pieces: list[bytes]) -> bytes:
    """Join records; the count of headers of each stands in front of the next."""
    pieces[0] = pieces[0][1:]
    pieces.append(b"\0")
    return b"".join(pieces)


def _encode_each(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    headers: Mapping[int, Sequence[Header]] | None,
    timestamps: list[int],
) -> bytes:
    builder = BatchBuilder()
    for index, value in enumerate(values):
        key = None if keys is None else keys[index]
        extra = () if headers is None else headers.get(index, ())
        builder.append(timestamps[index], key, value, extra)
    return bytes(builder.build()[HEADER_SIZE:])


def frame_batch(
    records: EncodedRecords,
    identity: ProducerIdentity = NO_IDENTITY,
    base_sequence: int = NO_SEQUENCE,
    *,
    transactional: bool = False,
) -> bytearray:
    """Return the whole batch: encoded records behind their header, checksum included."""
    body = records.body
    batch = bytearray(HEADER_SIZE + len(body))
    HEADER.pack_into(
        batch,
        0,
        0,
        HEADER_SIZE - LOG_OVERHEAD + len(body),
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
    batch[HEADER_SIZE:] = body
    patch_crc(batch, 0)
    return batch


def headers_bound(headers: Sequence[Header]) -> int:
    """Return the most bytes that a record's headers take."""
    return sum(
        HEADER_OVERHEAD_MAX + 4 * len(name) + (0 if value is None else len(value)) for name, value in headers
    )
