"""Cleaning one log: collect the latest offset of each key in its dirty part, then copy its segments without the
outdated records.

New segments are written beside the old ones with the suffix `.cleaned`, and synced; nothing old is touched. The caller
swaps them in, or removes them.
"""

import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from storage import names
from storage.batch_scan import check_checksum, scan_batches
from storage.compaction.batch_filter import BatchFilter, LastRecord, empty_batch
from storage.compaction.job import CleanedGroup, CleaningJob, CleaningResult, OnGroup
from storage.compaction.offset_map import OffsetMap
from storage.compaction.record_walk import collect_keys
from storage.compaction.transactions import TransactionReader
from storage.disk import Disk
from storage.segment import Segment
from storage.transaction_index import AbortedTransaction
from wire.records.batch import LOG_OVERHEAD, MAGIC, BatchHeader, read_header
from wire.records.errors import CorruptRecordError, UnsupportedCompressionError
from wire.records.legacy import iter_legacy
from wire.records.record import ControlType, iter_records, read_control_type, records_bytes
from wire.types import Offset, ProducerId, WallMs

_WRITE_SIZE: Final = 1 << 20


class CannotCleanError(Exception):
    """A log that cannot be cleaned; the text says why."""


class Throttle:
    """Limits the rate of reads and writes, in bytes per second."""

    __slots__ = ("_bytes", "_pause", "_per_second", "_since")

    def __init__(self, bytes_per_second: float | None) -> None:
        """Take the limit in bytes per second; None means no limit."""
        self._per_second = bytes_per_second
        self._bytes = 0
        self._since = time.monotonic()
        self._pause = threading.Event()

    def note(self, size: int) -> None:
        """Count bytes that were read or written, and wait where they exceed the limit."""
        if self._per_second is None:
            return
        self._bytes += size
        ahead = self._bytes / self._per_second - (time.monotonic() - self._since)
        if ahead > 0.01:
            self._pause.wait(ahead)


def clean(job: CleaningJob, disk: Disk, on_group: OnGroup | None = None) -> CleaningResult:
    """Clean a log.

    Args:
        job: which, and how.
        disk: where it is.
        on_group: called with finished groups while others are still to be made; all are in the result, too.

    Returns:
        What was done; with an error where a batch is damaged or the disk failed. Finished groups are good all the
        same, since each only drops what a later record outdates.
    """
    cleaning = _Cleaning(job, disk, on_group)
    try:
        cleaning.collect()
        for group in job.groups:
            if group[0] < cleaning.end:
                cleaning.copy([base for base in group if base < cleaning.end])
        return cleaning.result(None)
    except (CannotCleanError, CorruptRecordError, UnsupportedCompressionError, OSError) as error:
        cleaning.drop_unfinished()
        return cleaning.result(error)


