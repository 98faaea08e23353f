"""A blocking client of a broker's management socket, for programs on the same machine.

Length-prefixed msgpack over a Unix socket: ``{"id", "method", "params"}`` asks, ``{"id", "result" | "error"}``
answers, ``{"id", "event"}`` is one value of a stream.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import Any, Final

CALL_TIMEOUT_S: Final = 5.0
FRAME_SIZE_MAX: Final = 256 * 1024 * 1024

_LENGTH: Final = Struct(">I")
_ADDRESS_SIZE_MAX: Final = 107


class ManagementError(Exception):
    """The broker answered with an error; the text is its reason."""


class BrokerGoneError(OSError):
    """No broker answers on the socket: it is not running yet, or no longer."""


class ManagementClient:
    """One connection, one request at a time. A context manager.

    Args:
        path: The broker's management socket.
        timeout_s: How long to wait for an answer or an event; None waits for ever.

    Raises:
        BrokerGoneError: no broker serves it.
    """

    def __init__(self, path: Path, *, timeout_s: float | None = CALL_TIMEOUT_S) -> None:
        self._number = 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(timeout_s)
            with _short_path(path) as address:
                self._socket.connect(address)
        except OSError as error:
            self._socket.close()
            raise BrokerGoneError(error.errno, f"no broker at {path}: {error.strerror}") from None

    def __enter__(self) -> "ManagementClient":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the broker ends the requests that run for it."""
        self._socket.close()

    def call(self, method: str, **params: object) -> Any:
        """Send a request, and return the answer.

        Raises:
            ManagementError: the broker says why not.
            BrokerGoneError: it went away, or did not answer in time.
        """
        number = self._ask(method, params)
        while True:
            message = self._next(number)
            if "result" in message:
                return message["result"]

    def stream(self, method: str, **params: object) -> Iterator[Any]:
        """Request a stream, and yield its events as they arrive.

        Raises:
            ManagementError: the broker says why not.
            BrokerGoneError: it went away, or no event came in time.
        """
        number = self._ask(method, params)
        while True:
            message = self._next(number)
            if "result" in message:
                return
            yield message["event"]

    def _ask(self, method: str, params: dict[str, object]) -> int:
        import msgpack

        self._number += 1
        data = msgpack.packb({"id": self._number, "method": method, "params": params})
        try:
            self._socket.sendall(_LENGTH.pack(len(data)) + data)
        except OSError as error:
            raise BrokerGoneError(error.errno, f"the broker went away: {error.strerror}") from None
        return self._number

    def _next(self, number: int) -> dict[str, Any]:
        """Return the next message of a request; those of abandoned streams are skipped."""
        import msgpack

        while True:
            (size,) = _LENGTH.unpack(self._receive(_LENGTH.size))
            if size > FRAME_SIZE_MAX:
                raise ManagementError(f"an answer of {size} bytes")
            message: dict[str, Any] = msgpack.unpackb(self._receive(size), strict_map_key=False)
            if message.get("id") != number:
                continue
            if "error" in message:
                raise ManagementError(message["error"])
            return message

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                chunk = self._socket.recv(size - len(data))
            except TimeoutError:
                raise BrokerGoneError(None, "the broker does not answer") from None
            except OSError as error:
                raise BrokerGoneError(error.errno, f"the broker went away: {error.strerror}") from None
            if not chunk:
                raise BrokerGoneError(None, "the broker closed the management connection")
            data += chunk
        return bytes(data)


@contextmanager
def _short_path(path: Path) -> Iterator[str]:
    """Return a name of the socket's file that fits into a socket address, however deep the directory."""
    if len(os.fsencode(path)) <= _ADDRESS_SIZE_MAX:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
