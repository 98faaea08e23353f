"""Encoding many records at once, as the batch leaves. No I/O.

A record on the wire is, around its value::

    length varint | 0 | timestamp delta | offset delta | key length, key | value length | value | header count

What stands before a value depends on few things: with sizes and timestamps alike only the offset changes. So the
pieces come from tables by size, and one join makes the batch: a few tenths of a microsecond a record, where building
each record takes several times that. Null values, headers and timestamps far apart take the slow way, a record at a
time.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
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
    """``length varint | attributes`` by the size of what follows the attributes."""

    def __missing__(self, size: int) -> bytes:
        made = encode_varint(size + 1) + b"\0"
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
_OFFSETS: Final = [encode_varint(number) for number in range(1 << 14)]
"""The offset deltas of most batches."""
_BANDS: Final = ((0, 64), (64, 8192), (8192, 1 << 20), (1 << 20, 1 << 27))
"""Offset deltas of one, two, three and four bytes."""


def encode_records(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    headers: Mapping[int, Sequence[Header]] | None,
    timestamps: Sequence[int],
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
    newest = max(timestamps)
    if newest - base <= _ONE_BYTE_MAX and min(timestamps) == base and not headers and None not in values:
        if keys is None:
            body = _encode_values(values, timestamps, base, newest)  # type: ignore[arg-type]  # no None in it
        elif None not in keys:
            body = _encode_pairs(keys, values, timestamps, base, newest)  # type: ignore[arg-type]  # likewise
        else:
            body = _encode_each(values, keys, None, timestamps)
    else:
        body = _encode_each(values, keys, headers, timestamps)
    if compression:
        body = compress(compression, body, level)
    return EncodedRecords(body, compression, len(values), base, newest)


def _offsets(begin: int, end: int) -> Sequence[bytes]:
    return _OFFSETS[begin:end] if end <= len(_OFFSETS) else [_VARINTS[i] for i in range(begin, end)]


def _timestamps(timestamps: Sequence[int], base: int, newest: int) -> Sequence[bytes] | None:
    return None if newest == base else [_OFFSETS[each - base] for each in timestamps]


def _encode_values(values: Sequence[bytes], timestamps: Sequence[int], base: int, newest: int) -> bytes:
    """Encode records without keys: their heads and value lengths come from tables by size."""
    deltas = _timestamps(timestamps, base, newest)
    sizes = list(map(len, values))
    smallest = min(sizes)
    pieces: list[bytes] = []
    for width, (begin, end) in enumerate(_BANDS, 1):
        if begin >= len(values):
            break
        end = min(end, len(values))
        count = end - begin
        part = values[begin:end]
        offsets = _offsets(begin, end)
        between = [b"\0"] * count if deltas is None else deltas[begin:end]
        if smallest == max(sizes):
            middle = _NULL_KEY_AND_LENGTH[smallest]
            head = _HEADS[1 + width + len(middle) + smallest + 1]
            if deltas is None:
                head += b"\0"
                zipped = zip([head] * count, offsets, [middle] * count, part, [b"\0"] * count, strict=True)
                pieces.extend(chain.from_iterable(zipped))
                continue
            heads, middles = [head] * count, [middle] * count
        else:
            middles = [_NULL_KEY_AND_LENGTH[size] for size in sizes[begin:end]]
            heads = [
                _HEADS[2 + width + len(middle) + size]
                for middle, size in zip(middles, sizes[begin:end], strict=True)
            ]
        zeros = [b"\0"] * count
        pieces.extend(chain.from_iterable(zip(heads, between, offsets, middles, part, zeros, strict=True)))
    return b"".join(pieces)


def _encode_pairs(
    keys: Sequence[bytes], values: Sequence[bytes], timestamps: Sequence[int], base: int, newest: int
) -> bytes:
    """Encode records that all have a key and a value."""
    deltas = _timestamps(timestamps, base, newest)
    key_lengths = [_VARINTS[len(key)] for key in keys]
    value_lengths = [_VARINTS[len(value)] for value in values]
    pieces: list[bytes] = []
    for width, (begin, end) in enumerate(_BANDS, 1):
        if begin >= len(values):
            break
        end = min(end, len(values))
        count = end - begin
        heads = [
            _HEADS[2 + width + len(a) + len(key) + len(b) + len(value)]
            for a, key, b, value in zip(
                key_lengths[begin:end],
                keys[begin:end],
                value_lengths[begin:end],
                values[begin:end],
                strict=True,
            )
        ]
        between = [b"\0"] * count if deltas is None else deltas[begin:end]
        pieces.extend(
            chain.from_iterable(
                zip(
                    heads,
                    between,
                    _offsets(begin, end),
                    key_lengths[begin:end],
                    keys[begin:end],
                    value_lengths[begin:end],
                    values[begin:end],
                    [b"\0"] * count,
                    strict=True,
                )
            )
        )
    return b"".join(pieces)


def _encode_each(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    headers: Mapping[int, Sequence[Header]] | None,
    timestamps: Sequence[int],
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
