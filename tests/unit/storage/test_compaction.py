"""Compaction: what is kept, what goes, when; and that neither a crash nor a concurrent change of the log does harm."""

import dataclasses
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from simulation.disk import SimulatedCrash, SimulatedDisk
from storage.compaction.cleaner import Cleaner, CleanerSettings, Cleaning
from storage.compaction.cleaning import clean
from storage.compaction.job import CleanedGroup, CleaningJob, CleaningResult, WorkerFailedError
from storage.compaction.offset_map import OffsetMap
from storage.compaction.record_walk import choose_records, collect_keys, max_timestamp_delta
from storage.compaction.transactions import TransactionReader
from storage.compaction.worker_process import WorkerProcess
from storage.disk import RealDisk
from storage.log import AppendOrigin, Log
from storage.log_config import LogConfig
from storage.store import LogStore
from storage.transaction_index import AbortedTransaction
from tests.unit.storage.samples import (
    DAY_MS,
    PARTITION,
    TestClock,
    append,
    batch,
    headers,
    marker,
    open_store,
    read_all,
    simulated,
    values,
)
from wire.records.batch import check_crc, read_header
from wire.records.builder import build_batch
from wire.records.compression import Compression
from wire.records.errors import CorruptRecordError
from wire.records.record import Record, iter_records
from wire.types import Offset, ProducerId, WallMs

SETTINGS = LogConfig(
    segment_bytes=400,
    cleanup_policy=frozenset({"compact"}),
    min_cleanable_dirty_ratio=0.0,
    file_delete_delay_ms=0,
    delete_retention_ms=1000,
)


class Compacted:
    """A compacted log, its store and its cleaner, on a simulated disk unless told otherwise."""

    def __init__(
        self, config: LogConfig = SETTINGS, *, directory: Path | None = None, memory: int = 1 << 20
    ) -> None:
        self.clock = TestClock()
        self.disk: SimulatedDisk | RealDisk = simulated() if directory is None else RealDisk()
        self.config = config
        self.path = "/data" if directory is None else str(directory)
        self.settings = CleanerSettings(memory=memory)
        self.store: LogStore
        self.log: Log
        self.open()

    def open(self) -> None:
        self.store = open_store(self.disk, self.clock, self.config, self.path)
        self.log = self.store.create(PARTITION)
        self.log.set_high_watermark(self.log.log_end_offset)
        self.cleaner = Cleaner(self.store, self.settings)

    def put(
        self, *pairs: tuple[str, str | None], compression: Compression = Compression.NONE, producer: int = -1
    ) -> None:
        sequence = -1
        if producer >= 0:
            entry = self.log.producer_state.entries.get(producer)  # type: ignore[call-overload]
            sequence = 0 if entry is None else entry.last_sequence + 1
        data = batch(
            [None if value is None else value.encode() for _, value in pairs],
            keys=[key.encode() for key, _ in pairs],
            timestamp=self.clock.wall,
            compression=compression,
            producer=producer,
            sequence=sequence,
        )
        append(self.log, data)
        self.log.advance_high_watermark(self.log.log_end_offset)

    def roll(self) -> None:
        if self.log.active_segment.size:
            self.log.roll()

    def clean(self) -> CleaningResult | None:
        cleaning = self.cleaner.pick(self.clock.wall_ms())
        if cleaning is None:
            return None
        result = clean(CleaningJob.from_json(cleaning.job.to_json()), self.disk)
        self.cleaner.finish(cleaning, CleaningResult.from_json(result.to_json()))
        return result

    def found(self) -> list[tuple[int, str, str | None]]:
        return records(self.log)


def records(log: Log) -> list[tuple[int, str, str | None]]:
    found = []
    for data in read_all(log):
        header = read_header(data)
        check_crc(data, 0, header)
        if not header.is_control:
            for record in iter_records(data, 0, header):
                assert record.key is not None
                value = None if record.value is None else record.value.decode()
                found.append((record.offset, record.key.decode(), value))
    return found


