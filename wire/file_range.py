"""A range of a file that is sent as it is on disk."""

import errno
from typing import Final, Protocol

NOWAIT_UNSUPPORTED: Final = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})
"""Errors of in-memory file systems for a read that must not wait."""


class HasFileNumber(Protocol):
    """An open file: what `os.sendfile` and `os.pread` need of it."""

    def fileno(self) -> int: ...


class FileRange:
    """``size`` bytes of ``file`` from ``position``; its length is its size.

    Attributes:
        file: held by reference, so that it stays open until the range has been sent.
        position: in bytes from the start of the file.
        size: in bytes.
        hot: the bytes are most likely in the page cache, because they are near the log's end.
    """

    __slots__ = ("file", "hot", "position", "size")

    def __init__(self, file: HasFileNumber, position: int, size: int, hot: bool = True) -> None:
        self.file = file
        self.position = position
        self.size = size
        self.hot = hot

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        temperature = "hot" if self.hot else "maybe cold"
        return f"<{self.size} bytes from {self.position} of file {self.file.fileno()}, {temperature}>"
