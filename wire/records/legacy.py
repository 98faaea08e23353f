"""Message sets, the formats before batches: magic 0 and 1, read, written and converted.

    offset      [8] int64
    size        [4] int32   bytes after this field
    crc         [4] uint32  CRC-32 of everything after it
    magic       [1] int8    0 or 1
    attributes  [1] int8    bits 0-2 codec; bit 3 log-append time (magic 1)
    timestamp   [8] int64   magic 1 only
    key length  [4] int32   -1: null
    key         [...]
    value length [4] int32  -1: null
    value       [...]

A compressed set is the value of one wrapper message, whose offset is that of its last inner message. Inner
offsets are absolute in magic 0. In magic 1 they are relative, and only their distance to the last one counts,
since compaction leaves gaps: ``absolute = wrapper offset - last inner offset + inner offset``. The timestamp of a
wrapper with log-append time applies to all its messages. Wrappers do not nest, and inner and wrapper magic are equal.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from wire.records.batch import (
    LOG_OVERHEAD,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    Buffer,
    check_crc,
    peek_magic,
    read_header,
)
from wire.records.builder import BatchBuilder
from wire.records.compression import DECOMPRESSED_SIZE_MAX, Compression, compress, decompress
from wire.records.errors import CorruptRecordError, UnsupportedCompressionError
from wire.records.record import Record, iter_records
from wire.types import NO_LEADER_EPOCH, NO_TIMESTAMP, LeaderEpoch, Offset, WallMs

SIZE_MIN: Final = 14
"""Bytes of the smallest message, of magic 0 without key and value, after offset and size."""

_ENTRY: Final = struct.Struct(">qi")
_FIXED: Final = struct.Struct(">Ibb")
_TIMESTAMP: Final = struct.Struct(">q")
_INT32: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")


class LegacyMessage(NamedTuple):
    """One message as it stands in its set: a record, or the wrapper of a compressed set.

    ``timestamp`` is -1 in magic 0.
    """

    offset: Offset
    size: int
    crc: int
    magic: int
    attributes: int
    timestamp: WallMs
    key: bytes | None
    value: bytes | None

    @property
    def compression(self) -> Compression:
        """The codec, if it is a wrapper.

        Raises:
            UnsupportedCompressionError: zstd, which these formats cannot carry, or an unknown number.
        """
        codec = Compression.from_attributes(self.attributes)
        if codec is Compression.ZSTD:
            raise UnsupportedCompressionError(f"a message of magic {self.magic} cannot carry zstd")
        return codec

    @property
    def is_log_append_time(self) -> bool:
        """Whether the broker set the timestamp."""
        return self.magic > 0 and self.attributes & TIMESTAMP_TYPE_BIT != 0


def read_message(buffer: Buffer, position: int) -> LegacyMessage:
    """Read and check the message at ``position``, which the buffer must hold whole.

    Raises:
        CorruptRecordError: its size, checksum, magic, lengths or timestamp are wrong.
    """
    try:
        offset, size = _ENTRY.unpack_from(buffer, position)
        end = position + LOG_OVERHEAD + size
        if size < SIZE_MIN or end > len(buffer):
            raise CorruptRecordError(f"the message at {position} claims {size} bytes")
        at = position + LOG_OVERHEAD
        crc, magic, attributes = _FIXED.unpack_from(buffer, at)
        computed = zlib.crc32(memoryview(buffer)[at + 4 : end])
        if computed != crc:
            raise CorruptRecordError(
                f"the message at {position} has the checksum {computed:08x} and claims {crc:08x}"
            )
        at += _FIXED.size
        timestamp: int = NO_TIMESTAMP
        if magic == 1:
            (timestamp,) = _TIMESTAMP.unpack_from(buffer, at)
            at += 8
            if timestamp < NO_TIMESTAMP:
                raise CorruptRecordError(f"the message at {position} has the timestamp {timestamp}")
        elif magic != 0:
            raise CorruptRecordError(f"the message at {position} has magic {magic}, neither 0 nor 1")
        key, at = _read_field(buffer, at, end)
        value, at = _read_field(buffer, at, end)
    except struct.error:
        raise CorruptRecordError(f"the message at {position} ends too early") from None
    if at != end:
        raise CorruptRecordError(f"the message at {position} has {end - at} bytes too many")
    return LegacyMessage(Offset(offset), size, crc, magic, attributes & 0xFF, WallMs(timestamp), key, value)


def _read_field(buffer: Buffer, at: int, end: int) -> tuple[bytes | None, int]:
    if at + 4 > end:
        raise CorruptRecordError("a message ends before a field's length")
    (length,) = _INT32.unpack_from(buffer, at)
    at += 4
    if length < 0:
        return None, at
    after = at + length
    if after > end:
        raise CorruptRecordError(f"a field of {length} bytes in a message with {end - at} left")
    return bytes(buffer[at:after]), after


def iter_messages(buffer: Buffer) -> Iterator[LegacyMessage]:
    """Yield the messages of a set as they are, wrappers included; an incomplete last one ends it silently.

    Raises:
        CorruptRecordError: as ``read_message``, once iteration reaches such a message.
    """
    position = 0
    end = len(buffer)
    while position + LOG_OVERHEAD <= end:
        size = _ENTRY.unpack_from(buffer, position)[1]
        if size < SIZE_MIN:
            raise CorruptRecordError(f"the message at {position} claims {size} bytes")
        if position + LOG_OVERHEAD + size > end:
            return
        yield read_message(buffer, position)
        position += LOG_OVERHEAD + size


def iter_legacy(buffer: Buffer, *, limit: int = DECOMPRESSED_SIZE_MAX) -> Iterator[Record]:
    """Decode a message set into its records, wrappers opened.

    Args:
        buffer: the set.
        limit: the most bytes that one wrapper may decompress to.

    Raises:
        CorruptRecordError: once iteration reaches the damage.
        UnsupportedCompressionError: a codec that the format cannot carry.
    """
    for message in iter_messages(buffer):
        yield from message_records(message, limit=limit)


def message_records(message: LegacyMessage, *, limit: int = DECOMPRESSED_SIZE_MAX) -> Iterable[Record]:
    """Return the records of one message: the message itself, or those it wraps, with absolute offsets.

    Raises:
        CorruptRecordError: what it wraps is damaged, empty, of another magic, or wrapped again.
        UnsupportedCompressionError: the format does not have the codec.
    """
    codec = message.compression
    if codec is Compression.NONE:
        return (Record(message.offset, message.timestamp, message.key, message.value),)
    if message.value is None:
        raise CorruptRecordError("a compressed message set without a value")
    data = decompress(codec, message.value, limit=limit, legacy_lz4=message.magic == 0)
    inner = list(iter_messages(data))
    if not inner:
        raise CorruptRecordError("a compressed message set without messages")
    records: list[Record] = []
    # Some producers (kafka-python, old librdkafka) leave the wrapper's offset at 0.
    shift = message.offset - inner[-1].offset if message.magic > 0 and message.offset else 0
    if shift < 0:
        raise CorruptRecordError(
            f"a compressed message set at {message.offset} whose last message is {inner[-1].offset}"
        )
    for entry in inner:
        if entry.magic != message.magic:
            raise CorruptRecordError(f"a message of magic {entry.magic} in a set of magic {message.magic}")
        if entry.compression is not Compression.NONE:
            raise CorruptRecordError("a compressed message set in a compressed message set")
        timestamp = message.timestamp if message.is_log_append_time else entry.timestamp
        records.append(Record(entry.offset + shift, timestamp, entry.key, entry.value))
    return records


def encode_message(
    offset: int, magic: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None
) -> bytes:
    """Write one message of magic 0, which drops the timestamp, or 1."""
    parts = [bytes((magic, attributes))]
    if magic > 0:
        parts.append(_TIMESTAMP.pack(timestamp))
    for field in (key, value):
        parts.append(_INT32.pack(-1 if field is None else len(field)))
        if field is not None:
            parts.append(field)
    body = b"".join(parts)
    return _ENTRY.pack(offset, 4 + len(body)) + _CRC.pack(zlib.crc32(body)) + body


def build_message_set(
    records: Sequence[Record],
    magic: int,
    *,
    compression: Compression = Compression.NONE,
    log_append_time: WallMs | None = None,
) -> bytes:
    """Write records as a message set, at the offsets they have, rising.

    Args:
        records: what to write; headers are lost, since these formats have none.
        magic: 0 or 1.
        compression: the codec of the set; with one, all of it is one wrapper message.
        log_append_time: milliseconds, the broker's timestamp for all; None keeps their own.

    Raises:
        UnsupportedCompressionError: zstd, which these formats cannot carry.
    """
    if compression is Compression.ZSTD:
        raise UnsupportedCompressionError(f"a message set of magic {magic} cannot carry zstd")
    if not records:
        return b""
    type_bit = TIMESTAMP_TYPE_BIT if magic > 0 and log_append_time is not None else 0
    base = records[0].offset if magic > 0 and compression else 0
    messages = b"".join(
        encode_message(
            record.offset - base,
            magic,
            type_bit,
            record.timestamp if log_append_time is None else log_append_time,
            record.key,
            record.value,
        )
        for record in records
    )
    if compression is Compression.NONE:
        return messages
    timestamp = max(record.timestamp for record in records) if log_append_time is None else log_append_time
    packed = compress(compression, messages, legacy_lz4=magic == 0)
    return encode_message(records[-1].offset, magic, compression | type_bit, timestamp, None, packed)


def up_convert(
    message_set: Buffer,
    *,
    base_offset: Offset = Offset(0),  # noqa: B008 - a NewType call is the bare int
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
    compression: Compression | None = None,
    level: int | None = None,
    log_append_time: WallMs | None = None,
    limit: int = DECOMPRESSED_SIZE_MAX,
) -> bytearray:
    """Write a producer's message set of magic 0 or 1 as one v2 batch with new offsets.

    Args:
        message_set: what the producer sent; all of its messages must be complete.
        base_offset: the first record's offset; the others follow by one.
        leader_epoch: the epoch of the leader that writes it.
        compression: the codec, None for the one that the set has (its last wrapper's).
        level: the codec's level.
        log_append_time: milliseconds, the broker's timestamp for all; None keeps their own.
        limit: the most bytes that one wrapper may decompress to.

    Raises:
        CorruptRecordError: the set is damaged, cut off or empty.
        UnsupportedCompressionError: a codec that the set's format cannot carry.
    """
    source = Compression.NONE
    records: list[Record] = []
    consumed = 0
    for message in iter_messages(message_set):
        source = message.compression or source
        records.extend(message_records(message, limit=limit))
        consumed += LOG_OVERHEAD + message.size
    if consumed != len(message_set):
        raise CorruptRecordError("a message set ends inside a message")
    if not records:
        raise CorruptRecordError("a message set without messages")
    builder = BatchBuilder(
        base_offset=base_offset,
        compression=source if compression is None else compression,
        level=level,
        log_append_time=log_append_time,
        leader_epoch=leader_epoch,
    )
    for record in records:
        builder.append(record.timestamp, record.key, record.value)
    return builder.build()


def down_convert(
    buffer: Buffer, to_magic: int, first_offset: Offset, *, limit: int = DECOMPRESSED_SIZE_MAX
) -> bytes:
    """Convert a log's batches for a client that fetches with an old version.

    Batches and messages that the client can read pass as they are; an incomplete last one is dropped.
    Control batches and headers are left out. Of an uncompressed batch, records before ``first_offset`` are
    dropped, because old clients assume that they asked for every uncompressed message they get.

    Args:
        buffer: batches and messages of any format.
        to_magic: 0 or 1.
        first_offset: where the client's fetch begins.
        limit: the most bytes that one batch may decompress to.

    Raises:
        CorruptRecordError: a batch that must be converted is damaged.
        UnsupportedCompressionError: a batch is compressed with zstd, which the client cannot read.
    """
    out: list[bytes] = []
    position = 0
    end = len(buffer)
    while position + LOG_OVERHEAD < end:
        size = LOG_OVERHEAD + _ENTRY.unpack_from(buffer, position)[1]
        if size < LOG_OVERHEAD + SIZE_MIN:
            raise CorruptRecordError(f"the batch at {position} claims {size - LOG_OVERHEAD} bytes")
        if position + size > end:
            break
        magic = peek_magic(buffer, position)
        if magic <= to_magic:
            out.append(bytes(buffer[position : position + size]))
        elif magic == MAGIC:
            out.append(_down_convert_batch(buffer, position, to_magic, first_offset, limit))
        else:
            message = read_message(buffer, position)
            out.append(
                build_message_set(
                    _from(message_records(message, limit=limit), first_offset, message.compression),
                    to_magic,
                    compression=message.compression,
                )
            )
        position += size
    return b"".join(out)


def _down_convert_batch(
    buffer: Buffer, position: int, to_magic: int, first_offset: Offset, limit: int
) -> bytes:
    header = read_header(buffer, position)
    if header.is_control:
        return b""
    if header.compression is Compression.ZSTD:
        raise UnsupportedCompressionError(f"a client of magic {to_magic} cannot read zstd")
    check_crc(buffer, position, header)
    records = iter_records(buffer, position, header, limit=limit)
    return build_message_set(
        _from(records, first_offset, header.compression),
        to_magic,
        compression=header.compression,
        log_append_time=header.max_timestamp if header.is_log_append_time else None,
    )


def _from(records: Iterable[Record], first_offset: Offset, codec: Compression) -> list[Record]:
    return [record for record in records if codec or record.offset >= first_offset]
