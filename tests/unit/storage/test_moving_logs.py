"""Logs that move to another directory: crashes at every change, and everything that a start can find."""

import errno

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulation.disk import SimulatedCrash, SimulatedDisk
from storage.errors import InconsistentDirectoryError, LogDirectoryNotFoundError, StorageError
from storage.log import Log
from storage.log_config import LogConfig
from storage.log_read import read_range
from storage.store import LogStore
from tests.unit.storage.samples import PARTITION, TestClock, append, batch, read_all
from wire.records.batch import read_header
from wire.types import NO_TOPIC_ID, LeaderEpoch, Offset, TopicId

A, B = "/a", "/b"
TOPIC_ID = TopicId(bytes(range(16)))
CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=1)


def open_two(disk: SimulatedDisk, clock: TestClock) -> LogStore:
    return LogStore.open([A, B], CONFIG, {}, clock, disk)


def copy(log: Log, future: Log, max_bytes: int = 4096) -> bool:
    """Copy what one read returns; return whether there was anything."""
    read = log.read(future.log_end_offset, max_bytes, upper_bound=log.log_end_offset, min_one_batch=True)
    if read.file_range is None:
        return False
    future.append_as_follower(read_range(read.file_range))
    return True


def directories(disk: SimulatedDisk, path: str) -> list[str]:
    return sorted(entry.name for entry in disk.list_directory(path) if entry.is_directory)


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    for path in (A, B):
        disk.make_directory(path)
    disk.sync_directory("/")
    return disk


@pytest.fixture
def store(disk: SimulatedDisk) -> LogStore:
    return open_two(disk, TestClock())


def filled(store: LogStore, count: int = 10) -> Log:
    log = store.create(PARTITION, TOPIC_ID, directory=A)
    for number in range(count):
        append(log, batch([b"%d" % number]))
    log.advance_high_watermark(log.log_end_offset)
    return log


def test_a_move_from_begin_to_end(store: LogStore, disk: SimulatedDisk) -> None:
    log = filled(store)
    store.checkpoints.write_recovery_points()
    log.log_directory.cleaned[PARTITION] = Offset(4)
    future = store.moves.create(PARTITION, B)
    assert store.future_log(PARTITION) is future
    assert store.moves.create(PARTITION, B) is future
    assert future.topic_id == TOPIC_ID
    while copy(log, future, 150):
        pass
    assert store.moves.promote(PARTITION) is log
    assert store.get(PARTITION) is future
    assert store.future_log(PARTITION) is None
    assert (directories(disk, A), directories(disk, B)) == (["orders-0"], ["orders-0"])
    store.moves.finish_promotion(log)
    assert directories(disk, A)[0].endswith("-delete")
    assert future.recovery_point == future.log_end_offset == 10
    assert (log.log_directory.cleaner_offsets.read(), future.log_directory.cleaner_offsets.read()) == (
        {},
        {PARTITION: 4},
    )
    assert (log.log_directory.recovery_points.read(), future.log_directory.recovery_points.read()) == (
        {},
        {PARTITION: 10},
    )


def test_a_shorter_copy_cannot_take_the_place(store: LogStore) -> None:
    filled(store)
    store.moves.create(PARTITION, B)
    with pytest.raises(ValueError, match="reaches to 0, the log to 10"):
        store.moves.promote(PARTITION)


def test_a_move_needs_a_log_in_another_directory(store: LogStore) -> None:
    with pytest.raises(ValueError, match="cannot be moved"):
        store.moves.create(PARTITION, B)
    filled(store)
    with pytest.raises(ValueError, match="cannot be moved"):
        store.moves.create(PARTITION, A)
    with pytest.raises(LogDirectoryNotFoundError):
        store.moves.create(PARTITION, "/c")


def test_a_clean_stop_keeps_the_copy(store: LogStore, disk: SimulatedDisk) -> None:
    log = filled(store)
    future = store.moves.create(PARTITION, B)
    copy(log, future, 150)
    end = future.log_end_offset
    store.close(threads=1)
    again = open_two(disk, TestClock())
    found = again.future_log(PARTITION)
    assert found is not None
    assert (found.log_end_offset, found.recovery_point, found.log_directory.path) == (end, end, B)
    assert again.get(PARTITION) is not None


def test_two_copies_of_one_topic_are_settled(disk: SimulatedDisk, caplog: pytest.LogCaptureFixture) -> None:
    store = open_two(disk, TestClock())
    log = filled(store)
    future = store.moves.create(PARTITION, B)
    while copy(log, future):
        pass
    store.moves.promote(PARTITION)  # and nothing else: the broker stops here
    append(future, batch([b"later"]))
    before = read_all(future)
    store.close(threads=1)
    log.close()
    again = open_two(disk, TestClock())
    found = again.get(PARTITION)
    assert found is not None
    assert found.log_directory.path == B
    assert read_all(found) == before
    (stray,) = directories(disk, A)
    assert stray.startswith("orders-0.")
    assert stray.endswith("-stray")
    assert "can be removed" in caplog.text
    assert f"/a/{stray}" in caplog.text


@pytest.mark.parametrize("other", [NO_TOPIC_ID, TopicId(bytes(16 * [7]))])
def test_two_logs_of_different_topics_are_not(disk: SimulatedDisk, other: TopicId) -> None:
    for path, topic_id in ((A, TOPIC_ID), (B, other)):
        store = LogStore.open([path], CONFIG, {}, TestClock(), disk)
        append(store.create(PARTITION, topic_id), batch())
        store.close(threads=1)
    with pytest.raises(InconsistentDirectoryError, match="orders-0 is in both /a and /b"):
        open_two(disk, TestClock())


