"""The management socket's server: a broker describes itself to the commands and tests of its machine.

A Unix socket that only the broker's user may open. Each message is a 4-byte big-endian length and as many
bytes of msgpack:

    {"id": n, "method": name, "params": {...}}    asks
    {"id": n, "result": value}                    answers; the last message with this id
    {"id": n, "error": text}                      likewise
    {"id": n, "event": value}                     one of a stream's values; an answer follows at its end

Requests of one connection run side by side and are answered as they finish.
"""

import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from struct import Struct
from typing import Any, Final, TypeAlias

import trio

logger = logging.getLogger(__name__)

Method: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[object] | AsyncIterator[object]]
"""Takes the parameters; an async function returns one value, an async generator yields a stream of them, of types that
msgpack knows. They raise ManagementError for the caller's mistakes.
"""

LENGTH: Final = Struct(">I")
REQUEST_SIZE_MAX: Final = 1024 * 1024
ANSWER_SIZE_MAX: Final = 256 * 1024 * 1024
REQUESTS_AT_ONCE: Final = 32
"""Requests of one connection that run at the same time, streams included."""
CONNECTIONS_MAX: Final = 64


class ManagementError(Exception):
    """The request cannot be answered; the text goes to the client."""


class BadFrameError(Exception):
    """The bytes are not a message: the connection is no longer usable."""


class ManagementServer:
    """Serves methods on a Unix socket.

    Args:
        path: Where the socket is made. A socket that a dead broker left there is replaced, so the caller must hold the
            lock of the directory.
        methods: The methods, by name.
    """

    def __init__(self, path: Path, methods: Mapping[str, Method]) -> None:
        self._path = path
        self._methods = methods
        self._connections = trio.CapacityLimiter(CONNECTIONS_MAX)

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; the socket's file is removed then.

        Raises:
            OSError: the socket cannot be made.
        """
        sock = _listen(self._path)
        try:
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
            task_status.started()
            await trio.serve_listeners(self._serve_connection, [listener])
        finally:
            sock.close()
            with suppress(OSError):  # its disk may have failed
                self._path.unlink(missing_ok=True)

    async def _serve_connection(self, stream: trio.SocketStream) -> None:
        async with stream, self._connections:
            session = _Session(stream, self._methods)
            try:
                await session.run()
            except* trio.BrokenResourceError:
                pass  # it went away before it had its answer
            except* BadFrameError as errors:
                logger.warning("Closing a management connection: %s", errors.exceptions[0])


class _Session:
    """One connection to the management socket."""

    def __init__(self, stream: trio.SocketStream, methods: Mapping[str, Method]) -> None:
        self._stream = stream
        self._methods = methods
        self._sending = trio.Lock()
        self._running = trio.CapacityLimiter(REQUESTS_AT_ONCE)

    async def run(self) -> None:
        import msgpack

        frames = FrameStream(self._stream, REQUEST_SIZE_MAX)
        async with trio.open_nursery() as nursery:
            while (data := await frames.receive()) is not None:
                try:
                    request = msgpack.unpackb(data)
                except (ValueError, msgpack.UnpackException) as error:
                    raise BadFrameError(f"not msgpack: {error}") from error
                if not isinstance(request, dict) or not isinstance(request.get("id"), int):
                    raise BadFrameError("a request without an id")
                token = object()
                await self._running.acquire_on_behalf_of(token)
                nursery.start_soon(self._answer, request, token)
            nursery.cancel_scope.cancel()

    async def _answer(self, request: Mapping[str, Any], token: object) -> None:
        number = request["id"]
        try:
            result = await self._call(number, request.get("method"), request.get("params") or {})
        except ManagementError as error:
            await self._send({"id": number, "error": str(error)})
        else:
            await self._send({"id": number, "result": result})
        finally:
            self._running.release_on_behalf_of(token)

    async def _call(self, number: int, name: object, params: object) -> object:
        method = self._methods.get(name) if isinstance(name, str) else None
        if method is None:
            known = ", ".join(sorted(self._methods))
            raise ManagementError(f"there is no method {name!r}; there are {known}")
        if not isinstance(params, dict):
            raise ManagementError("params is not a map")
        given = method(params)
        if not isinstance(given, AsyncIterator):
            return await given
        async with aclosing(given) as events:  # type: ignore[type-var]  # a generator, which can be closed
            async for event in events:
                await self._send({"id": number, "event": event})
        return None

    async def _send(self, message: Mapping[str, object]) -> None:
        import msgpack

        data = msgpack.packb(message)
        async with self._sending:
            await self._stream.send_all(LENGTH.pack(len(data)) + data)


class FrameStream:
    """Cuts a stream into frames: a length, and as many bytes.

    Args:
        stream: Where the bytes come from.
        size_max: The largest frame taken.
    """

    def __init__(self, stream: trio.abc.ReceiveStream, size_max: int) -> None:
        self._stream = stream
        self._size_max = size_max
        self._buffer = bytearray()

    async def receive(self) -> bytes | None:
        """Return the next frame, or None at the end of the stream. A cancelled call loses nothing.

        Raises:
            BadFrameError: the frame is too large.
            trio.BrokenResourceError: the stream broke.
        """
        buffer = self._buffer
        while True:
            if len(buffer) >= LENGTH.size:
                (size,) = LENGTH.unpack_from(buffer)
                if size > self._size_max:
                    raise BadFrameError(f"a frame of {size} bytes, where {self._size_max} are allowed")
                end = LENGTH.size + size
                if len(buffer) >= end:
                    frame = bytes(buffer[LENGTH.size : end])
                    del buffer[:end]
                    return frame
            received = await self._stream.receive_some()
            if not received:
                return None
            buffer += received


@contextmanager
def short_path(path: Path) -> Iterator[str]:
    """Yield a name of a socket's file that fits into the 108 bytes of a Unix address."""
    if len(os.fsencode(path)) < 108:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def _listen(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Before the bind, so that others can never open the file.
        os.fchmod(sock.fileno(), 0o600)
        path.unlink(missing_ok=True)
        with short_path(path) as name:
            sock.bind(name)
        sock.listen(CONNECTIONS_MAX)
    except BaseException:
        sock.close()
        raise
    return sock
