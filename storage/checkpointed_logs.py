"""The logs of a broker by directory, and what is written down of them beside their files: checkpoints and identity."""

from collections.abc import Mapping, Sequence

from storage.disk import Disk
from storage.errors import InconsistentDirectoryError, LogDirectoryNotFoundError, StorageError
from storage.log import Log
from storage.log_directory import LogDirectory
from storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from wire.types import BrokerId, Offset, TopicPartition


class CheckpointedLogs:
    """The log directories of a broker, the logs in them, and their checkpoints.

    Attributes:
        directories: every log directory, offline ones included, in configured order.
    """

    def __init__(self, directories: Sequence[LogDirectory], disk: Disk) -> None:
        """Take directories whose logs are to be added."""
        self.directories = tuple(directories)
        self._disk = disk
        self._logs: dict[TopicPartition, Log] = {}
        self._future_logs: dict[TopicPartition, Log] = {}

    def get(self, partition: TopicPartition) -> Log | None:
        """Return a partition's log; one in an offline directory raises `StorageError` from all that it does."""
        return self._logs.get(partition)

    def future_log(self, partition: TopicPartition) -> Log | None:
        """Return the log that is to replace a partition's log once it has caught up, in another directory."""
        return self._future_logs.get(partition)

    def all_logs(self) -> list[Log]:
        """Return every log, those in offline directories included."""
        return list(self._logs.values())

    def future_logs(self) -> list[Log]:
        """Return every log that is to replace another."""
        return list(self._future_logs.values())

    def logs_in(self, log_directory: LogDirectory) -> list[Log]:
        """Return the logs of one directory."""
        return [log for log in self.all_logs() if log.log_directory is log_directory]

    @property
    def offline_directories(self) -> list[LogDirectory]:
        """The directories whose disks have failed."""
        return [log_directory for log_directory in self.directories if log_directory.is_offline]

    def _choose(self, directory: str | None) -> LogDirectory:
        if directory is not None:
            for log_directory in self.directories:
                if log_directory.path == directory:
                    log_directory.check_online()
                    return log_directory
            raise LogDirectoryNotFoundError(f"{directory} is no log directory of this broker")
        online = [log_directory for log_directory in self.directories if not log_directory.is_offline]
        if not online:
            raise StorageError("every log directory is offline")
        if len(online) == 1:
            return online[0]
        counts = dict.fromkeys((log_directory.path for log_directory in online), 0)
        for log in [*self.all_logs(), *self.future_logs()]:
            if log.log_directory.path in counts:
                counts[log.log_directory.path] += 1
        return min(online, key=lambda log_directory: counts[log_directory.path])

    def sync_directories(self) -> None:
        """Make the names of all logs survive power loss, after `create` without it.

        Raises:
            StorageError: a disk failed.
        """
        for log_directory in self.directories:
            if not log_directory.is_offline:
                try:
                    self._disk.sync_directory(log_directory.path)
                except OSError as error:
                    raise log_directory.fail(error, "syncing the directory") from error

    # Checkpoints

    def checkpoint_recovery_points(self) -> None:
        """Write down up to where each log is known to be on disk.

        Raises:
            StorageError: a disk failed.
        """
        for log_directory in self._online():
            try:
                log_directory.write_recovery_points(
                    {log.topic_partition: log.recovery_point for log in self._stored_in(log_directory)}
                )
            except OSError as error:
                raise log_directory.fail(error, "checkpointing recovery points") from error

    def checkpoint_log_starts(self) -> None:
        """Write down where logs start that start inside a segment.

        Raises:
            StorageError: a disk failed.
        """
        for log_directory in self._online():
            try:
                log_directory.log_starts.write(self._log_starts(log_directory))
            except OSError as error:
                raise log_directory.fail(error, "checkpointing log starts") from error

    def _log_starts(self, log_directory: LogDirectory) -> dict[TopicPartition, Offset]:
        return {
            log.topic_partition: log.log_start_offset
            for log in self._stored_in(log_directory)
            if log.log_start_offset > log.segments.first.base_offset
        }

    def _checkpoint(self, log_directory: LogDirectory) -> None:
        try:
            log_directory.write_recovery_points(
                {log.topic_partition: log.recovery_point for log in self._stored_in(log_directory)}
            )
            log_directory.log_starts.write(self._log_starts(log_directory))
        except OSError as error:
            raise log_directory.fail(error, "checkpointing") from error

    def read_high_watermarks(self) -> dict[TopicPartition, Offset]:
        """Return the checkpointed high watermarks of all logs."""
        found: dict[TopicPartition, Offset] = {}
        for log_directory in self._online():
            try:
                found.update(log_directory.high_watermarks.read())
            except OSError as error:
                log_directory.fail(error, "reading high watermarks")
        return found

    def write_high_watermarks(self, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """Checkpoint high watermarks; they replace what was there.

        Raises:
            StorageError: a disk failed; those of the other directories may be written.
        """
        by_log_directory: dict[LogDirectory, dict[TopicPartition, Offset]] = {
            log_directory: {} for log_directory in self._online()
        }
        for partition, offset in high_watermarks.items():
            log = self._logs.get(partition)
            if log is not None and log.log_directory in by_log_directory:
                by_log_directory[log.log_directory][partition] = offset
        for log_directory, offsets in by_log_directory.items():
            try:
                log_directory.high_watermarks.write(offsets)
            except OSError as error:
                raise log_directory.fail(error, "checkpointing high watermarks") from error

    # Identity

    def meta_properties(self) -> dict[str, MetaProperties | None]:
        """Read what each usable directory says of itself.

        Raises:
            InconsistentDirectoryError: one makes no sense.
        """
        found = {}
        for log_directory in self._online():
            try:
                found[log_directory.path] = read_meta_properties(self._disk, log_directory.path)
            except OSError as error:
                log_directory.fail(error, "reading its identity")
        return found

    def check_identity(self, cluster_id: str | None, broker_id: BrokerId | None) -> None:
        """Refuse directories of another broker or another cluster.

        Args:
            cluster_id: the cluster's, or None to leave it unchecked.
            broker_id: this broker's, or None.

        Raises:
            InconsistentDirectoryError: one is foreign; the text says which, whose, and what to do.
        """
        for path, properties in self.meta_properties().items():
            if properties is None:
                continue
            if cluster_id is not None and properties.cluster_id not in (None, cluster_id):
                raise InconsistentDirectoryError(
                    f"{path} belongs to cluster {properties.cluster_id}, and this broker is of cluster {cluster_id}: "
                    "check zookeeper.connect and log.dirs"
                )
            if broker_id is not None and properties.broker_id not in (None, broker_id):
                raise InconsistentDirectoryError(
                    f"{path} belongs to broker {properties.broker_id}, and this is broker {broker_id}: "
                    "check broker.id and log.dirs"
                )

    def write_identity(self, cluster_id: str, broker_id: BrokerId) -> None:
        """Write into every usable directory whose it is, where it does not say so already.

        Raises:
            StorageError: a disk failed.
        """
        for path, properties in self.meta_properties().items():
            others = properties.others if properties is not None else {}
            wanted = MetaProperties(cluster_id, broker_id, others)
            if wanted != properties:
                try:
                    write_meta_properties(self._disk, path, wanted)
                except OSError as error:
                    raise self._choose(path).fail(error, "writing its identity") from error

    def _stored_in(self, log_directory: LogDirectory) -> list[Log]:
        return [log for log in [*self.all_logs(), *self.future_logs()] if log.log_directory is log_directory]

    def _online(self) -> list[LogDirectory]:
        return [log_directory for log_directory in self.directories if not log_directory.is_offline]
