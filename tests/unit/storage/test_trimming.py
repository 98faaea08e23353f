"""Cutting a log at its end and at its front, and the high watermark."""

import threading

import pytest

from storage.errors import OffsetOutOfRangeError
from storage.log import Log
from storage.log_config import LogConfig
from storage.segments import Segments
from tests.unit.storage.samples import (
    DAY_MS,
    PARTITION,
    TestClock,
    append,
    batch,
    open_store,
    simulated,
    values,
)
from wire.types import Offset, WallMs

NOW = 1_700_000_000_000
SIZE = len(batch())


def make(batches: int = 10, clock: TestClock | None = None, **config: object) -> Log:
    """Make a log of one-record batches, three in a segment, one second apart."""
    settings = LogConfig(segment_bytes=3 * SIZE, file_delete_delay_ms=0, **config)  # type: ignore[arg-type]
    log = open_store(simulated(), clock or TestClock(), settings).create(PARTITION)
    for number in range(batches):
        append(log, batch(timestamp=NOW + number * 1000), epoch=number // 4)
    log.advance_high_watermark(log.log_end_offset)
    return log


def bases(log: Log) -> list[int]:
    return [int(segment.base_offset) for segment in log.segments]


@pytest.mark.parametrize(
    ("to", "segments", "epochs"),
    [
        (9, [0, 3, 6, 9], [(0, 0), (1, 4), (2, 8)]),
        (8, [0, 3, 6], [(0, 0), (1, 4)]),
        (6, [0, 3, 6], [(0, 0), (1, 4)]),
        (5, [0, 3], [(0, 0), (1, 4)]),
        (0, [0], []),
    ],
)
def test_cutting_the_end(to: int, segments: list[int], epochs: list[tuple[int, int]]) -> None:
    log = make()
    assert log.truncate_suffix(Offset(to))
    assert (bases(log), log.log_end_offset, log.high_watermark) == (segments, to, to)
    assert log.leader_epochs.entries() == epochs
    assert [offset for offset, _ in values(log)] == list(range(to))
    append(log, batch(), epoch=9)
    assert log.log_end_offset == to + 1


def test_cutting_at_or_beyond_the_end_changes_nothing_but_an_epoch_without_records() -> None:
    log = make()
    log.leader_epochs.assign(type(log.leader_epochs.latest)(7), Offset(10))
    assert not log.truncate_suffix(Offset(10))
    assert not log.truncate_suffix(Offset(99))
    assert log.leader_epochs.latest == 2
    assert log.log_end_offset == 10


def test_cutting_inside_a_batch_takes_the_batch() -> None:
    log = open_store(simulated(), TestClock()).create(PARTITION)
    append(log, batch([b"v"] * 3))
    append(log, batch([b"v"] * 3))
    assert log.truncate_suffix(Offset(5))
    assert log.log_end_offset == 3


def test_starting_over_elsewhere() -> None:
    log = make()
    log.truncate_fully_and_start_at(Offset(100))
    assert (bases(log), log.log_start_offset, log.log_end_offset, log.high_watermark) == (
        [100],
        100,
        100,
        100,
    )
    assert log.leader_epochs.entries() == []
    assert log.read(Offset(100), 10, upper_bound=Offset(100), min_one_batch=True).file_range is None
    log.truncate_suffix(Offset(50))
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)


def test_the_high_watermark_stays_within_the_log() -> None:
    log = make()
    assert not log.advance_high_watermark(Offset(5))
    assert not log.advance_high_watermark(Offset(99))
    log.set_high_watermark(Offset(4))
    assert log.high_watermark == 4
    assert log.advance_high_watermark(Offset(99))
    assert log.high_watermark == 10
    log.advance_log_start(Offset(6))
    assert log.set_high_watermark(Offset(2)) == 6


def test_the_log_start_moves_up_to_the_high_watermark() -> None:
    log = make()
    log.set_high_watermark(Offset(7))
    with pytest.raises(OffsetOutOfRangeError):
        log.advance_log_start(Offset(8))
    assert log.advance_log_start(Offset(5))
    assert not log.advance_log_start(Offset(4))
    assert log.leader_epochs.entries() == [(1, 5), (2, 8)]
    assert bases(log) == [0, 3, 6, 9]
    assert log.delete_old_segments(WallMs(0)) == 1
    assert (bases(log), log.log_start_offset) == ([3, 6, 9], 5)


