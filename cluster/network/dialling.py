"""Connections that we make: the seam between a channel to another broker and what carries its bytes."""

import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeAlias

import trio


class Link(Protocol):
    """A connection that was made, used by one task at a time."""

    @property
    def usable_until(self) -> float | None:
        """When to replace it, in seconds of the loop's clock; None for never."""
        ...

    async def send(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of `data`. If cancelled, any part of it may have been sent.

        Raises:
            OSError: the connection broke.
            trio.ClosedResourceError: `close` was called meanwhile.
        """
        ...

    async def receive_into(self, space: memoryview) -> int:
        """Receive at least one byte into `space`; 0 if the other side has ended the connection.

        Raises:
            OSError: the connection broke.
            trio.ClosedResourceError: `close` was called meanwhile.
        """
        ...

    def close(self) -> None:
        """Close the connection; can be called again."""
        ...


Dial: TypeAlias = Callable[[str, int], Awaitable[Link]]
"""Connects to a host and a port; raises OSError if that fails. If cancelled, it leaves nothing open."""


class SocketLink:
    """A connection over TCP: a raw non-blocking socket on trio's readiness, like those that we accept.

    Args:
        sock: A connected, non-blocking socket, owned by the link.
    """

    __slots__ = ("_socket",)

    usable_until: Final = None

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    async def send(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of `data`; without waiting where the socket takes it."""
        left = memoryview(data)
        while True:
            try:
                left = left[self._socket.send(left) :]
            except BlockingIOError:
                pass
            if not left:
                return
            await trio.lowlevel.wait_writable(self._socket)

    async def receive_into(self, space: memoryview) -> int:
        """Receive what has come, when something has."""
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                return self._socket.recv_into(space)
            except BlockingIOError:
                continue

    def close(self) -> None:
        """Close the socket; tasks that wait for it get trio.ClosedResourceError."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


async def dial_tcp(host: str, port: int) -> SocketLink:
    """Connect over TCP, trying the addresses of a name one after the other.

    Raises:
        OSError: the name does not resolve, or no address could be connected to.
    """
    problem = OSError(f"{host} has no address")
    for family, _, _, _, address in await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        try:
            sock = await _connected(family, address)
        except OSError as error:
            problem = error
            continue
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return SocketLink(sock)
    raise problem


async def _connected(family: int, address: Any) -> socket.socket:
    """Connect a non-blocking socket; nothing is left open where that fails."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        try:
            sock.connect(address)
        except BlockingIOError:
            await trio.lowlevel.wait_writable(sock)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, os.strerror(code)) from None
    except BaseException:
        sock.close()
        raise
    return sock
