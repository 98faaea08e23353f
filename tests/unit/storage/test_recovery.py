"""Recovery of segments that do not follow each other."""

import dataclasses
from pathlib import Path

import pytest

from storage import names
from storage.disk import RealDisk
from storage.log import Log
from storage.log_config import LogConfig
from storage.meta_properties import MetaProperties, write_meta_properties
from storage.store import LogStore
from tests.unit.storage.samples import PARTITION, TestClock, append, batch, headers, open_store
from wire.types import BrokerId, Offset, WallMs

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100)
COMPACTED = dataclasses.replace(CONFIG, cleanup_policy=frozenset({"compact"}))


def recovered(store: LogStore, path: Path, config: LogConfig = CONFIG) -> Log:
    """Open a store again after an unclean end."""
    store.close(clean=False)
    log = open_store(RealDisk(), TestClock(), config, str(path)).get(PARTITION)
    assert log is not None
    return log


def test_a_hole_below_the_recovery_point_ends_the_log(tmp_path: Path) -> None:
    """A power loss kept the cut of a truncation across a segment border, but undid the rest of it."""
    store = open_store(RealDisk(), TestClock(), CONFIG, str(tmp_path))
    log = store.create(PARTITION)
    for number in range(30):
        append(log, batch([b"%d" % number]), epoch=0)
    log.flush()
    store.checkpoints.write_recovery_points()
    second = list(log.segments)[1]
    last = headers(log)[second.base_offset - 1]
    path = tmp_path / str(PARTITION) / names.segment_name(Offset(0), names.LOG)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - last.size)
    log = recovered(store, tmp_path)
    assert log.log_end_offset == second.base_offset - 1
    assert [header.base_offset for header in headers(log)] == list(range(second.base_offset - 1))
    assert log.recovery_point <= log.log_end_offset


def with_a_gap_between_segments(path: Path, config: LogConfig) -> LogStore:
    """Write the log of a follower of Apache Kafka whose leader's log was compacted just where a segment begins."""
    store = open_store(RealDisk(), TestClock(), config, str(path))
    log = store.create(PARTITION)
    for number in range(5):
        log.append_as_follower(
            batch([b"v"], base_offset=number, leader_epoch=0, timestamp=1_700_000_000_000 + number)
        )
    log.roll(Offset(9))
    for number in range(9, 12):
        log.append_as_follower(
            batch([b"v"], base_offset=number, leader_epoch=0, timestamp=1_700_000_000_000 + number)
        )
    return store


@pytest.mark.parametrize(("config", "kept"), [(COMPACTED, 8), (CONFIG, 5)], ids=["compacted", "deleted"])
def test_a_compacted_log_of_apache_kafkas_may_have_a_gap_between_segments(
    tmp_path: Path, config: LogConfig, kept: int
) -> None:
    store = with_a_gap_between_segments(tmp_path, config)
    write_meta_properties(RealDisk(), str(tmp_path), MetaProperties("cluster", BrokerId(1), {}))
    log = recovered(store, tmp_path, config)
    assert [header.base_offset for header in headers(log)] == [0, 1, 2, 3, 4, 9, 10, 11][:kept]


def test_ours_has_none_but_where_a_crash_took_the_end_of_a_segment(tmp_path: Path) -> None:
    store = with_a_gap_between_segments(tmp_path, COMPACTED)
    store.identity.write("cluster", BrokerId(1), 17)
    log = recovered(store, tmp_path, COMPACTED)
    assert [header.base_offset for header in headers(log)] == [0, 1, 2, 3, 4]


def test_a_search_by_time_leaves_no_files_open(tmp_path: Path) -> None:
    config = dataclasses.replace(CONFIG, segment_bytes=200)
    store = open_store(RealDisk(), TestClock(), config, str(tmp_path))
    log = store.create(PARTITION)
    for number in range(60):
        append(log, batch([b"v"], timestamp=1_700_000_000_000 + number))
    store.close()
    reopened = open_store(RealDisk(), TestClock(), config, str(tmp_path)).get(PARTITION)
    assert reopened is not None
    assert len(reopened.segments) > 20
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in (3, 30, 57):
        found = reopened.find_offset_by_timestamp(WallMs(1_700_000_000_000 + number))
        assert found is not None
        assert found.offset == number
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 3
