"""The cleaner at work in a broker: workers that die, logs that change under them, settings that change."""

import errno
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from cluster.configuration.broker_config import BrokerConfig
from cluster.replication.compaction import Compaction, cleaner_settings
from simulation.cleaning_worker import InlineWorker
from simulation.clock import SimulatedClock
from simulation.disk import SimulatedDisk
from storage.compaction.cleaner import FAILURES_MAX
from storage.compaction.job import CleaningJob, CleaningResult, OnGroup, WorkerFailedError
from storage.log import Log
from storage.log_config import LogConfig
from tests.unit.storage.samples import PARTITION, append, batch, open_store, simulated, values
from wire.types import Offset

SETTINGS = LogConfig(segment_bytes=400, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.1)


DIES_AT_LAST = WorkerFailedError("killed when all but its result was done")


class Worker(InlineWorker):
    """A worker that waits until it is released, and does what its `Bench` demands."""

    def __init__(self, bench: "Bench") -> None:
        super().__init__(bench.disk)
        self.bench = bench
        self.may_go = trio.Event()
        self.killed = False

    def run(self, job: CleaningJob, on_group: OnGroup) -> CleaningResult:
        if self.killed:
            raise WorkerFailedError("killed")
        answer = self.bench.answers.pop(0) if self.bench.answers else None
        if isinstance(answer, WorkerFailedError):
            if answer is DIES_AT_LAST:
                super().run(job, on_group)
            raise answer
        return super().run(job, on_group) if answer is None else answer

    def kill(self) -> None:
        self.killed = True
        self.may_go.set()


class Bench:
    """A store with compacted logs, and the compaction that cleans them."""

    def __init__(self, logs: int, **settings: str) -> None:
        self.disk: SimulatedDisk = simulated()
        self.clock = SimulatedClock()
        self.store = open_store(self.disk, self.clock, SETTINGS)  # type: ignore[arg-type]
        given = {"broker.id": "1", "zookeeper.connect": "z:2181", "log.dirs": "/data"}
        self.config = BrokerConfig(given | {name.replace("_", "."): text for name, text in settings.items()})
        self.workers: list[Worker] = []
        self.answers: list[WorkerFailedError | CleaningResult | None] = []
        self.holds = False
        self.compaction = Compaction(self.store, self.clock, self.config, self.offload, self.make_worker)
        self.logs = [self.store.create(PARTITION._replace(partition=number)) for number in range(logs)]

    def make_worker(self) -> Worker:
        worker = Worker(self)
        self.workers.append(worker)
        return worker

    async def offload(self, work: Callable[[], object]) -> object:
        """Run at once, except for a held worker, which like a thread cannot be cancelled."""
        await trio.lowlevel.checkpoint()
        if self.holds and getattr(work, "__name__", "") == "run":
            with trio.CancelScope(shield=True):
                await self.workers[-1].may_go.wait()
        return work()

    def fill(self, log: Log, records: int = 12, keys: int = 2) -> None:
        for number in range(records):
            append(log, batch([b"v%d" % number], keys=[b"k%d" % (number % keys)]))
        log.advance_high_watermark(log.log_end_offset)
        log.roll()

    def unfinished(self) -> list[str]:
        return [
            entry.name
            for log in self.store.all_logs()
            for entry in self.disk.list_directory(str(log.directory))
            if ".cleaned" in entry.name
        ]


def run(story: Callable[[Bench], Awaitable[None]], *, logs: int = 1, **settings: str) -> Bench:
    """Run a story while the compaction runs."""
    made: list[Bench] = []

    async def main() -> None:
        bench = Bench(logs, **settings)
        made.append(bench)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.compaction.run)
            await story(bench)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return made[0]


def is_compacted(log: Log, keys: int = 2) -> bool:
    return len(values(log)) == keys