@pytest.mark.parametrize("codec", list(Compression))
def test_the_latest_record_of_each_key_stays_where_it_is(codec: Compression) -> None:
    compacted = Compacted()
    for number in range(30):
        compacted.put((f"k{number % 4}", f"v{number}"), (f"only{number}", "x"), compression=codec)
    before = compacted.found()
    size = compacted.log.size_bytes
    active = int(compacted.log.active_segment.base_offset)
    result = compacted.clean()
    assert result is not None
    assert result.error is None
    assert result.end == active == compacted.log.log_directory.cleaned[PARTITION]
    assert compacted.log.size_bytes < size
    latest = {key: offset for offset, key, _ in before if offset < active}
    assert compacted.found() == [each for each in before if each[0] >= active or latest[each[1]] == each[0]]
    assert compacted.clean() is None, "what is clean is not cleaned again"
    for offset in range(int(compacted.log.log_end_offset)):
        read = compacted.log.read(
            Offset(offset), 1, upper_bound=compacted.log.log_end_offset, min_one_batch=True
        )
        assert read.file_range is not None
    after = compacted.found()
    for restart in (True, False):
        compacted.store.close(clean=restart)
        compacted.open()
        assert compacted.found() == after


def test_records_of_part_of_a_batch_are_cut_out_as_they_are() -> None:
    compacted = Compacted()
    originals = [
        Record(0, 1_700_000_000_005, b"a", b"1" * 100, [("h", b"x"), ("h", None)]),
        Record(0, 1_700_000_000_009, b"b", b"2", []),
        Record(0, 1_700_000_000_001, b"a", b"3", [("n", b"")]),
    ]
    append(compacted.log, bytearray(build_batch(originals, producer_id=3, producer_epoch=1, base_sequence=7)))
    compacted.put(("b", "later"))
    compacted.roll()
    compacted.clean()
    data = read_all(compacted.log)[0]
    header = read_header(data)
    (kept,) = iter_records(data, 0, header)
    assert (kept.offset, kept.timestamp, kept.key, kept.value, kept.headers) == (
        2,
        1_700_000_000_001,
        b"a",
        b"3",
        [("n", b"")],
    )
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 2, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (
        3,
        1,
        7,
        9,
    )
    assert header.max_timestamp == 1_700_000_000_001


def test_a_tombstone_goes_after_its_time_and_not_before() -> None:
    compacted = Compacted()
    compacted.put(("a", "1"), ("b", "1"))
    compacted.put(("a", None))
    compacted.roll()
    compacted.clean()
    assert compacted.found() == [(1, "b", "1"), (2, "a", None)]
    horizons = [header.delete_horizon for header in headers(compacted.log) if header.has_delete_horizon]
    assert horizons == [compacted.clock.wall + 1000]
    compacted.clock.advance(999)
    compacted.put(("c", "1"))
    compacted.roll()
    compacted.clean()
    assert (2, "a", None) in compacted.found()
    compacted.clock.advance(1)
    compacted.put(("d", "1"))
    compacted.roll()
    compacted.clean()
    assert compacted.found() == [(1, "b", "1"), (3, "c", "1"), (4, "d", "1")]
    timestamps = [
        record.timestamp
        for data in read_all(compacted.log)
        for record in iter_records(data, 0, read_header(data))
    ]
    assert timestamps == [compacted.clock.wall - 1000, compacted.clock.wall - 1, compacted.clock.wall]


def test_records_without_a_key_go() -> None:
    compacted = Compacted(dataclasses.replace(SETTINGS, cleanup_policy=frozenset({"delete"})))
    append(compacted.log, batch([b"1", b"2"], keys=[None, b"k"]))
    compacted.log.advance_high_watermark(Offset(2))
    compacted.roll()
    assert compacted.clean() is None
    compacted.log.update_config(SETTINGS)
    compacted.clean()
    assert compacted.found() == [(1, "k", "2")]


