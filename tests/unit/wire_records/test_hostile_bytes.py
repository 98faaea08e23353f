"""For any bytes: one family of errors, no large allocation, no endless loop."""

import struct
import tracemalloc
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wire.errors import RemoteProtocolError
from wire.records.batch import check_crc, complete_size, iter_headers, patch_crc, peek_magic, read_header
from wire.records.builder import build_batch, encode_varint
from wire.records.compression import Compression, compress, decompress
from wire.records.errors import CorruptRecordError, UnsupportedCompressionError
from wire.records.legacy import build_message_set, down_convert, encode_message, iter_legacy, up_convert
from wire.records.record import Record, iter_records, read_control_type, read_varint, read_varlong

RECORDS = [Record(i, 1000 + i, b"key%d" % i, b"value" * i, [("h", b"x")] * (i % 2)) for i in range(4)]
CODECS = list(Compression)


def batch_around(body: bytes, count: int, attributes: int = 0) -> bytearray:
    """A batch whose header is right and whose records are ``body``."""
    batch = build_batch([])
    batch += body
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, attributes)
    struct.pack_into(">i", batch, 57, count)
    patch_crc(batch, 0)
    return batch


def record_around(body: bytes) -> bytes:
    return encode_varint(len(body)) + body


@pytest.mark.parametrize("codec", CODECS, ids=lambda c: c.kafka_name)
def test_a_batch_cut_at_each_byte(codec: Compression) -> None:
    whole = bytes(build_batch(RECORDS, compression=codec))
    for size in range(len(whole)):
        cut = whole[:size]
        assert complete_size(cut) == 0
        assert list(iter_headers(cut)) == []
        if size < 61:
            with pytest.raises(CorruptRecordError):
                read_header(cut)
            continue
        header = read_header(cut)
        with pytest.raises(CorruptRecordError):
            check_crc(cut, 0, header)
        with pytest.raises(CorruptRecordError):
            list(iter_records(cut, 0, header))


@pytest.mark.parametrize("codec", CODECS, ids=lambda c: c.kafka_name)
def test_records_cut_at_each_byte_inside_a_whole_batch(codec: Compression) -> None:
    plain = bytes(build_batch(RECORDS))[61:]
    for size in range(len(plain)):
        batch = batch_around(compress(codec, plain[:size]), len(RECORDS), codec)
        header = read_header(batch)
        check_crc(batch, 0, header)
        with pytest.raises(CorruptRecordError):
            list(iter_records(batch, 0, header))


@pytest.mark.parametrize("codec", CODECS[1:], ids=lambda c: c.kafka_name)
def test_compressed_data_cut_at_each_byte(codec: Compression) -> None:
    packed = compress(codec, b"some bytes, some of them " * 20)
    for size in range(1, len(packed)):
        try:
            out = decompress(codec, packed[:size], limit=1000)
        except CorruptRecordError:
            continue
        # A cut between two blocks leaves fewer bytes, which the records' own lengths then show.
        assert len(out) < 500


