"""The output of one socket under TLS: the same parts as without, in order, encrypted a piece at a time.

Files cannot go by ``sendfile``: their bytes have to pass through the cipher. Ranges are read into a pooled
buffer, 256 KiB at a time, and the next piece is encrypted when the ciphertext of the previous one has been sent, so a
connection holds one piece of ciphertext however long its answers are.
"""

import os
import socket
from typing import Final

from cluster.network.buffer_pool import BufferPool
from cluster.network.response_slot import Answer
from cluster.network.transmission import (
    SMALL_RANGE,
    Progress,
    Transmission,
    descriptor_of,
    read_range,
    short_file,
)
from security.tls_session import TlsSession
from wire.file_range import NOWAIT_UNSUPPORTED, FileRange

PIECE: Final = 256 * 1024
"""How many plain bytes are encrypted at a time."""
JOINED: Final = 64 * 1024
"""Parts of up to this many bytes are joined, so that they share TLS records."""


class TlsTransmission(Transmission):
    """The outgoing side of one socket under TLS.

    Args:
        sock: A connected, non-blocking socket.
        pool: Where the buffer for reads of files is borrowed from.
        tls: The connection's TLS; `pump` sends its own messages, too.
    """

    __slots__ = ("_cipher", "_tls")

    def __init__(self, sock: socket.socket, pool: BufferPool, tls: TlsSession) -> None:
        super().__init__(sock, pool)
        self._tls = tls
        self._cipher = memoryview(b"")

    def __bool__(self) -> bool:
        return bool(self._queue) or bool(self._cipher) or bool(self._tls.outgoing_size)

    def send(self, answer: Answer) -> Progress:
        """Send an answer behind what is still queued.

        Raises:
            OSError: the connection is broken; ShortFileError if a file is too short.
        """
        if isinstance(answer, bytes | bytearray | memoryview | FileRange):
            self._queue.append(answer)
        else:
            self._queue.extend(answer)
        return self.pump()

    def pump(self) -> Progress:
        """Send as much of the queue as the socket takes and memory holds.

        Raises:
            OSError: the connection is broken; ShortFileError if a file is too short.
        """
        while True:
            if not self._send_cipher():
                return Progress.BLOCKED
            if self._cold:
                return Progress.COLD
            if not self._queue:
                return Progress.DONE
            if not self._encrypt():
                return Progress.COLD

    def clear(self) -> None:
        """Drop what was not sent, and its references to files."""
        super().clear()
        self._cipher = memoryview(b"")

    def _send_cipher(self) -> bool:
        """Send what was encrypted; False if the socket does not take all of it."""
        while True:
            if not self._cipher:
                if not self._tls.outgoing_size:
                    return True
                self._cipher = memoryview(self._tls.outgoing())
            try:
                sent = self._socket.send(self._cipher)
            except BlockingIOError:
                return False
            self.sent_bytes += sent
            self._cipher = self._cipher[sent:]

    def _encrypt(self) -> bool:
        """Encrypt the next piece of the queue; False if it has to be read from the disk."""
        queue = self._queue
        joined: list[bytes | bytearray | memoryview] = []
        size = 0
        while queue and size < JOINED:
            head = queue[0]
            if isinstance(head, FileRange):
                if head.size > SMALL_RANGE or not head.hot or self._done:
                    break
                head = read_range(head)
            elif len(head) > JOINED:
                break
            queue.popleft()
            joined.append(head)
            size += len(head)
        if joined:
            self._tls.write(joined[0] if len(joined) == 1 else b"".join(joined))
            return True
        head = queue[0]
        if isinstance(head, FileRange):
            return self._encrypt_range(head)
        view = memoryview(head)
        self._tls.write(view[:PIECE])
        queue.popleft()
        if len(view) > PIECE:
            queue.appendleft(view[PIECE:])
        return True

    def _encrypt_range(self, file_range: FileRange) -> bool:
        """Encrypt the next piece of a range; False if it is on the disk."""
        fd = descriptor_of(file_range)
        scratch = self._pool.borrow(PIECE)
        try:
            space = scratch[: min(file_range.size - self._done, PIECE)]
            position = file_range.position + self._done
            try:
                count = os.preadv(fd, [space], position, 0 if file_range.hot else os.RWF_NOWAIT)
            except BlockingIOError:
                self._cold = True
                return False
            except OSError as error:
                if error.errno not in NOWAIT_UNSUPPORTED:
                    raise
                count = os.preadv(fd, [space], position)
            if count == 0:
                raise short_file(file_range)
            self._tls.write(space[:count])
        finally:
            self._pool.give_back(scratch)
        self._done += count
        if self._done == file_range.size:
            self._pop_range()
        return True
