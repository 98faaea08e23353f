"""The broker's side of compaction: which log is cleaned next, and what is done with a finished one.

The dirtiest log goes first, by the share of its bytes that is new since its last cleaning, if that is above
`min.cleanable.dirty.ratio`; one whose oldest new record has waited for `max.compaction.lag.ms` is cleaned in any case.
What may be cleaned ends at the first of: the active segment, the last stable offset, and the first segment with a
record younger than `min.compaction.lag.ms`.

A cleaning goes through these steps, of which `begin`, `sync_names` and `checkpoint` sync files and may run in a thread,
and the others are quick and run on the broker's loop:

    choose -> begin -> (a worker cleans; take_in_group, again and again) -> conclude
        -> sync_names -> confirm -> checkpoint -> release

`cleaner-offset-checkpoint` holds the offset up to which each log is clean. A log that cannot be cleaned is logged once
and left alone; one whose worker died, or that a full disk stopped, is tried again after a while.
"""

import errno
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from storage import names
from storage.compaction.dirt import Dirt, group_segments, measure
from storage.compaction.job import CleanedGroup, CleaningJob, CleaningResult
from storage.errors import StorageError
from storage.log import Log
from storage.segment import Segment
from storage.store import LogStore
from wire.records.errors import CorruptRecordError
from wire.types import MonotonicSeconds, Offset, TopicPartition, WallMs

_log: Final = logging.getLogger(__name__)

FAILURES_MAX: Final = 3
"""How often in a row a log's worker may die before the log is considered uncleanable."""
_DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """The broker's settings of its cleaner.

    Attributes:
        memory: bytes for the keys of one cleaning: `log.cleaner.dedupe.buffer.size` times its load factor.
        bytes_per_second: `log.cleaner.io.max.bytes.per.second`; None for no limit.
        retry_s: seconds before a log is tried again whose cleaning failed for a reason that may pass.
    """

    memory: int = 128 * 1024 * 1024
    bytes_per_second: float | None = None
    retry_s: float = 15.0


class Cleaning(NamedTuple):
    """A cleaning that is under way: what the worker is to do, and the log as it was when it was asked.

    Attributes:
        log: the log.
        job: for the worker.
        segments: those that may be replaced, by base offset.
        truncations: how often the log's end had been cut off by then.
        settings: the cleaner's when it began.
        missed: the groups that could not be swapped in, by their first base offsets.
    """

    log: Log
    job: CleaningJob
    segments: dict[int, Segment]
    truncations: int
    settings: CleanerSettings
    missed: list[Offset]


