"""The four codecs, in the framings that Kafka's clients write and expect.

- gzip: RFC 1952 members, one or several in a row.
- snappy: "xerial" framing, as snappy-java writes it; read both framed and bare.

      magic  [8]  82 'S' 'N' 'A' 'P' 'P' 'Y' 00
      version [4] int32 = 1
      compatible [4] int32 = 1
      then chunks: length [4] int32, a bare snappy block [length]

- lz4: one LZ4 frame of independent blocks, since Java's reader refuses linked ones. Message format 0 had a
  bug that became its format: the frame header's checksum also covers the frame's magic number.
- zstd: RFC 8878 frames.

The codec libraries are imported on first use; a broker that stores batches as they come needs none of them.
Contexts are kept per thread, since building one costs more than compressing a small batch with it.
"""

import struct
import threading
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

from wire.records.errors import CorruptRecordError, UnsupportedCompressionError

DECOMPRESSED_SIZE_MAX: Final = 128 * 1024 * 1024
"""The most bytes that one batch may decompress to, where the caller sets no limit of its own."""

_READ_SIZE_MIN: Final = 64 * 1024
_READ_SIZE_MAX: Final = 4 * 1024 * 1024

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = struct.Struct(">8sii")
_XERIAL_BLOCK_SIZE: Final = 32 * 1024
_INT32: Final = struct.Struct(">i")

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_CONTENT_SIZE_FLAG: Final = 0x08

Buffer = bytes | bytearray | memoryview


class Compression(IntEnum):
    """A codec, by its number in the lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def kafka_name(self) -> str:
        """The name in ``compression.type``."""
        return _NAMES[self]

    @classmethod
    def from_kafka_name(cls, name: str) -> "Compression":
        """Read a name as ``compression.type`` has it; ``uncompressed`` is no codec.

        Raises:
            ValueError: there is no such codec.
        """
        try:
            return _BY_NAME[name]
        except KeyError:
            raise ValueError(f"no compression codec is called {name!r}") from None

    @classmethod
    def from_attributes(cls, attributes: int) -> "Compression":
        """Return the codec that a batch's or message's attributes name.

        Raises:
            UnsupportedCompressionError: the number is not a known codec's.
        """
        try:
            return _BY_NUMBER[attributes & 0x07]
        except IndexError:
            raise UnsupportedCompressionError(
                f"no compression codec has the number {attributes & 7}"
            ) from None


_NAMES: Final = {
    Compression.NONE: "none",
    Compression.GZIP: "gzip",
    Compression.SNAPPY: "snappy",
    Compression.LZ4: "lz4",
    Compression.ZSTD: "zstd",
}
_BY_NAME: Final = {name: codec for codec, name in _NAMES.items()} | {"uncompressed": Compression.NONE}
_BY_NUMBER: Final = tuple(Compression)

LEVELS: Final = {
    Compression.GZIP: range(1, 10),
    Compression.LZ4: range(1, 18),
    Compression.ZSTD: range(-131072, 23),
}
"""The levels that Kafka accepts per codec; gzip also takes -1 for its default."""


class _Contexts(threading.local):
    """One thread's codec contexts: no library allows two threads to share one."""

    def __init__(self) -> None:
        self.zstd_compressors: dict[int, Any] = {}
        self.zstd_decompressor: Any = None


_contexts = _Contexts()


def compress(
    codec: Compression, data: Buffer, level: int | None = None, *, legacy_lz4: bool = False
) -> bytes:
    """Compress the records of a batch.

    Args:
        codec: the codec; ``NONE`` copies.
        data: the records' bytes.
        level: the codec's level, None for Kafka's default of it. snappy has none and ignores it.
        legacy_lz4: write the header checksum that message format 0 requires.
    """
    match codec:
        case Compression.GZIP:
            compressor = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
            return compressor.compress(data) + compressor.flush()
        case Compression.SNAPPY:
            return _compress_snappy(data)
        case Compression.LZ4:
            return _compress_lz4(data, level, legacy_lz4)
        case Compression.ZSTD:
            return _compress_zstd(data, 3 if level is None else level)
        case Compression.NONE:
            return bytes(data)


