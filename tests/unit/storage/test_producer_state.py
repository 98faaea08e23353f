"""Idempotence and transactions as a partition sees them: what each producer can append, and what is kept of it."""

from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from simulation.disk import SimulatedDisk
from storage.disk import RealDisk
from storage.errors import (
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    LogError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from storage.log import AppendOrigin, Log
from storage.log_config import LogConfig
from storage.producer_entry import BatchMetadata, ProducerEntry
from storage.producer_recovery import scan_segment
from storage.producer_snapshot import CorruptSnapshotError, decode_snapshot, encode_snapshot
from storage.producer_state import ProducerState
from tests.unit.storage.samples import (
    DAY_MS,
    PARTITION,
    TestClock,
    append,
    batch,
    marker,
    open_store,
    read_all,
    simulated,
)
from wire.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId, WallMs


@pytest.fixture
def log() -> Log:
    return open_store(simulated(), TestClock()).create(PARTITION)


def send(log: Log, sequence: int, count: int = 1, *, epoch: int = 0, producer: int = 1) -> tuple[int, int]:
    return append(log, batch([b"v"] * count, producer=producer, sequence=sequence, epoch=epoch))


# What a producer that has sent sequences 0 to 9 in epoch 3 can send next, as (epoch, first sequence, count).
TABLE = [
    ((3, 10, 1), (10, 10)),
    ((3, 10, 5), (10, 14)),
    ((3, 8, 2), (8, 9)),  # the last batch again
    ((3, 0, 2), (0, 1)),  # the fifth last again
    ((3, 11, 1), OutOfOrderSequenceError),
    ((3, 9, 1), OutOfOrderSequenceError),  # part of a batch
    ((3, 8, 3), OutOfOrderSequenceError),  # more than the batch
    ((3, 0, 10), OutOfOrderSequenceError),
    ((4, 0, 1), (10, 10)),
    ((4, 1, 1), OutOfOrderSequenceError),
    ((4, 10, 1), OutOfOrderSequenceError),
    ((2, 10, 1), InvalidProducerEpochError),
    ((2, 0, 2), InvalidProducerEpochError),
]


@pytest.mark.parametrize(("sent", "expected"), TABLE)
def test_what_a_producer_may_send(
    log: Log, sent: tuple[int, int, int], expected: tuple[int, int] | type[LogError]
) -> None:
    for first in range(0, 10, 2):
        send(log, first, 2, epoch=3)
    before = read_all(log)
    epoch, sequence, count = sent
    if isinstance(expected, tuple):
        assert send(log, sequence, count, epoch=epoch) == expected
        assert log.log_end_offset == max(10, expected[1] + 1)
    else:
        with pytest.raises(expected):
            send(log, sequence, count, epoch=epoch)
        assert read_all(log) == before
        assert send(log, 10, epoch=3) == (10, 10)


def test_an_unknown_producer_may_begin_anywhere(log: Log) -> None:
    assert send(log, 55, 3) == (0, 2)
    assert send(log, 58) == (3, 3)


def test_a_repeated_batch_is_answered_with_its_offsets_and_not_appended(log: Log) -> None:
    send(log, 0, 2)
    send(log, 0, 4, producer=2)
    result = log.append_as_leader(
        memoryview(batch([b"v"] * 2, producer=1, sequence=0)), LeaderEpoch(0), WallMs(0)
    )
    assert result.duplicate
    assert (result.first_offset, result.last_offset) == (0, 1)
    assert log.log_end_offset == 6


def test_only_the_last_five_batches_are_recognised(log: Log) -> None:
    for sequence in range(6):
        send(log, sequence)
    assert send(log, 1) == (1, 1)
    with pytest.raises(OutOfOrderSequenceError):
        send(log, 0)


def test_sequence_numbers_wrap(log: Log) -> None:
    top = 2**31 - 1
    send(log, top - 1, 4)
    assert log.producer_state.entries[ProducerId(1)].last_sequence == 1
    assert send(log, top - 1, 4) == (0, 3)
    assert send(log, 2) == (4, 4)
    send(log, top, producer=2)
    assert send(log, 0, producer=2) == (6, 6)


def test_followers_believe_their_leader(log: Log) -> None:
    for offset, sequence in [(0, 0), (1, 7), (2, 3)]:
        log.append_as_follower(
            batch([b"v"], producer=1, sequence=sequence, base_offset=offset, leader_epoch=0)
        )
    assert log.producer_state.entries[ProducerId(1)].last_sequence == 3


def test_coordinators_have_no_sequence_numbers(log: Log) -> None:
    for _ in range(2):
        append(
            log, batch([b"v"], producer=1, sequence=-1, transactional=True), origin=AppendOrigin.COORDINATOR
        )
    assert log.log_end_offset == 2


def test_silent_producers_are_forgotten_but_not_those_in_a_transaction() -> None:
    clock = TestClock()
    log = open_store(simulated(), clock).create(PARTITION)
    for producer, transactional in [(1, False), (2, True), (3, False)]:
        age = 0 if producer == 3 else DAY_MS
        data = batch(producer=producer, sequence=0, transactional=transactional, timestamp=clock.wall - age)
        append(log, data)
    assert log.producer_state.remove_expired(clock.wall_ms()) == 1
    assert set(log.producer_state.entries) == {2, 3}
    assert send(log, 42) == (3, 3)


def test_silence_is_counted_from_the_time_that_the_leader_stamps() -> None:
    clock = TestClock()
    config = LogConfig(message_timestamp_type="LogAppendTime")
    log = open_store(simulated(), clock, config).create(PARTITION)
    sent = batch(producer=1, sequence=0, timestamp=clock.wall - 2 * DAY_MS)
    append(log, bytearray(sent))
    assert log.producer_state.remove_expired(clock.wall_ms()) == 0
    append(log, bytearray(sent))
    assert log.log_end_offset == 1, "the retry is recognised"


def transact(log: Log, producer: int, sequence: int, *, epoch: int = 0) -> tuple[int, int]:
    return append(
        log, batch([b"v"] * 2, producer=producer, sequence=sequence, transactional=True, epoch=epoch)
    )


def end(log: Log, producer: int, *, committed: bool, epoch: int = 0, coordinator_epoch: int = 0) -> None:
    data = marker(producer, committed=committed, epoch=epoch, coordinator_epoch=coordinator_epoch)
    append(log, data, origin=AppendOrigin.COORDINATOR)


def test_the_last_stable_offset_waits_for_the_first_open_transaction(log: Log) -> None:
    transact(log, 1, 0)  # 0-1
    transact(log, 2, 0)  # 2-3
    send(log, 0, producer=3)  # 4
    assert log.last_stable_offset == 0
    log.advance_high_watermark(Offset(5))
    assert log.last_stable_offset == 0
    end(log, 1, committed=True)  # 5
    assert log.last_stable_offset == 0, "the marker is not replicated yet"
    log.advance_high_watermark(Offset(6))
    assert log.last_stable_offset == 2
    end(log, 2, committed=False)  # 6
    log.advance_high_watermark(Offset(7))
    assert log.last_stable_offset == 7
    assert log.collect_aborted_transactions(Offset(0), Offset(7)) == [(2, 2, 6, 7)]
    assert log.collect_aborted_transactions(Offset(0), Offset(2)) == []


def test_an_aborted_transaction_is_found_from_any_offset_that_it_touches() -> None:
    log = open_store(simulated(), TestClock(), LogConfig(segment_bytes=200)).create(PARTITION)
    for sequence in range(0, 20, 2):
        transact(log, 1, sequence)
        send(log, sequence // 2, producer=2)
    end(log, 1, committed=False)
    assert len(log.segments) > 3
    assert [found.producer_id for found in log.collect_aborted_transactions(Offset(3), Offset(5))] == [1]
    send(log, 0, producer=3)
    assert log.collect_aborted_transactions(Offset(31), Offset(32)) == []


def test_writing_outside_of_an_open_transaction_is_refused(log: Log) -> None:
    transact(log, 1, 0)
    with pytest.raises(InvalidTransactionStateError):
        send(log, 2)
    end(log, 1, committed=True)
    assert send(log, 2) == (3, 3)


def test_markers_are_fenced_by_producer_and_coordinator_epoch(log: Log) -> None:
    transact(log, 1, 0, epoch=5)
    with pytest.raises(InvalidProducerEpochError):
        end(log, 1, committed=True, epoch=4)
    end(log, 1, committed=True, epoch=6, coordinator_epoch=3)
    with pytest.raises(TransactionCoordinatorFencedError):
        end(log, 1, committed=True, epoch=6, coordinator_epoch=2)
    end(log, 1, committed=True, epoch=6, coordinator_epoch=3)  # without a transaction: nothing to end
    with pytest.raises(InvalidProducerEpochError):
        transact(log, 1, 2, epoch=5)
    assert transact(log, 1, 0, epoch=6) == (4, 5)


@pytest.mark.parametrize("clean", [True, False])
def test_transactions_survive_a_restart(tmp_path: Path, clean: bool) -> None:
    clock = TestClock()
    config = LogConfig(segment_bytes=250)
    store = open_store(RealDisk(), clock, config, str(tmp_path))
    log = store.create(PARTITION)
    transact(log, 1, 0)
    end(log, 1, committed=False)
    transact(log, 2, 0)
    for sequence in range(8):
        send(log, sequence, producer=3)
    transact(log, 1, 2)
    store.close(clean=clean)
    log = open_store(RealDisk(), clock, config, str(tmp_path)).get(PARTITION)  # type: ignore[assignment]
    log.set_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == 3
    assert log.collect_aborted_transactions(Offset(0), log.log_end_offset) == [(1, 0, 2, 3)]
    end(log, 2, committed=True)
    end(log, 1, committed=True)
    log.advance_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == log.log_end_offset


def test_truncation_takes_a_marker_back(log: Log) -> None:
    transact(log, 1, 0)
    end(log, 1, committed=False)
    log.advance_high_watermark(Offset(3))
    assert log.last_stable_offset == 3
    log.truncate_suffix(Offset(2))
    assert log.last_stable_offset == 0
    assert log.collect_aborted_transactions(Offset(0), Offset(2)) == []
    assert log.producer_state.has_open_transaction(ProducerId(1))


def test_a_late_transaction_is_told(log: Log) -> None:
    transact(log, 1, 0)
    now = 1_700_000_000_000
    assert not log.producer_state.has_late_transaction(WallMs(now + 60_000 + 300_000), 60_000)
    assert log.producer_state.has_late_transaction(WallMs(now + 60_001 + 300_000), 60_000)


def entry(producer: int, *, batches: bool = True, transaction: int | None = None) -> ProducerEntry:
    made = ProducerEntry(ProducerId(producer), ProducerEpoch(2), 7, WallMs(99), None)
    if transaction is not None:
        made.transaction_first_offset = Offset(transaction)
    if batches:
        made.batches.append(BatchMetadata(11, Offset(120), 3, WallMs(99)))
    return made


def test_snapshots_are_kafkas_bytes() -> None:
    data = encode_snapshot([entry(5, transaction=117)])
    assert data.hex() == (
        "0001"
        + data[2:6].hex()
        + "00000001"
        + "0000000000000005"
        + "0002"
        + "0000000b"
        + "0000000000000078"
        + "00000003"
        + "0000000000000063"
        + "00000007"
        + "0000000000000075"
    )


def test_snapshots_are_read_back() -> None:
    entries = [entry(1), entry(2, batches=False), entry(3, transaction=117)]
    assert [repr(found) for found in decode_snapshot(encode_snapshot(entries))] == [
        repr(each) for each in entries
    ]
    assert decode_snapshot(encode_snapshot([])) == []


def test_every_damage_to_a_snapshot_is_seen() -> None:
    data = encode_snapshot([entry(1), entry(2)])
    for cut in range(len(data)):
        with pytest.raises(CorruptSnapshotError):
            decode_snapshot(data[:cut])
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        with pytest.raises(CorruptSnapshotError):
            decode_snapshot(bytes(damaged))
    with pytest.raises(CorruptSnapshotError):
        decode_snapshot(data + b"x")


def test_one_snapshot_a_segment_and_none_astray() -> None:
    disk: SimulatedDisk = simulated()
    config = LogConfig(segment_bytes=250, file_delete_delay_ms=0)
    store = open_store(disk, TestClock(), config)
    log = store.create(PARTITION)
    for sequence in range(20):
        send(log, sequence)
    bases = [segment.base_offset for segment in log.segments]
    assert list(log.producer_state.snapshots) == bases[1:]
    log.truncate_suffix(bases[2])
    assert all(offset <= log.log_end_offset for offset in log.producer_state.snapshots)
    log.advance_high_watermark(log.log_end_offset)
    log.advance_log_start(bases[1])
    log.delete_old_segments(WallMs(0))
    store.remove_due_files()
    files = {entry.name for entry in disk.list_directory("/data/orders-0") if "snapshot" in entry.name}
    assert files == {f"{offset:020d}.snapshot" for offset in log.producer_state.snapshots}
    assert min(log.producer_state.snapshots) >= bases[1]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["send", "send", "send", "epoch"])), max_size=30),
    st.integers(0, 30),
)
def test_rolling_back_knows_what_reading_the_log_again_would(sent: list[tuple[int, str]], cut: int) -> None:
    log = open_store(simulated(), TestClock()).create(PARTITION)
    epochs, sequences = {1: 0, 2: 0, 3: 0}, {1: 0, 2: 0, 3: 0}
    for producer, what in sent:
        if what == "epoch":
            epochs[producer] += 1
            sequences[producer] = 0
        send(log, sequences[producer], epoch=epochs[producer], producer=producer)
        sequences[producer] += 1
    log.truncate_suffix(Offset(min(cut, log.log_end_offset)))
    rolled = log.producer_state
    fresh = ProducerState(simulated(), "/nowhere")
    for segment in log.segments:
        scan_segment(fresh, segment, segment.base_offset, log.log_end_offset)
    assert rolled.end_offset == log.log_end_offset
    assert set(rolled.entries) == set(fresh.entries)
    for producer_id, entry in fresh.entries.items():
        known = rolled.entries[producer_id]
        assert (known.epoch, known.last_sequence, known.last_offset, known.last_timestamp) == (
            entry.epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.last_timestamp,
        )
        assert known.batches == entry.batches[-len(known.batches) :]


def test_a_truncation_that_leaves_each_producer_a_batch_reads_nothing(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sequence in range(10):
        send(log, sequence)
        send(log, sequence, producer=2)
    send(log, 0, producer=3)

    def scan(*_: object) -> None:
        raise AssertionError("the log is read")

    monkeypatch.setattr("storage.producer_recovery.scan_batches", scan)
    log.truncate_suffix(Offset(18))
    assert {key: entry.last_sequence for key, entry in log.producer_state.entries.items()} == {1: 8, 2: 8}
    assert send(log, 9) == (18, 18)
