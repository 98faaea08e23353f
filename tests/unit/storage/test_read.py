"""What a fetch returns, and how offsets are found: by offset, by time, by position."""

import pytest

from storage.errors import CorruptBatchError, OffsetOutOfRangeError
from storage.log import Log
from storage.log_config import LogConfig
from storage.log_read import read_range
from tests.unit.storage.samples import PARTITION, TestClock, append, batch, open_store, simulated
from wire.records.batch import iter_headers
from wire.types import Offset, WallMs

NOW = 1_700_000_000_000
SIZE = len(batch([b"v"] * 3))


def make(batches: int = 10, config: LogConfig | None = None) -> Log:
    """Make a log of batches of three records, all of one size."""
    log = open_store(simulated(), TestClock(), config).create(PARTITION)
    for number in range(batches):
        append(log, batch([b"v"] * 3, timestamp=NOW + number), epoch=number // 5)
    return log


def fetch(
    log: Log, offset: int, max_bytes: int = 1 << 20, bound: int | None = None, *, whole: bool = False
) -> list[int]:
    """Return the base offsets of the batches that a fetch returns, the last one negative if it is cut."""
    upper = log.log_end_offset if bound is None else Offset(bound)
    read = log.read(Offset(offset), max_bytes, upper_bound=upper, min_one_batch=whole)
    if read.file_range is None:
        assert read.records_size == 0
        return []
    data = read_range(read.file_range)
    assert len(data) == read.records_size == len(read.file_range)
    found = [int(header.base_offset) for _, header in iter_headers(data)]
    if len(data) % SIZE:
        found.append(-1)
    return found


@pytest.mark.parametrize(
    ("offset", "max_bytes", "bound", "whole", "expected"),
    [
        (0, 3 * SIZE, None, False, [0, 3, 6]),
        (3, SIZE, None, False, [3]),
        (4, SIZE, None, False, [3]),  # inside a batch: the whole batch
        (5, 2 * SIZE + 9, None, False, [3, 6, -1]),  # the end may cut a batch
        (27, 9999, None, False, [27]),
        (30, 9999, None, False, []),  # the end is no error
        (0, SIZE - 1, None, False, [-1]),
        (0, SIZE - 1, None, True, [0]),
        (0, 0, None, False, []),
        (0, 0, None, True, [0]),
        (0, 9999, 6, False, [0, 3]),
        (0, 9999, 7, False, [0, 3]),  # a bound inside a batch
        (6, 9999, 6, False, []),
        (9, 9999, 6, False, []),
        (0, 9999, 0, False, []),
    ],
)
def test_what_a_fetch_is_given(
    offset: int, max_bytes: int, bound: int | None, whole: bool, expected: list[int]
) -> None:
    for config in (LogConfig(), LogConfig(index_interval_bytes=1)):
        assert fetch(make(config=config), offset, max_bytes, bound, whole=whole) == expected


def test_a_fetch_stays_in_its_segment() -> None:
    log = make(config=LogConfig(segment_bytes=3 * SIZE))
    assert fetch(log, 3) == [3, 6]
    assert fetch(log, 9) == [9, 12, 15]
    assert fetch(log, 3, bound=12) == [3, 6]


def test_a_first_batch_that_is_cut_is_told() -> None:
    log = make()
    assert log.read(Offset(0), SIZE - 1, upper_bound=Offset(30), min_one_batch=False).first_batch_incomplete
    assert not log.read(
        Offset(0), SIZE - 1, upper_bound=Offset(30), min_one_batch=True
    ).first_batch_incomplete
    assert not log.read(Offset(0), SIZE, upper_bound=Offset(30), min_one_batch=False).first_batch_incomplete


@pytest.mark.parametrize("offset", [-1, 4, 31, 1 << 40])
def test_offsets_out_of_range(offset: int) -> None:
    log = make()
    log.advance_high_watermark(Offset(30))
    log.advance_log_start(Offset(5))
    with pytest.raises(OffsetOutOfRangeError):
        fetch(log, offset)
    assert fetch(log, 5) == [3, 6, 9, 12, 15, 18, 21, 24, 27]


def test_gaps_are_skipped_over() -> None:
    log = open_store(simulated(), TestClock(), LogConfig(segment_bytes=2 * SIZE)).create(PARTITION)
    for base in (0, 10, 20, 50, 90):
        log.append_as_follower(batch([b"v"] * 3, base_offset=base, leader_epoch=0))
    assert fetch(log, 3) == [10]
    assert fetch(log, 13) == [20, 50]
    assert fetch(log, 60) == [90]
    assert fetch(log, 93) == []


def test_the_active_segment_is_hot() -> None:
    log = make(config=LogConfig(segment_bytes=3 * SIZE))
    old = log.read(Offset(0), 10, upper_bound=Offset(30), min_one_batch=True).file_range
    new = log.read(Offset(29), 10, upper_bound=Offset(30), min_one_batch=True).file_range
    assert old is not None
    assert not old.hot
    assert new is not None
    assert new.hot


def test_a_range_outlives_its_segment() -> None:
    log = make(config=LogConfig(segment_bytes=3 * SIZE, file_delete_delay_ms=0))
    file_range = log.read(Offset(0), SIZE, upper_bound=Offset(30), min_one_batch=True).file_range
    assert file_range is not None
    before = read_range(file_range)
    log.truncate_fully_and_start_at(Offset(100))
    log.log_directory.remove(log.log_directory.removals_due())
    assert read_range(file_range) == before


def test_places_of_offsets() -> None:
    log = make(config=LogConfig(segment_bytes=3 * SIZE))
    assert log.offset_metadata(Offset(0)) == (0, 0, 0)
    assert log.offset_metadata(Offset(4)) == (4, 0, SIZE)
    assert log.offset_metadata(Offset(9)) == (9, 9, 0)
    assert log.offset_metadata(Offset(30)) == (30, 27, SIZE) == log.log_end
    assert log.offset_metadata(Offset(4)).on_older_segment(log.log_end)
    assert log.offset_metadata(Offset(0)).bytes_behind(log.offset_metadata(Offset(4))) == SIZE
    log.advance_high_watermark(Offset(9))
    assert log.high_watermark_metadata == (9, 9, 0)


def test_damage_in_a_sealed_segment_is_told_and_does_no_harm() -> None:
    disk = simulated()
    clock = TestClock()
    config = LogConfig(segment_bytes=3 * SIZE)
    store = open_store(disk, clock, config)
    log = store.create(PARTITION)
    for _ in range(10):
        append(log, batch([b"v"] * 3))
    store.close()
    disk.open("/data/orders-0/00000000000000000000.log").write_at(b"\xff" * 30, 0)
    found = open_store(disk, clock, config).get(PARTITION)
    assert found is not None
    with pytest.raises(CorruptBatchError):
        fetch(found, 0)
    assert fetch(found, 9) == [9, 12, 15]
    append(found, batch())


# By time


@pytest.mark.parametrize("segment_bytes", [1 << 20, 3 * SIZE])
def test_offsets_by_timestamp(segment_bytes: int) -> None:
    log = make(config=LogConfig(segment_bytes=segment_bytes, index_interval_bytes=1))
    assert log.find_offset_by_timestamp(WallMs(0)) == (NOW, 0, 0)
    assert log.find_offset_by_timestamp(WallMs(NOW + 4)) == (NOW + 4, 12, 0)
    assert log.find_offset_by_timestamp(WallMs(NOW + 9)) == (NOW + 9, 27, 1)
    assert log.find_offset_by_timestamp(WallMs(NOW + 10)) is None
    assert log.find_max_timestamp() == (NOW + 9, 27, 1)
    log.advance_high_watermark(Offset(30))
    log.advance_log_start(Offset(13))
    assert log.find_offset_by_timestamp(WallMs(0)) == (NOW + 4, 13, 0)
    assert log.earliest() == (-1, 13, 0)
    assert log.latest() == (-1, 30, 1)


def test_records_out_of_order_in_time() -> None:
    log = open_store(
        simulated(), TestClock(), LogConfig(segment_bytes=2 * SIZE, index_interval_bytes=1)
    ).create(PARTITION)
    for timestamps in ([50, 10, 70], [20, 30, 40], [60, 90, 80], [5, 6, 7]):
        append(log, batch([b"v"] * 3, timestamps=[NOW + each for each in timestamps]))
    expected = {0: (50, 0), 51: (70, 2), 71: (90, 7), 90: (90, 7)}
    for asked, (timestamp, offset) in expected.items():
        assert log.find_offset_by_timestamp(WallMs(NOW + asked)) == (NOW + timestamp, offset, 0)
    assert log.find_offset_by_timestamp(WallMs(NOW + 91)) is None
    assert log.find_max_timestamp() == (NOW + 90, 7, 0)


def test_an_empty_log_has_no_times() -> None:
    log = make(0)
    assert log.find_offset_by_timestamp(WallMs(0)) is None
    assert log.find_max_timestamp() is None
    assert log.earliest() == (-1, 0, -1)
    assert log.latest() == (-1, 0, -1)
