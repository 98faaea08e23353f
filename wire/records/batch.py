"""The v2 batch header: read with one ``struct`` call, checked and patched in place; records are never walked.

    base offset            [8] int64   patched by the leader; outside the checksum
    batch length           [4] int32   bytes after this field
    partition leader epoch [4] int32   patched by the leader; outside the checksum
    magic                  [1] int8    2
    crc                    [4] uint32  CRC-32C of everything after it
    attributes             [2] int16   bits 0-2 codec, 3 log-append time, 4 transactional, 5 control,
                                       6 delete horizon (then base timestamp is that horizon)
    last offset delta      [4] int32   kept by compaction, as base offset is
    base timestamp         [8] int64
    max timestamp          [8] int64
    producer id            [8] int64   -1: none
    producer epoch         [2] int16
    base sequence          [4] int32   -1: none
    record count           [4] int32
    records                [...]       compressed as one stream if a codec is set

https://kafka.apache.org/39/documentation/#recordbatch
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from wire.records.compression import Compression
from wire.records.errors import CorruptRecordError
from wire.types import NO_TIMESTAMP, LeaderEpoch, Offset, ProducerEpoch, ProducerId, WallMs

Buffer = bytes | bytearray | memoryview
WritableBuffer = bytearray | memoryview

HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12
"""Bytes of base offset and batch length, which the batch length does not count."""
MAGIC: Final = 2
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21
NO_SEQUENCE: Final = -1

COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_INT64: Final = struct.Struct(">q")
_INT32: Final = struct.Struct(">i")
_UINT32: Final = struct.Struct(">I")
_INT16: Final = struct.Struct(">h")
_OFFSET_AND_LENGTH: Final = struct.Struct(">qi")
_MAX_TIMESTAMP_POSITION: Final = 35
_SEQUENCE_MAX: Final = 0x7FFFFFFF


class BatchHeader(NamedTuple):
    """The fixed part of a v2 batch. A tuple, since one is made for each batch that the broker handles."""

    base_offset: Offset
    batch_length: int
    partition_leader_epoch: LeaderEpoch
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: WallMs
    max_timestamp: WallMs
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> Offset:
        """The offset of the last record that the batch had when it was written."""
        return Offset(self.base_offset + self.last_offset_delta)

    @property
    def next_offset(self) -> Offset:
        """The offset after the batch."""
        return Offset(self.base_offset + self.last_offset_delta + 1)

    @property
    def last_sequence(self) -> int:
        """The producer's sequence number of the last record, -1 where it has none."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def compression(self) -> Compression:
        """The codec of the records.

        Raises:
            UnsupportedCompressionError: the number is no codec's.
        """
        return Compression.from_attributes(self.attributes)

    @property
    def is_compressed(self) -> bool:
        """Whether any codec is named, a known one or not."""
        return self.attributes & COMPRESSION_MASK != 0

    @property
    def is_log_append_time(self) -> bool:
        """Whether ``max_timestamp``, set by the leader, is the timestamp of each record."""
        return self.attributes & TIMESTAMP_TYPE_BIT != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a marker for brokers, which consumers never see."""
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether compaction has set the time from which the batch's tombstones may be removed."""
        return self.attributes & DELETE_HORIZON_BIT != 0

    @property
    def delete_horizon(self) -> WallMs:
        """The wall time in milliseconds from which the batch's tombstones may be removed; -1 where compaction has set
        none.
        """
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else NO_TIMESTAMP

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent or transactional producer wrote it."""
        return self.producer_id >= 0


def increment_sequence(sequence: int, by: int) -> int:
    """Advance a producer's sequence number, which wraps from 2^31 - 1 to 0."""
    return (sequence + by) & _SEQUENCE_MAX


def decrement_sequence(sequence: int, by: int) -> int:
    """Step a producer's sequence number back; 0 wraps to 2^31 - 1."""
    return (sequence - by) & _SEQUENCE_MAX


def peek_magic(buffer: Buffer, position: int = 0) -> int:
    """Return the format version of the batch or message at ``position``: all formats have it at the same place.

    Raises:
        CorruptRecordError: the buffer ends before it.
    """
    try:
        magic = buffer[position + MAGIC_POSITION]
    except IndexError:
        raise CorruptRecordError("the buffer ends before the batch's magic") from None
    return magic - 256 if magic > 127 else magic