def test_every_dirty_log_is_cleaned_and_then_there_is_no_worker() -> None:
    async def story(bench: Bench) -> None:
        for log in bench.logs:
            bench.fill(log)
        await trio.sleep(60)
        assert all(map(is_compacted, bench.logs))
        assert len(bench.workers) == bench.compaction.cleaned == 3
        await trio.sleep(600)
        assert len(bench.workers) == 3
        described = bench.compaction.describe()
        assert (described["cleaning"], described["cleaned"], described["failed"]) == ([], 3, 0)
        bench.fill(bench.logs[1])
        await trio.sleep(16)
        assert len(bench.workers) == 4

    bench = run(story, logs=3)
    assert bench.logs[0].log_directory.cleaner_offsets.read() == {
        log.topic_partition: Offset(24 if number == 1 else 12) for number, log in enumerate(bench.logs)
    }


def test_it_does_not_run_where_it_is_switched_off() -> None:
    async def story(bench: Bench) -> None:
        bench.fill(bench.logs[0])
        await trio.sleep(60)
        assert not bench.workers

    run(story, log_cleaner_enable="false")


def test_as_many_workers_as_there_are_threads() -> None:
    async def story(bench: Bench) -> None:
        bench.holds = True
        for log in bench.logs:
            bench.fill(log)
        await trio.sleep(60)
        assert len(bench.compaction.describe()["cleaning"]) == len(bench.workers) == 2
        assert sum(bench.compaction.is_cleaning(log.topic_partition) for log in bench.logs) == 2
        bench.config.apply_dynamic({}, {"log.cleaner.threads": "3"})
        await trio.sleep(1)
        assert [worker.killed for worker in bench.workers] == [True, True, False, False, False]

    bench = run(story, logs=4, log_cleaner_threads="2")
    assert all(worker.killed for worker in bench.workers)


def test_a_worker_that_dies_is_followed_by_another_after_a_while() -> None:
    async def story(bench: Bench) -> None:
        bench.answers = [WorkerFailedError("killed by SIGKILL"), None]
        bench.fill(bench.logs[0])
        bench.fill(bench.logs[1])
        await trio.sleep(14)
        assert sorted(map(is_compacted, bench.logs)) == [False, True], "the others are cleaned on"
        await trio.sleep(20)
        assert all(map(is_compacted, bench.logs))
        assert not bench.compaction.cleaner.uncleanable

    run(story, logs=2)


def test_a_log_whose_workers_keep_dying_is_given_up() -> None:
    async def story(bench: Bench) -> None:
        bench.answers = [WorkerFailedError("out of memory")] * 50
        bench.fill(bench.logs[0])
        await trio.sleep(600)
        assert len(bench.workers) == FAILURES_MAX
        assert "out of memory" in bench.compaction.describe()["uncleanable"][str(PARTITION)]
        assert [log.topic_partition for log in bench.compaction.uncleanable_logs()] == [PARTITION]
        bench.answers = []
        bench.config.apply_dynamic({}, {"log.cleaner.dedupe.buffer.size": "200000000"})
        await trio.sleep(1)
        assert is_compacted(bench.logs[0]), "other settings are worth a trial"

    run(story)


def test_what_a_worker_finished_before_it_died_is_kept() -> None:
    async def story(bench: Bench) -> None:
        bench.answers = [DIES_AT_LAST]
        bench.fill(bench.logs[0])
        await trio.sleep(5)
        assert is_compacted(bench.logs[0])
        assert bench.logs[0].log_directory.cleaned[PARTITION] == 0
        await trio.sleep(20)
        assert bench.logs[0].log_directory.cleaned[PARTITION] == 12

    run(story)


def test_a_topic_that_is_not_compacted_any_more_is_left_alone() -> None:
    async def story(bench: Bench) -> None:
        bench.holds = True
        bench.fill(bench.logs[0])
        await trio.sleep(1)
        bench.logs[0].update_config(LogConfig(segment_bytes=400))
        await trio.sleep(1)
        assert bench.workers[0].killed
        await trio.sleep(100)
        assert len(bench.workers) == 1
        assert len(values(bench.logs[0])) == 12

    run(story)


