"""What the client needs of an event loop: trio's own for trio, and asyncio's through anyio.

Everything else in `ottla.client` is written once, against these names, which mean what they mean in trio: a
cancellation is delivered again until its scope is left, and whatever waits is a checkpoint. Which loop runs is looked
up at each call (under a tenth of a microsecond; nothing here is called for each record).
"""

import math
import socket
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple, Unpack

import sniffio
import trio

from ottla.client.runtime import on_trio

Ts = TypeVarTuple("Ts")
T = TypeVar("T")

ClosedResourceError = trio.ClosedResourceError
"""What a task that waits for a socket gets when another closes it, on both loops."""

TASK_STATUS_IGNORED: Final[Any] = trio.TASK_STATUS_IGNORED


class Event(Protocol):
    """A flag that tasks wait for; once set it stays set."""

    def set(self) -> None:
        """Set it, and wake all that wait."""
        ...

    def is_set(self) -> bool:
        """Return whether it is set."""
        ...

    async def wait(self) -> object:
        """Wait until it is set."""
        ...


class CancelScope(AbstractContextManager["CancelScope"], Protocol):
    """Code that can be cancelled, from outside or by a deadline.

    Attributes:
        deadline: When it is cancelled, on `current_time`'s clock.
    """

    deadline: float

    @property
    def cancelled_caught(self) -> bool:
        """Whether a cancellation ended the code in it."""
        ...

    def cancel(self) -> None:
        """Cancel the code in it."""
        ...


class Nursery(Protocol):
    """Tasks that live as long as a block."""

    @property
    def cancel_scope(self) -> CancelScope:
        """The scope around all of the tasks."""
        ...

    def start_soon(self, function: Callable[[Unpack[Ts]], Coroutine[Any, Any, Any]], /, *args: *Ts) -> object:
        """Begin a task."""
        ...

    async def start(self, function: Callable[..., Coroutine[Any, Any, Any]], /, *args: Any) -> Any:
        """Begin a task, and wait until it calls ``task_status.started()``."""
        ...


class NurseryBlock(Protocol):
    """What `open_nursery` returns: entered, it gives the nursery."""

    async def __aenter__(self) -> Nursery: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None: ...


class Limiter(Protocol):
    """A limited number of turns that tasks hold at a time."""

    async def acquire_on_behalf_of(self, borrower: Any) -> None:
        """Wait for a turn."""
        ...

    def release_on_behalf_of(self, borrower: Any) -> None:
        """Return a turn."""
        ...

    def statistics(self) -> Any:
        """Return an object whose ``borrowers`` have the turns that are out."""
        ...


class Handoff(Protocol):
    """One value, put by a callback and waited for by the task that made the handoff."""

    def put(self, value: Any) -> None:
        """Hand the value over; one for which nobody waits any more is dropped."""
        ...

    async def wait(self) -> Any:
        """Wait for the value, and return it."""
        ...


