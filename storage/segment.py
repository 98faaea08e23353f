"""A segment: one .log file with its indexes. Only a log's last segment is written to.

The .log is opened on first use and stays open while the segment lives; a reader that was given a range of it
holds it open beyond that.
"""

import logging
import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from storage import names
from storage.batch_scan import scan_headers
from storage.disk import Disk
from storage.offset_index import RELATIVE_OFFSET_MAX
from storage.segment_files import SegmentFiles
from storage.time_index import TimestampOffset
from wire.records.batch import MAGIC, BatchHeader
from wire.records.errors import CorruptRecordError
from wire.types import NO_LEADER_EPOCH, NO_TIMESTAMP, LeaderEpoch, Offset, WallMs

_UNKNOWN: Final = WallMs(-2)
_log: Final = logging.getLogger(__name__)


class BatchPosition(NamedTuple):
    """Where a batch is in a .log, and its header."""

    position: int
    header: BatchHeader


class SegmentEnd(NamedTuple):
    """The offset after a segment's last batch, and that batch's base offset and leader epoch; -1 where it has none."""

    next_offset: Offset
    last_base_offset: Offset
    leader_epoch: LeaderEpoch


class Segment(SegmentFiles):
    """One segment of a log.

    Attributes:
        base_offset: the offset in its files' names; no record in it is below.
        size: bytes of whole batches in the .log.
        created_ms: wall time at which this object came to be, which ages a segment whose records have no
            timestamps.
        roll_jitter_ms: how much earlier than `segment.ms` this one rolls.
        indexes_checked: whether the indexes are known to fit the .log; until then they are looked at before
            they are used.
    """

    __slots__ = (
        "_bytes_since_index",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_rolling_timestamp",
        "created_ms",
        "index_used_at",
        "indexes_checked",
        "roll_jitter_ms",
        "size",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: Offset,
        *,
        created_ms: WallMs,
        roll_jitter_ms: int = 0,
        suffix: str = "",
        new: bool = False,
    ) -> None:
        """Open an existing segment, or with `new` make an empty one.

        Raises:
            OSError: the disk failed, or there is no such .log.
        """
        super().__init__(disk, directory, base_offset, suffix=suffix, new=new)
        self.created_ms = created_ms
        self.roll_jitter_ms = roll_jitter_ms
        self.indexes_checked = new
        self.index_used_at = -math.inf
        self._bytes_since_index = 0
        self._max_timestamp = NO_TIMESTAMP if new else _UNKNOWN
        self._max_timestamp_offset = base_offset
        self._rolling_timestamp = NO_TIMESTAMP if new else _UNKNOWN
        self.size = 0 if new else self.file.size()

    def __repr__(self) -> str:
        return f"Segment(base_offset={self.base_offset}, size={self.size})"

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The greatest timestamp of its batches and the last offset of the batch that has it; -1 where none
        has any.
        """
        if self._max_timestamp == _UNKNOWN:
            self._load_max_timestamp()
        return TimestampOffset(self._max_timestamp, self._max_timestamp_offset)

    @property
    def largest_timestamp(self) -> WallMs:
        """What the segment's age is counted from: its greatest timestamp, or the .log's last change where it
        has none.
        """
        timestamp = self.max_timestamp.timestamp
        return timestamp if timestamp >= 0 else self.modified_ms

    def append(
        self,
        data: bytes | bytearray | memoryview,
        last_offset: Offset,
        max_timestamp: WallMs,
        offset_of_max_timestamp: Offset,
        index_interval: int,
    ) -> None:
        """Write batches at the end, and a pair of index entries where `index_interval` bytes have passed
        since the last.

        Raises:
            OSError: the disk failed; the segment is as it was, but for bytes beyond its size.
        """
        position = self.size
        self.file.write_at(data, position)
        length = len(data)
        self.size = position + length
        if position == 0:
            self._rolling_timestamp = max_timestamp
        self.note_timestamp(max_timestamp, offset_of_max_timestamp)
        if self._bytes_since_index > index_interval:
            self.offset_index.append(last_offset, position)
            self.time_index.append(self._max_timestamp, self._max_timestamp_offset)
            self._bytes_since_index = 0
        self._bytes_since_index += length

    def append_batches(
        self,
        data: bytes | bytearray | memoryview,
        first_position: int,
        batches: Sequence[tuple[int, BatchHeader]],
        index_interval: int,
    ) -> None:
        """Write several batches at the end in one go; each that is far enough from the last indexed one gets
        index entries.

        Args:
            data: their bytes.
            first_position: what to take off the positions in `batches` to get positions in `data`.
            batches: position and header of each.
            index_interval: bytes between index entries.

        Raises:
            OSError: the disk failed; the segment is as it was, but for bytes beyond its size.
        """
        start = self.size
        self.file.write_at(data, start)
        self.size = start + len(data)
        if start == 0:
            self._rolling_timestamp = batches[0][1].max_timestamp
        for position, header in batches:
            self.note_timestamp(header.max_timestamp, header.last_offset)
            if self._bytes_since_index > index_interval:
                self.index_batch(header.last_offset, start + position - first_position)
                self._bytes_since_index = 0
            self._bytes_since_index += header.size

    def note_timestamp(self, timestamp: WallMs, offset: Offset) -> None:
        """Take a batch's greatest timestamp, and its last offset, into account."""
        if self._max_timestamp == _UNKNOWN:
            self._load_max_timestamp()
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
            self._max_timestamp_offset = offset

    def _load_max_timestamp(self) -> None:
        if not self.indexes_checked:
            self.check_indexes()
        if self._max_timestamp == _UNKNOWN:
            self._max_timestamp, self._max_timestamp_offset = self.time_index.last
        # A search by time asks this of every segment, and mostly nothing else: they would all stay open.
        self.close()

    def should_roll(
        self,
        size: int,
        last_offset: Offset,
        max_timestamp: WallMs,
        now: WallMs,
        segment_bytes: int,
        segment_ms: int,
        index_bytes: int,
    ) -> bool:
        """Return whether an append must go to a new segment.

        Args:
            size: bytes to be appended.
            last_offset: the last of the append; 2^31 - 1 above the base is the most that the indexes can say.
            max_timestamp: the append's greatest; time passes by record timestamps where the first batch has
                one.
            now: wall time, for segments whose first batch has none.
            segment_bytes: `segment.bytes`.
            segment_ms: `segment.ms`.
            index_bytes: `segment.index.bytes`.
        """
        if self.size > segment_bytes - size or last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return True
        if not self.size:
            return False
        started = self.rolling_timestamp
        waited = max_timestamp - started if started >= 0 else now - self.created_ms
        if waited > segment_ms - self.roll_jitter_ms:
            return True
        return self.offset_index.is_full(index_bytes) or self.time_index.is_full(index_bytes)

    @property
    def rolling_timestamp(self) -> WallMs:
        """The greatest timestamp of the first batch, -1 where it has none."""
        if self._rolling_timestamp == _UNKNOWN:
            first = next(scan_headers(self.file, 0, self.size), None)
            self._rolling_timestamp = first[1].max_timestamp if first else NO_TIMESTAMP
        return self._rolling_timestamp

    def find(self, offset: Offset) -> BatchPosition | None:
        """Find the first batch whose last offset is at or above `offset`; None where the segment ends below
        it.

        Raises:
            OSError: the disk failed.
        """
        if not self.indexes_checked:
            self.check_indexes()
        start = self.offset_index.lookup(offset).position
        for position, header in self._scan_from(start, offset):
            if header.base_offset + header.last_offset_delta >= offset:
                return BatchPosition(position, header)
        return None

    def _scan_from(self, start: int, offset: Offset) -> Iterator[tuple[int, BatchHeader]]:
        """Scan from where an index entry points, if a batch is there that the entry can mean; else from the
        segment's start.
        """
        if start:
            try:
                first = next(scan_headers(self.file, start, self.size), None)
            except CorruptRecordError:
                first = None
            if first is not None and self.base_offset < first[1].base_offset <= offset:
                return scan_headers(self.file, start, self.size)
        return scan_headers(self.file, 0, self.size)

    def batches_from(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """Walk the batches from a position at which one begins."""
        return scan_headers(self.file, position, self.size)

    def end(self) -> SegmentEnd | None:
        """Return where the segment ends, or None where the .log does not end with a whole batch.

        Only the part behind the last index entry is read.
        """
        position = self.offset_index.last.position if self.size else 0
        found = self._end_of_scan(position) if 0 <= position < max(self.size, 1) else None
        if found is None and position:
            found = self._end_of_scan(0)
        return found

    def _end_of_scan(self, position: int) -> SegmentEnd | None:
        found, end = SegmentEnd(self.base_offset, self.base_offset, NO_LEADER_EPOCH), position
        try:
            for start, header in scan_headers(self.file, position, self.size):
                if header.base_offset < self.base_offset:
                    return None
                found = SegmentEnd(header.next_offset, header.base_offset, header.partition_leader_epoch)
                end = start + header.size
        except CorruptRecordError:
            return None
        return found if end == self.size else None

    def check_indexes(self) -> None:
        """Rebuild the indexes where they do not match the .log. Headers are read for it, not records.

        Raises:
            OSError: the disk failed.
        """
        self.indexes_checked = True
        sane = self._disk.exists(self.path(names.INDEX)) or not self.size
        sane = sane and self.offset_index.looks_sane(self.size) and self.time_index.looks_sane()
        if sane and self.size and not len(self.time_index):
            # An upgraded or damaged segment; one whose batches have no timestamps is scanned for nothing.
            sane = self.rolling_timestamp < 0
        if not (sane and self._time_index_agrees()):
            self.rebuild_indexes(index_interval=4096)

    def _time_index_agrees(self) -> bool:
        """Return whether the batch that the last time index entry means has the timestamp that it says."""
        last = self.time_index.last
        if last.timestamp < 0:
            return True
        try:
            found = self.find(last.offset)
        except CorruptRecordError:
            return False
        return found is not None and found.header.max_timestamp == last.timestamp

    def rebuild_indexes(self, index_interval: int) -> None:
        """Rebuild the offset and time index from the batches' headers."""
        self.reset_indexes()
        last_indexed = 0
        try:
            for position, header in scan_headers(self.file, 0, self.size):
                self.note_timestamp(header.max_timestamp, header.last_offset)
                if position - last_indexed > index_interval:
                    self.index_batch(header.last_offset, position)
                    last_indexed = position
        except CorruptRecordError as error:
            _log.warning("%s is damaged: %s", self.path(names.LOG), error)
        self.time_index.append(self._max_timestamp, self._max_timestamp_offset)

    def reset_indexes(self) -> None:
        """Empty offset and time index, and forget what was learned from them."""
        self.offset_index.reset()
        self.time_index.reset()
        self.indexes_checked = True
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = self.base_offset
        self._bytes_since_index = 0

    def index_batch(self, last_offset: Offset, position: int) -> None:
        """Add index entries for the batch at `position`."""
        self.offset_index.append(last_offset, position)
        self.time_index.append(self._max_timestamp, self._max_timestamp_offset)

    def truncate_to(self, offset: Offset, now: WallMs) -> Offset:
        """Cut off the batch that contains `offset`, and all after it. The .log must be synced before it is written to
        again.

        Returns:
            The offset at which the log ends now: `offset`, or the first one of the batch that it was in the middle of.

        Raises:
            OSError: the disk failed.
        """
        found = self.find(offset)
        end = offset
        if found is not None and found.header.base_offset < offset and found.header.magic == MAGIC:
            end = found.header.base_offset
        self.offset_index.truncate_to(end)
        self.time_index.truncate_to(end)
        self.transaction_index.truncate_to(end)
        if found is not None:
            self.truncate_bytes(found.position, sync=False)
        if not self.size:
            self.created_ms = now
            self._rolling_timestamp = NO_TIMESTAMP
        self._bytes_since_index = 0
        self._reload_max_timestamp()
        return end

    def truncate_bytes(self, size: int, *, sync: bool = True) -> None:
        """Cut the .log to `size` bytes, where it is longer, and sync it; an untouched file keeps its time.

        Synced because new records will overwrite those that were cut. If a crash lost the new ones and kept what
        follows them, the old ones would reappear in their place. Without `sync` that is left to the caller.
        """
        file = self.file
        if file.size() != size:
            file.truncate(size)
            if sync:
                file.sync()
        self.size = size

    def _reload_max_timestamp(self) -> None:
        last = self.time_index.last
        self._max_timestamp, self._max_timestamp_offset = last
        # Both indexes get their entries together: what is before the last offset entry is in the time index.
        indexed = self.offset_index.last
        for _, header in self._scan_from(indexed.position, indexed.offset):
            self.note_timestamp(header.max_timestamp, header.last_offset)

    def seal(self) -> bool:
        """Finish the segment before the next one begins: add its last time index entry, and write its indexes out.

        Returns:
            Whether there was anything to do.

        Raises:
            OSError: the disk failed.
        """
        if self._max_timestamp == _UNKNOWN and self._disk.exists(self.path(names.INDEX)):
            return False  # opened and never touched: everything is in its files
        self.time_index.append(*self.max_timestamp)
        self.offset_index.entries.trim()
        self.time_index.entries.trim()
        self.truncate_bytes(self.size)
        self.offset_index.entries.close()
        self.time_index.entries.close()
        return True
