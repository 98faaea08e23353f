"""Each way to decode fetched bytes gives the same records, and damage never gives wrong ones."""

from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.client import batch_decoding
from ottla.client.batch_decoding import AbortedTransaction, PartitionRecords, read_partition_records
from ottla.client.codecs import Topic, json_codec
from ottla.client.errors import CorruptData, DecodeError
from ottla.client.record_batch import Batch
from wire.records.batch import CRC_POSITION, HEADER_SIZE, patch_crc
from wire.records.builder import BatchBuilder
from wire.records.compression import Compression
from wire.records.end_transaction import build_end_transaction_marker
from wire.records.errors import CorruptRecordError
from wire.records.legacy import build_message_set
from wire.records.record import Record
from wire.types import Offset, ProducerEpoch, ProducerId, TopicPartition, WallMs

PLACE = TopicPartition("t", 3)
payloads = st.one_of(
    st.none(),
    st.binary(max_size=14),
    st.binary(min_size=60, max_size=70),
    st.just(b"same size"),
    st.just(b"l" * 9000),
)
header_lists = st.lists(
    st.tuples(st.text(max_size=4), st.one_of(st.none(), st.binary(max_size=4))), max_size=2
)
record_lists = st.lists(
    st.tuples(payloads, payloads, header_lists, st.integers(0, 10**6)), min_size=1, max_size=60
)


def build(records, base: int, codec: Compression = Compression.NONE, **settings) -> bytes:
    builder = BatchBuilder(base_offset=Offset(base), compression=codec, **settings)
    for key, value, headers, time in records:
        builder.append(time, key, value, headers)
    return bytes(builder.build())


def take(data: bytes, position: int, **settings) -> PartitionRecords:
    records = read_partition_records(memoryview(data), position, **settings)
    assert records is not None
    return records


def seen(records: PartitionRecords):
    batch = Batch(Topic("t"), PLACE, records, 0, "raise")
    assert len(batch) == len(list(batch))
    found = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in batch]
    assert [(r.offset, r.value) for r in (batch[i] for i in range(len(batch)))] == [
        (f[0], f[3]) for f in found
    ]
    assert [None if v is None else bytes(v) for v in batch.value_views()] == [f[3] for f in found]
    assert [list(r.headers) for part in batch.parts(7) for r in part] == [f[4] for f in found]
    table = batch.to_arrow()
    assert (
        table.schema
        == Batch(Topic("t"), PLACE, PartitionRecords(b"", [], [], None, 0, 0, -1), 0, "raise")
        .to_arrow()
        .schema
    )
    assert table["offset"].to_pylist() == [f[0] for f in found]
    assert table["timestamp"].to_pylist() == [f[1] for f in found]
    assert table["key"].to_pylist() == [f[2] for f in found]
    assert table["value"].to_pylist() == [f[3] for f in found]
    named = [[(h["key"], h["value"]) for h in each or ()] for each in table["headers"].to_pylist()]
    assert named == [f[4] for f in found]
    return found


@given(
    st.lists(record_lists, min_size=1, max_size=4),
    st.sampled_from(list(Compression)),
    st.integers(0, 30),
    st.booleans(),
)
def test_every_way_of_decoding_agrees(batches, codec: Compression, skip: int, appended: bool) -> None:
    data, expected, base = b"", [], 100
    for number, records in enumerate(batches):
        settings = {"log_append_time": WallMs(77)} if appended and number == 0 else {}
        data += build(records, base, codec if number % 2 == 0 else Compression.NONE, **settings)
        for i, (key, value, headers, time) in enumerate(records):
            expected.append((base + i, 77 if settings else time, key, value, headers))
        base += len(records) + 5
    position = 100 + skip
    expected = [each for each in expected if each[0] >= position]
    found = read_partition_records(memoryview(data + data[:40]), position)
    if found is None:
        assert not expected
        return
    assert found.next_offset == max(base - 5, position) if expected else found.next_offset <= position + 5
    assert seen(found) == expected
    with mock.patch.object(batch_decoding, "_HAS_NUMPY", False):
        columns = take(data, position).columns()
    assert list(columns.values) == [each[3] for each in expected]
    assert list(columns.offsets) == [each[0] for each in expected]
    assert [list(columns.headers.get(i, ())) for i in range(len(expected))] == [each[4] for each in expected]


def test_runs_of_records_alike() -> None:
    rows = [(b"key", b"v" * 100)] * 90 + [(None, b"w" * 40)] * 60 + [(b"k", None)] * 50 + [(b"", b"")] * 40
    rows += [(b"k" * (i % 7), b"v" * (i % 5)) for i in range(30)] + [(None, b"last")]
    records = [(key, value, [], 7) for key, value in rows]
    data = build(records, 100) + build(records, 100 + len(rows))
    for position in (100, 130, 250, 380):
        found = seen(take(data, position))
        assert [each[2:4] for each in found] == (rows + rows)[position - 100 :]


def test_a_gap_at_the_end_is_passed() -> None:
    builder = BatchBuilder(base_offset=Offset(10))
    builder.append(1, None, b"v")
    data = bytes(builder.build(last_offset=Offset(19)))
    records = take(data, 5)
    assert (records.next_offset, records.count) == (20, 1)
    later = take(data, 15)
    assert (later.next_offset, later.count) == (20, 0)


