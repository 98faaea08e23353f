"""What is written is read back, by us and by the Python clients' own readers."""

import struct

import pytest
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords, MemoryRecordsBuilder

from wire.records.batch import (
    HEADER_SIZE,
    check_crc,
    complete_size,
    decrement_sequence,
    increment_sequence,
    iter_headers,
    patch_log_append_time,
    patch_offset_and_epoch,
    read_header,
)
from wire.records.builder import BatchBuilder, build_batch, encode_varint, rebuild_batch
from wire.records.compression import Compression, compress, decompress
from wire.records.errors import CorruptRecordError
from wire.records.legacy import build_message_set, iter_legacy, up_convert
from wire.records.record import Record, iter_records, read_varint, read_varlong

CODECS = list(Compression)
codecs = st.sampled_from(CODECS)
blobs = st.none() | st.binary(max_size=60)
headers = st.lists(st.tuples(st.text(max_size=8), blobs), max_size=3)
times = st.integers(-1, 2**62)
records = st.lists(st.builds(Record, st.just(0), times, blobs, blobs, headers), min_size=1, max_size=12)


def content(items: list[Record]) -> list[tuple[object, ...]]:
    return [(r.timestamp, r.key, r.value, list(r.headers)) for r in items]


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints(value: int) -> None:
    data = encode_varint(value)
    assert read_varlong(data, 0) == (value, len(data))
    if -(2**31) <= value < 2**31:
        assert read_varint(b"x" + data + b"x", 1) == (value, 1 + len(data))


@given(records, codecs, st.integers(0, 2**40), st.integers(-1, 2**31 - 1))
def test_batches(items: list[Record], codec: Compression, base: int, sequence: int) -> None:
    batch = build_batch(
        items, base_offset=base, compression=codec, producer_id=5, producer_epoch=1, base_sequence=sequence
    )
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert header.size == len(batch) == complete_size(batch)
    assert header.record_count == len(items)
    assert header.max_timestamp == max(r.timestamp for r in items)
    read = list(iter_records(batch, 0, header))
    assert content(read) == content(items)
    assert [r.offset for r in read] == list(range(base, base + len(items)))
    assert read[-1].sequence == header.last_sequence


@given(st.lists(st.tuples(records, codecs), min_size=1, max_size=4), st.binary(max_size=80))
def test_several_batches_and_a_cut_one(sets: list[tuple[list[Record], Compression]], tail: bytes) -> None:
    whole = b"".join(bytes(build_batch(items, compression=codec)) for items, codec in sets)
    cut = bytes(build_batch([Record(0, 0, None, bytes(100))]))[: len(tail)]
    found = [list(iter_records(whole, at, header)) for at, header in iter_headers(whole + cut)]
    assert [content(read) for read in found] == [content(items) for items, _ in sets]
    assert complete_size(whole + cut) == len(whole)


@given(records, st.sampled_from(CODECS[:4]), st.sampled_from([0, 1]), st.integers(0, 2**40))
def test_message_sets(items: list[Record], codec: Compression, magic: int, base: int) -> None:
    placed = [Record(base + 2 * i, r.timestamp, r.key, r.value) for i, r in enumerate(items)]
    data = build_message_set(placed, magic, compression=codec)
    read = list(iter_legacy(data))
    if magic == 0:
        placed = [Record(r.offset, -1, r.key, r.value) for r in placed]
    assert read == placed
    batch = up_convert(data)
    assert content(list(iter_records(batch, 0, read_header(batch)))) == content(placed)


@pytest.mark.parametrize("codec", CODECS, ids=lambda c: c.kafka_name)
@pytest.mark.parametrize("size", [0, 1, 15, 32 * 1024, 32 * 1024 + 1, 300_000])
def test_codecs(codec: Compression, size: int) -> None:
    data = (b"compress me, " * 30_000)[:size]
    for level in (None, 1, 5, 9):
        assert decompress(codec, compress(codec, data, level), limit=size) == data
    if size > 1:
        with pytest.raises(CorruptRecordError):
            decompress(codec, compress(codec, data), limit=size - 1)


def test_several_gzip_members_and_bare_snappy() -> None:
    import cramjam

    both = compress(Compression.GZIP, b"one") + compress(Compression.GZIP, b"two")
    assert decompress(Compression.GZIP, both, limit=6) == b"onetwo"
    bare = bytes(cramjam.snappy.compress_raw(b"bare" * 10))
    assert decompress(Compression.SNAPPY, bare, limit=100) == b"bare" * 10


@pytest.mark.parametrize("codec", CODECS, ids=lambda c: c.kafka_name)
def test_aiokafka_reads_ours(codec: Compression) -> None:
    items = [Record(i, 10 + i, b"k", b"v" * i, [("h", b"1")]) for i in range(50)]
    read = AiokafkaRecords(bytes(build_batch(items, base_offset=3, compression=codec)))
    batch = read.next_batch()
    assert batch.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in batch] == [
        (3 + i, r.timestamp, r.key, r.value, [("h", b"1")]) for i, r in enumerate(items)
    ]


