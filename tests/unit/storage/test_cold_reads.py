"""Which offsets cannot be looked up without waiting for the disk, and what is read for them outside the loop."""

from simulation.disk import SimulatedDisk
from storage.cold_reads import INDEX_STAYS_S, _position
from storage.disk import RealDisk
from storage.log import Log
from storage.log_config import LogConfig
from tests.unit.storage.samples import PARTITION, TestClock, append, batch, open_store, simulated
from wire.types import Offset

CONFIG = LogConfig(segment_bytes=4000, index_interval_bytes=100)


def reopened(disk: SimulatedDisk) -> Log:
    """Make a log of several segments and reopen it, so that nothing of it has been looked up."""
    store = open_store(disk, TestClock(), CONFIG)
    log = store.create(PARTITION)
    for _ in range(100):
        append(log, batch([b"v" * 100]))
    store.close()
    log = open_store(disk, TestClock(), CONFIG).get(PARTITION)
    assert log is not None
    assert len(log.segments) > 3
    return log


def test_an_index_is_read_before_its_first_use_and_after_a_long_time() -> None:
    disk = simulated()
    log = reopened(disk)
    place = log.cold_place(Offset(3), 0.0)
    assert place is not None
    before = disk.reads
    place.read()
    assert disk.reads > before
    assert log.cold_place(Offset(3), 1.0) is None
    assert log.cold_place(Offset(5), INDEX_STAYS_S) is None, "each use counts"
    assert log.cold_place(Offset(3), 2 * INDEX_STAYS_S + 1) is not None


def test_batches_that_left_memory_are_read_though_the_index_is_there() -> None:
    disk = simulated()
    log = reopened(disk)
    log.cold_place(Offset(3), 0.0)
    disk.is_cached = False
    assert log.cold_place(Offset(3), 1.0) is not None
    disk.is_cached = True
    assert log.cold_place(Offset(3), 2.0) is None


def test_the_end_waits_for_nothing() -> None:
    disk = simulated()
    log = reopened(disk)
    disk.is_cached = False
    assert log.cold_place(log.log_end_offset, 0.0) is None
    end = log.log_end_offset
    append(log, batch([b"new"]))
    assert log.cold_place(end, 0.0) is None, "its place is known: it was appended of late"


def test_a_segment_that_goes_meanwhile_is_no_failure() -> None:
    disk = simulated()
    log = reopened(disk)
    place = log.cold_place(Offset(3), 0.0)
    assert place is not None
    for path in place.paths:
        disk.remove(path)
    place.read()


def test_what_is_read_is_where_the_lookup_begins() -> None:
    log = reopened(simulated())
    _, segment, *_ = log.segments
    index = segment.path(".index")
    data = log.log_directory.disk.read(index)
    assert len(data) > 100
    for offset in range(segment.base_offset, segment.base_offset + 40):
        expected = segment.offset_index.lookup(Offset(offset)).position
        assert _position(data, offset - segment.base_offset) == expected
    assert _position(b"", 5) == 0


def test_the_page_cache_is_asked(tmp_path) -> None:
    file = RealDisk().open(str(tmp_path / "file"), create=True)
    file.write_at(bytes(10_000), 0)
    assert file.is_cached(8192, 0)
    assert file.is_cached(0, 10_000)