@pytest.mark.parametrize("codec", CODECS[1:], ids=lambda c: c.kafka_name)
def test_a_bomb_costs_no_more_than_the_limit(codec: Compression) -> None:
    bomb = compress(codec, bytes(32 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecordError, match=r"more than \d+ bytes"):
            decompress(codec, bomb, limit=1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 6 << 20
    finally:
        tracemalloc.stop()
    assert len(decompress(codec, bomb, limit=32 << 20)) == 32 << 20


def test_a_snappy_block_that_announces_more_than_it_can_hold() -> None:
    with pytest.raises(CorruptRecordError, match="announced"):
        decompress(Compression.SNAPPY, b"\xff\xff\xff\x3f" + bytes(10), limit=1 << 30)


def test_each_wrong_length_in_a_record_is_told() -> None:
    bodies = {
        "negative record length": encode_varint(-5) + b"\0" * 8,
        "record longer than the batch": encode_varint(100) + b"\0" * 8,
        "huge record length": encode_varint(2**31 - 1) + b"\0" * 8,
        "varint without an end": b"\xff" * 20,
        "key longer than the record": record_around(b"\0\0\0" + encode_varint(50) + b"\x01\0"),
        "key longer than memory": record_around(b"\0\0\0" + encode_varint(2**31 - 1) + b"\x01\0"),
        "value longer than the record": record_around(b"\0\0\0\x01" + encode_varint(50) + b"\0"),
        "negative header count": record_around(b"\0\0\0\x01\x01" + encode_varint(-1)),
        "more headers than bytes": record_around(b"\0\0\0\x01\x01" + encode_varint(2**31 - 1)),
        "header without a key": record_around(b"\0\0\0\x01\x01\x02\x01\x01"),
        "bytes after the headers": record_around(b"\0\0\0\x01\x01\0\0"),
        "record too short": record_around(b"\0\0\0\x01"),
        "no attributes": record_around(b""),
        "two records in the place of one": record_around(b"\0\0\0\x01\x01\0") * 2,
    }
    for what, body in bodies.items():
        batch = batch_around(body, 1)
        header = read_header(batch)
        check_crc(batch, 0, header)
        try:
            list(iter_records(batch, 0, header))
        except CorruptRecordError:
            continue
        pytest.fail(what)


def test_counts_that_the_records_do_not_have() -> None:
    body = bytes(build_batch(RECORDS))[61:]
    for count in (-1, 1, 3, 5, 2**31 - 1):
        batch = batch_around(body, count)
        with pytest.raises(CorruptRecordError):
            list(iter_records(batch, 0, read_header(batch)))


def test_a_timestamp_beyond_64_bits() -> None:
    batch = batch_around(record_around(b"\0" + encode_varint(2**63 - 1) + b"\0\x01\x01\0"), 1)
    struct.pack_into(">q", batch, 27, 2**63 - 1)
    with pytest.raises(CorruptRecordError, match="timestamp"):
        list(iter_records(batch, 0, read_header(batch)))


def test_headers_that_are_none() -> None:
    good = build_batch(RECORDS)
    for magic in (0, 1, 3, 0xFF):
        bad = bytearray(good)
        bad[16] = magic
        with pytest.raises(CorruptRecordError, match="magic"):
            list(iter_headers(bad))
    for length in (-1, 0, 48, -(2**31)):
        bad = bytearray(good)
        struct.pack_into(">i", bad, 8, length)
        with pytest.raises(CorruptRecordError):
            list(iter_headers(bad))
    assert peek_magic(b"\0" * 16 + b"\xff") == -1
    with pytest.raises(CorruptRecordError):
        peek_magic(bytes(16))
    with pytest.raises(CorruptRecordError):
        complete_size(bytes(8) + b"\xff" * 4)


def test_codecs_that_are_none() -> None:
    batch = batch_around(b"x", 1, attributes=5)
    with pytest.raises(UnsupportedCompressionError):
        list(iter_records(batch, 0, read_header(batch)))
    with pytest.raises(UnsupportedCompressionError):
        down_convert(build_batch(RECORDS, compression=Compression.ZSTD), 1, 0)
    with pytest.raises(UnsupportedCompressionError):
        list(iter_legacy(encode_message(0, 1, Compression.ZSTD, 0, None, b"x")))
    with pytest.raises(UnsupportedCompressionError):
        build_message_set(RECORDS, 1, compression=Compression.ZSTD)


def test_varints_longer_than_their_type() -> None:
    assert read_varint(b"\xff\xff\xff\xff\x0f", 0) == (-(2**31), 5)
    assert read_varlong(b"\xff" * 9 + b"\x01", 0) == (-(2**63), 10)
    with pytest.raises(CorruptRecordError):
        read_varint(b"\xff" * 5 + b"\x01", 0)
    with pytest.raises(CorruptRecordError):
        read_varlong(b"\xff" * 10 + b"\x01", 0)


def test_control_keys() -> None:
    for key in (None, b"", b"\0\0\0", b"\xff\xff\0\0"):
        with pytest.raises(CorruptRecordError):
            read_control_type(key)
    assert read_control_type(b"\0\0\x7f\0").name == "UNKNOWN"


def test_message_sets_that_are_none() -> None:
    message = encode_message(7, 1, 0, 5, b"k", b"v")
    for size in range(len(message)):
        assert list(iter_legacy(message[:size])) == []
        with pytest.raises(CorruptRecordError):
            up_convert(message[:size])
    for position in range(12, len(message)):
        bad = bytearray(message)
        bad[position] ^= 0x10
        with pytest.raises(CorruptRecordError):
            list(iter_legacy(bad))
    for body in (b"\x02\0" + bytes(16), b"\x01\0" + b"\xff" * 7 + bytes(9), b"\0\0" + b"\0\0\1\0" + bytes(8)):
        entry = struct.pack(">qiI", 0, 4 + len(body), zlib.crc32(body)) + body
        with pytest.raises(CorruptRecordError):
            list(iter_legacy(entry))
    nested = build_message_set(RECORDS, 1, compression=Compression.GZIP)
    wrapper = encode_message(0, 1, Compression.GZIP, 0, None, compress(Compression.GZIP, nested))
    mixed = encode_message(
        0, 1, Compression.GZIP, 0, None, compress(Compression.GZIP, encode_message(0, 0, 0, 0, None, b""))
    )
    empty = encode_message(0, 1, Compression.GZIP, 0, None, compress(Compression.GZIP, b""))
    packed = compress(Compression.GZIP, encode_message(9, 1, 0, 0, None, b""))
    before = encode_message(3, 1, Compression.GZIP, 0, None, packed)
    none = encode_message(0, 1, Compression.GZIP, 0, None, None)
    for bad_set in (wrapper, mixed, empty, before, none):
        with pytest.raises(CorruptRecordError):
            list(iter_legacy(bad_set))


@given(st.binary(max_size=200))
def test_garbage_raises_our_errors_only(data: bytes) -> None:
    def read_all() -> None:
        for position, header in iter_headers(data):
            list(iter_records(data, position, header, limit=10_000))

    for read in (
        read_all,
        lambda: list(iter_legacy(data)),
        lambda: down_convert(data, 1, 0),
        lambda: up_convert(data),
    ):
        try:
            read()
        except RemoteProtocolError:
            pass


@settings(max_examples=300)
@given(st.sampled_from(CODECS), st.integers(0, 10_000), st.integers(0, 255))
def test_a_flipped_byte_raises_our_errors_only(codec: Compression, where: int, by: int) -> None:
    batch = build_batch(RECORDS, compression=codec)
    batch[where % len(batch)] ^= by
    try:
        for position, header in iter_headers(batch):
            list(iter_records(batch, position, header, limit=10_000))
    except RemoteProtocolError:
        pass
    for data in (build_message_set(RECORDS, m, compression=codec) for m in (0, 1) if codec < 4):
        damaged = bytearray(data)
        damaged[where % len(damaged)] ^= by
        struct.pack_into(">I", damaged, 12, zlib.crc32(damaged[16:]))
        try:
            list(iter_legacy(damaged, limit=10_000))
        except RemoteProtocolError:
            pass