# What kafka-python reads with what is installed: snappy would take python-snappy, lz4 of magic 0 xxhash.
FOREIGN = [(magic, codec) for magic in (0, 1, 2) for codec in (Compression.NONE, Compression.GZIP)]
FOREIGN += [(1, Compression.LZ4), (2, Compression.LZ4), (2, Compression.ZSTD)]


@pytest.mark.parametrize(("magic", "codec"), FOREIGN)
def test_kafka_python_and_we_read_each_other(magic: int, codec: Compression) -> None:
    items = [Record(i, 10 + i, b"k", b"v" * i) for i in range(50)]
    ours = (
        build_batch(items, compression=codec)
        if magic == 2
        else build_message_set(items, magic, compression=codec)
    )
    reader = MemoryRecords(bytes(ours))
    theirs = [r for batch in iter(reader.next_batch, None) for r in batch]
    assert [(r.offset, r.key, r.value) for r in theirs] == [(r.offset, r.key, r.value) for r in items]
    builder = MemoryRecordsBuilder(magic, int(codec), 1 << 20)
    for item in items:
        builder.append(item.timestamp, item.key, item.value, [])
    builder.close()
    data = bytes(builder.buffer())
    if magic == 2:
        header = read_header(data)
        check_crc(data, 0, header)
        read = list(iter_records(data, 0, header))
    else:
        read = list(iter_legacy(data))
    assert [(r.offset, r.key, r.value) for r in read] == [(r.offset, r.key, r.value) for r in items]


def test_patching_in_place() -> None:
    batch = build_batch([Record(0, 5, b"k", b"v"), Record(0, 6, b"k", b"v")])
    prefixed = bytearray(b"abc") + batch
    patch_offset_and_epoch(prefixed, 3, 1000, 7)
    header = read_header(prefixed, 3)
    check_crc(prefixed, 3, header)
    assert (header.base_offset, header.partition_leader_epoch, header.size) == (1000, 7, len(batch))
    patch_log_append_time(memoryview(prefixed), 3, 99)
    header = read_header(prefixed, 3)
    check_crc(prefixed, 3, header)
    assert [(r.offset, r.timestamp) for r in iter_records(prefixed, 3, header)] == [(1000, 99), (1001, 99)]


def test_log_append_time_rules_all_timestamps() -> None:
    batch = build_batch([Record(0, 5, None, b"a"), Record(0, 9, None, b"b")], log_append_time=77)
    header = read_header(batch)
    assert (header.is_log_append_time, header.max_timestamp) == (True, 77)
    assert {r.timestamp for r in iter_records(batch, 0, header)} == {77}


def test_a_compacted_batch_keeps_its_bounds_and_producer() -> None:
    batch = build_batch(
        [Record(0, 5 + i, b"k%d" % i, b"v") for i in range(5)],
        base_offset=20,
        producer_id=3,
        producer_epoch=1,
        base_sequence=2**31 - 2,
        compression=Compression.LZ4,
    )
    header = read_header(batch)
    items = list(iter_records(batch, 0, header))
    some = rebuild_batch(
        header, [(items[1].offset, items[1]), (items[3].offset, items[3])], delete_horizon=1234
    )
    kept = read_header(some)
    check_crc(some, 0, kept)
    assert (kept.base_offset, kept.last_offset, kept.record_count) == (20, 24, 2)
    assert (kept.base_sequence, kept.last_sequence) == (2**31 - 2, 2)
    assert (kept.delete_horizon, kept.max_timestamp) == (1234, 8)
    assert list(iter_records(some, 0, kept)) == [items[1], items[3]]
    again = read_header(rebuild_batch(kept, []))
    assert (again.size, again.last_offset, again.record_count) == (HEADER_SIZE, 24, 0)
    assert (again.delete_horizon, again.max_timestamp, again.producer_id) == (1234, 8, 3)
    assert list(iter_records(rebuild_batch(kept, []), 0, again)) == []


def test_offsets_must_rise_and_stay_near() -> None:
    builder = BatchBuilder(base_offset=10)
    builder.append(0, None, b"", offset=12)
    assert builder.next_offset == 13
    for offset in (12, 9, 10 + 2**31):
        with pytest.raises(ValueError, match="offset"):
            builder.append(0, None, b"", offset=offset)
    builder.append(0, None, b"")
    assert builder.size == len(builder.build())
    assert [r.offset for r in iter_records(builder.build(), 0, read_header(builder.build()))] == [12, 13]


def test_sequences_wrap() -> None:
    assert increment_sequence(2**31 - 1, 1) == 0
    assert increment_sequence(2**31 - 3, 5) == 2
    assert decrement_sequence(0, 1) == 2**31 - 1
    assert decrement_sequence(2, 5) == 2**31 - 3


def test_a_header_key_that_is_not_utf8_survives() -> None:
    plain = build_batch([Record(0, 0, None, b"v", [("zz", b"")])])
    at = plain.index(b"zz")
    plain[at : at + 2] = b"\xff\xfe"
    header = read_header(plain)
    (record,) = iter_records(plain, 0, header)
    assert bytes(build_batch([record]))[HEADER_SIZE:] == bytes(plain)[HEADER_SIZE:]


def test_a_bare_header_has_no_records() -> None:
    batch = build_batch([])
    assert struct.unpack_from(">i", batch, 57) == (0,)
    assert list(iter_records(batch, 0, read_header(batch))) == []
