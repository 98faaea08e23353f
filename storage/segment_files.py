"""The files of a segment: opened on first use, synced, renamed together."""

from storage import names
from storage.disk import Disk, DiskFile
from storage.offset_index import OffsetIndex
from storage.time_index import TimeIndex
from storage.transaction_index import TransactionIndex
from wire.types import Offset, WallMs


class SegmentFiles:
    """A segment's .log and its three indexes, as files.

    Attributes:
        base_offset: the offset in their names.
        directory: where they are.
    """

    __slots__ = (
        "_disk",
        "_file",
        "_suffix",
        "base_offset",
        "directory",
        "offset_index",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self, disk: Disk, directory: str, base_offset: Offset, *, suffix: str = "", new: bool = False
    ) -> None:
        """Take the files of a segment, or with `new` make its .log.

        Raises:
            OSError: the disk failed.
        """
        self._disk = disk
        self.directory = directory
        self.base_offset = base_offset
        self._suffix = suffix
        self.offset_index = OffsetIndex(disk, self.path(names.INDEX), base_offset, new=new)
        self.time_index = TimeIndex(disk, self.path(names.TIME_INDEX), base_offset, new=new)
        self.transaction_index = TransactionIndex(
            disk, self.path(names.TRANSACTION_INDEX), base_offset, new=new
        )
        self._file: DiskFile | None = disk.open(self.path(names.LOG), create=True) if new else None

    def path(self, suffix: str) -> str:
        """Return the path of one of the segment's files."""
        return f"{self.directory}/{self.base_offset:020d}{suffix}{self._suffix}"

    @property
    def file(self) -> DiskFile:
        """The .log, opened where it is not.

        Raises:
            OSError: it cannot be opened.
        """
        if self._file is None:
            self._file = self._disk.open(self.path(names.LOG))
        return self._file

    @property
    def modified_ms(self) -> WallMs:
        """When the .log was last written to."""
        return WallMs(self._disk.modified_ms(self.path(names.LOG)))

    def sync(self, *, with_indexes: bool) -> None:
        """Make the segment survive power loss; a segment that is still written to needs no indexes for it.

        Raises:
            OSError: the disk failed; the caller must not try again.
        """
        self.file.sync()
        if with_indexes:
            for suffix in (names.INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX):
                self._sync_file(self.path(suffix))

    def _sync_file(self, path: str) -> None:
        # Not through the indexes' own files: this may run in a thread while the loop uses those.
        try:
            file = self._disk.open(path)
        except FileNotFoundError:
            return
        try:
            file.sync()
        finally:
            file.close()

    def close(self) -> None:
        """Close the descriptors. A reader that holds the .log keeps it open."""
        self._file = None
        for index in (self.offset_index, self.time_index, self.transaction_index):
            index.entries.close()

    def rename(self, old_suffix: str, new_suffix: str) -> list[str]:
        """Change the suffix after the files' names (`.deleted`, `.cleaned`, `.swap`), and return the new paths of
        those that exist.

        Raises:
            OSError: the disk failed; some may have their new names.
        """
        paths = []
        for suffix in names.SEGMENT_SUFFIXES:
            old = f"{self.directory}/{self.base_offset:020d}{suffix}{old_suffix}"
            new = f"{self.directory}/{self.base_offset:020d}{suffix}{new_suffix}"
            try:
                self._disk.rename(old, new)
            except FileNotFoundError:
                continue
            paths.append(new)
        self.moved_to(self.directory, new_suffix)
        return paths

    def moved_to(self, directory: str, suffix: str = "") -> None:
        """Note that the files have other names now."""
        self.directory = directory
        self._suffix = suffix
        self.offset_index.entries.path = self.path(names.INDEX)
        self.time_index.entries.path = self.path(names.TIME_INDEX)
        self.transaction_index.entries.path = self.path(names.TRANSACTION_INDEX)