_unpack_header = HEADER.unpack_from
_new_tuple = tuple.__new__


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header of the v2 batch at ``position``. The batch itself may be cut off by the buffer's end.

    Raises:
        CorruptRecordError: the buffer ends inside the header, the magic is not 2, or the length is shorter
            than a header's.
    """
    try:
        header: BatchHeader = _new_tuple(BatchHeader, _unpack_header(buffer, position))
    except struct.error:
        raise CorruptRecordError(f"the buffer ends inside the batch header at {position}") from None
    if header[3] != MAGIC:
        raise CorruptRecordError(f"the batch at {position} has magic {header[3]}, not {MAGIC}")
    if header[1] < HEADER_SIZE - LOG_OVERHEAD:
        raise CorruptRecordError(
            f"the batch at {position} claims {header[1]} bytes, fewer than its header has"
        )
    return header


def iter_headers(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each whole batch, front to back; an incomplete last one ends it silently.

    Raises:
        CorruptRecordError: as ``read_header``, once iteration reaches such a batch.
    """
    position = 0
    end = len(buffer)
    while position + HEADER_SIZE <= end:
        header = read_header(buffer, position)
        following = position + LOG_OVERHEAD + header[1]
        if following > end:
            return
        yield position, header
        position = following


def complete_size(buffer: Buffer) -> int:
    """Count the bytes of the whole batches and messages, of any format, at the front of the buffer.

    Raises:
        CorruptRecordError: a length is negative.
    """
    position = 0
    end = len(buffer)
    unpack = _OFFSET_AND_LENGTH.unpack_from
    while position + LOG_OVERHEAD <= end:
        length = unpack(buffer, position)[1]
        if length < 0:
            raise CorruptRecordError(f"the batch at {position} claims {length} bytes")
        if position + LOG_OVERHEAD + length > end:
            break
        position += LOG_OVERHEAD + length
    return position


def compute_crc(buffer: Buffer, position: int, size: int) -> int:
    """Compute the CRC-32C of the batch of ``size`` bytes at ``position``."""
    return crc32c(memoryview(buffer)[position + ATTRIBUTES_POSITION : position + size])


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Compare a batch's bytes with its checksum.

    Raises:
        CorruptRecordError: they disagree, or the buffer ends inside the batch.
    """
    size = LOG_OVERHEAD + header[1]
    if position + size > len(buffer):
        raise CorruptRecordError(f"the buffer ends inside the batch at {position}")
    computed = crc32c(memoryview(buffer)[position + ATTRIBUTES_POSITION : position + size])
    if computed != header[4]:
        raise CorruptRecordError(
            f"the batch at {position} has the checksum {computed:08x} and claims {header[4]:08x}"
        )


def patch_offset_and_epoch(
    buffer: WritableBuffer, position: int, base_offset: Offset, leader_epoch: LeaderEpoch
) -> None:
    """Write a batch's base offset and leader epoch in place. The checksum covers neither."""
    _INT64.pack_into(buffer, position, base_offset)
    _INT32.pack_into(buffer, position + LOG_OVERHEAD, leader_epoch)


def patch_log_append_time(buffer: WritableBuffer, position: int, now: WallMs) -> None:
    """Make ``now`` the timestamp of each record of a batch, in place, and update the checksum."""
    (attributes,) = _INT16.unpack_from(buffer, position + ATTRIBUTES_POSITION)
    _INT16.pack_into(buffer, position + ATTRIBUTES_POSITION, attributes | TIMESTAMP_TYPE_BIT)
    patch_max_timestamp(buffer, position, now)


def patch_max_timestamp(buffer: WritableBuffer, position: int, max_timestamp: WallMs) -> None:
    """Set a batch's greatest timestamp in place, and update the checksum."""
    _INT64.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, max_timestamp)
    patch_crc(buffer, position)


def patch_crc(buffer: WritableBuffer, position: int) -> None:
    """Compute and write a batch's checksum, after its bytes were changed."""
    (length,) = _INT32.unpack_from(buffer, position + 8)
    _UINT32.pack_into(buffer, position + CRC_POSITION, compute_crc(buffer, position, LOG_OVERHEAD + length))
