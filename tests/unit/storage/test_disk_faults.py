"""EIO and ENOSPC at every call that a log's whole life makes to its disk (FAULTS.md F12, F13).

Whatever call fails: the directory goes offline with a `StorageError`, no other exception escapes, nothing is written to
the directory afterwards, and what had been flushed is there when the disk is back.
"""

import errno
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from simulation.disk import SimulatedDisk
from storage.errors import LogError, StorageError
from storage.log import Log
from storage.log_config import LogConfig
from storage.log_directory import LogDirectory
from storage.log_read import read_range
from storage.store import LogStore
from tests.unit.storage.samples import PARTITION, TestClock, append, batch, read_all
from wire.types import NO_BROKER_EPOCH, Offset, TopicId, TopicPartition

A, B = "/a", "/b"
TOPIC_ID = TopicId(bytes(range(16)))
OTHER = TopicPartition("orders", 1)
CONFIG = LogConfig(
    segment_bytes=300,
    index_interval_bytes=1,
    file_delete_delay_ms=0,
    retention_bytes=900,
    cleanup_policy=("delete",),
)


@dataclass
class Life:
    """One log's life on directory A, beside another log that moves there from B.

    Attributes:
        flushed: The batches that were known to be on disk when the last step ended.
        attempted: All batches that can be there, in order.
    """

    disk: SimulatedDisk
    clock: TestClock = field(default_factory=TestClock)
    flushed: int = 0
    attempted: list[bytes] = field(default_factory=list)
    store: LogStore | None = None

    @property
    def log(self) -> Log:
        assert self.store is not None
        log = self.store.get(PARTITION)
        assert log is not None
        return log

    def open(self) -> None:
        self.store = LogStore.open([A, B], CONFIG, {}, self.clock, self.disk)

    def create(self) -> None:
        assert self.store is not None
        self.store.create(PARTITION, TOPIC_ID, directory=A)
        self.store.create(OTHER, TOPIC_ID, directory=B)

    def append(self) -> None:
        for number in range(4):
            data = batch([b"%d" % number], producer=1, sequence=len(self.attempted))
            placed = bytearray(data)
            placed[0:8] = self.log.log_end_offset.to_bytes(8, "big")
            placed[12:16] = (0).to_bytes(4, "big")
            self.attempted.append(bytes(placed))
            append(self.log, data)
            self.log.advance_high_watermark(self.log.log_end_offset)

    def flush(self) -> None:
        self.log.flush()
        self.flushed = int(self.log.recovery_point)

    def checkpoint(self) -> None:
        assert self.store is not None
        self.store.checkpoints.write_recovery_points()
        self.store.checkpoints.write_log_starts()
        self.store.checkpoints.write_high_watermarks({PARTITION: self.log.high_watermark})
        self.store.identity.write("cluster", 1, 7)  # type: ignore[arg-type]

    def read(self) -> None:
        try:
            read_all(self.log)
        except OSError as error:  # while reading the range that the reader got
            raise self.log.log_directory.fail(error, "reading") from error
        self.log.find_offset_by_timestamp(self.clock.wall_ms())
        self.log.collect_aborted_transactions(Offset(0), self.log.log_end_offset)

    def truncate(self) -> None:
        end = max(self.log.log_start_offset, Offset(self.log.log_end_offset - 2))
        self.flushed = min(self.flushed, int(end))
        self.log.truncate_suffix(end)
        self.log.settle()
        self.attempted = self.attempted[:end]

    def delete(self) -> None:
        assert self.store is not None
        self.log.advance_log_start(Offset(self.log.log_start_offset + 3))
        self.log.delete_old_segments(self.clock.wall_ms())
        self.clock.advance(1)
        self.store.remove_due_files()

    def move_in(self) -> None:
        assert self.store is not None
        other = self.store.get(OTHER)
        assert other is not None
        append(other, batch())
        if other.log_directory.path == B:
            future = self.store.moves.create(OTHER, A)
            read = other.read(Offset(0), 4096, upper_bound=other.log_end_offset, min_one_batch=True)
            assert read.file_range is not None
            try:
                data = read_range(read.file_range)
            except OSError as error:
                raise other.log_directory.fail(error, "copying") from error
            future.append_as_follower(data)
            self.store.moves.finish_promotion(self.store.moves.promote(OTHER))

    def remove(self) -> None:
        assert self.store is not None
        self.store.remove(OTHER)
        self.clock.advance(1)
        self.store.remove_due_files()

    def close(self) -> None:
        assert self.store is not None
        self.store.close(threads=1, broker_epoch=NO_BROKER_EPOCH)

    def steps(self) -> list[Callable[[], None]]:
        first = [self.open, self.create, self.append, self.flush, self.checkpoint, self.read, self.truncate]
        then = [self.append, self.delete, self.move_in, self.append, self.flush, self.remove]
        return [*first, *then, self.close, self.open, self.append, self.read, self.close]


