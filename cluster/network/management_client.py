"""The client of a broker's management socket, which tests and commands wait on instead of reading logs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from cluster.network.management import ANSWER_SIZE_MAX, LENGTH, FrameStream, ManagementError, short_path


class ManagementClient:
    """One connection, one request at a time. Made by `open_management_client`."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._frames = FrameStream(stream, ANSWER_SIZE_MAX)
        self._number = 0

    async def call(self, method: str, **params: object) -> Any:
        """Call a method, and return the answer.

        Raises:
            ManagementError: the broker says why not.
            trio.BrokenResourceError: the broker went away.
        """
        number = await self._ask(method, params)
        while True:
            message = await self._next(number)
            if "result" in message:
                return message["result"]

    async def stream(self, method: str, **params: object) -> AsyncIterator[Any]:
        """Call a streaming method, and yield its events as they come; the connection serves nothing else meanwhile.

        Raises:
            ManagementError: the broker says why not.
            trio.BrokenResourceError: the broker went away.
        """
        number = await self._ask(method, params)
        while True:
            message = await self._next(number)
            if "result" in message:
                return
            yield message["event"]

    async def _ask(self, method: str, params: dict[str, object]) -> int:
        import msgpack

        self._number += 1
        data = msgpack.packb({"id": self._number, "method": method, "params": params})
        await self._stream.send_all(LENGTH.pack(len(data)) + data)
        return self._number

    async def _next(self, number: int) -> dict[str, Any]:
        """Return the next message that belongs to a request; those of abandoned ones are skipped."""
        import msgpack

        while True:
            data = await self._frames.receive()
            if data is None:
                raise trio.BrokenResourceError("the broker closed the management connection")
            message: dict[str, Any] = msgpack.unpackb(data)
            if message["id"] != number:
                continue
            if "error" in message:
                raise ManagementError(message["error"])
            return message


@asynccontextmanager
async def open_management_client(path: Path) -> AsyncIterator[ManagementClient]:
    """Connect to a broker's management socket.

    Raises:
        OSError: there is no socket there, or no broker behind it.
    """
    with short_path(path) as name:
        stream = await trio.open_unix_socket(name)
    async with stream:
        yield ManagementClient(stream)
