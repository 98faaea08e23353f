"""Batches and message sets written by Apache Kafka's own Java client, kept as bytes.

``kafka_clients_3_9_1.json`` was written by ``MemoryRecordsBuilder`` of kafka-clients 3.9.1: each magic, codec
and timestamp type, with the same four records at offsets 100, 101, 103 and 104; then two end-transaction markers.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from wire.records.batch import check_crc, complete_size, iter_headers, peek_magic, read_header
from wire.records.builder import rebuild_batch
from wire.records.compression import Compression
from wire.records.end_transaction import build_end_transaction_marker, read_end_transaction_marker
from wire.records.legacy import build_message_set, down_convert, iter_legacy, iter_messages, up_convert
from wire.records.record import ControlType, Record, iter_records

VECTORS: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("kafka_clients_3_9_1.json").read_text(encoding="ascii")
)
DATA = [vector for vector in VECTORS if "control" not in vector]
MARKERS = [bytes.fromhex(vector["bytes"]) for vector in VECTORS if "control" in vector]
APPEND_TIME = 1700000009999


def name(vector: dict[str, Any]) -> str:
    return f"v{vector['magic']}-{vector['codec']}-{'append' if vector['log_append_time'] else 'create'}"


def expected(vector: dict[str, Any], *, sequences: bool = True) -> list[Record]:
    times = [1700000000000, 1700000000005, 1699999999700, 1700000100000]
    if vector["log_append_time"]:
        times = [APPEND_TIME] * 4
    if vector["magic"] == 0:
        times = [-1] * 4
    headers = [("h", b"\x01\x02"), ("nul", None)] if vector["magic"] == 2 else ()
    first = 11 if vector["magic"] == 2 and sequences else None
    sequence = [-1 if first is None else first + delta for delta in (0, 1, 3, 4)]
    return [
        Record(100, times[0], b"k0", b"value zero " * 20, (), sequence[0]),
        Record(101, times[1], None, b"v1", (), sequence[1]),
        Record(103, times[2], b"k2", None, headers, sequence[2]),
        Record(104, times[3], b"", b"", (), sequence[3]),
    ]


@pytest.mark.parametrize("vector", [v for v in DATA if v["magic"] == 2], ids=name)
def test_batches_are_read(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["bytes"])
    header = read_header(data)
    check_crc(data, 0, header)
    assert header.size == len(data) == complete_size(data)
    assert [position for position, _ in iter_headers(data)] == [0]
    assert header.compression.kafka_name == vector["codec"]
    assert header.is_log_append_time == vector["log_append_time"]
    assert header.is_transactional != vector["log_append_time"]
    assert not header.is_control
    assert (header.base_offset, header.last_offset, header.next_offset) == (100, 104, 105)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4242, 7, 11)
    assert header.last_sequence == 15
    assert header.partition_leader_epoch == 5
    assert header.max_timestamp == (APPEND_TIME if vector["log_append_time"] else 1700000100000)
    assert list(iter_records(data, 0, header)) == expected(vector)


@pytest.mark.parametrize("vector", [v for v in DATA if v["magic"] == 2], ids=name)
def test_a_rebuilt_batch_is_the_same(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["bytes"])
    header = read_header(data)
    rebuilt = rebuild_batch(header, ((r.offset, r) for r in iter_records(data, 0, header)))
    again = read_header(rebuilt)
    check_crc(rebuilt, 0, again)
    assert list(iter_records(rebuilt, 0, again)) == expected(vector)
    if vector["codec"] == "none" and not vector["log_append_time"]:
        assert bytes(rebuilt) == data


@pytest.mark.parametrize("vector", [v for v in DATA if v["magic"] < 2], ids=name)
def test_message_sets_are_read(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["bytes"])
    assert peek_magic(data) == vector["magic"]
    assert complete_size(data) == len(data)
    assert list(iter_legacy(data)) == expected(vector)
    assert {message.compression.kafka_name for message in iter_messages(data)} == {vector["codec"]}
    assert {message.is_log_append_time for message in iter_messages(data)} == {vector["log_append_time"]}


@pytest.mark.parametrize("vector", [v for v in DATA if v["magic"] < 2], ids=name)
def test_message_sets_are_written(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["bytes"])
    codec = Compression.from_kafka_name(vector["codec"])
    written = build_message_set(
        expected(vector),
        vector["magic"],
        compression=codec,
        log_append_time=APPEND_TIME if vector["log_append_time"] else None,
    )
    assert list(iter_legacy(written)) == expected(vector)
    if codec is Compression.NONE:
        assert written == data


@pytest.mark.parametrize("vector", [v for v in DATA if v["magic"] < 2], ids=name)
def test_message_sets_are_converted_up(vector: dict[str, Any]) -> None:
    batch = up_convert(bytes.fromhex(vector["bytes"]), base_offset=9, leader_epoch=3)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert header.size == len(batch)
    assert header.compression.kafka_name == vector["codec"]
    assert header.partition_leader_epoch == 3
    assert [r.offset for r in iter_records(batch, 0, header)] == [9, 10, 11, 12]
    assert [(r.timestamp, r.key, r.value) for r in iter_records(batch, 0, header)] == [
        (r.timestamp, r.key, r.value) for r in expected(vector)
    ]


@pytest.mark.parametrize("to_magic", [0, 1])
@pytest.mark.parametrize("vector", [v for v in DATA if v["codec"] != "zstd"], ids=name)
def test_everything_is_converted_down(vector: dict[str, Any], to_magic: int) -> None:
    data = bytes.fromhex(vector["bytes"])
    converted = down_convert(data + data[:20], to_magic, 103)
    if vector["magic"] <= to_magic:
        assert converted == data
        return
    # Only uncompressed records come one by one, and only those the client did not ask for are dropped.
    kept = [r for r in expected(vector, sequences=False) if vector["codec"] != "none" or r.offset >= 103]
    assert [(r.offset, r.key, r.value) for r in iter_legacy(converted)] == [
        (r.offset, r.key, r.value) for r in kept
    ]
    times = {r.timestamp for r in iter_legacy(converted)}
    assert times == ({-1} if to_magic == 0 else {r.timestamp for r in kept})
    assert {m.magic for m in iter_messages(converted)} == {to_magic}


@pytest.mark.parametrize("committed", [True, False])
def test_end_transaction_markers(committed: bool) -> None:
    data = MARKERS[0 if committed else 1]
    written = build_end_transaction_marker(
        committed=committed,
        coordinator_epoch=6,
        producer_id=99,
        producer_epoch=2,
        timestamp=1700000000000,
        base_offset=77,
        leader_epoch=3,
    )
    assert bytes(written) == data
    header = read_header(data)
    assert header.is_control
    assert header.is_transactional
    (record,) = iter_records(data, 0, header)
    marker = read_end_transaction_marker(record)
    assert marker is not None
    assert marker.control_type is (ControlType.COMMIT if committed else ControlType.ABORT)
    assert marker.committed is committed
    assert marker.coordinator_epoch == 6
    assert down_convert(data, 1, 0) == b""
