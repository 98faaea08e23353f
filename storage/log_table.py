"""Which logs a broker has, in which of its log directories."""

from collections.abc import Sequence

from storage.errors import LogDirectoryNotFoundError, StorageError
from storage.log import Log
from storage.log_directory import LogDirectory
from wire.types import TopicPartition


class LogTable:
    """The log directories of a broker, and the logs in them.

    Attributes:
        directories: every log directory, offline ones included, in configured order.
        logs: the log of each partition.
        future_logs: the logs that are to replace one of `logs`, in another directory, once they have caught up.
    """

    def __init__(self, directories: Sequence[LogDirectory]) -> None:
        self.directories = tuple(directories)
        self.logs: dict[TopicPartition, Log] = {}
        self.future_logs: dict[TopicPartition, Log] = {}

    def all_in(self, log_directory: LogDirectory) -> list[Log]:
        """Return the logs of one directory, future ones included."""
        logs = [*self.logs.values(), *self.future_logs.values()]
        return [log for log in logs if log.log_directory is log_directory]

    @property
    def online(self) -> list[LogDirectory]:
        """The directories whose disks work."""
        return [log_directory for log_directory in self.directories if not log_directory.is_offline]

    @property
    def offline(self) -> list[LogDirectory]:
        """The directories whose disks have failed."""
        return [log_directory for log_directory in self.directories if log_directory.is_offline]

    def directory(self, path: str) -> LogDirectory:
        """Return the log directory of a path.

        Raises:
            LogDirectoryNotFoundError: there is none.
        """
        for log_directory in self.directories:
            if log_directory.path == path:
                return log_directory
        raise LogDirectoryNotFoundError(f"{path} is no log directory of this broker")

    def choose(self, path: str | None) -> LogDirectory:
        """Return the directory for a new log: the one of a path, or where None the one with the fewest logs.

        Raises:
            LogDirectoryNotFoundError: no such directory.
            StorageError: it is offline, or all are.
        """
        if path is not None:
            log_directory = self.directory(path)
            log_directory.check_online()
            return log_directory
        online = self.online
        if not online:
            raise StorageError("every log directory is offline")
        if len(online) == 1:
            return online[0]
        counts = dict.fromkeys((log_directory.path for log_directory in online), 0)
        for log in [*self.logs.values(), *self.future_logs.values()]:
            if log.log_directory.path in counts:
                counts[log.log_directory.path] += 1
        return min(online, key=lambda log_directory: counts[log_directory.path])