def test_a_producers_last_batch_leaves_its_header() -> None:
    compacted = Compacted()
    compacted.put(("a", "1"), ("a", "2"), producer=7)
    compacted.put(("a", "3"))
    compacted.put(("b", "3"))
    compacted.roll()
    compacted.clean()
    assert compacted.found() == [(2, "a", "3"), (3, "b", "3")]
    first = headers(compacted.log)[0]
    assert (first.producer_id, first.base_sequence, first.last_sequence, first.record_count) == (7, 0, 1, 0)
    compacted.store.close(clean=False)
    compacted.disk.remove("/data/orders-0/00000000000000000004.snapshot")
    compacted.open()
    assert compacted.log.producer_state.entries[7].last_sequence == 1  # type: ignore[index]
    compacted.put(("c", "4"), producer=7)
    compacted.put(("c", "5"), producer=7)
    compacted.roll()
    compacted.clean()
    assert headers(compacted.log)[0].base_offset == 2, "another batch is the last now"


def test_a_cleaned_segment_ends_where_the_old_one_did() -> None:
    compacted = Compacted()
    compacted.put(("a", "1"))
    compacted.roll()
    compacted.put(("a", "2"))
    compacted.roll()
    compacted.clean()
    assert [(header.base_offset, header.record_count) for header in headers(compacted.log)] == [(1, 1)]
    compacted.put(("a", "3"))
    compacted.roll()
    compacted.clean()
    compacted.put(("b", "3"))
    assert compacted.found() == [(2, "a", "3"), (3, "b", "3")]


def transact(
    compacted: Compacted, producer: int, key: str, value: bytes | None = b"t", *, epoch: int = 0
) -> None:
    data = batch(
        [value], keys=[key.encode()], producer=producer, epoch=epoch, sequence=-1, transactional=True
    )
    append(compacted.log, data, origin=AppendOrigin.COORDINATOR)
    compacted.log.advance_high_watermark(compacted.log.log_end_offset)


def finish(compacted: Compacted, producer: int, *, committed: bool) -> None:
    append(compacted.log, marker(producer, committed=committed), origin=AppendOrigin.COORDINATOR)
    compacted.log.advance_high_watermark(compacted.log.log_end_offset)


def test_aborted_records_go_first_and_their_marker_later() -> None:
    compacted = Compacted()
    compacted.put(("a", "kept"))  # 0
    transact(compacted, 1, "a")  # 1
    transact(compacted, 2, "b")  # 2
    finish(compacted, 1, committed=False)  # 3
    finish(compacted, 2, committed=True)  # 4
    compacted.put(("z", "1"))  # 5
    compacted.roll()
    compacted.clean()
    assert compacted.found() == [(0, "a", "kept"), (2, "b", "t"), (5, "z", "1")]
    assert [header.base_offset for header in headers(compacted.log) if header.is_control] == [3, 4]
    assert compacted.log.collect_aborted_transactions(Offset(0), Offset(6)) == [(1, 1, 3, 2)]
    for _ in range(3):
        # The producer writes on, so that its marker is not its last batch: the marker gets a horizon, and then goes.
        compacted.put(("y", "1"), producer=1)
        compacted.roll()
        compacted.clean()
        compacted.clock.advance(1001)
    assert compacted.log.collect_aborted_transactions(Offset(0), Offset(6)) == []
    assert [
        header.base_offset for header in headers(compacted.log) if header.is_control and header.record_count
    ] == [4]
    assert compacted.log.last_stable_offset == compacted.log.log_end_offset


