"""Kazoo's threading, cut down to one thread that only hands values over.

Kazoo asks a *handler* for its threads, locks, sockets and results. Ours keeps kazoo's connection thread and
nothing else: no worker threads run callbacks, a result calls its one listener directly on the thread that sets it, and
a watch is called there too. All that these listeners do is append to a deque.

This also avoids two costs of kazoo's own handler: it makes a new epoll for every read and write, and it counts requests
waiting to be sent by bytes in a socket pair, which blocks the sender once a few hundred of them are unread.
"""

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler

from cluster.zookeeper.kazoo_connection import SocketMaker, wait_ready
from security.zookeeper_access import OPEN, ZooKeeperAccess


class Completion:
    """What kazoo calls an async result: a value or an exception; its listener is called as soon as it is set."""

    __slots__ = ("_done", "_listeners", "_lock", "error", "request", "value")

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._listeners: list[Callable[[Completion], None]] = []
        self._done = False
        self.value: Any = None
        self.error: BaseException | None = None
        self.request: Any = None  # the request that this completes; ours, kazoo does not use it

    @property
    def exception(self) -> BaseException | None:
        """The exception, if it was set to one."""
        return self.error

    def ready(self) -> bool:
        """Return whether it is set."""
        return self._done

    def successful(self) -> bool:
        """Return whether it is set to a value."""
        return self._done and self.error is None

    def set(self, value: Any = None) -> None:
        """Set the value; ignored if it is already set."""
        self._end(value, None)

    def set_exception(self, exception: BaseException) -> None:
        """Set the exception; ignored if it is already set."""
        self._end(None, exception)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: ARG002 - kazoo's signature
        """Return the value or raise the exception. It never waits: kazoo only calls it on results that are set."""
        if not self._done:
            raise KazooTimeoutError("the result is not there yet")
        if self.error is not None:
            raise self.error
        return self.value

    def rawlink(self, listener: "Callable[[Completion], None]") -> None:
        """Call ``listener`` with the result, at once if it is already set."""
        with self._lock:
            if not self._done:
                self._listeners.append(listener)
                return
        listener(self)

    def _end(self, value: Any, error: BaseException | None) -> None:
        with self._lock:
            if self._done:
                return
            self.value = value
            self.error = error
            self._done = True
            listeners = self._listeners
        for listener in listeners:
            listener(self)


class _Semaphore:
    """Both ends of kazoo's "wake up" pair as one counter in the kernel; to raise it never blocks."""

    __slots__ = ("_descriptor",)

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_SEMAPHORE | os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        return self._descriptor

    def send(self, data: bytes) -> int:
        os.eventfd_write(self._descriptor, len(data))
        return len(data)

    def recv(self, _count: int) -> bytes:
        os.eventfd_read(self._descriptor)
        return b"\0"

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class _Callback(Protocol):
    """Kazoo's `Callback`: a watch and its arguments."""

    func: Callable[..., None]
    args: tuple[Any, ...]


class DirectHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """A handler without queues. Callbacks run on kazoo's connection thread and must do next to nothing."""

    def __init__(self, connect_timeout_s: float, access: ZooKeeperAccess = OPEN) -> None:
        super().__init__()
        self.sockets = SocketMaker(access)
        self._connect_timeout_s = connect_timeout_s
        self._completion_lock = threading.Lock()

    def start(self) -> None:
        """Begin; there is no thread to start."""
        self._running = True

    def stop(self) -> None:
        """End; there is no thread to stop."""
        self._running = False

    def async_result(self) -> Completion:
        """Make the result of one request."""
        return Completion(self._completion_lock)

    def dispatch_callback(self, callback: _Callback) -> None:
        """Call a watch, here and now."""
        callback.func(*callback.args)

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        """Connect to a server, but do not spend the whole session timeout on one that does not answer."""
        kwargs["timeout"] = min(kwargs.get("timeout") or self._connect_timeout_s, self._connect_timeout_s)
        connection = super().create_connection(*args, **kwargs)
        return self.sockets.secure(connection, kwargs.get("hostname") or "", kwargs["timeout"])

    def create_socket_pair(self) -> tuple[Any, Any]:
        """Make the pair that wakes the connection thread, once for each request."""
        if not hasattr(os, "eventfd"):
            pair: tuple[Any, Any] = super().create_socket_pair()
            return pair
        semaphore = _Semaphore()
        return semaphore, semaphore

    def select(
        self,
        readers: Sequence[Any],
        writers: Sequence[Any],
        _exceptional: Sequence[Any],
        timeout: float | None = None,
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Wait until a descriptor is ready, with one system call."""
        return wait_ready(readers, writers, timeout)
