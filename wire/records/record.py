"""Records inside a v2 batch: decoded only where a feature needs it.

    length          varint   bytes after this field
    attributes      [1]      unused
    timestamp delta varlong  against the batch's base timestamp
    offset delta    varint   against its base offset
    key length      varint   -1: null
    key             [...]
    value length    varint   -1: null
    value           [...]
    header count    varint
    headers         key length varint, key (UTF-8), value length varint (-1: null), value

Varints are zigzag and seven bits to a byte, low bits first (Protocol Buffers' sint32 and sint64).
https://kafka.apache.org/39/documentation/#record
"""

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final

from wire.records.batch import HEADER_SIZE, LOG_OVERHEAD, NO_SEQUENCE, BatchHeader, Buffer, increment_sequence
from wire.records.compression import DECOMPRESSED_SIZE_MAX, decompress
from wire.records.errors import CorruptRecordError

Header = tuple[str, bytes | None]

_VARINT_SIZE_MAX: Final = 5
_VARLONG_SIZE_MAX: Final = 10
_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1
_CONTROL_KEY: Final = struct.Struct(">hh")


class Record:
    """One record: its offset, timestamp, key, value and headers.

    ``sequence`` is its producer's sequence number, -1 where there is none.
    """

    __slots__ = ("headers", "key", "offset", "sequence", "timestamp", "value")

    def __init__(
        self,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
        sequence: int = NO_SEQUENCE,
    ) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers
        self.sequence = sequence

    def _fields(self) -> tuple[object, ...]:
        return self.offset, self.timestamp, self.key, self.value, tuple(self.headers), self.sequence

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return (
            f"Record(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r}, "
            f"value={self.value!r}, headers={self.headers!r}, sequence={self.sequence})"
        )


class ControlType(IntEnum):
    """The type of a control record; its key holds the number."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


def read_control_type(key: bytes | None) -> ControlType:
    """Read a control record's type from its key: version int16, type int16. Callers must skip unknown ones.

    Raises:
        CorruptRecordError: the key is too short or its version negative.
    """
    if key is None or len(key) < _CONTROL_KEY.size:
        raise CorruptRecordError(f"a control record has the key {key!r}")
    version, number = _CONTROL_KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecordError(f"a control record's key has version {version}")
    try:
        return ControlType(number)
    except ValueError:
        return ControlType.UNKNOWN


def read_varint(buffer: Buffer, position: int, size_max: int = _VARINT_SIZE_MAX) -> tuple[int, int]:
    """Read a zigzag varint of at most ``size_max`` bytes; return the value and the position after it.

    Raises:
        CorruptRecordError: it is longer than that.
        IndexError: the buffer ends inside it.
    """
    byte = buffer[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value = byte & 0x7F
    shift = 7
    limit = 7 * size_max
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= limit:
            raise CorruptRecordError(f"a varint is longer than {size_max} bytes")
    # The last byte may carry bits above the type's width; they are dropped, as in every other reader.
    value &= 0xFFFFFFFF if size_max == _VARINT_SIZE_MAX else 0xFFFFFFFFFFFFFFFF
    return (value >> 1) ^ -(value & 1), position


def read_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read a zigzag varint of at most ten bytes; otherwise as ``read_varint``."""
    return read_varint(buffer, position, _VARLONG_SIZE_MAX)


def records_bytes(
    buffer: Buffer, position: int, header: BatchHeader, *, limit: int = DECOMPRESSED_SIZE_MAX
) -> bytes:
    """Return a batch's records, decompressed, without its header.

    Raises:
        CorruptRecordError: the buffer ends inside the batch, its compressed data is damaged or holds more
            than ``limit`` bytes.
        UnsupportedCompressionError: its codec is unknown.
    """
    end = position + LOG_OVERHEAD + header.batch_length
    if end > len(buffer):
        raise CorruptRecordError(f"the buffer ends inside the batch at {position}")
    body = memoryview(buffer)[position + HEADER_SIZE : end]
    if not header.is_compressed:
        return bytes(body)
    return decompress(header.compression, body, limit=limit)


def iter_records(
    buffer: Buffer, position: int, header: BatchHeader, *, limit: int = DECOMPRESSED_SIZE_MAX
) -> Iterator[Record]:
    """Decode the records of the batch at ``position``, strictly. ``check_crc`` checks the checksum, this does not.

    Args:
        buffer: holds the whole batch.
        position: where the batch begins.
        header: its header.
        limit: the most bytes that its records may decompress to.

    Raises:
        CorruptRecordError: once iteration reaches the damage: a length that exceeds its record or batch, a varint that
            does not end, too many or too few bytes or records.
        UnsupportedCompressionError: the codec is unknown.
    """
    if header.record_count < 0:
        raise CorruptRecordError(f"the batch at {position} claims {header.record_count} records")
    if header.record_count == 0:
        return  # compaction keeps such headers for their producer's sake; nothing compressed follows them
    data = records_bytes(buffer, position, header, limit=limit)
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    base_sequence = header.base_sequence
    append_time = header.max_timestamp if header.is_log_append_time else None
    at = 0
    size = len(data)
    for _ in range(header.record_count):
        try:
            length, at = read_varint(data, at)
            end = at + length
            if length < 0 or end > size:
                raise CorruptRecordError(f"a record claims {length} bytes where {size - at} are left")
            at += 1  # attributes: none are defined
            timestamp_delta, at = read_varint(data, at, _VARLONG_SIZE_MAX)
            offset_delta, at = read_varint(data, at)
            key, at = _read_nullable(data, at, end)
            value, at = _read_nullable(data, at, end)
            count = data[at]
            if count:
                headers, at = _read_headers(data, at, end)
            else:
                headers = ()
                at += 1
        except IndexError:
            raise CorruptRecordError("the batch ends inside a record") from None
        if at != end:
            raise CorruptRecordError(f"a record claims {length} bytes and has {length + at - end}")
        timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
        if not _INT64_MIN <= timestamp <= _INT64_MAX:
            raise CorruptRecordError(f"a record has the timestamp {timestamp}")
        yield Record(
            base_offset + offset_delta,
            timestamp,
            key,
            value,
            headers,
            NO_SEQUENCE if base_sequence < 0 else increment_sequence(base_sequence, offset_delta),
        )
    if at != size:
        raise CorruptRecordError(f"{size - at} bytes follow the batch's {header.record_count} records")


def _read_nullable(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = read_varint(data, at)
    if length < 0:
        return None, at
    after = at + length
    if after > end:
        raise CorruptRecordError(f"a field of {length} bytes in a record with {end - at} left")
    return data[at:after], after


def _read_headers(data: bytes, at: int, end: int) -> tuple[Sequence[Header], int]:
    count, at = read_varint(data, at)
    # Each header takes at least two bytes: a higher count would only make us loop before failing.
    if count < 0 or count > (end - at) // 2:
        raise CorruptRecordError(f"a record claims {count} headers where {end - at} bytes are left")
    headers: list[Header] = []
    for _ in range(count):
        key, at = _read_nullable(data, at, end)
        value, at = _read_nullable(data, at, end)
        if key is None:
            raise CorruptRecordError("a record has a header without a key")
        # Clients may put any bytes there; compaction must write them back unchanged.
        headers.append((key.decode(errors="surrogateescape"), value))
    return headers, at