def fresh() -> SimulatedDisk:
    disk = SimulatedDisk()
    for path in (A, B):
        disk.make_directory(path)
    disk.sync_directory("/")
    return disk


def live_until_a_fault(life: Life) -> bool:
    """Run a life to its end or to the first fault; return whether a fault was reported."""
    for step in life.steps():
        try:
            step()
        except StorageError:
            return True
        if life.store is not None and life.store.offline_directories:
            return True
    return False


def counted() -> tuple[int, int]:
    """Return how many changes and reads a whole life makes."""
    life = Life(fresh())
    before = life.disk.changes
    assert not live_until_a_fault(life)
    return life.disk.changes - before, life.disk.reads


CHANGES, READS = counted()


def check_survivors(life: Life) -> None:
    """Open the directories on a disk that works again: what was flushed is there, in order, and nothing foreign."""
    life.open()
    store = life.store
    assert store is not None
    log = store.get(PARTITION)
    if log is None:
        assert not life.flushed
        return
    found = read_all(log)
    start = int(log.log_start_offset)
    assert found == life.attempted[start : start + len(found)]
    assert log.log_end_offset >= life.flushed
    append(log, batch())
    store.close(threads=1)


@pytest.mark.parametrize(
    ("error", "power"), [(errno.EIO, "lost"), (errno.ENOSPC, "kept")], ids=["EIO, then a power cut", "ENOSPC"]
)
def test_any_change_may_fail(error: int, power: str) -> None:
    for change in range(1, CHANGES + 1):
        life = Life(fresh())
        life.disk.fail_at(change, error)
        assert live_until_a_fault(life), f"change {change} failed, and nobody says so"
        life.disk.fail_at(None)
        if power == "lost":
            life.disk.crash(lambda n: n)
        else:
            life.disk.stop()
        check_survivors(life)


def test_any_read_may_fail() -> None:
    for read in range(1, READS + 1):
        life = Life(fresh())
        life.disk.fail_read_at(read)
        assert live_until_a_fault(life), f"read {read} failed, and nobody says so"
        life.disk.fail_read_at(None)
        life.disk.stop()
        check_survivors(life)


def test_nothing_is_tried_again_on_a_disk_that_failed_once() -> None:
    """A failed sync may have dropped what it had to write, so the success of a second one would mean nothing."""
    for change in range(1, CHANGES + 1):
        life = Life(fresh())
        life.disk.fail_at(change, once=True)
        assert live_until_a_fault(life)
        store = life.store
        if store is None:
            continue  # it was not opened
        (failed,) = store.offline_directories
        untouched = contents(life.disk, failed.path)
        for use in uses(store, failed, life.clock):
            try:
                use()
            except LogError:
                continue
        assert contents(life.disk, failed.path) == untouched, f"after change {change}"


def uses(store: LogStore, log_directory: LogDirectory, clock: TestClock) -> list[Callable[[], object]]:
    """Return the calls that a broker still makes on a store after one of its directories has failed."""
    logs = [log for log in store.all_logs() if log.log_directory is log_directory]
    return [
        *(log.flush for log in logs),
        *(lambda log=log: append(log, batch()) for log in logs),  # type: ignore[misc]
        *(lambda log=log: log.truncate_suffix(Offset(0)) for log in logs),  # type: ignore[misc]
        store.flush_due,
        store.checkpoints.write_recovery_points,
        store.checkpoints.write_log_starts,
        lambda: store.run_retention(clock.wall_ms()),
        store.remove_due_files,
        lambda: store.close(threads=1),
    ]


def contents(disk: SimulatedDisk, path: str) -> dict[str, bytes]:
    found = {}
    for entry in disk.list_directory(path):
        below = f"{path}/{entry.name}"
        if entry.is_directory:
            found |= contents(disk, below)
        else:
            found[below] = disk.read(below)
    return found