def test_a_full_disk_is_waited_out() -> None:
    async def story(bench: Bench) -> None:
        bench.answers = [CleaningResult(error="no space", errno=errno.ENOSPC)] * 5
        bench.fill(bench.logs[0])
        await trio.sleep(20)
        assert not is_compacted(bench.logs[0])
        assert not bench.logs[0].log_directory.is_offline
        assert not bench.unfinished()
        await trio.sleep(90)
        assert is_compacted(bench.logs[0])

    run(story)


def test_a_failing_disk_takes_its_directory_offline() -> None:
    async def story(bench: Bench) -> None:
        bench.answers = [CleaningResult(error="bad sector", errno=errno.EIO)]
        bench.fill(bench.logs[0])
        await trio.sleep(100)
        assert bench.logs[0].log_directory.is_offline
        assert len(bench.workers) == 1

    run(story)


def change_truncation(bench: Bench) -> None:
    bench.logs[0].truncate_suffix(Offset(5))


def change_deletion(bench: Bench) -> None:
    bench.store.remove(PARTITION)


def change_new_topic(bench: Bench) -> None:
    bench.store.remove(PARTITION)
    bench.fill(bench.store.create(PARTITION))


def change_disk(bench: Bench) -> None:
    bench.logs[0].log_directory.fail(OSError(errno.EIO, "bad"), "testing")


@pytest.mark.parametrize("change", [change_truncation, change_deletion, change_new_topic, change_disk])
def test_a_worker_whose_work_is_of_no_use_is_killed(change: Callable[[Bench], None]) -> None:
    async def story(bench: Bench) -> None:
        bench.holds = True
        bench.fill(bench.logs[0])
        await trio.sleep(1)
        (worker,) = bench.workers
        assert not worker.killed
        change(bench)
        before = {
            log.topic_partition: values(log)
            for log in bench.store.all_logs()
            if not log.log_directory.is_offline
        }
        await trio.sleep(1)
        assert worker.killed
        for partition, found in before.items():
            log = bench.store.get(partition)
            assert log is not None
            assert values(log) == found
        assert not bench.compaction.cleaner.uncleanable
        assert not bench.unfinished()

    run(story)


def test_stopping_kills_the_worker_and_leaves_the_log_as_it_was() -> None:
    async def story(bench: Bench) -> None:
        bench.holds = True
        bench.fill(bench.logs[0])
        await trio.sleep(1)
        path = f"{bench.logs[0].directory}/00000000000000000000.log.cleaned"
        bench.disk.write(path, b"half", sync=False)
        assert bench.unfinished()

    bench = run(story)
    assert bench.workers[0].killed
    assert not bench.unfinished()
    assert len(values(bench.logs[0])) == 12
    assert not bench.compaction.cleaner.in_progress


def test_other_settings_hold_for_a_cleaning_that_is_under_way() -> None:
    async def story(bench: Bench) -> None:
        bench.holds = True
        bench.fill(bench.logs[0])
        await trio.sleep(1)
        bench.config.apply_dynamic({}, {"log.cleaner.io.max.bytes.per.second": "5000"})
        await trio.sleep(1)
        assert [worker.killed for worker in bench.workers] == [True, False]
        (cleaning,) = bench.compaction.cleaner.in_progress.values()
        assert cleaning.job.bytes_per_second == 5000
        bench.workers[1].may_go.set()
        await trio.sleep(1)
        assert is_compacted(bench.logs[0])

    run(story)


def test_what_a_worker_is_given_is_its_share() -> None:
    def settings(**given: str) -> Any:
        base = {"broker.id": "1", "zookeeper.connect": "z:2181", "log.dirs": "/data"}
        return cleaner_settings(
            BrokerConfig(base | {name.replace("_", "."): text for name, text in given.items()})
        )

    assert settings().memory == int(134217728 * 0.9)
    assert settings().bytes_per_second is None
    shared = settings(log_cleaner_threads="4", log_cleaner_io_max_bytes_per_second="1000")
    assert (shared.memory, shared.bytes_per_second) == (int(134217728 * 0.9 / 4), 250.0)