def test_an_abort_in_the_clean_part_does_not_hide_what_its_producer_commits_later() -> None:
    compacted = Compacted()
    compacted.put(("a", "old"))  # 0
    transact(compacted, 1, "x")  # 1
    finish(compacted, 1, committed=False)  # 2
    compacted.roll()
    compacted.clean()
    transact(compacted, 1, "a", None)  # 3: a is deleted, and that is committed
    finish(compacted, 1, committed=True)
    compacted.roll()
    compacted.clean()
    assert compacted.found() == [(3, "a", None)]
    compacted.clock.advance(5000)
    compacted.put(("z", "1"))
    compacted.roll()
    compacted.clean()
    assert compacted.found() == [(5, "z", "1")]


def test_an_aborted_transaction_without_its_marker_ends_where_it_ended() -> None:
    ended = AbortedTransaction(ProducerId(1), Offset(1), Offset(3), Offset(4))
    later = AbortedTransaction(ProducerId(1), Offset(7), Offset(8), Offset(9))
    reader = TransactionReader([ended, later])

    def is_aborted(offset: int) -> bool:
        data = build_batch(
            [Record(Offset(offset), WallMs(0), b"k", b"v", ())],
            base_offset=Offset(offset),
            producer_id=ProducerId(1),
            producer_epoch=0,
            transactional=True,
        )
        return reader.is_aborted(read_header(data))

    assert [is_aborted(offset) for offset in (1, 2, 4, 5, 7)] == [True, True, False, False, True]


def test_an_open_transaction_stops_the_cleaner() -> None:
    compacted = Compacted()
    for number in range(4):
        compacted.put(("a", str(number)))
        compacted.roll()
    transact(compacted, 1, "t")
    compacted.roll()
    compacted.put(("a", "9"))
    compacted.roll()
    compacted.clean()
    assert compacted.log.log_directory.cleaned[PARTITION] == 4
    assert [each[0] for each in compacted.found()] == [3, 4, 5]


def test_the_dirtiest_log_is_first_and_a_clean_one_is_left_alone() -> None:
    config = dataclasses.replace(SETTINGS, min_cleanable_dirty_ratio=0.5)
    compacted = Compacted(config)
    logs = [compacted.store.create(PARTITION._replace(partition=number)) for number in range(3)]
    for number, log in enumerate(logs):
        for _ in range(6):
            append(log, batch([b"v" * 60]))
        log.advance_high_watermark(log.log_end_offset)
        log.roll()
        log.log_directory.cleaned[log.topic_partition] = Offset([3, 6, 0][number])
    cleaning = compacted.cleaner.pick(WallMs(0))
    assert cleaning is not None
    assert cleaning.log is logs[2]
    assert compacted.cleaner.max_dirty_ratio == 1.0
    logs[2].log_directory.cleaned[logs[2].topic_partition] = Offset(6)
    assert compacted.cleaner.pick(WallMs(0)) is None


def test_young_records_wait_and_old_ones_do_not() -> None:
    config = dataclasses.replace(SETTINGS, min_compaction_lag_ms=5000, min_cleanable_dirty_ratio=0.99)
    compacted = Compacted(config)
    for number in range(4):
        compacted.put(("a", str(number)))
        compacted.roll()
        compacted.clock.advance(2000)
    result = compacted.clean()
    assert result is not None
    assert result.end == 2  # records of 8, 6, 4 and 2 seconds
    compacted.log.update_config(
        dataclasses.replace(config, min_compaction_lag_ms=0, max_compaction_lag_ms=3000)
    )
    compacted.put(("b", "x"), ("b", "y" * 300))
    compacted.roll()
    compacted.log.log_directory.cleaned[PARTITION] = Offset(3)
    assert compacted.cleaner.pick(compacted.clock.wall_ms()) is None
    compacted.clock.advance(1001)
    assert compacted.cleaner.pick(compacted.clock.wall_ms()) is not None


