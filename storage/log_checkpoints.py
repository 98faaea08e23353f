"""The checkpoints of a broker's logs: recovery points, log starts and high watermarks, by log directory."""

from collections.abc import Mapping
from functools import partial

from storage.log_directory import LogDirectory
from storage.log_table import LogTable
from wire.types import Offset, TopicPartition


class LogCheckpoints:
    """Writes and reads the checkpoints of the logs in a table."""

    def __init__(self, table: LogTable) -> None:
        self._table = table

    def write_recovery_points(self) -> None:
        """Checkpoint the recovery point of each log.

        Raises:
            StorageError: a disk failed.
        """
        for log_directory in self._table.online:
            try:
                log_directory.write_recovery_points(partial(self._recovery_points, log_directory))
            except OSError as error:
                raise log_directory.fail(error, "checkpointing recovery points") from error

    def _recovery_points(self, log_directory: LogDirectory) -> dict[TopicPartition, Offset]:
        return {log.topic_partition: log.recovery_point for log in self._table.all_in(log_directory)}

    def write_log_starts(self) -> None:
        """Checkpoint the log starts that lie inside a segment.

        Raises:
            StorageError: a disk failed.
        """
        for log_directory in self._table.online:
            try:
                log_directory.log_starts.write(self._log_starts(log_directory))
            except OSError as error:
                raise log_directory.fail(error, "checkpointing log starts") from error

    def _log_starts(self, log_directory: LogDirectory) -> dict[TopicPartition, Offset]:
        return {
            log.topic_partition: log.log_start_offset
            for log in self._table.all_in(log_directory)
            if log.log_start_offset > log.segments.first.base_offset
        }

    def write_all(self, log_directory: LogDirectory) -> None:
        """Checkpoint the recovery points and the log starts of one directory.

        Raises:
            StorageError: the disk failed.
        """
        try:
            log_directory.write_recovery_points(partial(self._recovery_points, log_directory))
            log_directory.log_starts.write(self._log_starts(log_directory))
        except OSError as error:
            raise log_directory.fail(error, "checkpointing") from error

    def read_high_watermarks(self) -> dict[TopicPartition, Offset]:
        """Return the checkpointed high watermarks of all logs."""
        found: dict[TopicPartition, Offset] = {}
        for log_directory in self._table.online:
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
            log_directory: {} for log_directory in self._table.online
        }
        for partition, offset in high_watermarks.items():
            log = self._table.logs.get(partition)
            if log is not None and log.log_directory in by_log_directory:
                by_log_directory[log.log_directory][partition] = offset
        for log_directory, offsets in by_log_directory.items():
            try:
                log_directory.high_watermarks.write(offsets)
            except OSError as error:
                raise log_directory.fail(error, "checkpointing high watermarks") from error
