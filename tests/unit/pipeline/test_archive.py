"""The archive's columns against the record reader that the broker uses, for every codec and for damage."""

from pathlib import Path

import pytest

from pipeline.archive.segment_files import SegmentFile, segment_files
from pipeline.archive.segment_reader import SCHEMA, read_segment
from storage.disk import RealDisk
from storage.transaction_index import AbortedTransaction, TransactionIndex
from wire.records.batch import iter_headers
from wire.records.builder import build_batch
from wire.records.compression import Compression
from wire.records.end_transaction import build_end_transaction_marker
from wire.records.errors import CorruptRecordError
from wire.records.legacy import build_message_set
from wire.records.record import Record, iter_records


def some_records(count: int, first: int = 0) -> list[Record]:
    return [
        Record(
            first + i,
            1_700_000_000_000 + i * 37,
            None if i % 7 == 3 else b"key-%d" % i,
            None if i % 11 == 5 else b"v" * (i * 13 % 400),
            [("a", b"1"), ("b", None)] if i % 5 == 0 else (),
        )
        for i in range(count)
    ]


def segment_of(tmp_path: Path, *batches: bytes, **values: object) -> SegmentFile:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(bytes(batch) for batch in batches))
    return SegmentFile("t", 3, str(path), 0, False, values.get("indexes", ()))  # type: ignore[arg-type]


def rows_of(segment: SegmentFile, **options: bool) -> list[dict]:
    return [row for batch in read_segment(segment, **options) for row in batch.to_pylist()]


@pytest.mark.parametrize("codec", list(Compression))
def test_columns_are_what_the_record_reader_gives(tmp_path: Path, codec: Compression) -> None:
    batches = [
        build_batch(
            some_records(200, first), base_offset=first, compression=codec, producer_id=7, producer_epoch=2,
            base_sequence=first, leader_epoch=4,
        )
        for first in (0, 200, 400)
    ]  # fmt: skip
    segment = segment_of(tmp_path, *batches)
    data = Path(segment.path).read_bytes()
    expected = [record for at, header in iter_headers(data) for record in iter_records(data, at, header)]
    rows = rows_of(segment)
    assert len(rows) == len(expected) == 600
    for row, record in zip(rows, expected, strict=True):
        assert (row["topic"], row["partition"], row["offset"]) == ("t", 3, record.offset)
        assert round(row["timestamp"].timestamp() * 1000) == record.timestamp
        assert (row["key"], row["value"], row["sequence"]) == (record.key, record.value, record.sequence)
        assert [(h["key"], h["value"]) for h in row["headers"]] == list(record.headers)
        assert (row["leader_epoch"], row["producer_id"], row["producer_epoch"]) == (4, 7, 2)


def test_plain_records_have_no_producer_and_no_sequence(tmp_path: Path) -> None:
    (first, *_) = rows_of(segment_of(tmp_path, build_batch(some_records(3))))
    assert {first[name] for name in ("leader_epoch", "producer_id", "producer_epoch", "sequence")} == {None}
    assert (first["transactional"], first["control"], first["timestamp_type"]) == (False, False, 0)


@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_of_old_formats_are_read(tmp_path: Path, magic: int) -> None:
    records = [Record(i, 1_700_000_000_000, b"k", b"v%d" % i) for i in range(4)]
    rows = rows_of(segment_of(tmp_path, build_message_set(records, magic=magic)))
    assert [(row["offset"], row["value"]) for row in rows] == [(i, b"v%d" % i) for i in range(4)]
    assert all((row["timestamp"] is None) == (magic == 0) for row in rows)


def test_aborted_records_are_dropped_on_request_and_markers_are_shown_on_request(tmp_path: Path) -> None:
    def transaction(first: int, producer: int) -> bytes:
        return bytes(
            build_batch(
                some_records(2, first), base_offset=first, producer_id=producer, producer_epoch=0,
                base_sequence=0, transactional=True,
            )
        )  # fmt: skip

    marker = build_end_transaction_marker(
        committed=False, coordinator_epoch=1, producer_id=8, producer_epoch=0, timestamp=5, base_offset=4
    )
    path = str(tmp_path / "00000000000000000000.txnindex")
    index = TransactionIndex(RealDisk(), path, 0, new=True)
    index.append(AbortedTransaction(8, 2, 4, 2))
    index.entries.close()
    segment = segment_of(tmp_path, transaction(0, 9), transaction(2, 8), marker, indexes=((0, path),))
    assert [row["offset"] for row in rows_of(segment)] == [0, 1, 2, 3]
    assert [row["offset"] for row in rows_of(segment, drop_aborted=True)] == [0, 1]
    assert [row["offset"] for row in rows_of(segment, with_control=True) if row["control"]] == [4]


def test_a_damaged_batch_names_the_file(tmp_path: Path) -> None:
    batch = bytearray(build_batch(some_records(5)))
    batch[-1] ^= 1
    with pytest.raises(CorruptRecordError, match=r"00000000000000000000\.log: .*checksum"):
        rows_of(segment_of(tmp_path, batch))


def test_a_tail_that_was_never_finished_is_left_out(tmp_path: Path) -> None:
    whole = build_batch(some_records(5))
    assert len(rows_of(segment_of(tmp_path, whole, bytes(whole)[:-3]))) == 5


def test_segments_are_listed_with_the_indexes_of_later_ones(tmp_path: Path) -> None:
    for name in ("orders-1", "orders-0", "other-0", "orders-2.0123456789abcdef0123456789abcdef-delete"):
        (tmp_path / name).mkdir()
        for base in (0, 50):
            (tmp_path / name / f"{base:020d}.log").write_bytes(b"")
    (tmp_path / "orders-0" / f"{50:020d}.txnindex").write_bytes(b"")
    found = segment_files([str(tmp_path)], topics=frozenset(["orders"]))
    assert [(s.partition, s.base_offset, s.is_active) for s in found] == [
        (0, 0, False), (0, 50, True), (1, 0, False), (1, 50, True),
    ]  # fmt: skip
    assert [base for base, _ in found[0].transaction_indexes] == [50]
    assert {s.topic for s in segment_files([str(tmp_path)], pattern="o.*r")} == {"other"}


def test_the_declared_columns_are_the_batches_columns() -> None:
    from pipeline.archive.segment_reader import DDL

    assert [
        part.split(" ")[0] for part in DDL.replace("key: STRING, value: BINARY", "").split(", ")
    ] == SCHEMA.names
