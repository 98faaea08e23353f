"""A log directory: one of a broker's volumes, locked by it, and offline for good once its disk has failed.

<path>/.lock                      held while the broker runs
<path>/meta.properties            whose directory this is
<path>/.kafka_cleanshutdown       {"version":0,"brokerEpoch":42}, there only between a clean stop and the
next start <path>/recovery-point-offset-checkpoint, log-start-offset-checkpoint,
replication-offset-checkpoint <path>/<topic>-<partition>/...
"""

import json
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from storage import names
from storage.checkpoints import OffsetCheckpoint
from storage.disk import DirectoryLock, Disk
from storage.errors import DirectoryLockedError, StorageError
from timing.clock import Clock
from wire.types import NO_BROKER_EPOCH, BrokerEpoch, MonotonicSeconds, Offset, TopicPartition

_log: Final = logging.getLogger(__name__)


class LogDirectory:
    """One log directory. All logs in it share its fate.

    Attributes:
        path: absolute, without a slash at its end.
        checkpointed: the recovery points as they are on disk.
        cleaned: up to where compacted logs are clean.
        failure: the error that took it offline, None while it works.
        on_failure: called once, when it goes offline.
    """

    __slots__ = (
        "_checkpointing",
        "_lock",
        "_lowered",
        "_removals",
        "_removals_lock",
        "_writing_points",
        "checkpointed",
        "cleaned",
        "cleaner_offsets",
        "clock",
        "disk",
        "failure",
        "high_watermarks",
        "log_starts",
        "on_failure",
        "path",
        "recovery_points",
    )

    def __init__(self, disk: Disk, path: str, clock: Clock) -> None:
        self.disk = disk
        self.path = path
        self.clock = clock
        self.checkpointed: dict[TopicPartition, Offset] = {}
        self.cleaned: dict[TopicPartition, Offset] = {}
        self.failure: OSError | None = None
        self.on_failure: Callable[[LogDirectory], None] | None = None
        self.recovery_points = OffsetCheckpoint(disk, f"{path}/{names.RECOVERY_POINTS}")
        self.log_starts = OffsetCheckpoint(disk, f"{path}/{names.LOG_STARTS}")
        self.cleaner_offsets = OffsetCheckpoint(disk, f"{path}/{names.CLEANER_OFFSETS}")
        self.high_watermarks = OffsetCheckpoint(disk, f"{path}/{names.HIGH_WATERMARKS}")
        self._lock: DirectoryLock | None = None
        self._checkpointing = threading.Lock()
        self._writing_points = False
        self._lowered: dict[TopicPartition, Offset] = {}
        self._removals: list[tuple[MonotonicSeconds, str]] = []
        self._removals_lock = threading.Lock()

    def __repr__(self) -> str:
        return f"LogDirectory({self.path!r}{', offline' if self.failure else ''})"

    @property
    def is_offline(self) -> bool:
        """Whether the disk has failed."""
        return self.failure is not None

    def acquire(self) -> None:
        """Make the directory where there is none, and take its lock.

        Raises:
            DirectoryLockedError: another broker holds it.
            OSError: the disk failed.
        """
        self._make()
        try:
            self._lock = self.disk.lock(f"{self.path}/{names.LOCK}")
        except BlockingIOError as error:
            raise DirectoryLockedError(
                f"the log directory {self.path} is in use by another broker: its file {names.LOCK} is locked"
            ) from error

    def _make(self) -> None:
        """Make the directory and those above it that are missing; their names survive power loss on return."""
        missing: list[str] = []
        path = self.path
        while path and not self.disk.exists(path):
            missing.append(path)
            path = os.path.dirname(path).rstrip("/")
        if missing:
            self.disk.make_directory(self.path)
        for made in missing:
            self.disk.sync_directory(os.path.dirname(made))

    def release(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def fail(self, error: OSError, doing: str) -> StorageError:
        """Take the directory offline, and return the error to raise.

        What a failed write left in a file is not known, and what a failed sync left in the page cache may be
        gone: nothing is tried again on this directory until the broker is restarted.
        """
        if self.failure is None:
            self.failure = error
            _log.error("log directory %s goes offline, %s: %s", self.path, doing, error)
            if self.on_failure is not None:
                self.on_failure(self)
        return StorageError(f"{doing} in {self.path}: {error}")

    def check_online(self) -> None:
        """Refuse where the directory is offline.

        Raises:
            StorageError: it is.
        """
        if self.failure is not None:
            raise StorageError(f"the log directory {self.path} is offline since: {self.failure}")

    def write_recovery_points(self, take: Callable[[], Mapping[TopicPartition, Offset]]) -> None:
        """Checkpoint the recovery points of all logs here; may run in a thread.

        Args:
            take: returns them; called once it is this writer's turn.

        Raises:
            OSError: the disk failed.
        """
        with self._checkpointing:
            lowered = dict(self._lowered)
            self._writing_points = True
            try:
                offsets = dict(take())
                self.recovery_points.write(offsets)
                self.checkpointed = offsets
            finally:
                self._writing_points = False
            for partition, offset in lowered.items():
                if self._lowered.get(partition) == offset:
                    del self._lowered[partition]

    def lower_recovery_point(self, partition: TopicPartition, offset: Offset) -> None:
        """Note that a checkpointed recovery point is too high, since the log is being cut at an offset.

        `write_lowered` has to follow before new records are written there: else a crash would leave a checkpoint that
        vouches for bytes that were never synced.
        """
        if self._writing_points or self.checkpointed.get(partition, offset) > offset:
            self._lowered[partition] = min(offset, self._lowered.get(partition, offset))
        if self.cleaned.get(partition, offset) > offset:
            # In memory only: one that is too high after a crash leaves old records in the log, and harms nothing.
            self.cleaned[partition] = offset

    def write_lowered(self) -> None:
        """Checkpoint the recovery points that were lowered, all in one go; may run in a thread.

        Raises:
            OSError: the disk failed.
        """
        if self._lowered:
            self.write_recovery_points(lambda: {**self.checkpointed, **self._lowered})

    def write_cleaned(self) -> None:
        """Checkpoint up to where compacted logs are clean; may run in a thread.

        Raises:
            OSError: the disk failed.
        """
        self.cleaner_offsets.write(self.cleaned)

    # Files on their way out

    def remove_later(self, paths: Sequence[str], delay_ms: int) -> None:
        """Remove files or directories once a delay has passed: a reader may still be about to open them."""
        due = MonotonicSeconds(self.clock.monotonic() + delay_ms / 1000)
        with self._removals_lock:
            self._removals.extend((due, path) for path in paths)

    def removals_due(self) -> list[str]:
        """Take what is due off the list; `remove` does the rest, and may run in a thread."""
        now = self.clock.monotonic()
        with self._removals_lock:
            due = [path for when, path in self._removals if when <= now]
            if due:
                self._removals = [item for item in self._removals if item[0] > now]
        return due

    def remove(self, paths: Sequence[str]) -> None:
        """Remove files and whole directories.

        Raises:
            StorageError: the disk failed; the directory is offline.
        """
        try:
            for path in paths:
                if path.endswith(names.DELETE_DIRECTORY):
                    self.disk.remove_directory(path)
                else:
                    self.disk.remove(path)
        except OSError as error:
            raise self.fail(error, "removing deleted files") from error

    # The clean-shutdown marker

    def read_clean_shutdown(self) -> BrokerEpoch | None:
        """Return the epoch of the broker that stopped cleanly here, -1 where it did not say; None without a
        marker.

        Raises:
            OSError: the disk failed.
        """
        try:
            data = self.disk.read(f"{self.path}/{names.CLEAN_SHUTDOWN}")
        except FileNotFoundError:
            return None
        try:
            content = json.loads(data)
            return BrokerEpoch(int(content["brokerEpoch"]))
        except (ValueError, KeyError, TypeError):
            return NO_BROKER_EPOCH  # Kafka before 3.7 left an empty file

    def write_clean_shutdown(self, broker_epoch: BrokerEpoch) -> None:
        """Leave the marker that lets the next start skip recovery.

        Raises:
            OSError: the disk failed.
        """
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        self.disk.write(f"{self.path}/{names.CLEAN_SHUTDOWN}", content.encode(), sync=True)
        self.disk.sync_directory(self.path)

    def remove_clean_shutdown(self) -> None:
        """Take the marker away: from now on a stop is unclean unless `write_clean_shutdown` runs.

        Raises:
            OSError: the disk failed.
        """
        path = f"{self.path}/{names.CLEAN_SHUTDOWN}"
        if self.disk.exists(path):
            self.disk.remove(path)
            self.disk.sync_directory(self.path)
