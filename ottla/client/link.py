"""One connection's bytes: whole frames in, frames out, over a raw non-blocking socket, with TLS where asked for.

Frames that fit are cut from a receive buffer that is reused; a larger one is received into memory of its own, so
that the records in it can be handed out as views. Sending never waits: what the kernel does not take is kept, and
`flush` sends it.

TLS runs over two memory buffers, so that one system call brings many records and no write waits for a read.
"""

import os
import socket
import ssl
from collections import deque
from itertools import islice
from struct import Struct
from typing import Any, Final

from ottla.addresses import Address
from ottla.client import runtime
from ottla.client.errors import AuthenticationError, BrokerUnreachable
from security.tls_session import failure_text

FRAME_SIZE_MAX: Final = 256 * 1024 * 1024
_BUFFER_SIZE: Final = 64 * 1024
_LENGTH: Final = Struct(">i")
_PIECES_AT_ONCE: Final = 64
"""Pieces in one system call; every kernel takes as many."""

Frame = bytearray | bytes


class TlsSession:
    """The TLS of one connection, between plain bytes and the socket's."""

    def __init__(self, context: ssl.SSLContext, server_name: str) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)

    def encrypt(self, data: bytes | bytearray | memoryview) -> bytes:
        """Return what to send for plain bytes."""
        view = memoryview(data)
        while len(view):
            view = view[self._object.write(view) :]
        return self._outgoing.read()

    def feed(self, data: bytes | memoryview) -> None:
        """Take what the socket received; nothing at all is its end."""
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    def read_into(self, view: memoryview) -> int | None:
        """Decrypt into ``view``; None where more must be received first, 0 at the end."""
        try:
            count: Any = self._object.read(len(view), view)  # into a buffer: the count, not bytes
            return int(count)
        except ssl.SSLWantReadError:
            return None
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return 0

    def handshake(self) -> tuple[bool, bytes]:
        """Go on with the handshake; return whether it is complete, and what to send.

        Raises:
            ssl.SSLError: The peer or its certificate is refused.
        """
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False, self._outgoing.read()
        return True, self._outgoing.read()


class Link:
    """A connection to one address. One task receives; any may send.

    Attributes:
        address: What was dialled.
    """

    def __init__(self, sock: socket.socket, address: Address, tls: TlsSession | None = None) -> None:
        self.address = address
        self._socket = sock
        self._tls = tls
        self._scratch = bytearray(_BUFFER_SIZE)
        self._view = memoryview(self._scratch)
        self._start = 0
        self._end = 0
        self._ciphertext = bytearray(_BUFFER_SIZE) if tls is not None else bytearray()
        self._backlog: deque[memoryview] = deque()

    @property
    def has_backlog(self) -> bool:
        """Whether the kernel has not taken everything yet."""
        return bool(self._backlog)

    def send_nowait(self, *pieces: bytes | bytearray | memoryview) -> None:
        """Send what the kernel takes now, and keep the rest for `flush`: the pieces themselves, not copies of them.

        Raises:
            BrokerUnreachable: The connection is broken.
        """
        is_first = not self._backlog
        if self._tls is not None:
            pieces = tuple(map(self._tls.encrypt, pieces))
        self._backlog.extend(map(memoryview, pieces))
        if is_first:
            self._send_backlog()

    async def flush(self) -> None:
        """Send what is kept. Cancelled, it keeps what is not sent yet.

        Raises:
            BrokerUnreachable: The connection is broken.
        """
        self._send_backlog()
        while self._backlog:
            await runtime.wait_writable(self._socket)
            self._send_backlog()

    def _send_backlog(self) -> None:
        backlog = self._backlog
        try:
            while backlog:
                if len(backlog) == 1:
                    sent = self._socket.send(backlog[0])
                else:
                    sent = self._socket.sendmsg(list(islice(backlog, _PIECES_AT_ONCE)))
                while backlog and sent >= len(backlog[0]):
                    sent -= len(backlog.popleft())
                if sent:
                    backlog[0] = backlog[0][sent:]
        except BlockingIOError:
            return
        except OSError as error:
            raise self._broken(error) from None

    async def receive_frame(self) -> Frame:
        """Return the next frame, without its length. Cancelled, nothing is lost.

        Raises:
            BrokerUnreachable: The connection was closed or broke, or no Kafka broker speaks at the other end.
        """
        while True:
            have = self._end - self._start
            if have >= _LENGTH.size:
                (size,) = _LENGTH.unpack_from(self._scratch, self._start)
                if not 4 <= size <= FRAME_SIZE_MAX:
                    raise BrokerUnreachable(
                        f"{self.address} is no Kafka broker: its answer has the length {size}"
                    )
                whole = size + _LENGTH.size
                if whole <= have:
                    begin = self._start + _LENGTH.size
                    frame = bytes(self._view[begin : begin + size])
                    self._start += whole
                    return frame
                if whole > _BUFFER_SIZE:
                    return await self._receive_large(size)
            if self._start:
                self._view[:have] = bytes(self._view[self._start : self._end])
                self._start, self._end = 0, have
            self._end += await self._receive_into(self._view[self._end :])

    async def _receive_large(self, size: int) -> bytearray:
        frame = bytearray(size)
        view = memoryview(frame)
        begin = self._start + _LENGTH.size
        have = self._end - begin
        view[:have] = self._view[begin : self._end]
        # A cancellation closes the connection (nobody cancels the reader of one that is to live on).
        self._start = self._end = 0
        while have < size:
            have += await self._receive_into(view[have:])
        return frame

    async def _receive_into(self, view: memoryview) -> int:
        while True:
            try:
                count = self._receive_nowait(view)
            except BlockingIOError:
                await runtime.wait_readable(self._socket)
                continue
            except OSError as error:
                raise self._broken(error) from None
            if count == 0:
                raise BrokerUnreachable(f"{self.address} closed the connection")
            return count

    def _receive_nowait(self, view: memoryview) -> int:
        if self._tls is None:
            return self._socket.recv_into(view)
        while True:
            count = self._tls.read_into(view)
            if count is not None:
                return count
            received = self._socket.recv_into(self._ciphertext)
            self._tls.feed(memoryview(self._ciphertext)[:received] if received else b"")

    async def handshake(self) -> None:
        """Complete the TLS handshake, where there is TLS.

        Raises:
            AuthenticationError: A certificate is refused, or the port does not speak TLS.
            BrokerUnreachable: The connection broke.
        """
        if self._tls is None:
            return
        try:
            while True:
                done, data = self._tls.handshake()
                if data:
                    self._backlog.append(memoryview(data))
                    await self.flush()
                if done:
                    return
                await runtime.wait_readable(self._socket)
                received = self._socket.recv_into(self._ciphertext)
                self._tls.feed(memoryview(self._ciphertext)[:received] if received else b"")
        except ssl.SSLError as error:
            raise AuthenticationError(
                f"the TLS handshake with {self.address} failed: {failure_text(error)}"
            ) from None
        except OSError as error:
            raise self._broken(error) from None

    def close(self) -> None:
        """Close the socket; a task that waits for it gets `runtime.ClosedResourceError`."""
        if self._socket.fileno() >= 0:
            runtime.notify_closing(self._socket)
            self._socket.close()

    def _broken(self, error: OSError) -> BrokerUnreachable:
        return BrokerUnreachable(f"the connection to {self.address} broke: {error.strerror or error}")