def decompress(codec: Compression, data: Buffer, *, limit: int, legacy_lz4: bool = False) -> bytes:
    """Decompress the records of a batch, never producing more than ``limit`` bytes.

    Memory grows with the output, not by the size that the peer's headers claim.

    Args:
        codec: the codec; ``NONE`` copies.
        data: the compressed bytes.
        limit: the most bytes that may come out.
        legacy_lz4: accept the header checksum of message format 0 as well as a correct one.

    Raises:
        CorruptRecordError: the data is damaged, or holds more than ``limit`` bytes.
    """
    match codec:
        case Compression.GZIP:
            return _decompress_gzip(data, limit)
        case Compression.SNAPPY:
            return _decompress_snappy(data, limit)
        case Compression.LZ4:
            return _decompress_lz4(data, limit, legacy_lz4)
        case Compression.ZSTD:
            return _decompress_zstd(data, limit)
        case Compression.NONE:
            if len(data) > limit:
                raise _too_large(codec, limit)
            return bytes(data)


def _too_large(codec: Compression, limit: int) -> CorruptRecordError:
    return CorruptRecordError(f"{codec.kafka_name} data decompresses to more than {limit} bytes")


def _damaged(codec: Compression, reason: object) -> CorruptRecordError:
    return CorruptRecordError(f"damaged {codec.kafka_name} data: {reason}")


def _read_bounded(codec: Compression, read: Callable[[int], bytes], limit: int) -> bytes:
    """Collect what ``read(size)`` returns until it returns nothing, in reads that grow with the output."""
    size = _READ_SIZE_MIN
    first = read(min(size, limit + 1))
    if len(first) > limit:
        raise _too_large(codec, limit)
    chunks = [first] if first else []
    total = len(first)
    while first:
        size = min(size * 2, _READ_SIZE_MAX)
        chunk = read(min(size, limit + 1 - total))
        if not chunk:
            break
        total += len(chunk)
        if total > limit:
            raise _too_large(codec, limit)
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _decompress_gzip(data: Buffer, limit: int) -> bytes:
    out: list[bytes] = []
    total = 0
    rest: Buffer = data
    while len(rest):
        decompressor = zlib.decompressobj(31)
        try:
            chunk = decompressor.decompress(rest, limit + 1 - total)
        except zlib.error as error:
            raise _damaged(Compression.GZIP, error) from None
        total += len(chunk)
        if total > limit:
            raise _too_large(Compression.GZIP, limit)
        if not decompressor.eof:
            raise _damaged(Compression.GZIP, "it ends inside a member")
        out.append(chunk)
        rest = decompressor.unused_data
    return out[0] if len(out) == 1 else b"".join(out)


def _compress_snappy(data: Buffer) -> bytes:
    from cramjam import snappy

    out = [_XERIAL_HEADER.pack(_XERIAL_MAGIC, 1, 1)]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE]))
        out.append(_INT32.pack(len(block)))
        out.append(block)
    return b"".join(out)


def _decompress_snappy(data: Buffer, limit: int) -> bytes:
    view = memoryview(data)
    if len(view) < _XERIAL_HEADER.size or bytes(view[:8]) != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, limit)
    out: list[bytes] = []
    total = 0
    position = _XERIAL_HEADER.size
    end = len(view)
    while position < end:
        if position + 4 > end:
            raise _damaged(Compression.SNAPPY, "it ends inside a chunk's length")
        (length,) = _INT32.unpack_from(view, position)
        position += 4
        if length < 0 or length > end - position:
            raise _damaged(Compression.SNAPPY, f"a chunk of {length} bytes where {end - position} are left")
        block = _decompress_snappy_block(view[position : position + length], limit - total)
        total += len(block)
        out.append(block)
        position += length
    return b"".join(out)


def _decompress_snappy_block(block: memoryview, limit: int) -> bytes:
    import cramjam

    try:
        announced = cramjam.snappy.decompress_raw_len(block)
        if announced > limit:
            raise _too_large(Compression.SNAPPY, limit)
        # The densest element makes 64 bytes out of 3: a block that claims more is damaged, but the library would
        # allocate by its claim.
        if announced > 22 * len(block) + 64:
            raise _damaged(Compression.SNAPPY, f"{len(block)} bytes cannot hold the {announced} announced")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _damaged(Compression.SNAPPY, error) from None


