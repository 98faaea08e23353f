"""The broker's side of compaction: which log is cleaned next, and what is done with a finished one.

The dirtiest log first, by the share of its bytes that is new since its last cleaning, if that is above
`min.cleanable.dirty.ratio`; one whose oldest new record has waited for `max.compaction.lag.ms` in any case. What may
be cleaned ends at the first of: the active segment, the last stable offset, and the first segment with a record
younger than `min.compaction.lag.ms`.

How far each log is clean stands in `cleaner-offset-checkpoint`. A log that cannot be cleaned is named once and left
alone.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from storage import names
from storage.compaction.job import CleaningJob, CleaningResult
from storage.errors import StorageError
from storage.log import Log
from storage.segment import RELATIVE_OFFSET_MAX, Segment
from storage.store import LogStore
from wire.types import Offset, TopicPartition, WallMs

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """The broker's settings of its cleaner.

    Attributes:
        memory: bytes for the keys of one cleaning: `log.cleaner.dedupe.buffer.size` times its load factor.
        bytes_per_second: `log.cleaner.io.max.bytes.per.second`; None for no limit.
    """

    memory: int = 128 * 1024 * 1024
    bytes_per_second: float | None = None


class Dirt(NamedTuple):
    """How dirty a log is.

    Attributes:
        log: which.
        first_dirty: up to where it is clean.
        end: the base offset of the first segment that must stay as it is.
        clean_bytes: below `first_dirty`.
        dirty_bytes: from there to `end`.
        overdue: whether a record has waited longer than it may.
    """

    log: Log
    first_dirty: Offset
    end: Offset
    clean_bytes: int
    dirty_bytes: int
    overdue: bool

    @property
    def ratio(self) -> float:
        """The dirty share of what may be cleaned."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


class Cleaning(NamedTuple):
    """A cleaning that is under way: what the worker is to do, and the log as it was when it was asked.

    Attributes:
        log: which.
        job: for the worker.
        segments: that may be replaced, by base offset.
        truncations: how often the log's end had been cut off.
    """

    log: Log
    job: CleaningJob
    segments: dict[int, Segment]
    truncations: int