async def resolve(address: Address) -> list[tuple[socket.AddressFamily, Any]]:
    """Return the addresses of a host name, in the resolver's order.

    Raises:
        BrokerUnreachable: The name does not resolve.
    """
    try:
        return await runtime.getaddrinfo(address.host, address.port)
    except socket.gaierror as error:
        raise BrokerUnreachable(
            f"the host name {address.host!r} does not resolve: {error.strerror}"
        ) from None


async def dial(address: Address, timeout_s: float, context: ssl.SSLContext | None = None) -> Link:
    """Connect to the first address of a name that accepts.

    Args:
        address: Where to.
        timeout_s: How long each address may take, TLS handshake included.
        context: For TLS; None for plain TCP.

    Raises:
        BrokerUnreachable: None accepts; the text names the addresses tried and why each failed.
        AuthenticationError: The TLS handshake failed.
    """
    with runtime.move_on_after(timeout_s) as scope:
        candidates = await resolve(address)
    if scope.cancelled_caught:
        raise BrokerUnreachable(f"the host name {address.host!r} did not resolve within {timeout_s:g} s")
    problems: dict[str, None] = {}
    for family, where in candidates:
        with runtime.move_on_after(timeout_s) as scope:
            try:
                return await _connect(address, family, where, context)
            except OSError as error:
                problems[_reason(address, where, error.strerror or str(error))] = None
        if scope.cancelled_caught:
            problems[_reason(address, where, f"no connection within {timeout_s:g} s")] = None
    raise BrokerUnreachable("; ".join(problems))


def _reason(address: Address, where: Any, text: str) -> str:
    if where[0] == address.host:
        return f"{address}: {text}"
    return f"{address} at {where[0]}: {text}"


async def _connect(
    address: Address,
    family: socket.AddressFamily,
    where: Any,
    context: ssl.SSLContext | None,
) -> Link:
    sock = socket.socket(family, socket.SOCK_STREAM)
    link = None
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            sock.connect(where)
        except BlockingIOError:
            await runtime.wait_writable(sock)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, os.strerror(code)) from None
        tls = None if context is None else TlsSession(context, address.host)
        link = Link(sock, address, tls)
        await link.handshake()
    except BaseException:
        sock.close()
        raise
    return link
