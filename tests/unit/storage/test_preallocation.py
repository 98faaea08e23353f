"""`preallocate`: a segment's file has its full size from the start, and at its end only what it holds."""

import pytest

from storage import names
from storage.log import Log
from storage.log_config import LogConfig
from tests.unit.storage.samples import PARTITION, TestClock, append, batch, open_store, read_all, simulated
from wire.types import Offset

SIZE = 1000
CONFIG = LogConfig(segment_bytes=SIZE, preallocate=True)


def sizes(log: Log) -> list[int]:
    disk = log.log_directory.disk
    found = [
        (entry.name, f"{log.segments.directory}/{entry.name}")
        for entry in disk.list_directory(log.segments.directory)
    ]
    return [disk.size(path) for name, path in sorted(found) if name.endswith(names.LOG)]


def test_only_the_active_segment_is_larger_than_what_it_holds() -> None:
    log = open_store(simulated(), TestClock(), CONFIG).create(PARTITION)
    assert sizes(log) == [SIZE]
    assert log.size_bytes == 0
    while len(log.segments) < 3:
        append(log, batch())
    assert sizes(log) == [*(segment.size for segment in list(log.segments)[:-1]), SIZE]
    assert all(segment.size < SIZE for segment in log.segments)


@pytest.mark.parametrize("count", [0, 1, 30])
def test_a_clean_stop_cuts_it(count: int) -> None:
    disk, clock = simulated(), TestClock()
    store = open_store(disk, clock, CONFIG)
    log = store.create(PARTITION)
    for _ in range(count):
        append(log, batch())
    before = read_all(log)
    store.close(threads=1)
    again = open_store(disk, clock, CONFIG).get(PARTITION)
    assert again is not None
    assert sizes(again) == [segment.size for segment in again.segments]
    assert read_all(again) == before


@pytest.mark.parametrize("count", [0, 1, 30])
@pytest.mark.parametrize("flushed", [False, True])
def test_recovery_cuts_it(count: int, flushed: bool) -> None:
    disk, clock = simulated(), TestClock()
    store = open_store(disk, clock, CONFIG)
    log = store.create(PARTITION)
    for _ in range(count):
        append(log, batch())
    if flushed:
        log.flush()
        store.checkpoints.write_recovery_points()
    before = read_all(log)
    disk.stop()
    again = open_store(disk, clock, CONFIG).get(PARTITION)
    assert again is not None
    assert read_all(again) == before
    assert sizes(again) == [segment.size for segment in again.segments]
    append(again, batch())
    assert len(read_all(again)) == count + 1


def test_a_truncated_log_goes_on() -> None:
    log = open_store(simulated(), TestClock(), CONFIG).create(PARTITION)
    for _ in range(10):
        append(log, batch())
    log.truncate_suffix(Offset(7))
    append(log, batch([b"new"]))
    assert len(read_all(log)) == 8
    log.truncate_fully_and_start_at(Offset(100))
    assert sizes(log)[-1] == SIZE
