"""Moving a log from one log directory to another.

A log moves through a copy, its *future log*, which is filled in `<topic>-<partition>.<unique>-future` of the other
directory while the log itself stays in use. The copying is done elsewhere; this file guarantees that a crash at any
moment leaves one log that holds all that was on disk:

    promote           the future log gets the partition's name; the old directory still has it, too
    finish_promotion  the new log is synced with its name; only then the old directory is marked for deletion

So a crash between leaves two directories of one name, with Apache Kafka as with us. Kafka does not start then; we use
the one that got further, and put the other one aside.
"""

import logging
from collections.abc import Callable
from typing import Final
from uuid import uuid4

from storage import names
from storage.disk import Disk
from storage.errors import InconsistentDirectoryError, StorageError
from storage.log import Log
from storage.log_checkpoints import LogCheckpoints
from storage.log_config import LogConfig
from storage.log_directory import LogDirectory
from storage.log_table import LogTable
from storage.partition_metadata import write_topic_id
from wire.types import NO_TOPIC_ID, Offset, TopicId, TopicPartition

_log: Final = logging.getLogger(__name__)

NewLog = Callable[[TopicPartition, LogDirectory, str, LogConfig, TopicId], Log]
"""Creates the object of a log, not open yet: partition, log directory, its own directory, settings, topic id."""


