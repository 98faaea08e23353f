"""The storage engine alone, in this process and on a real disk: appending, reading, recovery, compaction, opening.

    python -m bench.storage [--megabytes 512] [--partitions 2000] [--directory /somewhere] [--only append,...]

Batches have 100 records, uncompressed, of 100 B and of 1 KiB; a leader's are appended one by one, a follower's a
mebibyte at a time. Recovery scans what was never flushed, from the page cache. Compaction runs in its worker
process, as in a broker, on a log in which every key was written ten times; its rate counts the bytes of the log
once. Beside the rates of each load stands how many cores it kept busy.
"""

import argparse
import os
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from storage.compaction.cleaner import Cleaner, CleanerSettings
from storage.compaction.worker_process import WorkerProcess
from storage.disk import RealDisk
from storage.log import Log
from storage.log_config import LogConfig
from storage.log_read import read_range
from storage.store import LogStore
from timing.clock import SystemClock
from wire.records.batch import HEADER, read_header
from wire.records.builder import build_batch
from wire.records.record import Record
from wire.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicPartition

RECORDS = 100
SIZES = (100, 1024)
SEGMENT_BYTES = 64 * 1024 * 1024
FETCH = 1024 * 1024
KEPT = 10
_ROUND, _ROUNDS = 500, 60
"""Batches of a round, and rounds, where plain and idempotent appends are compared."""
EPOCH = LeaderEpoch(0)
CLOCK = SystemClock()
CONFIG = LogConfig(segment_bytes=SEGMENT_BYTES)
COMPACTED = LogConfig(
    segment_bytes=SEGMENT_BYTES, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0
)


class Meter:
    """Wall and CPU time of the code that runs inside it."""

    def __enter__(self) -> "Meter":
        self._cpu = self._used()
        self._started = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._started
        self.cpu_s = self._used() - self._cpu

    def _used(self) -> float:
        usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(usage.ru_utime + usage.ru_stime for usage in usages)

    def report(self, what: str, size: int, records: int = 0) -> None:
        rate = f"{records / self.seconds:12,.0f} records/s" if records else " " * 22
        print(
            f"{what:38} {size / self.seconds / 1e6:9,.0f} MB/s {rate}   {self.cpu_s / self.seconds:5.2f} cores"
        )


@contextmanager
def store_in(directory: Path, config: LogConfig = CONFIG) -> Iterator[LogStore]:
    """Open a store for the block; unless the block closes it, leave it as a crash would."""
    store = LogStore.open([directory], config, {}, CLOCK, RealDisk())
    try:
        yield store
    finally:
        store.close(clean=False)


def a_batch(size: int, first_key: int = 0, keys: int = 1 << 40) -> bytearray:
    value = os.urandom(size - 16)
    now = CLOCK.wall_ms()
    return bytearray(
        build_batch([Record(0, now, b"%016d" % ((first_key + at) % keys), value) for at in range(RECORDS)])
    )


