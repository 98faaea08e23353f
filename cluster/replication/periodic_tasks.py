"""The periodic tasks of a broker's replicas: shrink ISRs, checkpoint, delete old records, flush.

Slow file operations run in threads; loops over all partitions regularly yield to the event loop.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

import trio

from cluster.replication.follower.fetcher_pool import FetcherPool
from cluster.replication.moves.replica_moves import ReplicaMoves
from cluster.replication.roles.hosted_partitions import HostedPartitions
from cluster.zookeeper.client import ZooKeeperError
from storage.errors import StorageError

if TYPE_CHECKING:
    from cluster.configuration.broker_config import BrokerConfig
    from storage.log_directory import LogDirectory
    from storage.store import LogStore
    from timing.clock import Clock
    from wire.types import BrokerId, Offset, TopicPartition

logger = logging.getLogger(__name__)

SLICE: Final = 64
FLUSH_LOOK_S: Final = 1.0
REMOVAL_LOOK_S: Final = 10.0
RETRY_S: Final = 1.0


class AllDirectoriesFailedError(Exception):
    """No log directory is left: the broker cannot serve anything, and stops."""


class LogDirStore(Protocol):
    """The required part of ZooKeeper; `BrokerStore` implements it."""

    async def propagate_log_dir_event(self, broker_id: "BrokerId") -> None:
        """Tell the controller that a log directory failed."""
        ...


class PeriodicTasks:
    """The periodic tasks of one broker's replicas.

    Args:
        broker_id: This broker.
        hosted: The partitions.
        fetcher_pool: Learns of logs that start later, and of partitions that are gone.
        moves: Stopped if a directory fails.
        store: The logs.
        zookeeper: Where failed directories are announced.
        clock: Wall time for retention, monotonic for lag.
        config: The intervals.
        offload: Runs slow file operations beside the loop.
        is_cleaning: Whether a log is being compacted now: retention waits until that is done.
    """

    def __init__(
        self,
        broker_id: "BrokerId",
        hosted: HostedPartitions,
        fetcher_pool: FetcherPool,
        moves: ReplicaMoves,
        store: "LogStore",
        zookeeper: LogDirStore,
        clock: "Clock",
        config: "BrokerConfig",
        offload: Callable[[Callable[[], object]], Awaitable[object]],
        is_cleaning: "Callable[[TopicPartition], bool]" = lambda _: False,
        awaited_watermarks: "Callable[[], Mapping[TopicPartition, Offset]]" = dict,
    ) -> None:
        self._broker_id = broker_id
        self._hosted = hosted
        self._fetcher_pool = fetcher_pool
        self._moves = moves
        self._store = store
        self._zookeeper = zookeeper
        self._clock = clock
        self._config = config
        self._offload = offload
        self._is_cleaning = is_cleaning
        self._awaited_watermarks = awaited_watermarks
        self._directory_failed = trio.Event()

    async def run(self, populated: trio.Event) -> NoReturn:
        """Run all tasks for ever.

        Args:
            populated: Set once the first LeaderAndIsr has come; before, a checkpoint would lack partitions.

        Raises:
            AllDirectoriesFailedError: every log directory is offline.
        """
        token = trio.lowlevel.current_trio_token()
        self._store.on_directory_failure = lambda log_directory: token.run_sync_soon(
            self._give_up_directory, log_directory
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._report_directories, name="log directory failures")
            nursery.start_soon(self._watch_lag, name="ISR shrinking")
            nursery.start_soon(self._retain, name="retention")
            nursery.start_soon(self._flush, name="log flushing")
            nursery.start_soon(self._remove_files, name="file removal")
            nursery.start_soon(self._checkpoint_recovery_points, name="recovery point checkpoints")
            nursery.start_soon(self._checkpoint_log_starts, name="log start checkpoints")
            await populated.wait()
            while True:
                await trio.sleep(self._config.replica_high_watermark_checkpoint_interval_ms / 1000)
                high_watermarks = self.high_watermarks()
                await self._offload(lambda taken=high_watermarks: self._write_watermarks(taken))  # type: ignore[misc]

    def high_watermarks(self) -> "dict[TopicPartition, Offset]":
        """Return the high watermark of every hosted partition, led or followed.

        For a partition that no LeaderAndIsr has named yet, it is that of the last checkpoint: a checkpoint replaces the
        one before, and the first LeaderAndIsr can name only some of the partitions.
        """
        return dict(self._awaited_watermarks()) | {
            partition.topic_partition: partition.log.high_watermark
            for partition in self._hosted
            if partition.log is not None
        }

    def write_last_checkpoint(self) -> None:
        """Checkpoint the high watermarks at a stop, when nothing is appended any more."""
        self._write_watermarks(self.high_watermarks())

    def _write_watermarks(self, high_watermarks: "dict[TopicPartition, Offset]") -> None:
        try:
            self._store.checkpoints.write_high_watermarks(high_watermarks)
        except StorageError as error:
            logger.error("high watermarks are not checkpointed: %s", error)

    async def _watch_lag(self) -> NoReturn:
        """Check twice per lag time, so that a lagging follower stays in sync for 1.5 times that at most."""
        while True:
            await trio.sleep(self._config.replica_lag_time_max_ms / 2000)
            for count, partition in enumerate(self._hosted):
                if partition.leader is not None:
                    partition.leader.reconsider(self._clock.monotonic())
                if count % SLICE == SLICE - 1:
                    await trio.lowlevel.checkpoint()

    async def _retain(self) -> NoReturn:
        while True:
            await trio.sleep(self._config.log_retention_check_interval_ms / 1000)
            await self.retain_once()

    async def retain_once(self) -> int:
        """Delete old segments, and forget expired producers; return how many segments were deleted."""
        removed = 0
        for count, log in enumerate(self._store.all_logs()):
            now = self._clock.wall_ms()
            if self._store.get(log.topic_partition) is not log:
                continue  # removed, or moved, since the list was made
            if not log.log_directory.is_offline and not self._is_cleaning(log.topic_partition):
                start = log.log_start_offset
                log.producer_state.remove_expired(now)
                try:
                    removed += log.delete_old_segments(now)
                except StorageError as error:
                    logger.error("retention of %s failed: %s", log.topic_partition, error)
                partition = self._hosted.get(log.topic_partition)
                if log.log_start_offset != start and partition is not None:
                    partition.waiters.fire_watermark()
                    self._fetcher_pool.log_starts_moved([log.topic_partition])
            if count % SLICE == SLICE - 1:
                await trio.lowlevel.checkpoint()
        return removed

    async def _flush(self) -> NoReturn:
        """Flush rolled segments soon, and logs with ``flush.ms`` at that interval."""
        since_full_s = 0.0
        while True:
            await trio.sleep(FLUSH_LOOK_S)
            since_full_s += FLUSH_LOOK_S
            if (
                self._store.flush_wanted
                or since_full_s * 1000 >= self._config.log_flush_scheduler_interval_ms
            ):
                since_full_s = 0.0
                await self._offload(self._store.flush_due)

    async def _remove_files(self) -> NoReturn:
        while True:
            await trio.sleep(REMOVAL_LOOK_S)
            await self._offload(self._store.remove_due_files)

    async def _checkpoint_recovery_points(self) -> NoReturn:
        while True:
            await trio.sleep(self._config.log_flush_offset_checkpoint_interval_ms / 1000)
            await self._offload(
                partial(_checkpoint, self._store.checkpoints.write_recovery_points, "recovery points")
            )

    async def _checkpoint_log_starts(self) -> NoReturn:
        while True:
            await trio.sleep(self._config.log_flush_start_offset_checkpoint_interval_ms / 1000)
            await self._offload(partial(_checkpoint, self._store.checkpoints.write_log_starts, "log starts"))

    # Failed directories

    def _give_up_directory(self, log_directory: "LogDirectory") -> None:
        """Take every partition of a failed directory offline; the other directories stay in service."""
        for partition in self._hosted:
            if partition.log is not None and partition.log.log_directory is log_directory:
                self._fetcher_pool.leave(partition.topic_partition)
                self._hosted.take_offline(partition)
        self._moves.directory_failed(log_directory)
        self._directory_failed.set()

    async def _report_directories(self) -> NoReturn:
        while True:
            await self._directory_failed.wait()
            self._directory_failed = trio.Event()
            if len(self._store.offline_directories) == len(self._store.directories):
                failed = "; ".join(
                    f"{log_directory.path}: {log_directory.failure}"
                    for log_directory in self._store.offline_directories
                )
                raise AllDirectoriesFailedError(f"every log directory has failed: {failed}")
            while True:
                try:
                    await self._zookeeper.propagate_log_dir_event(self._broker_id)
                except ZooKeeperError as error:
                    logger.warning("a failed log directory waits to be reported: %s", error)
                    await trio.sleep(RETRY_S)
                    continue
                break


def _checkpoint(write: Callable[[], None], what: str) -> None:
    try:
        write()
    except StorageError as error:
        logger.error("%s are not checkpointed: %s", what, error)