class LogMoves:
    """Makes future logs in a table, and lets them take the places of the logs they copy."""

    def __init__(self, table: LogTable, checkpoints: LogCheckpoints, disk: Disk, new_log: NewLog) -> None:
        self._table = table
        self._checkpoints = checkpoints
        self._disk = disk
        self._new_log = new_log

    def create(self, partition: TopicPartition, directory: str) -> Log:
        """Make an empty log in another directory, to take a log's place; or return the one that is there.

        Takes a few syncs, and may run in a thread.

        Raises:
            LogDirectoryNotFoundError: no such directory.
            StorageError: the disk failed, or some directory is offline: a future log may lie in it already.
            ValueError: there is no log to be moved, or it is in this directory.
        """
        current, log_directory = self._table.logs.get(partition), self._table.directory(directory)
        existing = self._table.future_logs.get(partition)
        if existing is not None and existing.log_directory is log_directory:
            return existing
        if current is None or current.log_directory is log_directory or existing is not None:
            raise ValueError(f"{partition} cannot be moved to {directory}")
        offline = self._table.offline
        if offline:
            raise StorageError(
                f"{partition} is not moved while {', '.join(each.path for each in offline)} is offline"
            )
        path = (
            f"{log_directory.path}/{names.marked_directory(partition, uuid4().hex, names.FUTURE_DIRECTORY)}"
        )
        try:
            log_directory.lower_recovery_point(partition, Offset(0))
            log_directory.write_lowered()
            self._disk.make_directory(path)
            if current.topic_id != NO_TOPIC_ID:
                write_topic_id(self._disk, path, current.topic_id)
            self._disk.sync_directory(log_directory.path)
        except OSError as error:
            raise log_directory.fail(error, f"creating the future log of {partition}") from error
        log = self._new_log(partition, log_directory, path, current.config, current.topic_id)
        log.open()
        self._table.future_logs[partition] = log
        return log

    def remove(self, partition: TopicPartition) -> None:
        """Discard a future log: its directory is deleted after a delay. One that is not there is no error.

        Raises:
            StorageError: its disk failed; it is gone from the store nonetheless.
        """
        log = self._table.future_logs.pop(partition, None)
        if log is not None:
            self._discard(log, names.DELETE_DIRECTORY)

    def forget(self, partition: TopicPartition) -> None:
        """Stop using a future log whose directory has failed. It is found again when the broker is restarted."""
        log = self._table.future_logs.pop(partition, None)
        if log is not None:
            log.segments.close()

    def promote(self, partition: TopicPartition) -> Log:
        """Let the future log take its log's place: from now on `get` returns it.

        Quick, and for the broker's loop. The future log takes over the state that is not in the records.

        Returns:
            The old log, for `finish_promotion`.

        Raises:
            StorageError: the disk of the future log failed; the old log stays in use.
            ValueError: they end at different offsets.
        """
        old, new = self._table.logs[partition], self._table.future_logs[partition]
        if new.log_end_offset != old.log_end_offset:
            raise ValueError(
                f"the copy of {partition} reaches to {new.log_end_offset}, the log to {old.log_end_offset}"
            )
        try:
            new.leader_epochs.take_over(old.leader_epochs)
        except OSError as error:
            raise new.log_directory.fail(error, f"moving {partition}") from error
        new.producer_state.take_over(old.producer_state)
        new.rename(names.partition_directory(partition))
        new.set_high_watermark(old.high_watermark)
        self._table.logs[partition] = self._table.future_logs.pop(partition)
        if partition in old.log_directory.cleaned:
            new.log_directory.cleaned[partition] = old.log_directory.cleaned.pop(partition)
        return old

    def finish_promotion(self, old: Log) -> None:
        """Make a promoted log survive power loss, then discard the directory of the old one. Syncs files: for a thread.

        Raises:
            StorageError: a disk failed. Where it is the new one's, the old directory is kept as a stray one, which an
                operator can rescue records from; the broker reads nothing from it.
        """
        partition = old.topic_partition
        new = self._table.logs.get(partition)
        if new is None:  # the topic was deleted meanwhile
            self._discard(old, names.DELETE_DIRECTORY)
            return
        try:
            new.flush()
            self._checkpoints.write_all(new.log_directory)
            if partition in new.log_directory.cleaned:
                new.log_directory.write_cleaned()
        except StorageError:
            _log.error(
                "%s failed while it was moved: its old copy is kept in %s", partition, old.log_directory.path
            )
            self._discard(old, names.STRAY_DIRECTORY)
            raise
        except OSError as error:
            self._discard(old, names.STRAY_DIRECTORY)
            raise new.log_directory.fail(error, f"moving {partition}") from error
        self._discard(old, names.DELETE_DIRECTORY)

    def _discard(self, log: Log, mark: str) -> None:
        log_directory = log.log_directory
        path = log.set_aside(mark)
        if mark == names.DELETE_DIRECTORY:
            log_directory.remove_later([path], log.config.file_delete_delay_ms)
        # A checkpoint that outlived its log would apply to a new log of the same name.
        self._checkpoints.write_all(log_directory)
        try:
            log_directory.write_cleaned()
        except OSError as error:
            raise log_directory.fail(error, f"giving up {log.topic_partition}") from error

    # Logs found at start

    def add_loaded(self, log: Log) -> None:
        """Take a log of a directory into use; of two that a crash has left, the one that got further.

        Raises:
            InconsistentDirectoryError: the other one is not known to be of the same topic.
            StorageError: the disk failed.
        """
        partition = log.topic_partition
        other = self._table.logs.get(partition)
        if other is None:
            self._table.logs[partition] = log
            return
        if log.topic_id == NO_TOPIC_ID or log.topic_id != other.topic_id:
            raise InconsistentDirectoryError(
                f"{partition} is in both {other.log_directory.path} and {log.log_directory.path}: remove one of them"
            )
        behind, ahead = sorted((other, log), key=_progress)
        self._table.logs[partition] = ahead
        path = behind.set_aside(names.STRAY_DIRECTORY)
        _log.warning(
            "%s was being moved when the broker stopped: %s is used, which ends at %d, and what was in %s, up to %d, "
            "is in %s now and can be removed",
            partition,
            ahead.log_directory.path,
            ahead.log_end_offset,
            behind.log_directory.path,
            behind.log_end_offset,
            path,
        )

    def settle(self, found: list[Log]) -> None:
        """Take the future logs that were found into use, once all directories are open.

        One is discarded where there is a better one, or where its log is of another topic or in this very directory.

        Raises:
            StorageError: the disk failed.
        """
        for log in found:
            self._settle_one(log)

    def _settle_one(self, log: Log) -> None:
        partition = log.topic_partition
        current, other = self._table.logs.get(partition), self._table.future_logs.get(partition)
        if (current is not None and current.log_directory is log.log_directory) or (
            current is not None and current.topic_id != log.topic_id
        ):
            self._discard(log, names.DELETE_DIRECTORY)
            return
        if other is not None:
            other, log = sorted((other, log), key=_progress)
            self._discard(other, names.DELETE_DIRECTORY)
        self._table.future_logs[partition] = log


def _progress(log: Log) -> tuple[int, int]:
    return log.leader_epochs.latest, log.log_end_offset
