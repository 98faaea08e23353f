"""The output of one non-blocking socket: bytes and ranges of files, in order.

Small parts that follow each other are gathered into one send; a range of up to 32 KiB is read and gathered
with them. A larger one is sent by ``sendfile`` behind a send that says MSG_MORE. A range that may not be in the
page cache (``hot`` is False) is read with RWF_NOWAIT; if that finds it absent, the caller reads it in a thread.

Nothing here waits: `send` and `pump` return what to wait for.
"""

import errno
import os
import socket
from collections import deque
from enum import Enum
from typing import Final

from cluster.network.buffer_pool import BufferPool
from cluster.network.response_slot import Answer, Part
from wire.file_range import NOWAIT_UNSUPPORTED, FileRange

SMALL_RANGE: Final = 32 * 1024
"""A range of a file up to this many bytes is read and sent with its neighbours."""
GATHER_BYTES: Final = 256 * 1024
"""How much is gathered before it is sent."""
GATHER_PARTS: Final = 512
"""The same in parts; the kernel takes 1,024."""
JOIN_BYTES: Final = 32 * 1024
"""Parts of up to this many bytes are joined: one copy is cheaper than a vector."""
COLD_READ: Final = 256 * 1024
"""How much of a range that may be on disk is read at a time."""


class Progress(Enum):
    """The outcome of sending."""

    DONE = "done"  # nothing is left
    BLOCKED = "blocked"  # the socket takes no more for now
    COLD = "cold"  # what `next_cold` names has to be read in a thread, and passed to `cold_data`


class ShortFileError(OSError):
    """A file ends before a range that the answer promised: the connection can only be closed."""


