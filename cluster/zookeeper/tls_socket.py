"""A socket under TLS, with the part of a socket's interface that kazoo's connection and the session closer use.

Kazoo selects on the bare descriptor, and reads no more than it needs. So `pending` counts what was decrypted but not
read, and `advance` consumes input that is not data (session tickets, key updates) before kazoo looks for something to
read.
"""

import select
import socket
import ssl
from typing import Final

from security.errors import AuthenticationError
from security.tls_session import TlsSession, failure_text

_RECEIVE_BYTES: Final = 64 * 1024


class TlsSocket:
    """A connected socket whose handshake is complete.

    Args:
        sock: A connected socket, which this one owns and closes.
        context: The certificates and rules.
        host: The name that the server's certificate must have, if the context checks it.
        timeout_s: How long the handshake waits for each message, and later a write for the server.

    Raises:
        AuthenticationError: the handshake failed; the text says why. The socket is closed.
        OSError: the connection broke, or a message took too long. The socket is closed.
    """

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, host: str, timeout_s: float) -> None:
        self._socket = sock
        self._timeout_s = timeout_s
        self._tls = TlsSession(context, server_side=False, server_hostname=host)
        self._plain = bytearray()
        self._space = memoryview(bytearray(_RECEIVE_BYTES))
        self._ended = False
        sock.settimeout(timeout_s)
        try:
            self._shake_hands()
        except BaseException:
            sock.close()
            raise

    def _shake_hands(self) -> None:
        try:
            while not self._tls.handshake():
                self._flush()
                data = self._socket.recv(_RECEIVE_BYTES)
                if not data:
                    raise AuthenticationError(
                        "ZooKeeper ended the connection during the TLS handshake: is it a TLS port?"
                    )
                self._tls.feed(data)
        except ssl.SSLError as error:
            self._flush()  # the alert, with the reason
            raise AuthenticationError(failure_text(error)) from None
        self._flush()

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._socket.fileno()

    def setblocking(self, flag: bool) -> None:
        """Set whether `recv` waits, or raises BlockingIOError; writes wait in any case."""
        self._socket.setblocking(flag)

    def settimeout(self, timeout_s: float) -> None:
        """Bound how long `recv` waits."""
        self._socket.settimeout(timeout_s)

    def pending(self) -> int:
        """How many decrypted bytes wait to be read."""
        return len(self._plain)

    def advance(self) -> bool:
        """Receive what the socket has; return whether `recv` now returns something, the end included.

        Raises:
            OSError: the connection broke.
        """
        try:
            self._fill()
        except BlockingIOError:
            return False
        return True

    def recv(self, size: int) -> bytes:
        """Return up to `size` bytes; nothing at the end.

        Raises:
            BlockingIOError: there is nothing, and the socket does not wait.
            OSError: the connection broke.
        """
        self._fill()
        data = bytes(self._plain[:size])
        del self._plain[:size]
        return data

    def send(self, data: bytes) -> int:
        """Send all of `data`, and return its length.

        Raises:
            OSError: the connection broke, or the server read nothing for `timeout_s`.
        """
        self._tls.write(data)
        self._flush()
        return len(data)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _fill(self) -> None:
        """Receive until something is decrypted, or the connection ends."""
        while not self._plain and not self._ended:
            if not self._decrypt():
                data = self._socket.recv(_RECEIVE_BYTES)
                self._ended = not data
                self._tls.feed(data)

    def _decrypt(self) -> bool:
        """Decrypt what was received; False if more is needed."""
        count = self._tls.read_into(self._space)
        self._flush()
        if count is None:
            return False
        self._ended = count == 0
        self._plain += self._space[:count]
        return True

    def _flush(self) -> None:
        left = memoryview(self._tls.outgoing())
        while left:
            try:
                left = left[self._socket.send(left) :]
            except BlockingIOError:
                poll = select.poll()
                poll.register(self._socket, select.POLLOUT)
                if not poll.poll(1000 * self._timeout_s):
                    raise TimeoutError("ZooKeeper takes nothing of what it is sent") from None