def marker(base: int, producer: int, committed: bool) -> bytes:
    return bytes(
        build_end_transaction_marker(
            committed=committed,
            coordinator_epoch=0,
            producer_id=ProducerId(producer),
            producer_epoch=ProducerEpoch(0),
            timestamp=WallMs(1),
            base_offset=Offset(base),
        )
    )


def transactional(base: int, producer: int, value: bytes) -> bytes:
    return build(
        [(None, value, [], 1)],
        base,
        producer_id=ProducerId(producer),
        producer_epoch=ProducerEpoch(0),
        base_sequence=0,
        transactional=True,
    )


def test_aborted_records_and_markers_are_not_shown() -> None:
    data = b"".join(
        [
            transactional(0, 1, b"aborted 1"),
            transactional(1, 2, b"committed 2"),
            build([(None, b"plain", [], 1)], 2),
            transactional(3, 1, b"aborted 1 too"),
            marker(4, 1, committed=False),
            transactional(5, 1, b"committed 1"),
            marker(6, 2, committed=True),
            marker(7, 1, committed=True),
            transactional(8, 2, b"aborted 2"),
            marker(9, 2, committed=False),
        ]
    )
    records = take(data, 0, aborted=[AbortedTransaction(2, 8), AbortedTransaction(1, 0)])
    assert [each[3] for each in seen(records)] == [b"committed 2", b"plain", b"committed 1"]
    assert records.next_offset == 10
    everything = take(data, 0)
    assert len(seen(everything)) == 6


def test_only_markers_move_the_position() -> None:
    records = take(marker(4, 1, committed=True), 4)
    assert not records.may_have_records
    assert records.next_offset == 5


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats(magic: int) -> None:
    old = [Record(offset, 5 if magic else -1, b"k", b"v%d" % offset) for offset in range(4, 8)]
    data = bytes(build_message_set(old, magic))
    found = seen(take(data, 5))
    assert [(each[0], each[3]) for each in found] == [(5, b"v5"), (6, b"v6"), (7, b"v7")]


def test_each_damaged_bit_is_noticed() -> None:
    good = build([(b"k", b"v" * 5, [("h", b"x")], 5)] * 2, 10)
    undamaged = seen(take(good, 10))
    for bit in range(8 * len(good)):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        try:
            records = read_partition_records(memoryview(bytes(bad)), 10)
            found = None if records is None else seen(records)
        except (CorruptRecordError, CorruptData):
            continue
        if found is not None:
            # The checksum does not cover offsets and the leader epoch; nothing else is allowed to differ.
            assert [each[1:] for each in found] in ([each[1:] for each in undamaged], [])


@given(st.integers(0, 60), st.integers(1, 255))
@example(22, 21)  # offsets that do not ascend
def test_damage_behind_a_right_checksum_is_an_error_with_its_place(at: int, change: int) -> None:
    data = bytearray(build([(b"key", b"value", [("h", b"x")], 5)] * 3, 10))
    position = HEADER_SIZE + at % (len(data) - HEADER_SIZE)
    data[position] ^= change
    patch_crc(data, 0)
    assert int.from_bytes(data[CRC_POSITION : CRC_POSITION + 4], "big")
    outcomes = []
    for has_numpy, least in ((True, 0), (False, 0)):
        with (
            mock.patch.object(batch_decoding, "_HAS_NUMPY", has_numpy),
            mock.patch.object(batch_decoding, "COLUMNS_FROM", least),
        ):
            try:
                batch = Batch(Topic("t"), PLACE, take(bytes(data), 0), 0, "raise")
                outcomes.append([(r.offset, r.key, r.value, list(r.headers)) for r in batch])
            except CorruptData as error:
                outcomes.append(str(error))
    texts = [each for each in outcomes if isinstance(each, str)]
    assert all("t-3 from offset 0 on" in text for text in texts)
    assert texts or outcomes[0] == outcomes[1]


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_a_bomb_stays_within_its_limit(codec: Compression) -> None:
    data = build([(None, b"\0" * 1_000_000, [], 1)], 0, codec)
    with pytest.raises(CorruptRecordError, match="decompresses to more than"):
        read_partition_records(memoryview(data + data), 0, limit=100_000)


def test_an_undecodable_value() -> None:
    topic = Topic("t", value=json_codec())
    records = take(build([(None, b"1", [], 1), (None, b"{", [], 1), (None, None, [], 1)], 0), 0)
    batch = Batch(topic, PLACE, records, 0, "raise")
    assert batch[0].value == 1
    assert batch[2].value is None
    with pytest.raises(DecodeError, match="t-3 at offset 1: not json") as caught:
        _ = [record.value for record in batch]
    assert caught.value.record.raw_value == b"{"
    assert [record.value for record in Batch(topic, PLACE, records, 0, "skip")] == [1, None]
    bad = []
    handled = Batch(topic, PLACE, records, 0, lambda record, error: bad.append((record.offset, str(error))))
    assert [record.value for record in handled] == [1, None]
    assert [offset for offset, _ in bad] == [1]


def test_a_batch_cut_at_a_stop() -> None:
    records = take(build([(None, b"%d" % i, [], 1) for i in range(30)], 10), 12)
    batch = Batch(Topic("t"), PLACE, records, 0, "raise")
    part = batch.cut(15)
    assert (part.offsets(), part.next_offset) == ([12, 13, 14], 15)
    assert [each.offsets() for each in part.parts(2)] == [[12, 13], [14]]
    assert part.to_arrow()["offset"].to_pylist() == [12, 13, 14]
    assert [each.next_offset for each in part.parts(2)] == [14, 15]