def test_a_copy_of_another_topic_goes(disk: SimulatedDisk) -> None:
    store = open_two(disk, TestClock())
    filled(store)
    store.moves.create(PARTITION, B)
    store.close(threads=1)
    alone = LogStore.open([A], CONFIG, {}, TestClock(), disk)
    alone.remove(PARTITION)
    alone.create(PARTITION, TopicId(bytes(16 * [7])))
    alone.close(threads=1)
    again = open_two(disk, TestClock())
    assert again.future_log(PARTITION) is None
    assert directories(disk, B)[0].endswith("-delete")


def test_a_failed_directory_keeps_the_old_copy_aside(store: LogStore, disk: SimulatedDisk) -> None:
    log = filled(store)
    future = store.moves.create(PARTITION, B)
    while copy(log, future):
        pass
    old = store.moves.promote(PARTITION)
    future.log_directory.fail(OSError(errno.EIO, "gone"), "testing")
    with pytest.raises(StorageError):
        store.moves.finish_promotion(old)
    assert directories(disk, A)[0].endswith("-stray")
    assert not old.log_directory.is_offline


def test_placement_counts_the_copies(store: LogStore) -> None:
    filled(store)
    store.moves.create(PARTITION, B)
    store.create(PARTITION._replace(partition=1), directory=A)
    log = store.create(PARTITION._replace(partition=2))
    assert log.log_directory.path == B


STEPS = st.lists(
    st.sampled_from(
        ["append", "append", "flush", "checkpoint", "begin", "copy", "copy", "promote", "finish"]
    ),
    min_size=5,
    max_size=40,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rounds=st.lists(st.tuples(STEPS, st.integers(1, 120)), min_size=1, max_size=3),
    chances=st.randoms(use_true_random=False),
)
def test_a_crash_at_any_change_of_a_move(rounds: list[tuple[list[str], int]], chances: "object") -> None:
    disk = SimulatedDisk()
    for path in (A, B):
        disk.make_directory(path)
    disk.sync_directory("/")
    clock = TestClock()
    store = open_two(disk, clock)
    store.create(PARTITION, TOPIC_ID, directory=A)
    written: list[bytes] = []  # what can be there, in order
    flushed = 0
    for steps, crash_at in rounds:
        disk.crash_at(crash_at)
        old: Log | None = None
        try:
            for number, step in enumerate(steps):
                log = store.get(PARTITION)
                assert log is not None
                future = store.future_log(PARTITION)
                match step:
                    case "append":
                        data = batch([b"%d" % number])
                        placed = bytearray(data)
                        placed[0:8] = log.log_end_offset.to_bytes(8, "big")
                        placed[12:16] = (0).to_bytes(4, "big")
                        written.append(bytes(placed))
                        log.append_as_leader(memoryview(data), LeaderEpoch(0), clock.wall_ms())
                        log.advance_high_watermark(log.log_end_offset)
                    case "flush":
                        log.flush()
                        flushed = max(flushed, int(log.recovery_point))
                    case "checkpoint":
                        store.checkpoints.write_recovery_points()
                    case "begin" if future is None and old is None:
                        store.moves.create(PARTITION, B if log.log_directory.path == A else A)
                    case "copy" if future is not None:
                        copy(log, future, 200)
                    case "promote" if future is not None and future.log_end_offset == log.log_end_offset:
                        old = store.moves.promote(PARTITION)
                    case "finish" if old is not None:
                        store.moves.finish_promotion(old)
                        flushed = max(flushed, int(log.recovery_point))
                        old = None
        except SimulatedCrash:
            pass
        disk.crash(lambda n: chances.randint(0, n))  # type: ignore[attr-defined, no-any-return]
        store = open_two(disk, clock)
        log = store.get(PARTITION)
        assert log is not None
        found = read_all(log)
        assert found == written[: len(found)]
        assert log.log_end_offset >= flushed
        assert log.leader_epochs.latest == (0 if found else -1)
        future = store.future_log(PARTITION)
        if future is not None:
            copied = read_all(future)
            assert copied == written[: len(copied)]
            # What is beyond the log's end is truncated before the copy continues.
            future.truncate_suffix(log.log_end_offset)
            future.settle()
        written = found
        flushed = max(flushed, int(log.recovery_point))
        assert [read_header(data).base_offset for data in found] == list(range(len(found)))
        log.set_high_watermark(log.log_end_offset)
    store.close(threads=1)


def test_a_log_that_is_gone_does_not_take_its_directory_along(store: LogStore) -> None:
    log = filled(store)
    store.remove(PARTITION)
    clock = store.directories[0].clock
    assert isinstance(clock, TestClock)
    clock.advance(log.config.file_delete_delay_ms)
    store.remove_due_files()
    for use in (
        lambda: log.read(Offset(0), 100, upper_bound=Offset(10), min_one_batch=True),
        log.flush,
        lambda: append(log, batch()),
        lambda: log.delete_old_segments(clock.wall_ms()),
    ):
        try:
            use()
        except StorageError as error:
            assert "not in use any more" in str(error)  # noqa: PT017 - some of them need no file
    assert not log.log_directory.is_offline
