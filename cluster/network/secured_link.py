"""Connections that we make to secured listeners: TLS, then SASL, before the first request."""

import ssl
from collections.abc import Callable
from struct import Struct
from typing import Final

import trio

from cluster.network.dialling import Dial, Link
from security.errors import AuthenticationError
from security.sasl_client import SaslCredentials, authenticate
from security.tls_session import TlsSession, failure_text
from wire.errors import RemoteProtocolError

ANSWER_MAX: Final = 512 * 1024
"""The largest answer accepted before authentication."""
RENEWED_AT: Final = 0.9
"""At this part of a session's lifetime the connection is replaced."""
RECEIVE_SIZE: Final = 64 * 1024
_LENGTH: Final = Struct(">i")


class TlsLink:
    """A link under TLS.

    Args:
        link: What carries the ciphertext.
        session: The TLS of this connection, before its handshake.

    Attributes:
        usable_until: As the link's.
    """

    __slots__ = ("_link", "_scratch", "_session", "usable_until")

    def __init__(self, link: Link, session: TlsSession) -> None:
        self._link = link
        self._session = session
        self._scratch = memoryview(bytearray(RECEIVE_SIZE))
        self.usable_until = link.usable_until

    async def shake_hands(self) -> None:
        """Complete the handshake.

        Raises:
            AuthenticationError: the other side's certificate is not trusted, or it refuses ours.
            OSError: the connection broke.
        """
        session = self._session
        try:
            while not session.handshake():
                await self._flush()
                if not await self._receive():
                    raise AuthenticationError(
                        "the connection was closed during the TLS handshake: is this a TLS listener?"
                    )
        except ssl.SSLError as error:
            await self._flush()  # the alert, which tells the other side why
            raise AuthenticationError(failure_text(error)) from None
        await self._flush()

    async def send(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of `data`."""
        self._session.write(data)
        await self._flush()

    async def receive_into(self, space: memoryview) -> int:
        """Receive at least one byte into `space`; 0 at the end."""
        while True:
            count = self._session.read_into(space)
            if count is not None:
                return count
            await self._flush()
            if not await self._receive():
                return 0

    def close(self) -> None:
        """Close the connection."""
        self._link.close()

    async def _flush(self) -> None:
        if self._session.outgoing_size:
            await self._link.send(self._session.outgoing())

    async def _receive(self) -> bool:
        """Receive ciphertext; False at the end."""
        count = await self._link.receive_into(self._scratch)
        self._session.feed(self._scratch[:count])
        return count > 0


def dial_with_tls(dial: Dial, context: Callable[[], ssl.SSLContext]) -> Dial:
    """Return a dial that runs TLS over each connection, and verifies the other side.

    Args:
        dial: Makes the connection.
        context: Returns the certificates and rules that hold now.

    The dial raises AuthenticationError if the other side is not trusted, or refuses us.
    """

    async def dial_tls(host: str, port: int) -> Link:
        link = await dial(host, port)
        try:
            secured = TlsLink(link, TlsSession(context(), server_side=False, server_hostname=host))
            await secured.shake_hands()
        except BaseException:
            link.close()
            raise
        return secured

    return dial_tls


class AuthenticatedLink:
    """A link whose other side has accepted our credentials.

    Attributes:
        usable_until: When the session is nearly over, in seconds of the loop's clock; None where it has no end.
    """

    __slots__ = ("_link", "usable_until")

    def __init__(self, link: Link, usable_until: float | None) -> None:
        self._link = link
        self.usable_until = usable_until

    async def send(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of `data`."""
        await self._link.send(data)

    async def receive_into(self, space: memoryview) -> int:
        """Receive at least one byte into `space`; 0 at the end."""
        return await self._link.receive_into(space)

    def close(self) -> None:
        """Close the connection."""
        self._link.close()


def dial_with_sasl(dial: Dial, credentials: SaslCredentials, client_id: str) -> Dial:
    """Return a dial that authenticates each connection before returning it.

    Args:
        dial: Makes the connection.
        credentials: Our own.
        client_id: The client id of the requests that authenticate.

    The dial raises AuthenticationError if the other side refuses us.
    """

    async def dial_authenticated(host: str, port: int) -> Link:
        link = await dial(host, port)
        try:
            session_ms = await _authenticate(link, credentials, client_id)
        except RemoteProtocolError as error:
            link.close()
            raise AuthenticationError(
                f"{host}:{port} does not speak SASL as a Kafka broker does: {error}"
            ) from None
        except BaseException:
            link.close()
            raise
        usable_until = trio.current_time() + session_ms / 1000 * RENEWED_AT if session_ms else None
        return AuthenticatedLink(link, usable_until)

    return dial_authenticated


async def _authenticate(link: Link, credentials: SaslCredentials, client_id: str) -> int:
    """Carry out one authentication; return for how many milliseconds it lasts, 0 for ever."""
    exchange = authenticate(credentials, client_id)
    frame = next(exchange)
    while True:
        await link.send(frame)
        try:
            frame = exchange.send(await _receive_frame(link))
        except StopIteration as done:
            lifetime: int = done.value
            return lifetime


async def _receive_frame(link: Link) -> bytes:
    (size,) = _LENGTH.unpack(await _receive_exactly(link, _LENGTH.size))
    if not 0 <= size <= ANSWER_MAX:
        raise RemoteProtocolError(f"an answer of {size} bytes")
    return await _receive_exactly(link, size)


async def _receive_exactly(link: Link, size: int) -> bytes:
    data = bytearray(size)
    view, filled = memoryview(data), 0
    while filled < size:
        count = await link.receive_into(view[filled:])
        if not count:
            raise AuthenticationError(
                "the connection was closed during authentication: wrong credentials, or another security protocol"
            )
        filled += count
    return bytes(data)