class Cleaner:
    """Picks logs to clean, one at a time, and takes finished segments in.

    Attributes:
        uncleanable: logs that could not be cleaned, and why.
        max_dirty_ratio: of all logs, when last looked at.
        last_result: of the last cleaning that ended.
    """

    def __init__(self, store: LogStore, settings: CleanerSettings) -> None:
        """Clean the logs of a store."""
        self._store = store
        self.settings = settings
        self.uncleanable: dict[TopicPartition, str] = {}
        self.max_dirty_ratio = 0.0
        self.last_result: CleaningResult | None = None

    def pick(self, now: WallMs) -> Cleaning | None:
        """Choose the log to clean next; None where none needs it.

        Before a log's first cleaning, the checkpoint is written: it tells recovery that offsets may be missing.
        """
        dirty = list(self._dirty(self._candidates(), now))
        self.max_dirty_ratio = max((dirt.ratio for dirt in dirty), default=0.0)
        wanted = [
            dirt
            for dirt in dirty
            if dirt.dirty_bytes and (dirt.overdue or dirt.ratio > dirt.log.config.min_cleanable_dirty_ratio)
        ]
        if not wanted:
            return None
        dirt = max(wanted, key=lambda each: each.ratio)
        log = dirt.log
        try:
            if log.topic_partition not in log.home.cleaned:
                log.home.write_cleaned(log.topic_partition, dirt.first_dirty)
            return self._plan(dirt, now)
        except OSError as error:
            log.home.fail(error, f"cleaning {log.topic_partition}")
            return None

    def _candidates(self) -> list[Log]:
        logs = self._store.all_logs()
        known = {log.topic_partition for log in logs}
        for partition in [each for each in self.uncleanable if each not in known]:
            del self.uncleanable[partition]
        return [
            log
            for log in logs
            if log.config.compacts and not log.home.is_offline and log.topic_partition not in self.uncleanable
        ]

    def _dirty(self, logs: Iterable[Log], now: WallMs) -> Iterable[Dirt]:
        for log in logs:
            try:
                yield _measure(log, now)
            except OSError as error:
                log.home.fail(error, f"measuring {log.topic_partition}")

    def _plan(self, dirt: Dirt, now: WallMs) -> Cleaning:
        log, config = dirt.log, dirt.log.config
        segments = log.segments.between(log.segments.first.base_offset, dirt.end)
        clean = [segment for segment in segments if segment.base_offset < dirt.first_dirty]
        horizon = clean[-1].modified_ms - config.delete_retention_ms if clean else 0
        aborted = log.collect_aborted_transactions(segments[0].base_offset, dirt.end)
        job = CleaningJob(
            directory=log.segments.directory,
            groups=[[segment.base_offset for segment in group] for group in _group(segments, dirt.end, log)],
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
        return Cleaning(log, job, {segment.base_offset: segment for segment in segments}, log.truncations)

    def finish(self, cleaning: Cleaning, result: CleaningResult) -> bool:
        """Do `take_in` and `confirm`; gives whether the log is as clean now as the worker made it."""
        taken = self.take_in(cleaning, result)
        if taken:
            self.confirm(cleaning, result)
        return taken

    def take_in(self, cleaning: Cleaning, result: CleaningResult) -> bool:
        """Swap in what a worker has made. Quick, and for the broker's loop.

        A group goes in only if the segments that it was made from are still the log's: a truncation, a retention pass
        or a deletion meanwhile makes it worthless, and its files go.

        Returns:
            Whether all of it went in; only then may `confirm` follow.
        """
        log = cleaning.log
        self.last_result = result
        if self._store.get(log.topic_partition) is not log or log.home.is_offline:
            return False
        complete = True
        try:
            for group in result.groups:
                if not self._take_in(cleaning, [Offset(base) for base in group.bases], changed=group.changed):
                    complete = False
        except OSError as error:
            log.home.fail(error, f"cleaning {log.topic_partition}")
            return False
        if result.error is not None:
            self.give_up(cleaning, result.error)
        return complete and result.error is None

    def confirm(self, cleaning: Cleaning, result: CleaningResult) -> None:
        """Write down how clean the log is. Takes a few syncs, and may run in a thread.

        The new segments' names are synced first: a crash must not give the old ones back and leave the claim.
        """
        log = cleaning.log
        if log.topic_partition not in log.home.cleaned or log.home.is_offline:
            return
        try:
            log.home.disk.sync_directory(log.segments.directory)
            if log.truncations == cleaning.truncations:
                log.home.write_cleaned(log.topic_partition, Offset(result.end))
        except FileNotFoundError:
            return  # the log was removed meanwhile
        except OSError as error:
            log.home.fail(error, f"cleaning {log.topic_partition}")

    def give_up(self, cleaning: Cleaning, reason: str) -> None:
        """Leave a log alone from now on, until the broker is restarted, and remove what a worker left behind."""
        log = cleaning.log
        _log.error("%s cannot be cleaned: %s", log.topic_partition, reason)
        self.uncleanable[log.topic_partition] = reason
        self.discard(cleaning)

    def discard(self, cleaning: Cleaning) -> None:
        """Remove what a worker left behind that was stopped."""
        log = cleaning.log
        if self._store.get(log.topic_partition) is not log or log.home.is_offline:
            return
        try:
            for group in cleaning.job.groups:
                _remove_cleaned(log, Offset(group[0]))
        except OSError as error:
            log.home.fail(error, f"cleaning {log.topic_partition}")

    def _take_in(self, cleaning: Cleaning, bases: list[Offset], *, changed: bool) -> bool:
        log = cleaning.log
        if not changed:
            return True
        present = {segment.base_offset: segment for segment in log.segments}
        replaced = [cleaning.segments[base] for base in bases]
        if log.truncations != cleaning.truncations or any(
            present.get(segment.base_offset) is not segment for segment in replaced
        ):
            _remove_cleaned(log, bases[0])
            return False
        try:
            log.replace_segments(bases[0], replaced)
        except StorageError:
            return False
        return True


def _measure(log: Log, now: WallMs) -> Dirt:
    segments, config = log.segments, log.config
    start = log.log_start_offset
    first_dirty = log.home.cleaned.get(log.topic_partition, start)
    if not start <= first_dirty <= log.log_end_offset:
        first_dirty = start
    bound = min(log.last_stable_offset, segments.active.base_offset)
    sealed = [segment for segment in segments.between(first_dirty, bound) if segment is not segments.active]
    if config.min_compaction_lag_ms > 0:
        for segment in sealed:
            if segment.largest_timestamp > now - config.min_compaction_lag_ms:
                bound = min(bound, segment.base_offset)
                break
    # A segment that reaches beyond the bound stays as it is.
    end = segments.floor(bound)
    last = end.base_offset if end is not None else bound
    last = max(last, segments.first.base_offset)
    dirty = [segment for segment in sealed if segment.base_offset < last]
    clean_bytes = sum(
        segment.size for segment in segments if segment.base_offset < first_dirty and segment not in dirty
    )
    limit = now - config.max_compaction_lag_ms
    overdue = any(0 < segment.rolling_timestamp < limit for segment in dirty)
    return Dirt(log, first_dirty, last, clean_bytes, sum(segment.size for segment in dirty), overdue)


def _group(segments: list[Segment], end: Offset, log: Log) -> list[list[Segment]]:
    """Put neighbours together as long as the result cannot exceed what a segment may hold."""
    config = log.config
    groups: list[list[Segment]] = []
    sizes = [0, 0, 0]
    for slot, segment in enumerate(segments):
        added = [segment.size, len(segment.offset_index) * 8, len(segment.time_index) * 12]
        following = segments[slot + 1].base_offset if slot + 1 < len(segments) else end
        fits = (
            bool(groups)
            and sizes[0] + added[0] <= config.segment_bytes
            and sizes[1] + added[1] <= config.segment_index_bytes
            and sizes[2] + added[2] <= config.segment_index_bytes
            and following - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX
        )
        if fits:
            groups[-1].append(segment)
            sizes = [one + more for one, more in zip(sizes, added, strict=True)]
        else:
            groups.append([segment])
            sizes = added
    return groups


def _remove_cleaned(log: Log, base: Offset) -> None:
    for suffix in names.SEGMENT_SUFFIXES:
        log.home.disk.remove(f"{log.segments.directory}/{names.segment_name(base, suffix)}{names.CLEANED}")
