"""All logs of a broker: its log directories opened, logs made and removed, and all closed again.

A broker may have several log directories. A new log goes to the one with the fewest. A directory whose disk fails is
offline, with its logs, until the broker is restarted; the others stay in use.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from storage import names
from storage.directory_identity import DirectoryIdentity
from storage.disk import Disk
from storage.errors import InconsistentDirectoryError, StorageError
from storage.loading import LoadProgress, load_directory
from storage.log import Log
from storage.log_checkpoints import LogCheckpoints
from storage.log_config import LogConfig
from storage.log_directory import LogDirectory
from storage.log_moves import LogMoves
from storage.log_table import LogTable
from storage.partition_metadata import write_topic_id
from storage.producer_state import EXPIRATION_MS
from timing.clock import Clock
from wire.types import (
    NO_BROKER_EPOCH,
    NO_TOPIC_ID,
    BrokerEpoch,
    TopicId,
    TopicPartition,
    WallMs,
)

_log: Final = logging.getLogger(__name__)
_CLOSING_THREADS: Final = 8


class LogStore:
    """The logs of one broker.

    Attributes:
        config_changes: how often settings of logs were changed.
        checkpoints: recovery points, log starts and high watermarks, on disk.
        identity: whose the directories are.
        moves: logs that move between directories.
        on_directory_failure: called with a directory when it goes offline, from the thread that met the error.
    """

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        default_config: LogConfig,
        clock: Clock,
        disk: Disk,
        producer_expiration_ms: int,
    ) -> None:
        """Hold directories that are open already; use `LogStore.open`."""
        self._disk = disk
        self._table = LogTable(directories)
        self.checkpoints = LogCheckpoints(self._table)
        self.identity = DirectoryIdentity(self._table, disk)
        self.moves = LogMoves(self._table, self.checkpoints, disk, self._new_log)
        self.on_directory_failure: Callable[[LogDirectory], None] | None = None
        self.config_changes = 0
        self._default_config = default_config
        self._clock = clock
        self._producer_expiration_ms = producer_expiration_ms
        self._preferred: dict[TopicPartition, str] = {}
        self._rolled: set[Log] = set()
        for log_directory in self.directories:
            log_directory.on_failure = self._directory_failed

    @classmethod
    def open(
        cls,
        directories: Sequence[str | Path],
        default_config: LogConfig,
        configs: Mapping[str, LogConfig],
        clock: Clock,
        disk: Disk,
        *,
        progress: Callable[[LoadProgress], None] | None = None,
        recovery_threads: int = 1,
        producer_expiration_ms: int = EXPIRATION_MS,
    ) -> "LogStore":
        """Lock the log directories and open every log in them, recovering those that were not closed cleanly.

        Args:
            directories: `log.dirs`; made where they are missing.
            default_config: of topics that have none of their own.
            configs: topic name to its settings.
            clock: the source of time.
            disk: the file system.
            progress: called with the progress of recovery; may be called from several threads.
            recovery_threads: `num.recovery.threads.per.data.dir`.
            producer_expiration_ms: `producer.id.expiration.ms`.

        Raises:
            DirectoryLockedError: another broker has one of them open.
            InconsistentDirectoryError: two directories hold the same partition, and not because a move was
                interrupted; or they are one directory.
            StorageError: none of them can be used.
        """
        paths = [str(Path(path).absolute()) for path in directories]
        if len(set(paths)) != len(paths):
            raise InconsistentDirectoryError(f"a log directory is named twice in {', '.join(paths)}")
        log_directories = [LogDirectory(disk, path, clock) for path in paths]
        store = cls(log_directories, default_config, clock, disk, producer_expiration_ms)
        try:
            for log_directory in log_directories:
                try:
                    log_directory.acquire()
                except OSError as error:
                    log_directory.fail(error, "opening the directory")
            future_logs: list[Log] = []
            for log_directory in log_directories:
                if not log_directory.is_offline:
                    future_logs += store._load(log_directory, configs, progress, recovery_threads)
            store.moves.settle(future_logs)
            if all(log_directory.is_offline for log_directory in log_directories):
                raise StorageError(f"no log directory can be used: {', '.join(paths)}")
        except BaseException:
            for log_directory in log_directories:
                log_directory.release()
            raise
        return store

    def _load(
        self,
        log_directory: LogDirectory,
        configs: Mapping[str, LogConfig],
        progress: Callable[[LoadProgress], None] | None,
        threads: int,
    ) -> list[Log]:
        def make(partition: TopicPartition, directory: str, topic_id: TopicId) -> Log:
            config = configs.get(partition.topic, self._default_config)
            return self._new_log(partition, log_directory, directory, config, topic_id)

        try:
            loaded = load_directory(log_directory, make, progress=progress, threads=threads)
        except StorageError:
            return []
        except OSError as error:
            log_directory.fail(error, "opening the directory")
            return []
        for log in loaded.logs:
            self.moves.add_loaded(log)
        return loaded.future_logs

    def _new_log(
        self,
        partition: TopicPartition,
        log_directory: LogDirectory,
        directory: str,
        config: LogConfig,
        topic_id: TopicId,
    ) -> Log:
        log = Log(
            partition,
            log_directory,
            directory,
            config,
            topic_id=topic_id,
            producer_expiration_ms=self._producer_expiration_ms,
        )
        log.on_roll = self._note_roll
        return log

    @property
    def directories(self) -> tuple[LogDirectory, ...]:
        """Every log directory, offline ones included, in configured order."""
        return self._table.directories

    def directory(self, path: str) -> LogDirectory:
        """Return the log directory of a path.

        Raises:
            LogDirectoryNotFoundError: there is none.
        """
        return self._table.directory(path)

    @property
    def offline_directories(self) -> list[LogDirectory]:
        """The directories whose disks have failed."""
        return self._table.offline

    def get(self, partition: TopicPartition) -> Log | None:
        """Return a partition's log; every operation on one in an offline directory raises `StorageError`."""
        return self._table.logs.get(partition)

    def future_log(self, partition: TopicPartition) -> Log | None:
        """Return the log that is to replace a partition's log once it has caught up, in another directory."""
        return self._table.future_logs.get(partition)

    def all_logs(self) -> list[Log]:
        """Return every log, those in offline directories included."""
        return list(self._table.logs.values())

    def future_logs(self) -> list[Log]:
        """Return every log that is to replace another."""
        return list(self._table.future_logs.values())

    def logs_in(self, log_directory: LogDirectory) -> list[Log]:
        """Return the logs of one directory that are in use."""
        return [log for log in self.all_logs() if log.log_directory is log_directory]

    def prefer(self, partition: TopicPartition, directory: str) -> None:
        """Choose the directory in which a partition's log will be created later."""
        self._preferred[partition] = directory

    def create(
        self,
        partition: TopicPartition,
        topic_id: TopicId = NO_TOPIC_ID,
        config: LogConfig | None = None,
        *,
        directory: str | None = None,
        sync_parent: bool = True,
    ) -> Log:
        """Create a log, or return the one that is there. It survives power loss on return.

        Takes a few syncs: create many in a thread, with `sync_parent` off and one `sync_directories` at the end.

        Args:
            partition: whose.
            topic_id: its topic's identity.
            config: its topic's settings, the default ones where None.
            directory: which log directory; where None, the preferred one, or the one with the fewest logs.
            sync_parent: whether the log directory's names are synced too.

        Raises:
            InconsistentTopicIdError: the log that is there belongs to another topic.
            LogDirectoryNotFoundError: no such directory.
            StorageError: the disk failed.
        """
        existing = self._table.logs.get(partition)
        if existing is not None:
            if topic_id != NO_TOPIC_ID:
                existing.assign_topic_id(topic_id)
            return existing
        log_directory = self._table.choose(directory or self._preferred.pop(partition, None))
        path = f"{log_directory.path}/{names.partition_directory(partition)}"
        try:
            self._disk.make_directory(path)
            if topic_id != NO_TOPIC_ID:
                write_topic_id(self._disk, path, topic_id)
            if sync_parent:
                self._disk.sync_directory(log_directory.path)
        except OSError as error:
            raise log_directory.fail(error, f"creating {partition}") from error
        log = self._new_log(partition, log_directory, path, config or self._default_config, topic_id)
        log.open()
        self._table.logs[partition] = log
        return log

    def sync_directories(self) -> None:
        """Make the names of all logs survive power loss, after `create` without it.

        Raises:
            StorageError: a disk failed.
        """
        for log_directory in self._table.directories:
            if not log_directory.is_offline:
                try:
                    self._disk.sync_directory(log_directory.path)
                except OSError as error:
                    raise log_directory.fail(error, "syncing the directory") from error

    def remove(self, partition: TopicPartition) -> None:
        """Remove a log; one that is not there is no error. Its directory is renamed now, and removed after a delay.

        Raises:
            StorageError: the disk failed; the log is gone from the store nonetheless.
        """
        self.remove_many([partition])

    def remove_many(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove logs, with one checkpoint for all.

        Raises:
            StorageError: a disk failed; the logs are gone from the store nonetheless.
        """
        touched: set[LogDirectory] = set()
        uncleaned: set[LogDirectory] = set()
        failure: StorageError | None = None
        for partition in partitions:
            self._preferred.pop(partition, None)
            for logs in (self._table.logs, self._table.future_logs):
                log = logs.pop(partition, None)
                if log is None:
                    continue
                self._rolled.discard(log)
                try:
                    path = log.set_aside()
                    log.log_directory.remove_later([path], log.config.file_delete_delay_ms)
                    touched.add(log.log_directory)
                    if log.log_directory.cleaned.pop(partition, None) is not None:
                        uncleaned.add(log.log_directory)
                except StorageError as error:
                    failure = error
        for log_directory in touched:
            try:
                # A checkpoint that outlived its log would apply to a new log of the same name.
                self.checkpoints.write_all(log_directory)
                if log_directory in uncleaned:
                    log_directory.write_cleaned()
            except StorageError as error:
                failure = error
            except OSError as error:
                failure = log_directory.fail(error, "checkpointing")
        if failure is not None:
            raise failure

    def update_topic_configs(self, configs: Mapping[str, LogConfig]) -> None:
        """Apply new settings to all logs of some topics, in one pass over the logs."""
        self.config_changes += 1
        for log in [*self._table.logs.values(), *self._table.future_logs.values()]:
            config = configs.get(log.topic_partition.topic)
            if config is not None:
                log.update_config(config)

    def update_default_config(self, config: LogConfig) -> None:
        """Change the settings of logs that are created without their own."""
        self.config_changes += 1
        self._default_config = config

    # Periodic tasks

    def flush_due(self) -> int:
        """Flush the logs that were rolled, and those whose `flush.ms` has passed; return how many. For a thread.

        A log whose disk fails is skipped: its directory is offline, and says so itself.
        """
        rolled, self._rolled = self._rolled, set()
        now = self._clock.monotonic()
        flushed = 0
        for log in [*self.all_logs(), *self.future_logs()]:
            waited_ms = (now - log.last_flush) * 1000
            due = log.log_end_offset > log.recovery_point and waited_ms >= log.config.flush_ms
            if not log.log_directory.is_offline and (due or log in rolled):
                try:
                    log.flush(None if due else log.active_segment.base_offset)
                    flushed += 1
                except StorageError:
                    continue
        return flushed

    @property
    def flush_wanted(self) -> bool:
        """Whether a log was rolled since the last `flush_due`."""
        return bool(self._rolled)

    def run_retention(self, now: WallMs) -> int:
        """Remove expired segments of all logs, and forget silent producers; return the number of segments."""
        removed = 0
        for log in self.all_logs():
            if log.log_directory.is_offline:
                continue
            log.producer_state.remove_expired(now)
            try:
                removed += log.delete_old_segments(now)
            except StorageError:
                continue
        return removed

    def remove_due_files(self) -> None:
        """Remove the files and directories whose delay has passed. For a thread."""
        for log_directory in self._table.online:
            try:
                log_directory.remove(log_directory.removals_due())
            except StorageError:
                continue

    def close(
        self,
        *,
        clean: bool = True,
        broker_epoch: BrokerEpoch = NO_BROKER_EPOCH,
        threads: int = _CLOSING_THREADS,
    ) -> None:
        """Close every log and release the directories.

        A directory whose logs could all be flushed gets its checkpoints and then the clean-shutdown marker, so that
        the next start reads next to nothing. One that failed gets neither, and is recovered.

        Args:
            clean: False leaves everything as a crash would.
            broker_epoch: of the registration that ends; kept in the marker.
            threads: how many logs are closed at a time; a file system commits the syncs of several in one go.
        """
        for log_directory in self._table.directories:
            logs = self._table.all_in(log_directory)
            try:
                if clean and min(threads, len(logs)) > 1:
                    with ThreadPoolExecutor(threads, thread_name_prefix="log-closing") as pool:
                        list(pool.map(Log.close, logs))
                else:
                    for log in logs:
                        log.close(clean=clean)
                if clean and not log_directory.is_offline:
                    self.checkpoints.write_all(log_directory)
                    log_directory.write_clean_shutdown(broker_epoch)
            except StorageError as error:
                _log.warning("%s was not closed cleanly: %s", log_directory.path, error)
            except OSError as error:
                log_directory.fail(error, "closing")
            log_directory.release()
        self._table.logs.clear()
        self._table.future_logs.clear()

    def _note_roll(self, log: Log) -> None:
        self._rolled.add(log)

    def _directory_failed(self, log_directory: LogDirectory) -> None:
        if self.on_directory_failure is not None:
            self.on_directory_failure(log_directory)