def _compress_lz4(data: Buffer, level: int | None, legacy: bool) -> bytes:
    from lz4 import frame

    # Kafka's default, "level 9", is the fast compressor; each other level is the high-compression one's.
    # liblz4 calls them 0 and 3 to 12.
    native = 0 if level is None or level == 9 else max(3, min(12, level))
    packed: bytes = frame.compress(
        data,
        compression_level=native,
        block_size=frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return _with_lz4_header_checksum(packed, legacy=True) if legacy else packed


def _decompress_lz4(data: Buffer, limit: int, legacy: bool) -> bytes:
    from lz4 import frame

    if legacy:
        data = _with_lz4_header_checksum(data, legacy=False)
    decompressor = frame.LZ4FrameDecompressor()
    source: Buffer = data

    def read(size: int) -> bytes:
        nonlocal source
        if decompressor.eof:
            return b""
        chunk: bytes = decompressor.decompress(source, max_length=size)
        source = b""
        return chunk

    try:
        out = _read_bounded(Compression.LZ4, read, limit)
    except RuntimeError as error:
        raise _damaged(Compression.LZ4, error) from None
    if not decompressor.eof:
        raise _damaged(Compression.LZ4, "it ends inside the frame")
    return out


def _with_lz4_header_checksum(data: Buffer, *, legacy: bool) -> bytes:
    """Put the correct header checksum into an LZ4 frame, or the one of message format 0.

        magic [4] | FLG [1] | BD [1] | content size [8, if FLG bit 3] | HC [1] | blocks ...

    HC is the second byte of xxHash-32 over FLG to content size; in format 0 the magic is hashed as well.
    """
    frame = bytearray(data)
    if len(frame) < 7 or frame[:4] != _LZ4_MAGIC:
        raise _damaged(Compression.LZ4, "it is no LZ4 frame")
    end = 14 if frame[4] & _LZ4_CONTENT_SIZE_FLAG else 6
    if len(frame) <= end:
        raise _damaged(Compression.LZ4, "it ends inside the frame header")
    frame[end] = (_xxhash32_short(bytes(frame[0 if legacy else 4 : end])) >> 8) & 0xFF
    return bytes(frame)


def _xxhash32_short(data: bytes) -> int:
    """Hash fewer than 16 bytes with xxHash-32, seed 0 (https://xxhash.com, its specification)."""
    prime1, prime2, prime3, prime4, prime5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    mask = 0xFFFFFFFF
    value = (prime5 + len(data)) & mask
    position = 0
    while position + 4 <= len(data):
        value = (value + int.from_bytes(data[position : position + 4], "little") * prime3) & mask
        value = (((value << 17) | (value >> 15)) * prime4) & mask
        position += 4
    for byte in data[position:]:
        value = (value + byte * prime5) & mask
        value = (((value << 11) | (value >> 21)) * prime1) & mask
    value = ((value ^ (value >> 15)) * prime2) & mask
    value = ((value ^ (value >> 13)) * prime3) & mask
    return value ^ (value >> 16)


def _compress_zstd(data: Buffer, level: int) -> bytes:
    compressor = _contexts.zstd_compressors.get(level)
    if compressor is None:
        import zstandard

        compressor = zstandard.ZstdCompressor(level=level)
        _contexts.zstd_compressors[level] = compressor
    packed: bytes = compressor.compress(data)
    return packed


def _decompress_zstd(data: Buffer, limit: int) -> bytes:
    import zstandard

    decompressor = _contexts.zstd_decompressor
    if decompressor is None:
        decompressor = _contexts.zstd_decompressor = zstandard.ZstdDecompressor()
    with decompressor.stream_reader(data, read_across_frames=True, closefd=False) as reader:
        try:
            return _read_bounded(Compression.ZSTD, reader.read, limit)
        except zstandard.ZstdError as error:
            raise _damaged(Compression.ZSTD, error) from None
