"""Segments of old versions of Apache Kafka that span more offsets than their indexes can express."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulation.disk import SimulatedCrash, SimulatedDisk
from storage.log import Log
from tests.unit.storage.samples import PARTITION, TestClock, append, batch, open_store, read_all, simulated
from wire.types import WallMs

FAR = 3_000_000_000
DIRECTORY = "/data/orders-0"


def at(offset: int) -> bytes:
    return bytes(batch([b"v"], base_offset=offset, leader_epoch=0))


def disk_with(segments: dict[int, list[int]]) -> SimulatedDisk:
    """Return a disk with a log of these segments, each with a batch at each of its offsets, as after a crash."""
    disk = simulated()
    disk.make_directory(DIRECTORY)
    for base, offsets in segments.items():
        disk.write(f"{DIRECTORY}/{base:020d}.log", b"".join(map(at, offsets)), sync=True)
    disk.sync_directory(DIRECTORY)
    disk.sync_directory("/data")
    return disk


def opened(disk: SimulatedDisk) -> Log:
    log = open_store(disk, TestClock()).get(PARTITION)
    assert log is not None
    return log


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        ({0: [0, 5, FAR, FAR + 2], FAR + 10: [FAR + 10]}, [0, FAR, FAR + 10]),
        ({0: [FAR], FAR + 1: [FAR + 1]}, [0, FAR, FAR + 1]),
        ({0: [0, FAR, 2 * FAR], 3 * FAR: [3 * FAR]}, [0, FAR, 2 * FAR, 3 * FAR]),
    ],
)
def test_it_is_split_and_nothing_is_lost(segments: dict[int, list[int]], expected: list[int]) -> None:
    log = opened(disk_with(segments))
    assert bases(log) == expected
    assert read_all(log) == [at(offset) for offsets in segments.values() for offset in offsets]
    end = log.log_end_offset
    assert append(log, batch()) == (end, end)


@pytest.mark.parametrize(
    "segments",
    [
        {0: [0, 5, FAR]},  # the last one: it cannot have been compacted, and its offset may be damaged
        {0: [0, 5, FAR], 10: [10]},  # the next one begins below it
        {0: [0, FAR, 6], FAR + 1: [FAR + 1]},  # the next segment does not follow
    ],
)
def test_a_damaged_offset_is_no_reason_to_split(segments: dict[int, list[int]]) -> None:
    log = opened(disk_with(segments))
    assert log.log_end_offset < FAR
    assert read_all(log)[0] == at(0)


@settings(max_examples=60, deadline=None)
@given(crash_at=st.integers(1, 60), chances=st.randoms(use_true_random=False))
def test_a_crash_meanwhile_loses_nothing(crash_at: int, chances: "object") -> None:
    segments = {0: [0, 5, FAR, FAR + 2], FAR + 10: [FAR + 10]}
    disk = disk_with(segments)
    disk.crash_at(crash_at)
    try:
        opened(disk)
    except SimulatedCrash:
        pass
    disk.crash(lambda n: chances.randint(0, n))  # type: ignore[attr-defined, no-any-return]
    log = opened(disk)
    assert bases(log) == [0, FAR, FAR + 10]
    assert read_all(log) == [at(offset) for offsets in segments.values() for offset in offsets]


def test_indexes_are_built_of_what_they_can_reach() -> None:
    disk = disk_with({0: [0, 5, FAR]})
    disk.write("/data/.kafka_cleanshutdown", b"", sync=True)
    log = opened(disk)
    assert [data[:8] for data in read_all(log)] == [at(offset)[:8] for offset in (0, 5, FAR)]
    assert log.find_offset_by_timestamp(WallMs(0)) is not None
