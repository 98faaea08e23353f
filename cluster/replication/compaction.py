"""Drives the cleaner: compacted logs are cleaned one after the other, each in a worker process.

A worker is started when there is something to clean, and ends with its log; an idle broker has none. It is killed when
its result is no longer of use: its log was truncated, removed or went offline, or the broker stops. If it dies by
itself, or cannot clean its log, that log is noted, and cleaning goes on with the others.
"""

import logging
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from storage.compaction.cleaner import Cleaner, CleanerSettings, Cleaning
from storage.compaction.cleaning_worker import CleaningWorker
from storage.compaction.dirt import Dirt
from storage.compaction.job import CleanedGroup, CleaningResult, WorkerFailedError

if TYPE_CHECKING:
    from cluster.configuration.broker_config import BrokerConfig
    from storage.log import Log
    from storage.store import LogStore
    from timing.clock import Clock
    from wire.types import MonotonicSeconds, TopicPartition

logger = logging.getLogger(__name__)

SLICE: Final = 64
"""How many logs are checked before other tasks have their turn on the loop."""
STALENESS_LOOK_S: Final = 0.5
_MEMORY_MIN: Final = 1 << 20
_SETTINGS: Final = "log.cleaner."


class Compaction:
    """The cleaner of one broker, at work.

    Args:
        store: The logs.
        clock: Wall time for lags and horizons, monotonic for durations.
        config: `log.cleaner.*`.
        offload: Runs slow operations beside the loop; cancelled, it waits for them.
        new_worker: Makes a worker for one cleaning.

    Attributes:
        cleaner: Chooses logs, and applies results.
        cleaned: How many cleanings succeeded.
        failed: How many cleanings failed.
        longest_s: How many seconds the longest cleaning took.
        last_run: When a cleaning last ended.
    """

    def __init__(
        self,
        store: "LogStore",
        clock: "Clock",
        config: "BrokerConfig",
        offload: Callable[[Callable[[], object]], Awaitable[object]],
        new_worker: Callable[[], CleaningWorker],
    ) -> None:
        self._store = store
        self._clock = clock
        self._config = config
        self._offload = offload
        self._new_worker = new_worker
        self._look_again = trio.Event()
        self.cleaner = Cleaner(store, cleaner_settings(config))
        self.cleaned = self.failed = 0
        self.longest_s = 0.0
        self.last_run: MonotonicSeconds = clock.monotonic()
        config.on_change(self._settings_changed)

    def is_cleaning(self, partition: "TopicPartition") -> bool:
        """Whether a partition's log is being cleaned now: retention skips it meanwhile, as in Kafka."""
        return partition in self.cleaner.in_progress

    @property
    def directories(self) -> "list[str]":
        """The log directories."""
        return [log_directory.path for log_directory in self._store.directories]

    def uncleanable_logs(self) -> "list[Log]":
        """Return the logs that cannot be cleaned."""
        logs = map(self._store.get, self.cleaner.uncleanable)
        return [log for log in logs if log is not None]

    async def run(self) -> None:
        """Clean until cancelled; then kill the workers, wait for their end, and remove their unfinished files."""
        if not self._config.log_cleaner_enable:
            logger.warning("log.cleaner.enable is false: compacted topics, __consumer_offsets too, only grow")
            await trio.sleep_forever()
        async with trio.open_nursery() as nursery:
            while True:
                self._look_again = trio.Event()
                while len(self.cleaner.in_progress) < self._config.log_cleaner_threads:
                    cleaning = await self._choose()
                    if cleaning is None:
                        break
                    nursery.start_soon(self._clean, cleaning, name=f"cleaning {cleaning.log.topic_partition}")
                with trio.move_on_after(max(self._config.log_cleaner_backoff_ms / 1000, 0.001)):
                    await self._look_again.wait()

    async def _choose(self) -> Cleaning | None:
        dirty: list[Dirt] = []
        now = self._clock.wall_ms()
        for count, log in enumerate(self.cleaner.candidates()):
            dirt = self.cleaner.measure(log, now)
            if dirt is not None:
                dirty.append(dirt)
            if count % SLICE == SLICE - 1:
                await trio.lowlevel.checkpoint()
        return self.cleaner.choose(dirty, now)

    async def _clean(self, cleaning: Cleaning) -> None:
        partition, started = cleaning.log.topic_partition, self._clock.monotonic()
        done = False
        try:
            if not await self._offload(partial(self.cleaner.begin, cleaning)):
                return
            done = await self._work(cleaning)
        finally:
            self.cleaner.release(cleaning)
            self.last_run = self._clock.monotonic()
            took_s = self.last_run - started
            self.longest_s = max(self.longest_s, took_s)
            if done:
                self.cleaned += 1
                _tell(partition, self.cleaner.last_result, took_s)
            else:
                self.failed += 1
            self._look_again.set()

    async def _work(self, cleaning: Cleaning) -> bool:
        """Have a worker clean a log, and swap in the result; return whether the log is clean now."""
        worker = self._new_worker()
        outcome: CleaningResult | WorkerFailedError | None = None
        finished: deque[CleanedGroup] = deque()
        token = trio.lowlevel.current_trio_token()

        def take_in_next() -> None:
            if finished:
                self.cleaner.take_in_group(cleaning, finished.popleft())

        def note(group: CleanedGroup) -> None:
            finished.append(group)
            token.run_sync_soon(take_in_next)  # a round of the loop for each: a swap is many file operations

        def run() -> None:
            nonlocal outcome
            try:
                outcome = worker.run(cleaning.job, note)
            except WorkerFailedError as error:
                outcome = error

        ended = False
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch, cleaning, worker)
                await self._offload(run)
                nursery.cancel_scope.cancel()
            await trio.lowlevel.checkpoint_if_cancelled()
            ended = True
        finally:
            if not ended:
                finished.clear()
                self.cleaner.discard(cleaning)
        while finished:
            take_in_next()
        if outcome is None or isinstance(outcome, WorkerFailedError):
            self.cleaner.worker_died(cleaning, str(outcome))
            return False
        if not self.cleaner.conclude(cleaning, outcome):
            return False
        if not await self._offload(partial(self.cleaner.sync_names, cleaning)):
            return False
        if not self.cleaner.confirm(cleaning, outcome):
            return False
        await self._offload(partial(self.cleaner.checkpoint, cleaning))
        return True

    async def _watch(self, cleaning: Cleaning, worker: CleaningWorker) -> None:
        """Kill a worker when its work is no longer of use, or when this task is cancelled."""
        try:
            while not self.cleaner.is_stale(cleaning):  # noqa: ASYNC110 - nobody tells of a truncation
                await trio.sleep(STALENESS_LOOK_S)
        finally:
            worker.kill()

    def _settings_changed(self, names: frozenset[str]) -> None:
        if any(name.startswith(_SETTINGS) for name in names):
            self.cleaner.reconfigure(cleaner_settings(self._config))
            self._look_again.set()

    def describe(self) -> dict[str, Any]:
        """Return a description of the state, as plain values."""
        return {
            "enabled": self._config.log_cleaner_enable,
            "cleaning": sorted(str(partition) for partition in self.cleaner.in_progress),
            "uncleanable": {str(partition): reason for partition, reason in self.cleaner.uncleanable.items()},
            "cleaned": self.cleaned,
            "failed": self.failed,
            "max_dirty_ratio": self.cleaner.max_dirty_ratio,
        }


def cleaner_settings(config: "BrokerConfig") -> CleanerSettings:
    """Return the settings of one worker: its share of what the broker allows to all of them."""
    workers = max(config.log_cleaner_threads, 1)
    memory = config.log_cleaner_dedupe_buffer_size * config.log_cleaner_io_buffer_load_factor / workers
    rate = config.log_cleaner_io_max_bytes_per_second
    return CleanerSettings(
        memory=max(int(memory), _MEMORY_MIN),
        bytes_per_second=None if rate >= sys.float_info.max else rate / workers,
        retry_s=config.log_cleaner_backoff_ms / 1000,
    )


def _tell(partition: "TopicPartition", result: CleaningResult | None, took_s: float) -> None:
    if result is not None:
        logger.info(
            "%s is clean up to %d: %d of %d records kept, %d keys, in %.1f s",
            partition,
            result.end,
            result.records_kept,
            result.records_read,
            result.keys,
            took_s,
        )
