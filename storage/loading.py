"""Opening every log of a log directory, several at a time where they must be recovered."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from storage import names
from storage.errors import InconsistentDirectoryError
from storage.log import Log
from storage.log_directory import LogDirectory
from storage.meta_properties import read_meta_properties
from storage.partition_metadata import MalformedPartitionMetadataError, read_topic_id
from wire.types import NO_TOPIC_ID, Offset, TopicId, TopicPartition

_log: Final = logging.getLogger(__name__)


class LoadProgress(NamedTuple):
    """How far a log directory's recovery has got.

    Attributes:
        directory: its path.
        logs_done: logs that are open.
        logs_total: logs that it holds.
        bytes_recovered: bytes read and checked so far.
    """

    directory: str
    logs_done: int
    logs_total: int
    bytes_recovered: int


class LoadedDirectory(NamedTuple):
    """The logs of a directory: those in use, and those that are to replace a log in another directory."""

    logs: list[Log]
    future_logs: list[Log]


_ANYWHERE: Final = Offset(1 << 62)
MakeLog = Callable[[TopicPartition, str, TopicId], Log]


def load_directory(
    log_directory: LogDirectory,
    make: MakeLog,
    *,
    progress: Callable[[LoadProgress], None] | None = None,
    threads: int = 1,
) -> LoadedDirectory:
    """Open every log of a locked directory, and remove its clean-shutdown marker.

    Args:
        log_directory: the directory.
        make: creates the object of a log, which is opened here.
        progress: called after each log and recovered segment; from several threads if `threads` allows them.
        threads: how many logs are recovered at a time. After a clean stop there is nothing that threads would speed up.

    Raises:
        OSError: the disk failed before any log was opened.
        StorageError: the disk failed in a log; the directory is offline.
    """
    clean = log_directory.read_clean_shutdown() is not None
    recovery_points = log_directory.recovery_points.read()
    log_starts = log_directory.log_starts.read()
    log_directory.cleaned = log_directory.cleaner_offsets.read()
    log_directory.checkpointed = dict(recovery_points)
    is_foreign = _is_foreign(log_directory)
    found = _partitions(log_directory)
    done = recovered = 0

    def report(size: int = 0) -> None:
        nonlocal recovered
        recovered += size
        if progress is not None:
            progress(LoadProgress(log_directory.path, done, len(found), recovered))

    def open_one(item: tuple[TopicPartition, str, str]) -> tuple[Log, str]:
        nonlocal done
        partition, name, mark = item
        directory = f"{log_directory.path}/{name}"
        log = make(partition, directory, _topic_id(log_directory, directory))
        compacted_to = log_directory.cleaned.get(partition, Offset(0))
        if is_foreign and log.config.compacts:
            compacted_to = _ANYWHERE
        log.open(
            log_start=log_starts.get(partition, Offset(0)),
            recovery_point=recovery_points.get(partition, Offset(0)),
            clean=clean,
            compacted_to=compacted_to,
            progress=report,
        )
        done += 1
        report()
        return log, mark

    if not clean and found:
        _log.info("recovering %d logs in %s, which was not closed cleanly", len(found), log_directory.path)
    if clean or threads <= 1:
        opened = [open_one(item) for item in found]
    else:
        with ThreadPoolExecutor(threads, thread_name_prefix="log-recovery") as pool:
            opened = list(pool.map(open_one, found))
    log_directory.remove_clean_shutdown()
    return LoadedDirectory(
        [log for log, mark in opened if not mark],
        [log for log, mark in opened if mark == names.FUTURE_DIRECTORY],
    )


def _is_foreign(log_directory: LogDirectory) -> bool:
    """Return whether Apache Kafka alone has written a directory.

    Its followers begin a segment at the next batch that they are sent. So the segments of a compacted log may have gaps
    between them that nothing else explains; ours never do.
    """
    try:
        properties = read_meta_properties(log_directory.disk, log_directory.path)
    except InconsistentDirectoryError:
        return False  # refused later, when its owner is checked
    return properties is not None and properties.formatted_zxid is None


def _partitions(log_directory: LogDirectory) -> list[tuple[TopicPartition, str, str]]:
    """List the partitions' directories; those marked for deletion are scheduled for removal."""
    found = []
    for entry in log_directory.disk.list_directory(log_directory.path):
        if not entry.is_directory:
            continue
        parsed = names.parse_partition_directory(entry.name)
        if parsed is None:
            _log.warning(
                "%s/%s is no partition's directory and is left alone", log_directory.path, entry.name
            )
            continue
        partition, mark = parsed
        if mark == names.DELETE_DIRECTORY:
            log_directory.remove_later([f"{log_directory.path}/{entry.name}"], 0)
        elif mark != names.STRAY_DIRECTORY:
            found.append((partition, entry.name, mark))
    return sorted(found)


def _topic_id(log_directory: LogDirectory, directory: str) -> TopicId:
    try:
        return read_topic_id(log_directory.disk, directory)
    except MalformedPartitionMetadataError as error:
        _log.warning("%s; the topic id is taken from the controller again", error)
        return NO_TOPIC_ID
