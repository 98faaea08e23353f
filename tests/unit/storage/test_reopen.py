"""The first of the storage tests: close, reopen, compare. Then: stop in any way, reopen, compare."""

import itertools
from pathlib import Path

import pytest

from storage import names
from storage.disk import RealDisk
from storage.log import Log
from storage.log_config import LogConfig
from storage.store import LogStore
from tests.unit.storage.samples import (
    PARTITION,
    TestClock,
    append,
    batch,
    headers,
    open_store,
    read_all,
    simulated,
)
from wire.types import LeaderEpoch, Offset, TopicId

TOPIC_ID = TopicId(bytes(range(16)))
CONFIG = LogConfig(segment_bytes=2500, index_interval_bytes=300)


def fill(log: Log, batches: int = 60) -> None:
    for number in range(batches):
        append(log, batch([b"%d" % number] * 3, producer=5, sequence=number * 3), epoch=number // 20)


def state(log: Log) -> tuple[object, ...]:
    return (
        read_all(log),
        log.log_start_offset,
        log.log_end_offset,
        log.leader_epochs.entries(),
        log.topic_id,
        [segment.base_offset for segment in log.segments],
        {number: entry.last_sequence for number, entry in log.producer_state.entries.items()},
    )


def reopened(
    store: LogStore, tmp_path: Path, clock: TestClock, config: LogConfig = CONFIG, *, clean: bool
) -> LogStore:
    store.close(clean=clean)
    return open_store(RealDisk(), clock, config, str(tmp_path))


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
def test_a_log_is_what_it_was(tmp_path: Path, clean: bool) -> None:
    clock = TestClock()
    store = open_store(RealDisk(), clock, CONFIG, str(tmp_path))
    log = store.create(PARTITION, TOPIC_ID)
    fill(log)
    before = state(log)
    assert len(log.segments) > 2
    for _ in range(3):
        store = reopened(store, tmp_path, clock, clean=clean)
        found = store.get(PARTITION)
        assert found is not None
        assert state(found) == before
    append(found, batch([b"more"], producer=5, sequence=180), epoch=2)
    before = state(found)
    store = reopened(store, tmp_path, clock, clean=clean)
    found = store.get(PARTITION)
    assert found is not None
    assert state(found) == before


def test_a_clean_stop_leaves_what_kafka_leaves(tmp_path: Path) -> None:
    store = open_store(RealDisk(), TestClock(), CONFIG, str(tmp_path))
    log = store.create(PARTITION, TOPIC_ID)
    fill(log)
    bases = [segment.base_offset for segment in log.segments]
    store.close()
    expected = {names.LEADER_EPOCHS, names.PARTITION_METADATA}
    for base in bases:
        expected |= {
            names.segment_name(base, suffix) for suffix in (names.LOG, names.INDEX, names.TIME_INDEX)
        }
    expected |= {names.segment_name(Offset(base), names.SNAPSHOT) for base in [*bases[1:], 180]}
    assert {path.name for path in (tmp_path / "orders-0").iterdir()} == expected
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":-1}'
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 180\n"
    assert (tmp_path / "orders-0" / "partition.metadata").read_text() == (
        "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    )
    assert (tmp_path / "orders-0" / "leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n1 60\n2 120\n"


def _damaged(tmp_path: Path, clock: TestClock) -> tuple[Path, tuple[object, ...]]:
    store = open_store(RealDisk(), clock, CONFIG, str(tmp_path))
    log = store.create(PARTITION, TOPIC_ID)
    fill(log)
    before = state(log)
    store.close()
    return tmp_path / "orders-0", before


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
@pytest.mark.parametrize(
    "damage", ["removed", "zeroed", "zeroes behind", "garbage", "short", "odd length", "empty"]
)
@pytest.mark.parametrize("suffix", [names.INDEX, names.TIME_INDEX])
def test_indexes_are_never_trusted(tmp_path: Path, suffix: str, damage: str, clean: bool) -> None:
    clock = TestClock()
    directory, before = _damaged(tmp_path, clock)
    for path in directory.glob("*" + suffix):
        content = path.read_bytes()
        match damage:
            case "removed":
                path.unlink()
            case "zeroed":
                path.write_bytes(bytes(len(content)))
            case "zeroes behind":
                path.write_bytes(content + bytes(1200))
            case "garbage":
                path.write_bytes(
                    bytes(itertools.islice(itertools.cycle(b"\x01\xff\x7f\x55\xaa"), len(content)))
                )
            case "short":
                width = 8 if suffix == names.INDEX else 12
                path.write_bytes(content[: len(content) // width // 2 * width])
            case "odd length":
                path.write_bytes(content[:-5])
            case "empty":
                path.write_bytes(b"")
    if not clean:
        (tmp_path / ".kafka_cleanshutdown").unlink()
    store = open_store(RealDisk(), clock, CONFIG, str(tmp_path))
    log = store.get(PARTITION)
    assert log is not None
    for offset in range(0, 180, 7):
        read = log.read(Offset(offset), 1, upper_bound=log.log_end_offset, min_one_batch=True)
        assert read.file_range is not None
    assert state(log) == before
    first = headers(log)[0]
    found = log.find_offset_by_timestamp(first.max_timestamp)
    assert found is not None
    assert found.offset == 0
    store.close()


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("recovery-point-offset-checkpoint", b""),
        ("recovery-point-offset-checkpoint", b"\x00\xff\xfe"),
        ("recovery-point-offset-checkpoint", b"1\n0\n"),
        ("recovery-point-offset-checkpoint", b"0\n5\norders 0 180\n"),
        ("recovery-point-offset-checkpoint", b"0\n1\norders 0 many\n"),
        ("recovery-point-offset-checkpoint", b"0\n1\norders 0 9999999\n"),
        ("log-start-offset-checkpoint", b"rubbish"),
        ("orders-0/leader-epoch-checkpoint", b""),
        ("orders-0/leader-epoch-checkpoint", b"0\n2\n5 0\n3 10\n"),
        ("orders-0/leader-epoch-checkpoint", b"nonsense\n"),
        ("orders-0/leader-epoch-checkpoint", None),
        ("orders-0/00000000000000000180.snapshot", b""),
        ("orders-0/00000000000000000180.snapshot", b"\x00\x01rubbish"),
        ("orders-0/00000000000000000180.snapshot", None),
        ("orders-0/00000000000000000001.snapshot", b""),
        ("orders-0/00000000000000000001.index", b"orphan"),
    ],
)
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
def test_derived_files_are_never_trusted(
    tmp_path: Path, clean: bool, file: str, content: bytes | None
) -> None:
    clock = TestClock()
    _, before = _damaged(tmp_path, clock)
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_bytes(content)
    if not clean:
        (tmp_path / ".kafka_cleanshutdown").unlink()
    store = open_store(RealDisk(), clock, CONFIG, str(tmp_path))
    log = store.get(PARTITION)
    assert log is not None
    assert state(log) == before
    store.close()


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
def test_every_cut_of_the_tail_leaves_the_whole_batches(clean: bool) -> None:
    clock = TestClock()
    disk = simulated()
    log = open_store(disk, clock).create(PARTITION)
    sizes = [0]
    for number in range(5):
        append(log, batch([b"x" * number] * 2), epoch=number)
        sizes.append(log.size_bytes)
    path = "/data/orders-0/" + names.segment_name(Offset(0), names.LOG)
    whole = disk.read(path)
    disk.stop()
    for cut in range(len(whole)):
        disk.write(path, whole[:cut], sync=False)
        if clean:
            disk.write("/data/" + names.CLEAN_SHUTDOWN, b'{"version":0,"brokerEpoch":1}', sync=False)
        found = open_store(disk, clock).get(PARTITION)
        assert found is not None
        kept = sum(size <= cut for size in sizes) - 1
        assert found.log_end_offset == kept * 2
        assert found.size_bytes == sizes[kept]
        assert b"".join(read_all(found)) == whole[: sizes[kept]]
        assert found.leader_epochs.latest == kept - 1
        disk.stop()


def test_a_flipped_bit_ends_the_log_before_it(tmp_path: Path) -> None:
    clock = TestClock()
    disk = RealDisk()
    store = open_store(disk, clock, CONFIG, str(tmp_path))
    log = store.create(PARTITION)
    fill(log)
    second = list(log.segments)[1]
    path, base = Path(second.path(names.LOG)), second.base_offset
    store.close(clean=False)
    content = bytearray(path.read_bytes())
    content[150] ^= 4
    path.write_bytes(content)
    store = open_store(disk, clock, CONFIG, str(tmp_path))
    found = store.get(PARTITION)
    assert found is not None
    assert base <= found.log_end_offset < base + 6
    assert [segment.base_offset for segment in found.segments] == [0, base]
    assert append(found, batch(), epoch=7)[0] == found.log_end_offset - 1
    assert found.leader_epochs.latest == LeaderEpoch(7)


def test_a_missing_segment_tail_takes_the_later_segments_with_it(tmp_path: Path) -> None:
    clock = TestClock()
    disk = RealDisk()
    store = open_store(disk, clock, CONFIG, str(tmp_path))
    log = store.create(PARTITION)
    fill(log)
    first = log.segments.first
    last = list(first.batches_from(0))[-1]
    path = Path(first.path(names.LOG))
    store.close(clean=False)
    path.write_bytes(path.read_bytes()[: last[0]])
    store = open_store(disk, clock, CONFIG, str(tmp_path))
    found = store.get(PARTITION)
    assert found is not None
    assert found.log_end_offset == last[1].base_offset
    assert len(found.segments) == 1
