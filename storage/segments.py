"""The segments of one log, in order, and where in them each offset is.

    [0 ........ 1200)  [1200 ........ 2600)  [2600 .... end_offset)
     sealed             sealed                active: the only one written to

There is always an active segment. Reads go to the segment with the greatest base offset not above the offset
looked for.
"""

import logging
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from storage import names
from storage.log_config import LogConfig
from storage.log_directory import LogDirectory
from storage.segment import Segment
from wire.types import Offset

_log: Final = logging.getLogger(__name__)
_POSITIONS_KEPT: Final = 32


class LogOffsetMetadata(NamedTuple):
    """An offset, and where it is: the base offset of its segment and the position of its batch in the .log.

    Both are -1 where they are not known.
    """

    offset: Offset
    segment_base_offset: Offset
    position: int

    @property
    def offset_only(self) -> bool:
        """Whether the place is unknown."""
        return self.segment_base_offset < 0

    def on_older_segment(self, other: "LogOffsetMetadata") -> bool:
        """Whether this offset is in an earlier segment than another."""
        return 0 <= self.segment_base_offset < other.segment_base_offset

    def on_same_segment(self, other: "LogOffsetMetadata") -> bool:
        """Whether both are known to be in one segment."""
        return not self.offset_only and self.segment_base_offset == other.segment_base_offset

    def bytes_behind(self, other: "LogOffsetMetadata") -> int:
        """Bytes from this offset to another in the same segment."""
        return other.position - self.position


