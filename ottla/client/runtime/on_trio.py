"""The client's needs of an event loop, as trio has them."""

import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar, TypeVarTuple, Unpack

import outcome
import trio

Ts = TypeVarTuple("Ts")
T = TypeVar("T")


class _Handoff:
    """A value that the making task is rescheduled with; no event."""

    __slots__ = ("_has_value", "_is_waiting", "_task", "_value")

    def __init__(self) -> None:
        self._task = trio.lowlevel.current_task()
        self._is_waiting = False
        self._has_value = False
        self._value: Any = None

    def put(self, value: Any) -> None:
        if self._is_waiting:
            self._is_waiting = False
            trio.lowlevel.reschedule(self._task, outcome.Value(value))
        else:
            self._value = value
            self._has_value = True

    async def wait(self) -> Any:
        if self._has_value:
            await trio.lowlevel.checkpoint()
            return self._value
        self._is_waiting = True
        return await trio.lowlevel.wait_task_rescheduled(self._abort)

    def _abort(self, _: Any) -> trio.lowlevel.Abort:
        self._is_waiting = False
        return trio.lowlevel.Abort.SUCCEEDED


new_event = trio.Event
new_handoff = _Handoff
open_nursery = trio.open_nursery
current_time = trio.current_time
sleep_until = trio.sleep_until
checkpoint = trio.lowlevel.checkpoint
checkpoint_if_cancelled = trio.lowlevel.checkpoint_if_cancelled


def new_lock() -> AbstractAsyncContextManager[object]:
    """Return a lock."""
    return trio.Lock()


def new_limiter(total: int) -> trio.CapacityLimiter:
    """Return a limiter with this many turns."""
    return trio.CapacityLimiter(total)


def cancel_scope(deadline: float, shield: bool) -> trio.CancelScope:
    """Return a scope."""
    return trio.CancelScope(deadline=deadline, shield=shield)


def cancelled() -> type[BaseException]:
    """Return the class of cancellations."""
    return trio.Cancelled


async def run_in_thread(function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
    """Run a function in a thread of trio's pool."""
    return await trio.to_thread.run_sync(function, *args)


async def wait_readable(sock: socket.socket) -> None:
    """Wait until a socket has something to read."""
    await trio.lowlevel.wait_readable(sock)


async def wait_writable(sock: socket.socket) -> None:
    """Wait until a socket takes something."""
    await trio.lowlevel.wait_writable(sock)


def notify_closing(sock: socket.socket) -> None:
    """Wake those who wait for a socket that is about to be closed."""
    trio.lowlevel.notify_closing(sock)


async def getaddrinfo(host: str, port: int) -> list[tuple[socket.AddressFamily, Any]]:
    """Resolve a host name."""
    found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, where) for family, _, _, _, where in found]