class _Loop(Protocol):
    """The functions that each of the two modules has."""

    def new_event(self) -> Event: ...
    def new_lock(self) -> AbstractAsyncContextManager[object]: ...
    def new_limiter(self, total: int) -> Limiter: ...
    def new_handoff(self) -> Handoff: ...
    def cancel_scope(self, deadline: float, shield: bool) -> CancelScope: ...
    def open_nursery(self) -> NurseryBlock: ...
    def current_time(self) -> float: ...
    def cancelled(self) -> type[BaseException]: ...
    async def sleep_until(self, deadline: float) -> None: ...
    async def checkpoint(self) -> None: ...
    async def checkpoint_if_cancelled(self) -> None: ...
    async def run_in_thread(self, function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T: ...
    async def wait_readable(self, sock: socket.socket) -> None: ...
    async def wait_writable(self, sock: socket.socket) -> None: ...
    def notify_closing(self, sock: socket.socket) -> None: ...
    async def getaddrinfo(self, host: str, port: int) -> list[tuple[socket.AddressFamily, Any]]: ...


_current_library: Final = sniffio.thread_local
_on_asyncio: _Loop | None = None


def _loop() -> _Loop:
    if _current_library.name == "trio":
        return on_trio
    return _on_asyncio or _import_asyncio()


def _import_asyncio() -> _Loop:
    global _on_asyncio
    # Anyio is needed, and imported, only where asyncio is.
    try:
        from ottla.client.runtime import on_asyncio
    except ImportError as error:
        raise RuntimeError(
            "the client needs anyio where trio does not run: pip install 'ottla[asyncio]'"
        ) from error

    _on_asyncio = on_asyncio
    return on_asyncio


def new_event() -> Event:
    """Return an event that is not set."""
    return _loop().new_event()


def new_lock() -> AbstractAsyncContextManager[object]:
    """Return a lock, to be held by ``async with``; it is given to those who wait in their order."""
    return _loop().new_lock()


def new_limiter(total: int) -> Limiter:
    """Return a limiter with this many turns."""
    return _loop().new_limiter(total)


def new_handoff() -> Handoff:
    """Return a handoff, which the calling task is to wait for."""
    return _loop().new_handoff()


def cancel_scope(*, deadline: float = math.inf, shield: bool = False) -> CancelScope:
    """Return a scope, cancelled at ``deadline``; a shielded one is not cancelled by those around it."""
    return _loop().cancel_scope(deadline, shield)


def move_on_after(seconds: float) -> CancelScope:
    """Return a scope that is cancelled after some seconds."""
    loop = _loop()
    return loop.cancel_scope(loop.current_time() + seconds, False)


def open_nursery() -> NurseryBlock:
    """Return a block for tasks; its end waits for all of them."""
    return _loop().open_nursery()


def current_time() -> float:
    """Return the seconds of the loop's monotonic clock."""
    return _loop().current_time()


def cancelled() -> type[BaseException]:
    """Return the class of the exception that a cancellation is."""
    return _loop().cancelled()


async def sleep(seconds: float) -> None:
    """Wait for some seconds."""
    loop = _loop()
    await loop.sleep_until(loop.current_time() + seconds)


async def sleep_until(deadline: float) -> None:
    """Wait until a time of `current_time`'s clock."""
    await _loop().sleep_until(deadline)


async def checkpoint() -> None:
    """Let other tasks run, and be cancelled where that is due."""
    await _loop().checkpoint()


async def checkpoint_if_cancelled() -> None:
    """Be cancelled where that is due."""
    await _loop().checkpoint_if_cancelled()


async def in_thread(function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
    """Run a function that blocks, or computes for long, in a thread, so that heartbeats and other tasks go on.

    A cancellation takes effect when the function has returned.

    Raises:
        Exception: What the function raises.
    """
    return await _loop().run_in_thread(function, *args)


async def wait_readable(sock: socket.socket) -> None:
    """Wait until a socket has something to read; raises `ClosedResourceError` where it is closed meanwhile."""
    await _loop().wait_readable(sock)


async def wait_writable(sock: socket.socket) -> None:
    """Wait until a socket takes something; raises `ClosedResourceError` where it is closed meanwhile."""
    await _loop().wait_writable(sock)


def notify_closing(sock: socket.socket) -> None:
    """Wake those who wait for a socket that is about to be closed."""
    _loop().notify_closing(sock)


async def getaddrinfo(host: str, port: int) -> list[tuple[socket.AddressFamily, Any]]:
    """Resolve a host name, in a thread.

    Raises:
        socket.gaierror: It does not resolve.
    """
    return await _loop().getaddrinfo(host, port)


__all__ = [
    "TASK_STATUS_IGNORED",
    "CancelScope",
    "ClosedResourceError",
    "Event",
    "Handoff",
    "Limiter",
    "Nursery",
    "NurseryBlock",
    "cancel_scope",
    "cancelled",
    "checkpoint",
    "checkpoint_if_cancelled",
    "current_time",
    "getaddrinfo",
    "in_thread",
    "move_on_after",
    "new_event",
    "new_handoff",
    "new_limiter",
    "new_lock",
    "notify_closing",
    "open_nursery",
    "sleep",
    "sleep_until",
    "wait_readable",
    "wait_writable",
]