class Cleaner:
    """Picks logs to clean, and swaps finished segments in.

    Attributes:
        settings: changed by `reconfigure`.
        uncleanable: logs that could not be cleaned, and why.
        in_progress: the cleanings that were chosen and not released, by partition.
        max_dirty_ratio: the greatest of all logs, when last measured.
        max_delay_ms: how long a record waits beyond `max.compaction.lag.ms`, at most, when last measured.
        last_result: of the last cleaning that ended.
    """

    def __init__(self, store: LogStore, settings: CleanerSettings) -> None:
        """Clean the logs of a store."""
        self._store = store
        self.settings = settings
        self.uncleanable: dict[TopicPartition, str] = {}
        self.in_progress: dict[TopicPartition, Cleaning] = {}
        self.max_dirty_ratio = 0.0
        self.max_delay_ms = 0
        self.last_result: CleaningResult | None = None
        self._failures: dict[TopicPartition, int] = {}
        self._set_aside: dict[TopicPartition, MonotonicSeconds] = {}

    def reconfigure(self, settings: CleanerSettings) -> None:
        """Take new settings. Cleanings that are under way are stale, and what was uncleanable is tried again."""
        if settings != self.settings:
            self.settings = settings
            self.uncleanable.clear()

    # Choosing

    def pick(self, now: WallMs) -> Cleaning | None:
        """Choose the log to clean next and begin its cleaning; None where none needs it."""
        dirty = [dirt for log in self.candidates() if (dirt := self.measure(log, now)) is not None]
        cleaning = self.choose(dirty, now)
        return cleaning if cleaning is not None and self.begin(cleaning) else None

    def candidates(self) -> list[Log]:
        """Return the logs that may be cleaned now."""
        logs = self._store.all_logs()
        known = {log.topic_partition for log in logs}
        for noted in (self.uncleanable, self._failures, self._set_aside):
            for partition in [each for each in noted if each not in known]:
                del noted[partition]
        return [
            log
            for log in logs
            if log.config.compacts
            and not log.log_directory.is_offline
            and log.topic_partition not in self.uncleanable
            and log.topic_partition not in self.in_progress
            and self._store.future_log(log.topic_partition) is None
            and self._set_aside.get(log.topic_partition, 0.0) <= log.log_directory.clock.monotonic()
        ]

    def measure(self, log: Log, now: WallMs) -> Dirt | None:
        """Return how dirty a log is; None where that is unknown."""
        try:
            return measure(log, now)
        except CorruptRecordError as error:
            self._mark(log.topic_partition, str(error))
        except OSError as error:
            log.log_directory.fail(error, f"measuring {log.topic_partition}")
        return None

    def choose(self, dirty: Sequence[Dirt], now: WallMs) -> Cleaning | None:
        """Choose the log to clean next, among those that were just measured; None where none needs it."""
        self.max_dirty_ratio = max((dirt.ratio for dirt in dirty), default=0.0)
        self.max_delay_ms = max((dirt.delay_ms for dirt in dirty), default=0)
        wanted = [dirt for dirt in dirty if dirt.is_wanted]
        if not wanted:
            return None
        log = max(wanted, key=lambda each: each.ratio).log
        partition = log.topic_partition
        if (
            self._store.get(partition) is not log
            or log.log_directory.is_offline
            or self._store.future_log(partition) is not None
        ):
            return None
        dirt = self.measure(log, now)  # again: it may have been measured some turns of the loop ago
        if dirt is None or not dirt.is_wanted:
            return None
        try:
            cleaning = self._plan(dirt, now)
        except StorageError:
            return None  # its directory is offline, and says so itself
        self.in_progress[log.topic_partition] = cleaning
        log.log_directory.cleaned.setdefault(log.topic_partition, dirt.first_dirty)
        return cleaning

    def begin(self, cleaning: Cleaning) -> bool:
        """Record on disk that a log is about to be cleaned: recovery then expects missing offsets.

        Returns:
            Whether the worker may start; where not, the cleaning has been released.
        """
        log = cleaning.log
        try:
            log.log_directory.write_cleaned()
        except OSError as error:
            log.log_directory.fail(error, f"cleaning {log.topic_partition}")
            self.release(cleaning)
            return False
        return True

    def release(self, cleaning: Cleaning) -> None:
        """Let a log be chosen again; the last step of a cleaning."""
        self.in_progress.pop(cleaning.log.topic_partition, None)

    def _plan(self, dirt: Dirt, now: WallMs) -> Cleaning:
        log, config = dirt.log, dirt.log.config
        segments = log.segments.between(log.segments.first.base_offset, dirt.end)
        clean = [segment for segment in segments if segment.base_offset < dirt.first_dirty]
        horizon = clean[-1].modified_ms - config.delete_retention_ms if clean else 0
        aborted = log.collect_aborted_transactions(segments[0].base_offset, dirt.end)
        job = CleaningJob(
            directory=log.segments.directory,
            groups=[
                [segment.base_offset for segment in group]
                for group in group_segments(segments, dirt.end, log)
            ],
            dirty=[segment.base_offset for segment in log.segments.between(dirt.first_dirty, dirt.end)],
            first_dirty=dirt.first_dirty,
            end=dirt.end,
            now=now,
            delete_retention_ms=config.delete_retention_ms,
            legacy_horizon=horizon,
            index_interval=config.index_interval_bytes,
            aborted=[list(transaction) for transaction in aborted],
            last_records={
                str(producer): (entry.last_offset, entry.epoch)
                for producer, entry in log.producer_state.entries.items()
            },
            memory=self.settings.memory,
            bytes_per_second=self.settings.bytes_per_second,
        )
        return Cleaning(
            log,
            job,
            {segment.base_offset: segment for segment in segments},
            log.truncations,
            self.settings,
            [],
        )

    # Finishing

    def is_stale(self, cleaning: Cleaning) -> bool:
        """Return whether a worker's result is useless: its log was truncated or removed, it is not compacted any more,
        its directory is offline, it is being copied to another one, or the cleaner has other settings now. A copy of
        old records must not miss the tombstones of them.
        """
        log = cleaning.log
        return (
            self._store.get(log.topic_partition) is not log
            or not log.config.compacts
            or log.log_directory.is_offline
            or log.truncations != cleaning.truncations
            or cleaning.settings != self.settings
            or self._store.future_log(log.topic_partition) is not None
        )

    def finish(self, cleaning: Cleaning, result: CleaningResult) -> bool:
        """Run all steps that follow a worker; return whether the log is now as clean as the worker made it."""
        try:
            done = (
                self.take_in(cleaning, result)
                and self.sync_names(cleaning)
                and self.confirm(cleaning, result)
            )
            if done:
                self.checkpoint(cleaning)
        finally:
            self.release(cleaning)
        return done

    def take_in(self, cleaning: Cleaning, result: CleaningResult) -> bool:
        """Do `take_in_group` for all groups, and then `conclude`; return what it returns."""
        for group in result.groups:
            self.take_in_group(cleaning, group)
        return self.conclude(cleaning, result)

    def take_in_group(self, cleaning: Cleaning, group: CleanedGroup) -> None:
        """Swap in a segment that a worker has finished; the worker may still be writing the next one.

        It goes in only if the segments that it was made from are still the log's: a truncation, a retention pass or a
        deletion meanwhile makes it worthless, and its files are removed. The cleaning is not complete then, and the
        groups after it do not go in either: they may have dropped tombstones of records that the missed one still has.
        """
        log = cleaning.log
        if not group.changed:
            return
        bases = [Offset(base) for base in group.bases]
        present = {segment.base_offset: segment for segment in log.segments}
        replaced = [cleaning.segments[base] for base in bases]
        try:
            if (
                cleaning.missed
                or self.is_stale(cleaning)
                or any(present.get(segment.base_offset) is not segment for segment in replaced)
            ):
                cleaning.missed.append(bases[0])
                if not log.log_directory.is_offline:
                    _remove_cleaned(log, cleaning.job.directory, bases[0])
            else:
                log.replace_segments(bases[0], replaced)
        except FileNotFoundError:
            cleaning.missed.append(bases[0])  # the directory itself is gone
        except StorageError:
            cleaning.missed.append(bases[0])  # its directory is offline, and says so itself
        except OSError as error:
            cleaning.missed.append(bases[0])
            log.log_directory.fail(error, f"cleaning {log.topic_partition}")

    def conclude(self, cleaning: Cleaning, result: CleaningResult) -> bool:
        """Take note of a worker's result, when all of its groups were taken in.

        Returns:
            Whether the log is as clean as the worker made it; only then may `sync_names` follow.
        """
        self.last_result = result
        if self.is_stale(cleaning):
            self.discard(cleaning)
            return False
        if result.error is not None:
            self._failed(cleaning, result.error, result.errno)
            return False
        self._failures.pop(cleaning.log.topic_partition, None)
        return not cleaning.missed

    def sync_names(self, cleaning: Cleaning) -> bool:
        """Sync the names of a log's segments: a crash must not bring the old ones back under a checkpoint that calls
        them clean. Returns whether `confirm` may follow.
        """
        log = cleaning.log
        try:
            log.log_directory.disk.sync_directory(cleaning.job.directory)
        except FileNotFoundError:
            return False  # the log was removed meanwhile
        except OSError as error:
            log.log_directory.fail(error, f"cleaning {log.topic_partition}")
            return False
        return True

    def confirm(self, cleaning: Cleaning, result: CleaningResult) -> bool:
        """Note up to where the log is clean; return whether it is still the log that was cleaned."""
        if self.is_stale(cleaning):
            return False
        cleaning.log.log_directory.cleaned[cleaning.log.topic_partition] = Offset(result.end)
        return True

    def checkpoint(self, cleaning: Cleaning) -> None:
        """Write what was noted to `cleaner-offset-checkpoint`."""
        log_directory = cleaning.log.log_directory
        try:
            log_directory.write_cleaned()
        except OSError as error:
            log_directory.fail(error, f"cleaning {cleaning.log.topic_partition}")

    def worker_died(self, cleaning: Cleaning, reason: str) -> None:
        """Handle a worker that ended without a result. The log is tried again after a while, and marked uncleanable
        when its workers keep dying.
        """
        partition = cleaning.log.topic_partition
        self.discard(cleaning)
        if self.is_stale(cleaning):
            return
        failures = self._failures[partition] = self._failures.get(partition, 0) + 1
        if failures >= FAILURES_MAX:
            self._mark(partition, f"its worker died {failures} times: {reason}")
        else:
            self._put_off(cleaning, f"its worker died: {reason}")

    def _failed(self, cleaning: Cleaning, reason: str, number: int | None) -> None:
        log = cleaning.log
        present = {segment.base_offset: segment for segment in log.segments}
        self.discard(cleaning)
        if number is None:
            self._mark(log.topic_partition, reason)
        elif number in _DISK_FULL:
            self._put_off(cleaning, reason)
        elif number != errno.ENOENT or all(
            present.get(Offset(base)) is segment for base, segment in cleaning.segments.items()
        ):
            log.log_directory.fail(OSError(number, reason), f"cleaning {log.topic_partition}")

    def _mark(self, partition: TopicPartition, reason: str) -> None:
        _log.error("%s cannot be cleaned, and is left as it is: %s", partition, reason)
        self.uncleanable[partition] = reason

    def _put_off(self, cleaning: Cleaning, reason: str) -> None:
        log, retry_s = cleaning.log, self.settings.retry_s
        _log.warning(
            "%s was not cleaned, and is tried again in %g s: %s", log.topic_partition, retry_s, reason
        )
        self._set_aside[log.topic_partition] = MonotonicSeconds(log.log_directory.clock.monotonic() + retry_s)

    def discard(self, cleaning: Cleaning) -> None:
        """Remove the files that a stopped worker left behind.

        They may lie in a log that has since been created under the same name: nobody else cleans that before `release`,
        and an unfinished file would mislead its recovery.
        """
        log = cleaning.log
        if log.log_directory.is_offline:
            return
        try:
            for group in cleaning.job.groups:
                _remove_cleaned(log, cleaning.job.directory, Offset(group[0]))
        except FileNotFoundError:
            return  # the directory itself is gone
        except OSError as error:
            log.log_directory.fail(error, f"cleaning {log.topic_partition}")


def _remove_cleaned(log: Log, directory: str, base: Offset) -> None:
    for suffix in names.SEGMENT_SUFFIXES:
        log.log_directory.disk.remove(f"{directory}/{names.segment_name(base, suffix)}{names.CLEANED}")