class Transmission:
    """The outgoing side of one socket.

    Args:
        sock: A connected, non-blocking socket.
        pool: Where the buffer for cold reads is borrowed from.

    Attributes:
        sent_bytes: How much the socket has taken.
    """

    __slots__ = ("_cold", "_done", "_fd", "_pool", "_queue", "_socket", "sent_bytes")

    def __init__(self, sock: socket.socket, pool: BufferPool) -> None:
        self._socket = sock
        self._fd = sock.fileno()
        self._pool = pool
        self._queue: deque[Part] = deque()
        self._done = 0  # how much of the range at the front has been sent
        self._cold = False  # the range at the front is to be read, or is being read, by a thread
        self.sent_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._queue)

    def send(self, answer: Answer) -> Progress:
        """Send an answer behind what is still queued.

        Raises:
            OSError: the connection is broken; ShortFileError if a file is too short.
        """
        queue = self._queue
        if isinstance(answer, bytes | bytearray | memoryview):
            if not queue:
                try:
                    sent = self._socket.send(answer)
                except BlockingIOError:
                    sent = 0
                self.sent_bytes += sent
                if sent == len(answer):
                    return Progress.DONE
                queue.append(memoryview(answer)[sent:])
                return Progress.BLOCKED
            queue.append(answer)
        elif isinstance(answer, FileRange):
            queue.append(answer)
        else:
            queue.extend(answer)
        if self._cold:
            return Progress.COLD
        return self.pump()

    def pump(self) -> Progress:
        """Send as much of the queue as the socket takes and memory holds.

        Raises:
            OSError: the connection is broken; ShortFileError if a file is too short.
        """
        queue = self._queue
        while queue:
            head = queue[0]
            if not isinstance(head, FileRange) or (head.hot and head.size <= SMALL_RANGE):
                progress = self._send_gathered()
            elif head.hot:
                progress = self._send_file(head)
            else:
                progress = self._send_cold(head)
            if progress is not Progress.DONE:
                return progress
        return Progress.DONE

    def _send_gathered(self) -> Progress:
        """Send the small parts at the front of the queue in one call; DONE if they all went."""
        queue = self._queue
        gathered: list[bytes | bytearray | memoryview] = []
        size = 0
        while queue and size < GATHER_BYTES and len(gathered) < GATHER_PARTS:
            head = queue[0]
            if isinstance(head, FileRange):
                if head.size > SMALL_RANGE or not head.hot:
                    break
                head = read_range(head)
            queue.popleft()
            gathered.append(head)
            size += len(head)
        flags = socket.MSG_MORE if queue else 0
        try:
            if len(gathered) == 1:
                sent = self._socket.send(gathered[0], flags)
            elif size <= JOIN_BYTES:
                joined = b"".join(gathered)
                gathered = [joined]
                sent = self._socket.send(joined, flags)
            else:
                sent = self._socket.sendmsg(gathered, (), flags)
        except BlockingIOError:
            sent = 0
        self.sent_bytes += sent
        if sent == size:
            return Progress.DONE
        _drop_sent(gathered, sent)
        queue.extendleft(reversed(gathered))
        return Progress.BLOCKED

    def _send_file(self, file_range: FileRange) -> Progress:
        """Send a range that is in the page cache by ``sendfile``, without copying its bytes."""
        fd = descriptor_of(file_range)
        while self._done < file_range.size:
            try:
                sent = os.sendfile(
                    self._fd, fd, file_range.position + self._done, file_range.size - self._done
                )
            except BlockingIOError:
                return Progress.BLOCKED
            if sent == 0:
                raise short_file(file_range)
            self._done += sent
            self.sent_bytes += sent
        self._pop_range()
        return Progress.DONE

    def _send_cold(self, file_range: FileRange) -> Progress:
        """Send the part of a range that is in memory; COLD if the rest is on the disk."""
        fd = descriptor_of(file_range)
        scratch = self._pool.borrow(COLD_READ)
        try:
            while self._done < file_range.size:
                size = min(file_range.size - self._done, COLD_READ)
                try:
                    count = os.preadv(fd, [scratch[:size]], file_range.position + self._done, os.RWF_NOWAIT)
                except BlockingIOError:
                    self._cold = True
                    return Progress.COLD
                except OSError as error:
                    if error.errno not in NOWAIT_UNSUPPORTED:
                        raise
                    # A file system in memory (tmpfs) does not support such reads, and has no disk to wait for.
                    return self._send_file(file_range)
                if count == 0:
                    raise short_file(file_range)
                try:
                    sent = self._socket.send(scratch[:count])
                except BlockingIOError:
                    return Progress.BLOCKED
                self._done += sent
                self.sent_bytes += sent
                if sent < count:
                    return Progress.BLOCKED
        finally:
            self._pool.give_back(scratch)
        self._pop_range()
        return Progress.DONE

    def next_cold(self) -> FileRange:
        """Return what is to be read from the disk, by `read_from_disk` in a thread, for `cold_data`."""
        file_range = self._queue[0]
        assert isinstance(file_range, FileRange)
        size = min(file_range.size - self._done, COLD_READ)
        return FileRange(file_range.file, file_range.position + self._done, size, hot=False)

    def cold_data(self, data: bytes) -> None:
        """Accept what was read of `next_cold`; `pump` goes on from there."""
        file_range = self._queue[0]
        assert isinstance(file_range, FileRange)
        self._cold = False
        done = self._done + len(data)
        self._pop_range()
        if done < file_range.size:
            # The rest follows the bytes, as a range of its own.
            left = file_range.size - done
            self._queue.appendleft(FileRange(file_range.file, file_range.position + done, left, hot=False))
        self._queue.appendleft(data)

    def clear(self) -> None:
        """Drop what was not sent, and its references to files."""
        self._queue.clear()
        self._cold = False
        self._done = 0

    def _pop_range(self) -> None:
        self._queue.popleft()
        self._done = 0


def read_from_disk(file_range: FileRange) -> bytes:
    """Read at least one byte of a range. Blocks on the disk: to be called in a thread.

    Raises:
        OSError: the disk failed, or the file is too short.
    """
    data = os.pread(descriptor_of(file_range), file_range.size, file_range.position)
    if not data:
        raise short_file(file_range)
    return data


def descriptor_of(file_range: FileRange) -> int:
    """Return the descriptor of an open file.

    Raises:
        ShortFileError: it was closed.
    """
    try:
        fd = file_range.file.fileno()
    except ValueError:
        fd = -1
    if fd < 0:
        raise ShortFileError(errno.EBADF, "a file was closed before it was sent")
    return fd


def read_range(file_range: FileRange) -> bytes:
    """Read a whole range.

    Raises:
        OSError: the disk failed; ShortFileError if the file is too short.
    """
    data = os.pread(descriptor_of(file_range), file_range.size, file_range.position)
    if len(data) != file_range.size:
        raise short_file(file_range)
    return data


def short_file(file_range: FileRange) -> ShortFileError:
    """Return the error of a file that ends before a range."""
    end = file_range.position + file_range.size
    return ShortFileError(errno.ENODATA, f"a file ends before byte {end}, which was to be sent")


def _drop_sent(parts: list[bytes | bytearray | memoryview], sent: int) -> None:
    """Take the first `sent` bytes off the front of `parts`."""
    index = 0
    while sent >= len(parts[index]):
        sent -= len(parts[index])
        index += 1
    del parts[:index]
    if sent:
        parts[0] = memoryview(parts[0])[sent:]