def test_more_keys_than_memory_take_more_passes() -> None:
    compacted = Compacted(memory=190 * 8)
    for number in range(12):
        compacted.put((f"k{number % 6}", "x"), (f"o{number}", "x"))
        if number % 3 == 2:
            compacted.roll()
    passes = 0
    while compacted.clean() is not None:
        passes += 1
        assert not compacted.cleaner.uncleanable
    assert passes > 1
    keys = [key for _, key, _ in compacted.found()]
    assert len(keys) == len(set(keys)) == 18


def test_a_segment_with_more_keys_than_memory_is_cleaned_bit_by_bit() -> None:
    compacted = Compacted(dataclasses.replace(SETTINGS, segment_bytes=100_000), memory=190 * 5)
    for number in range(40):
        compacted.put((f"k{number % 20}", str(number)))
    compacted.roll()
    ends = []
    while (result := compacted.clean()) is not None:
        ends.append(result.end)
    assert ends == [5, 10, 15, 20, 25, 30, 35, 40]
    assert compacted.found() == [(number, f"k{number - 20}", str(number)) for number in range(20, 40)]


def test_a_batch_that_does_not_fit_memory_is_named_and_the_cleaner_goes_on() -> None:
    compacted = Compacted(memory=190 * 2)
    other = compacted.store.create(PARTITION._replace(partition=1))
    compacted.put(("a", "1"), ("b", "1"), ("c", "1"))
    compacted.roll()
    for _ in range(2):
        append(other, batch([b"v"]))
    other.advance_high_watermark(Offset(2))
    other.roll()
    while compacted.clean() is not None:
        pass
    assert "raise log.cleaner.dedupe.buffer.size" in compacted.cleaner.uncleanable[PARTITION]
    assert [offset for offset, _ in values(other)] == [1]
    compacted.store.remove(PARTITION)
    assert compacted.clean() is None
    assert compacted.cleaner.uncleanable == {}


def test_a_damaged_segment_is_named_and_left_as_it_is() -> None:
    compacted = Compacted()
    compacted.put(("a", "1"))
    compacted.put(("a", "2"))
    compacted.roll()
    path = "/data/orders-0/00000000000000000000.log"
    compacted.disk.open(path).write_at(b"\xff", 66)
    before = compacted.disk.read(path)
    result = compacted.clean()
    assert result is not None
    assert result.error is not None
    assert PARTITION in compacted.cleaner.uncleanable
    assert compacted.disk.read(path) == before
    assert not [entry for entry in compacted.disk.list_directory("/data/orders-0") if "cleaned" in entry.name]


def prepared() -> tuple[Compacted, Cleaning, CleaningResult]:
    compacted = Compacted()
    for number in range(20):
        compacted.put((f"k{number % 3}", str(number)))
    cleaning = compacted.cleaner.pick(compacted.clock.wall_ms())
    assert cleaning is not None
    return compacted, cleaning, clean(cleaning.job, compacted.disk)


def test_a_log_that_was_truncated_meanwhile_is_left_alone() -> None:
    compacted, cleaning, result = prepared()
    compacted.log.truncate_suffix(Offset(8))
    before = compacted.found()
    assert not compacted.cleaner.finish(cleaning, result)
    assert compacted.found() == before
    assert not [entry for entry in compacted.disk.list_directory("/data/orders-0") if "cleaned" in entry.name]


def test_of_a_log_that_lost_its_front_meanwhile_nothing_is_taken_in() -> None:
    # A later group may have dropped the tombstone of a record that the group before it still has.
    compacted, cleaning, result = prepared()
    compacted.log.advance_log_start(list(compacted.log.segments)[1].base_offset)
    compacted.log.delete_old_segments(WallMs(0))
    before = compacted.found()
    assert not compacted.cleaner.finish(cleaning, result)
    assert compacted.found() == before
    assert len(cleaning.missed) == sum(group.changed for group in result.groups) > 1
    names = [entry.name for entry in compacted.disk.list_directory(cleaning.job.directory)]
    assert not [name for name in names if "cleaned" in name]
    assert compacted.clean() is not None
    assert {key: value for _, key, value in compacted.found()} == {key: value for _, key, value in before}
    assert len(compacted.found()) < len(before)