class Segments:
    """The segments of a log, and its end.

    Attributes:
        log_directory: the directory that the log's directory is in.
        directory: the log's own.
        end_offset: the offset that the next record gets.
        names_changed: whether files were made, renamed or removed since the directory was synced.
    """

    __slots__ = (
        "_bases",
        "_positions",
        "_segments",
        "config",
        "directory",
        "end_offset",
        "log_directory",
        "names_changed",
    )

    def __init__(self, log_directory: LogDirectory, directory: str, config: LogConfig) -> None:
        self.log_directory = log_directory
        self.directory = directory
        self.config = config
        self.end_offset = Offset(0)
        self.names_changed = False
        self._bases: list[Offset] = []
        self._segments: list[Segment] = []
        # Positions of recently appended batches: followers and tailing consumers ask for exactly these offsets.
        self._positions: dict[Offset, tuple[Segment, int]] = {}

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(tuple(self._segments))

    @property
    def active(self) -> Segment:
        """The last segment."""
        return self._segments[-1]

    @property
    def first(self) -> Segment:
        """The oldest segment."""
        return self._segments[0]

    @property
    def size_bytes(self) -> int:
        """Bytes of all .log files together."""
        return sum(segment.size for segment in self._segments)

    @property
    def end(self) -> LogOffsetMetadata:
        """The log's end and its place."""
        active = self._segments[-1]
        return LogOffsetMetadata(self.end_offset, active.base_offset, active.size)

    def floor(self, offset: Offset) -> Segment | None:
        """Return the segment with the greatest base offset not above `offset`."""
        slot = bisect_right(self._bases, offset) - 1
        return self._segments[slot] if slot >= 0 else None

    def higher(self, base_offset: Offset) -> Segment | None:
        """Return the segment after the one that starts at `base_offset`."""
        slot = bisect_right(self._bases, base_offset)
        return self._segments[slot] if slot < len(self._segments) else None

    def between(self, start: Offset, end: Offset) -> list[Segment]:
        """Return the segments that may hold offsets of [start, end): from the one that `start` is in."""
        first = max(bisect_right(self._bases, start) - 1, 0)
        return [segment for segment in self._segments[first:] if segment.base_offset < end]

    def add(self, segment: Segment) -> None:
        """Put a segment in its place; it replaces one of the same base offset."""
        slot = bisect_right(self._bases, segment.base_offset)
        if slot and self._bases[slot - 1] == segment.base_offset:
            self._segments[slot - 1] = segment
        else:
            self._bases.insert(slot, segment.base_offset)
            self._segments.insert(slot, segment)

    def open_new(self, base_offset: Offset) -> Segment:
        """Make an empty segment. Files of its name, left by a crash, are removed first.

        Raises:
            OSError: the disk failed.
        """
        disk = self.log_directory.disk
        self.names_changed = True
        for suffix in names.SEGMENT_SUFFIXES:
            path = f"{self.directory}/{names.segment_name(base_offset, suffix)}"
            if disk.exists(path):
                _log.warning("a new segment takes the place of %s, which is removed", path)
                disk.remove(path)
        segment = self.open_segment(base_offset, new=True)
        if self.config.preallocate:
            # Zeroes behind the last batch: sealing cuts them off, and after a crash recovery does.
            segment.file.truncate(self.config.segment_bytes)
        return segment

    def open_segment(self, base_offset: Offset, *, new: bool = False) -> Segment:
        """Open a segment's files, or make them.

        Raises:
            OSError: the disk failed.
        """
        return Segment(
            self.log_directory.disk,
            self.directory,
            base_offset,
            created_ms=self.log_directory.clock.wall_ms(),
            roll_jitter_ms=self._jitter(base_offset),
            new=new,
        )

    def _jitter(self, base_offset: Offset) -> int:
        bound = min(self.config.segment_jitter_ms, self.config.segment_ms)
        if bound <= 0:
            return 0
        # Spread over partitions and segments, yet the same in each run: derived from the path, not random.
        return zlib.crc32(f"{self.directory}/{base_offset}".encode()) % bound

    def note_position(self, offset: Offset, segment: Segment, position: int) -> None:
        """Remember where a batch begins."""
        positions = self._positions
        positions[offset] = (segment, position)
        if len(positions) > _POSITIONS_KEPT:
            del positions[next(iter(positions))]

    def is_position_known(self, offset: Offset) -> bool:
        """Whether `locate` finds an offset without reading anything."""
        return offset in self._positions

    def forget_positions(self) -> None:
        """Forget where batches begin: segments have changed."""
        self._positions.clear()

    def locate(self, offset: Offset) -> tuple[Segment, int] | None:
        """Find the batch that holds `offset`, or the next one where compaction left a gap.

        Returns:
            Its segment and position; the place of the log's end for `end_offset` and beyond; None below the
            first segment.

        Raises:
            OSError: the disk failed.
        """
        known = self._positions.get(offset)
        if known is not None:
            return known
        if offset >= self.end_offset:
            return self._segments[-1], self._segments[-1].size
        segment = self.floor(offset)
        while segment is not None:
            found = segment.find(offset)
            if found is not None:
                return segment, found.position
            following = self.higher(segment.base_offset)
            if following is None:
                return segment, segment.size
            segment = following
        return None

    def metadata(self, offset: Offset) -> LogOffsetMetadata:
        """Return an offset with its place; the place of its batch's start.

        Raises:
            OSError: the disk failed.
        """
        place = self.locate(offset)
        if place is None:
            return LogOffsetMetadata(offset, Offset(-1), -1)
        return LogOffsetMetadata(offset, place[0].base_offset, place[1])

    def roll(self, base_offset: Offset) -> Segment:
        """Seal the active segment, and make a new one its successor.

        Args:
            base_offset: where the new one begins; the log's end, or beyond it where a follower's next batch
                is.

        Raises:
            OSError: the disk failed.
        """
        base_offset = max(base_offset, self.end_offset)
        active = self._segments[-1]
        if base_offset == active.base_offset:
            active.reset_indexes()  # empty, and yet asked to roll: its indexes have no room
            return active
        active.seal()
        segment = self.open_new(base_offset)
        self.add(segment)
        return segment

    def truncate_to(self, offset: Offset) -> list[Segment]:
        """Cut the log so that it ends at or before `offset`; return the segments that went whole.

        Raises:
            OSError: the disk failed.
        """
        self.forget_positions()
        removed = [segment for segment in self._segments if segment.base_offset > offset]
        self.remove(removed)
        self.end_offset = self._segments[-1].truncate_to(offset, self.log_directory.clock.wall_ms())
        return removed

    def truncate_fully(self, offset: Offset) -> list[Segment]:
        """Drop everything and begin anew at `offset`; return the segments that went.

        Raises:
            OSError: the disk failed.
        """
        self.forget_positions()
        removed = list(self._segments)
        self._remove_files(removed)
        self._segments.clear()
        self._bases.clear()
        self.add(self.open_new(offset))
        self.end_offset = offset
        return removed

    def remove(self, segments: Sequence[Segment]) -> None:
        """Take segments out of the log and mark their files for removal; readers that hold a range of them can still
        read it.

        Raises:
            OSError: the disk failed.
        """
        if not segments:
            return
        self.forget_positions()
        gone = {segment.base_offset for segment in segments}
        # Off the list before the files are renamed, so that no one opens them under their old names.
        self._segments = [segment for segment in self._segments if segment.base_offset not in gone]
        self._bases = [segment.base_offset for segment in self._segments]
        self._remove_files(segments)

    def swap_in(self, base_offset: Offset, replaced: Sequence[Segment]) -> Segment:
        """Put a finished segment in the place of those that it was made from.

        A crash leaves the old ones, until the new one's files are all called `.swap`; from then on it leaves the new
        one, since opening the log finishes what was begun.

        Args:
            base_offset: of the new segment, `.cleaned` and synced, and of the first replaced.
            replaced: in order, with none missing between them.

        Raises:
            OSError: the disk failed.
        """
        self.forget_positions()
        self.names_changed = True
        clock = self.log_directory.clock
        segment = Segment(
            self.log_directory.disk,
            self.directory,
            base_offset,
            created_ms=clock.wall_ms(),
            suffix=names.CLEANED,
        )
        segment.rename(names.CLEANED, names.SWAP)
        gone = {old.base_offset for old in replaced} - {base_offset}
        self._segments = [old for old in self._segments if old.base_offset not in gone]
        self._bases = [old.base_offset for old in self._segments]
        self.add(segment)
        self._remove_files(replaced)
        segment.rename(names.SWAP, "")
        return segment

    def _remove_files(self, segments: Sequence[Segment]) -> None:
        self.names_changed = True
        for segment in segments:
            paths = segment.rename("", names.DELETED)
            segment.close()
            self.log_directory.remove_later(paths, self.config.file_delete_delay_ms)

    def moved_to(self, directory: str) -> None:
        """Note that the log's directory was renamed."""
        self.directory = directory
        for segment in self._segments:
            segment.moved_to(directory)

    def forget(self) -> None:
        """Close all descriptors, and drop all segments: the directory is about to be read again."""
        self.close()
        self.forget_positions()
        self._segments.clear()
        self._bases.clear()

    def close(self) -> None:
        """Close all descriptors."""
        for segment in self._segments:
            segment.close()
