"""Walking the batches of a .log file by their headers, without decoding a record.

A file may hold v2 batches and, where an old Kafka wrote it, messages of the formats before; those get a header with
what they have: their offset as base and last offset, their timestamp, no producer.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Final

from storage.disk import DiskFile
from wire.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    check_crc,
    read_header,
)
from wire.records.errors import CorruptRecordError
from wire.types import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, Offset, WallMs

_HEADERS_AT_ONCE: Final = 8192
_BATCHES_AT_ONCE: Final = 1 << 20
_LEGACY: Final = struct.Struct(">qiIbb")
_TIMESTAMP: Final = struct.Struct(">q")
_LEGACY_SIZE_MIN: Final = LOG_OVERHEAD + 14
_LEGACY_CRC_FROM: Final = 16


def header_at(buffer: bytes | memoryview, position: int) -> BatchHeader | None:
    """Read the header of the batch or message at `position`; None where the buffer ends inside it.

    Raises:
        CorruptRecordError: no format that we know begins there.
    """
    left = len(buffer) - position
    if left <= MAGIC_POSITION:
        return None
    if buffer[position + MAGIC_POSITION] == MAGIC:
        return read_header(buffer, position) if left >= HEADER_SIZE else None
    if left < _LEGACY_SIZE_MIN:
        return None
    offset, length, crc, magic, attributes = _LEGACY.unpack_from(buffer, position)
    if magic not in (0, 1) or length < 14:
        raise CorruptRecordError(f"neither batch nor message begins at {position}")
    timestamp = _TIMESTAMP.unpack_from(buffer, position + _LEGACY.size)[0] if magic else NO_TIMESTAMP
    return BatchHeader(
        base_offset=Offset(offset),
        batch_length=length,
        partition_leader_epoch=NO_LEADER_EPOCH,
        magic=magic,
        crc=crc,
        attributes=attributes,
        last_offset_delta=0,
        base_timestamp=WallMs(timestamp),
        max_timestamp=WallMs(timestamp),
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=-1,
        record_count=1,
    )


def check_checksum(buffer: bytes | memoryview, position: int, header: BatchHeader) -> None:
    """Compare a batch's or message's bytes with its checksum.

    Raises:
        CorruptRecordError: they disagree, or the buffer ends inside it.
    """
    if header.magic == MAGIC:
        check_crc(buffer, position, header)
        return
    end = position + header.size
    if end > len(buffer) or zlib.crc32(memoryview(buffer)[position + _LEGACY_CRC_FROM : end]) != header.crc:
        raise CorruptRecordError(f"the message at {position} does not have its checksum")


def scan_headers(file: DiskFile, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Return position and header of each whole batch in [position, end); an incomplete last one ends it
    silently.

    Raises:
        CorruptRecordError: what follows is no batch; those before it have been yielded.
        OSError: the disk failed.
    """
    buffer, start = b"", position
    while position + LOG_OVERHEAD < end:
        header = header_at(buffer, position - start)
        if header is None:
            buffer, start = file.pread(min(_HEADERS_AT_ONCE, end - position), position), position
            header = header_at(buffer, 0)
            if header is None:
                return
        following = position + LOG_OVERHEAD + header.batch_length
        if following > end:
            return
        yield position, header
        position = following
        if position - start > len(buffer):
            buffer, start = b"", position


def scan_batches(file: DiskFile, position: int, end: int) -> Iterator[tuple[int, BatchHeader, bytes, int]]:
    """Return each whole batch in [position, end): its position, its header, a buffer that holds it, and where in that
    buffer it begins.

    Raises:
        CorruptRecordError: what follows is no batch; those before it have been yielded.
        OSError: the disk failed.
    """
    buffer, start = b"", position
    while position + LOG_OVERHEAD < end:
        header = header_at(buffer, position - start)
        if header is None or position - start + header.size > len(buffer):
            wanted = max(_BATCHES_AT_ONCE, 0 if header is None else header.size)
            buffer, start = file.pread(min(wanted, end - position), position), position
            header = header_at(buffer, 0)
            if header is None:
                return
            if header.size > end - position:
                return
            if header.size > len(buffer):
                buffer = file.pread(header.size, position)
                if header.size > len(buffer):
                    return
        yield position, header, buffer, position - start
        position += header.size