def test_a_log_that_was_removed_meanwhile_is_gone() -> None:
    compacted, cleaning, result = prepared()
    compacted.store.remove(PARTITION)
    assert not compacted.cleaner.finish(cleaning, result)
    compacted.store.create(PARTITION)
    assert not compacted.cleaner.finish(cleaning, result)


def test_a_stopped_cleaning_leaves_nothing_behind() -> None:
    compacted, cleaning, _ = prepared()
    before = compacted.found()
    compacted.cleaner.discard(cleaning)
    assert compacted.found() == before
    assert not [entry for entry in compacted.disk.list_directory("/data/orders-0") if "cleaned" in entry.name]


PAIRS = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.one_of(st.none(), st.text("xyz", max_size=6))),
    min_size=1,
    max_size=4,
)
STEPS = st.lists(
    st.one_of(PAIRS, st.sampled_from(["clean", "roll", "restart", "wait"])), min_size=5, max_size=40
)


@settings(max_examples=80, deadline=None)
@given(steps=STEPS, crash_at=st.integers(1, 120), chances=st.randoms(use_true_random=False))
def test_no_crash_loses_a_keys_latest_value(
    steps: list[list[tuple[str, str | None]] | str], crash_at: int, chances: object
) -> None:
    compacted = Compacted()
    written: dict[int, tuple[str, str | None]] = {}

    def check() -> None:
        found = compacted.found()
        assert all(written[offset] == (key, value) for offset, key, value in found)
        held = {key: value for _, key, value in found}
        latest: dict[str, str | None] = {}
        for offset in sorted(written):
            if offset < compacted.log.log_end_offset:
                latest[written[offset][0]] = written[offset][1]
        for key, value in latest.items():
            assert held.get(key) == value, (key, value, found, compacted.log, list(compacted.log.segments))

    disk = compacted.disk
    assert isinstance(disk, SimulatedDisk)
    disk.crash_at(crash_at)
    try:
        for step in steps:
            match step:
                case "clean":
                    compacted.clean()
                case "roll":
                    compacted.roll()
                case "wait":
                    compacted.clock.advance(1001)
                case "restart":
                    compacted.store.close(threads=1)
                    compacted.open()
                case _:
                    end = int(compacted.log.log_end_offset)
                    pairs = [pair for pair in step if isinstance(pair, tuple)]
                    written.update(enumerate(pairs, end))
                    compacted.put(*pairs, producer=1)
            check()
    except SimulatedCrash:
        pass
    flushed = int(compacted.log.recovery_point)
    disk.crash(lambda n: chances.randint(0, n))  # type: ignore[attr-defined, no-any-return]
    compacted.open()
    assert compacted.log.log_end_offset >= flushed
    check()
    compacted.roll()
    while compacted.clean() is not None:
        pass
    assert not compacted.cleaner.uncleanable
    check()
    keys = [key for _, key, _ in compacted.found()]
    assert len(keys) == len(set(keys))


# The worker process


def test_a_worker_process_does_the_same(tmp_path: Path) -> None:
    compacted = Compacted(directory=tmp_path)
    for number in range(30):
        compacted.put((f"k{number % 4}", f"v{number}"), compression=Compression.ZSTD)
    cleaning = compacted.cleaner.pick(compacted.clock.wall_ms())
    assert cleaning is not None
    reported: list[CleanedGroup] = []
    result = WorkerProcess().run(cleaning.job, reported.append)
    assert result.error is None
    assert reported == result.groups
    assert compacted.cleaner.finish(cleaning, result)
    active = compacted.log.active_segment.base_offset
    assert len([offset for offset, _, _ in compacted.found() if offset < active]) == 4


