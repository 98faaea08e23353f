"""The batches and messages of a .log file, damaged ones included, one at a time.

A batch with a wrong checksum is yielded all the same: it is what the user looks for.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ottla.log_dump.failure import DumpError
from wire.records.batch import HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, check_crc
from wire.records.compression import DECOMPRESSED_SIZE_MAX, Compression, decompress
from wire.records.errors import CorruptRecordError
from wire.records.legacy import SIZE_MIN, LegacyMessage, iter_messages, message_records, read_message
from wire.records.record import Record, iter_records

_UP_TO_MAGIC: Final = 17
_OFFSET_AND_SIZE: Final = struct.Struct(">qi")
_LEGACY_FIXED: Final = struct.Struct(">Ibb")
_INT64: Final = struct.Struct(">q")
_TIMESTAMP_TYPE_BIT: Final = 0x08


class StoredBatch(NamedTuple):
    """A batch, or an old format's message, as it stands in a file.

    Attributes:
        position: in the file.
        data: all of it.
        header: of a batch; None for a message.
    """

    position: int
    data: bytes
    header: BatchHeader | None

    @property
    def magic(self) -> int:
        """Its format."""
        return self.data[_UP_TO_MAGIC - 1]

    @property
    def last_offset(self) -> int:
        """Of its last record."""
        if self.header is not None:
            return self.header.last_offset
        offset: int = _INT64.unpack_from(self.data)[0]
        return offset

    @property
    def crc(self) -> int:
        """The checksum that it claims."""
        if self.header is not None:
            return self.header.crc
        crc: int = _LEGACY_FIXED.unpack_from(self.data, LOG_OVERHEAD)[0]
        return crc

    @property
    def is_valid(self) -> bool:
        """Whether the checksum is right."""
        if self.header is None:
            return zlib.crc32(memoryview(self.data)[LOG_OVERHEAD + 4 :]) == self.crc
        try:
            check_crc(self.data, 0, self.header)
        except CorruptRecordError:
            return False
        return True

    @property
    def compression(self) -> Compression:
        """The codec."""
        return Compression.from_attributes(self._attributes)

    @property
    def timestamp_type(self) -> str:
        """Who set the timestamps, in Kafka's terms."""
        if self.magic == 0:
            return "NoTimestampType"
        return "LogAppendTime" if self._attributes & _TIMESTAMP_TYPE_BIT else "CreateTime"

    @property
    def max_timestamp(self) -> int:
        """The greatest timestamp of its records."""
        if self.header is not None:
            return self.header.max_timestamp
        if self.magic == 0:
            return -1
        timestamp: int = _INT64.unpack_from(self.data, LOG_OVERHEAD + _LEGACY_FIXED.size)[0]
        return timestamp

    @property
    def _attributes(self) -> int:
        if self.header is not None:
            return self.header.attributes
        attributes: int = _LEGACY_FIXED.unpack_from(self.data, LOG_OVERHEAD)[2]
        return attributes

    def records(self) -> Iterator[tuple[Record, LegacyMessage | None]]:
        """Return the records; those of old formats with the messages that they came in.

        Raises:
            CorruptRecordError: they cannot be decoded.
            UnsupportedCompressionError: the codec is unknown.
        """
        if self.header is not None:
            for record in iter_records(self.data, 0, self.header):
                yield record, None
            return
        message = read_message(self.data, 0)
        inner = [message]
        if message.compression is not Compression.NONE and message.value is not None:
            plain = decompress(
                message.compression,
                message.value,
                limit=DECOMPRESSED_SIZE_MAX,
                legacy_lz4=message.magic == 0,
            )
            inner = list(iter_messages(plain))
        yield from zip(message_records(message), inner, strict=True)


def read_batches(path: Path, start: int = 0, size_max: int | None = None) -> Iterator[StoredBatch]:
    """Yield the batches of a file, up to one that is cut off.

    Args:
        path: the .log.
        start: where the first one begins.
        size_max: how many bytes from there are read; all if None.

    Raises:
        DumpError: a batch's size is impossible.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        number = file.fileno()
        end = os.fstat(number).st_size
        if size_max is not None:
            end = min(end, start + size_max)
        position = start
        while position < end - _UP_TO_MAGIC:
            offset, size = _OFFSET_AND_SIZE.unpack(os.pread(number, LOG_OVERHEAD, position))
            if size < SIZE_MIN:
                raise DumpError(
                    f"Found record size {size} smaller than minimum record overhead ({SIZE_MIN}) in file {path}: "
                    f"position {position}, offset {offset}"
                )
            if position > end - LOG_OVERHEAD - size:
                return
            data = os.pread(number, LOG_OVERHEAD + size, position)
            yield StoredBatch(position, data, _header(path, position, data))
            position += len(data)


def _header(path: Path, position: int, data: bytes) -> BatchHeader | None:
    magic = data[_UP_TO_MAGIC - 1]
    if magic < MAGIC:
        return None
    if magic > MAGIC:
        raise DumpError(f"{path} has a batch of the unknown format {magic} at {position}")
    if len(data) < HEADER_SIZE:
        raise DumpError(f"{path} has a batch of {len(data)} bytes at {position}, fewer than its header has")
    return BatchHeader._make(HEADER.unpack_from(data))