class _Cleaning:
    def __init__(self, job: CleaningJob, disk: Disk, on_group: OnGroup | None) -> None:
        self._on_group = on_group
        self._job = job
        self._disk = disk
        self._offsets = OffsetMap(job.memory)
        self._throttle = Throttle(job.bytes_per_second)
        self._aborted = [
            AbortedTransaction(ProducerId(producer), Offset(first), Offset(last), Offset(stable))
            for producer, first, last, stable in job.aborted
        ]
        last_records = {
            ProducerId(int(producer)): LastRecord(*last) for producer, last in job.last_records.items()
        }
        self._filter = BatchFilter(self._offsets, last_records, WallMs(job.now), job.delete_retention_ms)
        self._transactions = TransactionReader(self._aborted)
        self._groups: list[CleanedGroup] = []
        self._unfinished: Segment | None = None
        self._read = self._written = self._records_read = self._records_kept = 0
        self.end = job.first_dirty

    def result(self, error: Exception | None) -> CleaningResult:
        return CleaningResult(
            groups=self._groups,
            end=self.end if error is None else self._job.first_dirty,
            bytes_read=self._read,
            bytes_written=self._written,
            records_read=self._records_read,
            records_kept=self._records_kept,
            keys=len(self._offsets.offsets),
            error=None if error is None else f"{type(error).__name__}: {error}",
            errno=error.errno if isinstance(error, OSError) else None,
        )

    # Collecting keys

    def collect(self) -> None:
        """Fill the map from the first dirty offset on until it is full; the log is cleaned up to there.

        The segments are synced first, since a later record in one of them removes an older one elsewhere, for good.
        """
        bases = [*self._job.dirty, self._job.end]
        transactions = TransactionReader(each for each in self._aborted if each.last_offset >= bases[0])
        self._disk.sync_directory(self._job.directory)
        for base, following in pairwise(bases):
            segment = self._open(base)
            segment.file.sync()
            if not self._collect_segment(segment, transactions):
                if self._offsets.latest < self._job.first_dirty:
                    raise CannotCleanError(
                        f"one batch has more keys than the {self._offsets.capacity} that memory holds: "
                        "raise log.cleaner.dedupe.buffer.size"
                    )
                self.end = self._offsets.latest + 1
                return
            self._offsets.latest = following - 1
            self.end = following

    def _collect_segment(self, segment: Segment, transactions: TransactionReader) -> bool:
        """Take the keys of one segment; False where they do not all fit: the map then ends with a whole batch."""
        offsets, first_dirty = self._offsets, self._job.first_dirty
        for _, header, data, position in scan_batches(segment.file, 0, segment.size):
            self._note_read(header.size)
            check_checksum(data, position, header)
            if header.is_control and header.magic == MAGIC:
                transactions.read_marker(header, _control_type(data, position, header))
            elif not transactions.is_aborted(header) and header.last_offset >= first_dirty:
                if len(offsets.offsets) + _key_count(data, position, header) > offsets.capacity:
                    return False
                _collect(data, position, header, first_dirty, offsets)
            offsets.latest = header.last_offset
        return True

    # Copying

    def copy(self, bases: Sequence[int]) -> None:
        """Copy a group of segments into one, without the outdated records."""
        sources = [self._open(base) for base in bases]
        self._remove_cleaned(bases[0])
        cleaned = self._unfinished = Segment(
            self._disk,
            self._job.directory,
            Offset(bases[0]),
            created_ms=WallMs(self._job.now),
            suffix=names.CLEANED,
            new=True,
        )
        changed = len(bases) > 1
        writer = _SegmentWriter(cleaned, self._job.index_interval)
        for source in sources:
            self._filter.legacy_deletes_stay = source.modified_ms > self._job.legacy_horizon
            changed = self._copy_segment(source, writer, is_last=source is sources[-1]) or changed
        writer.flush()
        self._written += cleaned.size
        self._throttle.note(cleaned.size)
        if changed:
            modified = sources[-1].modified_ms
            cleaned.seal()
            cleaned.sync(with_indexes=True)
            self._disk.set_modified_ms(cleaned.path(names.LOG), modified)
        else:
            self._remove_cleaned(bases[0])
        self._unfinished = None
        group = CleanedGroup(bases=list(bases), changed=changed)
        self._groups.append(group)
        if self._on_group is not None:
            self._on_group(group)

    def _copy_segment(self, source: Segment, writer: "_SegmentWriter", *, is_last: bool) -> bool:
        """Copy one segment; return whether anything in it changed.

        At least the header of a group's last batch stays, so that the new segment ends where the old ones did.
        Otherwise recovery would see the difference as a loss, and a swap that a crash interrupted could leave an old
        segment behind.
        """
        changed = False
        end = 0
        for start, header, data, position in scan_batches(source.file, 0, source.size):
            self._note_read(header.size)
            check_checksum(data, position, header)
            end = start + header.size
            self._records_read += max(header.record_count, 0)
            if header.is_control and header.magic == MAGIC:
                may_go, indexed = self._transactions.read_marker(
                    header, _control_type(data, position, header)
                )
                if indexed is not None:
                    writer.segment.transaction_index.append(indexed)
                verdict = self._filter.control_batch(data, position, header, may_go=may_go)
            else:
                aborted = self._transactions.is_aborted(header)
                verdict = self._filter.data_batch(data, position, header, aborted=aborted)
            self._records_kept += verdict.kept
            if verdict.data is None:
                writer.write(memoryview(data)[position : position + header.size], header)
            else:
                changed_before, changed = changed, True
                if not verdict.data and is_last and end == source.size and header.magic == MAGIC:
                    changed = changed_before or header.record_count > 0
                    writer.write(empty_batch(header), header)
                elif verdict.data:
                    writer.write(verdict.data, header if header.magic != MAGIC else read_header(verdict.data))
        if end != source.size:
            raise CorruptRecordError(f"{source} does not end with a whole batch")
        return changed

    def drop_unfinished(self) -> None:
        """Remove a segment that was not finished."""
        if self._unfinished is not None:
            try:
                self._remove_cleaned(self._unfinished.base_offset)
            except OSError:
                pass  # the next start removes it

    def _open(self, base: int) -> Segment:
        return Segment(self._disk, self._job.directory, Offset(base), created_ms=WallMs(self._job.now))

    def _remove_cleaned(self, base: int) -> None:
        for suffix in names.SEGMENT_SUFFIXES:
            name = names.segment_name(Offset(base), suffix) + names.CLEANED
            self._disk.remove(f"{self._job.directory}/{name}")

    def _note_read(self, size: int) -> None:
        self._read += size
        self._throttle.note(size)


class _SegmentWriter:
    """Gathers batches, and appends them to a segment about a mebibyte at a time."""

    __slots__ = ("_batches", "_buffer", "_interval", "segment")

    def __init__(self, segment: Segment, interval: int) -> None:
        self.segment = segment
        self._interval = interval
        self._buffer = bytearray()
        self._batches: list[tuple[int, BatchHeader]] = []

    def write(self, data: bytes | bytearray | memoryview, header: BatchHeader) -> None:
        """Add what is left of a batch; `header` is the original's, or that of `data` where the batch was rewritten."""
        self._batches.append((len(self._buffer), header._replace(batch_length=len(data) - LOG_OVERHEAD)))
        self._buffer += data
        if len(self._buffer) >= _WRITE_SIZE:
            self.flush()

    def flush(self) -> None:
        """Append what was gathered."""
        if self._batches:
            self.segment.append_batches(self._buffer, 0, self._batches, self._interval)
            self._buffer = bytearray()
            self._batches = []


def _collect(data: bytes, position: int, header: BatchHeader, first_dirty: int, into: OffsetMap) -> None:
    if header.magic == MAGIC:
        if header.record_count:
            records = records_bytes(data, position, header)
            collect_keys(records, header.record_count, header.base_offset, first_dirty, into)
        return
    for record in iter_legacy(data[position : position + header.size]):
        if record.key is not None and record.offset >= first_dirty:
            into.put(record.key, record.offset)


def _key_count(data: bytes, position: int, header: BatchHeader) -> int:
    """Return the most keys that a batch can add to a map."""
    if header.magic == MAGIC:
        return header.record_count
    return sum(1 for _ in iter_legacy(data[position : position + header.size]))


def _control_type(data: bytes, position: int, header: BatchHeader) -> ControlType | None:
    record = next(iter_records(data, position, header), None)
    return None if record is None else read_control_type(record.key)