def test_a_killed_worker_has_no_result(tmp_path: Path) -> None:
    compacted = Compacted(directory=tmp_path)
    compacted.put(("a", "1"))
    compacted.roll()
    cleaning = compacted.cleaner.pick(compacted.clock.wall_ms())
    assert cleaning is not None
    worker = WorkerProcess()
    worker.kill()
    with pytest.raises(WorkerFailedError):
        worker.run(cleaning.job, lambda _: None)


def test_expired_deletes_of_both_policies() -> None:
    config = dataclasses.replace(
        SETTINGS, cleanup_policy=frozenset({"compact", "delete"}), retention_ms=DAY_MS
    )
    compacted = Compacted(config)
    for number in range(10):
        compacted.put((f"k{number}", "x" * 60))
    compacted.clean()
    compacted.clock.advance(2 * DAY_MS)
    assert compacted.log.delete_old_segments(compacted.clock.wall_ms()) > 0
    assert compacted.clean() is None


# Parts


def test_keys_up_to_sixteen_bytes_are_exact_and_longer_ones_hashed() -> None:
    offsets = OffsetMap(190 * 3)
    for offset, key in enumerate([b"", b"a" * 16, b"b" * 1000]):
        assert not offsets.is_full
        offsets.put(key, offset)
    assert offsets.is_full
    assert [offsets.get(key) for key in (b"", b"a" * 16, b"b" * 1000, b"c" * 1000, b"x")] == [0, 1, 2, -1, -1]
    assert max(map(len, offsets.offsets)) == 17


@given(
    given_records=st.lists(
        st.tuples(
            st.one_of(st.none(), st.binary(max_size=200)),
            st.one_of(st.none(), st.binary(max_size=20000)),
            st.integers(-(2**40), 2**40),
        ),
        min_size=1,
        max_size=8,
    ),
    tombstones_stay=st.booleans(),
)
def test_walking_records_sees_what_decoding_does(
    given_records: list[tuple[bytes | None, bytes | None, int]], tombstones_stay: bool
) -> None:
    data = build_batch([Record(0, timestamp, key, value) for key, value, timestamp in given_records])
    header = read_header(data)
    body = bytes(data[61:])
    offsets = OffsetMap(1 << 20)
    collect_keys(body, header.record_count, 5, 6, offsets)
    latest = {
        key: offset + 5 for offset, (key, _, _) in enumerate(given_records) if offset and key is not None
    }
    assert {key: offsets.get(key) for key in latest} == latest
    assert len(offsets.offsets) == len(latest)
    offsets.latest = 7
    chosen = choose_records(body, header.record_count, 5, offsets, tombstones_stay=tombstones_stay)
    decoded = list(iter_records(data, 0, header))
    expected = [
        record
        for record in decoded
        if record.offset + 5 > 7
        or (
            record.key is not None
            and record.offset + 5 >= latest.get(record.key, -1)
            and (record.value is not None or tombstones_stay)
        )
    ]
    assert chosen.kept == len(expected)
    assert chosen.has_tombstone == any(record.value is None for record in expected)
    if expected:
        delta = max_timestamp_delta(body, chosen.ranges)
        assert header.base_timestamp + delta == max(record.timestamp for record in expected)
    if len(expected) == len(decoded):
        assert chosen.ranges == [(0, len(body))]


def test_damaged_records_are_told() -> None:
    body = bytes(batch([b"value"] * 3)[61:])
    offsets = OffsetMap(1 << 20)

    def choose(data: bytes, count: int) -> object:
        return choose_records(data, count, 0, offsets, tombstones_stay=True)

    def collect(data: bytes, count: int) -> object:
        return collect_keys(data, count, 0, 0, offsets)

    for walk in (choose, collect):
        for cut in range(len(body)):
            with pytest.raises(CorruptRecordError):
                walk(body[:cut], 3)
        with pytest.raises(CorruptRecordError):
            walk(body, 2)
        with pytest.raises(CorruptRecordError):
            walk(b"\x01" + body[1:], 3)
