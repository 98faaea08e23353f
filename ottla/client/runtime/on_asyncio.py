"""The client's needs of an event loop on asyncio: scopes, task groups and locks of anyio, sockets of the loop itself.

A cancellation by asyncio's own means (`asyncio.Task.cancel`, `asyncio.timeout`) is delivered once, as asyncio has it.
It ends the wait that it meets; the blocks that are left on its way still flush, commit and leave within their times.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar, TypeVarTuple, Unpack

import anyio
import anyio.lowlevel
import anyio.to_thread
import trio

Ts = TypeVarTuple("Ts")
T = TypeVar("T")


class _Handoff:
    """A value that a future carries."""

    __slots__ = ("_future",)

    def __init__(self) -> None:
        self._future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def put(self, value: Any) -> None:
        if not self._future.done():
            self._future.set_result(value)

    async def wait(self) -> Any:
        return await self._future


new_event = anyio.Event
new_handoff = _Handoff
open_nursery = anyio.create_task_group
current_time = anyio.current_time
checkpoint = anyio.lowlevel.checkpoint
checkpoint_if_cancelled = anyio.lowlevel.checkpoint_if_cancelled
sleep_until = anyio.sleep_until


def new_lock() -> AbstractAsyncContextManager[object]:
    """Return a lock."""
    return anyio.Lock()


def new_limiter(total: int) -> anyio.CapacityLimiter:
    """Return a limiter with this many turns."""
    return anyio.CapacityLimiter(total)


def cancel_scope(deadline: float, shield: bool) -> anyio.CancelScope:
    """Return a scope."""
    return anyio.CancelScope(deadline=deadline, shield=shield)


def cancelled() -> type[BaseException]:
    """Return the class of cancellations."""
    return asyncio.CancelledError


async def run_in_thread(function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
    """Run a function in a thread of anyio's pool."""
    return await anyio.to_thread.run_sync(function, *args)


_waiting: dict[socket.socket, set[asyncio.Future[None]]] = {}
"""The waiters of each socket: asyncio does not wake them when it is closed."""


async def wait_readable(sock: socket.socket) -> None:
    """Wait until a socket has something to read."""
    loop = asyncio.get_running_loop()
    await _wait(sock, loop.add_reader, loop.remove_reader)


async def wait_writable(sock: socket.socket) -> None:
    """Wait until a socket takes something."""
    loop = asyncio.get_running_loop()
    await _wait(sock, loop.add_writer, loop.remove_writer)


async def _wait(sock: socket.socket, add: Callable[..., None], remove: Callable[[int], Any]) -> None:
    number = sock.fileno()
    if number < 0:
        raise trio.ClosedResourceError("another task closed this socket")
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = _waiting.setdefault(sock, set())
    waiting.add(ready)
    add(number, _set_ready, ready)
    try:
        await ready
    finally:
        waiting.discard(ready)
        if not waiting:
            _waiting.pop(sock, None)
        # Where it was closed, its number may be another socket's by now: `notify_closing` has removed it.
        if sock.fileno() == number:
            remove(number)


def _set_ready(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)


def notify_closing(sock: socket.socket) -> None:
    """Wake those who wait for a socket that is about to be closed."""
    waiting = _waiting.pop(sock, None)
    if waiting is None:
        return
    loop = asyncio.get_running_loop()
    loop.remove_reader(sock.fileno())
    loop.remove_writer(sock.fileno())
    for ready in waiting:
        if not ready.done():
            ready.set_exception(trio.ClosedResourceError("another task closed this socket"))


async def getaddrinfo(host: str, port: int) -> list[tuple[socket.AddressFamily, Any]]:
    """Resolve a host name."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, where) for family, _, _, _, where in found]