def test_retention_by_time() -> None:
    log = make(retention_ms=4000)
    # Segments end at 2, 5, 8 and 9 seconds.
    assert log.delete_old_segments(WallMs(NOW + 6000)) == 0
    assert log.delete_old_segments(WallMs(NOW + 6001)) == 1
    assert (bases(log), log.log_start_offset) == ([3, 6, 9], 3)
    assert log.delete_old_segments(WallMs(NOW + 20_000)) == 3
    assert (bases(log), log.log_start_offset, log.log_end_offset) == ([10], 10, 10)
    assert log.delete_old_segments(WallMs(NOW + 99_000)) == 0
    assert append(log, batch()) == (10, 10)


def test_retention_by_time_of_records_without_times_goes_by_the_file() -> None:
    clock = TestClock()
    log = make(0, clock, retention_ms=4000)
    log.log_directory.disk.now_ms = clock.wall_ms  # type: ignore[attr-defined]
    append(log, batch(timestamp=-1))
    log.advance_high_watermark(Offset(1))
    assert log.delete_old_segments(WallMs(clock.wall + 4000)) == 0
    assert log.delete_old_segments(WallMs(clock.wall + 4001)) == 1


def test_retention_by_size_never_goes_below_the_limit() -> None:
    for limit, expected in [
        (10 * SIZE, 0),
        (7 * SIZE + 1, 0),
        (7 * SIZE, 1),
        (4 * SIZE, 2),
        (SIZE, 3),
        (0, 4),
    ]:
        log = make(retention_bytes=limit, retention_ms=-1)
        assert log.delete_old_segments(WallMs(NOW)) == expected
        assert log.size_bytes >= limit


def test_retention_stops_at_the_high_watermark() -> None:
    log = make(retention_ms=0)
    log.set_high_watermark(Offset(7))
    assert log.delete_old_segments(WallMs(NOW + DAY_MS)) == 2
    assert bases(log) == [6, 9]


def test_compacted_topics_keep_what_is_old() -> None:
    log = make(retention_ms=0, retention_bytes=0, cleanup_policy=frozenset({"compact"}))
    assert log.delete_old_segments(WallMs(NOW + DAY_MS)) == 0
    log.update_config(LogConfig(retention_ms=0, cleanup_policy=frozenset({"compact", "delete"})))
    assert log.delete_old_segments(WallMs(NOW + DAY_MS)) == 4


def test_files_go_after_a_delay() -> None:
    disk = simulated()
    clock = TestClock()
    store = open_store(
        disk, clock, LogConfig(segment_bytes=3 * SIZE, retention_ms=0, file_delete_delay_ms=60_000)
    )
    log = store.create(PARTITION)
    for number in range(10):
        append(log, batch(timestamp=NOW + number))
    log.advance_high_watermark(log.log_end_offset)
    log.delete_old_segments(WallMs(NOW + DAY_MS))

    def marked() -> list[str]:
        return sorted(
            entry.name for entry in disk.list_directory("/data/orders-0") if entry.name.endswith(".deleted")
        )

    assert "00000000000000000003.log.deleted" in marked()
    assert "00000000000000000003.snapshot.deleted" in marked()
    clock.advance(59_999)
    store.remove_due_files()
    assert marked()
    clock.advance(1)
    store.remove_due_files()
    assert not marked()


def test_flush_messages_says_when_a_flush_is_due() -> None:
    log = make(0, flush_messages=3)
    for _ in range(2):
        append(log, batch())
    assert not log.is_flush_due
    append(log, batch())
    assert log.is_flush_due
    assert log.recovery_point == 0, "not on the loop"
    log.flush()
    assert not log.is_flush_due


class TellingLock:
    """A lock that sets an event when a thread waits for it."""

    def __init__(self) -> None:
        self.waited_for = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.waited_for.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_flush_that_begins_during_a_truncation_does_not_vouch_for_what_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = make()
    lock = TellingLock()
    log.flusher._lock = lock  # type: ignore[assignment]
    flushing = threading.Thread(target=log.flush)
    cut = Segments.truncate_to

    def flush_and_cut(segments: Segments, offset: Offset) -> object:
        flushing.start()
        assert lock.waited_for.wait(10)
        return cut(segments, offset)

    monkeypatch.setattr(Segments, "truncate_to", flush_and_cut)
    log.truncate_suffix(Offset(4))
    flushing.join()
    assert log.log_end_offset == 4
    assert log.recovery_point <= 4