def fill(log: Log, data: bytearray, total: int) -> int:
    """Append a batch repeatedly; return how many records that were."""
    appended = 0
    for _ in range(total // len(data)):
        data[:8] = bytes(8)  # as a client sends it: the append before wrote its offset here
        log.append_as_leader(data, EPOCH, CLOCK.wall_ms())
        appended += RECORDS
    log.advance_high_watermark(log.log_end_offset)
    return appended


def idempotent(directory: Path, _total: int) -> None:
    """Append the same records plain and with a producer's sequence, in turn, and compare the CPU time.

    It does so as a follower too: every replica keeps the producer's state. Rounds are short and many, so that other
    load on the machine evens out.
    """
    now = CLOCK.wall_ms()
    records = [Record(0, now, None, os.urandom(100)) for _ in range(RECORDS)]
    sequences = range(0, _ROUND * RECORDS, RECORDS)
    plain = [bytes(build_batch(records)) for _ in sequences]
    numbered = [
        bytes(
            build_batch(
                records, producer_id=ProducerId(7), producer_epoch=ProducerEpoch(0), base_sequence=sequence
            )
        )
        for sequence in sequences
    ]
    for role in ("leader", "follower"):
        ratios = []
        with store_in(directory / f"idempotent-{role}") as store:
            for turn in range(_ROUNDS):
                cost = {}
                for kind, batches in ((0, plain), (1, numbered)) if turn % 2 else ((1, numbered), (0, plain)):
                    log = store.create(TopicPartition(f"{role}-{kind}", turn))
                    cost[kind] = _append_all(log, batches, leads=role == "leader")
                ratios.append(cost[1] / cost[0] - 1)
        mean, spread = statistics.fmean(ratios), 2 * statistics.stdev(ratios) / len(ratios) ** 0.5
        print(f"idempotent, as {role:<8} {mean:27.1%} more CPU than plain, +- {spread:.1%}")


def _append_all(log: Log, batches: list[bytes], *, leads: bool) -> float:
    """Append batches of 100 records; return the seconds of CPU that it took."""
    copies = [bytearray(each) for each in batches]
    if not leads:
        for number, copy in enumerate(copies):
            copy[:8] = (number * RECORDS).to_bytes(8, "big")
    started = time.thread_time()
    if leads:
        now = CLOCK.wall_ms()
        for copy in copies:
            log.append_as_leader(copy, EPOCH, now)
    else:
        for copy in copies:
            log.append_as_follower(copy)
    return time.thread_time() - started


def append(directory: Path, total: int) -> None:
    for size in SIZES:
        data = a_batch(size)
        with store_in(directory / f"leader-{size}") as store:
            log = store.create(TopicPartition("t", 0))
            with Meter() as meter:
                records = fill(log, data, total)
            meter.report(f"append as leader, {size} B", log.size_bytes, records)
    data = a_batch(1024)
    header = read_header(data)
    fetch = bytearray(data * (FETCH // len(data)))
    with store_in(directory / "follower") as store:
        log = store.create(TopicPartition("t", 0))
        with Meter() as meter:
            for _ in range(total // len(fetch)):
                for at in range(0, len(fetch), len(data)):
                    base = log.log_end_offset + at // len(data) * RECORDS
                    HEADER.pack_into(fetch, at, *header._replace(base_offset=Offset(base)))
                log.append_as_follower(fetch)
        meter.report("append as follower, 1 MiB, 1024 B", log.size_bytes)


def read(directory: Path, total: int) -> None:
    with store_in(directory / "leader-1024") as store:
        log = store.create(TopicPartition("t", 0))
        if not log.log_end_offset:
            fill(log, a_batch(1024), total)
        offset, got = log.log_start_offset, 0
        with Meter() as meter:
            while offset < log.log_end_offset:
                found = log.read(offset, FETCH, upper_bound=log.log_end_offset, min_one_batch=True)
                assert found.file_range is not None
                data = read_range(found.file_range)
                got += len(data)
                at = 0
                while at + 61 <= len(data) and at + (header := read_header(data, at)).size <= len(data):
                    at += header.size
                    offset = header.next_offset
        meter.report("read, 1 MiB a time", got)


def recover(directory: Path, total: int) -> None:
    for size in SIZES:
        path = directory / f"unclean-{size}"
        with store_in(path) as store:
            fill(store.create(TopicPartition("t", 0)), a_batch(size), total)
        with Meter() as meter, store_in(path) as store:
            log = store.get(TopicPartition("t", 0))
            assert log is not None
            recovered = log.size_bytes
        meter.report(f"recovery, {size} B", recovered, log.log_end_offset)


def compact(directory: Path, total: int) -> None:
    for size in SIZES:
        keys = max(total // size // KEPT, RECORDS)
        with store_in(directory / f"compacted-{size}", COMPACTED) as store:
            log = store.create(TopicPartition("t", 0))
            first = 0
            while log.size_bytes < total:
                log.append_as_leader(a_batch(size, first, keys), EPOCH, CLOCK.wall_ms())
                first += RECORDS
            log.advance_high_watermark(log.log_end_offset)
            log.roll()
            before, records = log.size_bytes, log.log_end_offset
            cleaner = Cleaner(store, CleanerSettings())
            with Meter() as meter:
                cleaning = cleaner.pick(CLOCK.wall_ms())
                assert cleaning is not None
                result = WorkerProcess().run(cleaning.job, lambda _: None)
                assert result.error is None, result.error
                assert cleaner.finish(cleaning, result)
            meter.report(f"compaction, {size} B, 1 of {KEPT} stays", before, records)


def open_many(directory: Path, partitions: int) -> None:
    path = directory / "many"
    with store_in(path) as store:
        data = a_batch(100)
        with Meter() as made:
            for number in range(partitions):
                store.create(TopicPartition("t", number), sync_parent=False)
            store.sync_directories()
        for log in store.all_logs():
            log.append_as_leader(data, EPOCH, CLOCK.wall_ms())
        with Meter() as closed:
            store.close()
    with Meter() as opened, store_in(path) as store:
        assert len(store.all_logs()) == partitions
    with Meter() as recovered, store_in(path) as store:
        assert len(store.all_logs()) == partitions
    for what, meter in (
        ("create", made),
        ("close cleanly", closed),
        ("open after a clean stop", opened),
        ("open after a crash", recovered),
    ):
        cores = meter.cpu_s / meter.seconds
        print(f"{what + f' {partitions} partitions':38} {meter.seconds:9.2f} s   {cores:28.2f} cores")


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=512, help="of each log")
    parser.add_argument("--partitions", type=int, default=2000, help="that are opened")
    parser.add_argument(
        "--directory", type=Path, help="where the logs go; the system's temporary one if not given"
    )
    loads: dict[str, Callable[[Path, int], None]] = {
        "append": append,
        "idempotent": idempotent,
        "read": read,
        "recover": recover,
        "compact": compact,
        "open": open_many,
    }
    parser.add_argument("--only", default=",".join(loads), help=f"of {', '.join(loads)}")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="bench-storage-", dir=options.directory))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard), hard))
    try:
        for name in options.only.split(","):
            loads[name](directory, options.partitions if name == "open" else options.megabytes * 1_000_000)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
