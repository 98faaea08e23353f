"""The client for another broker: one connection, one request at a time, connected when first needed.

For the channels that brokers keep among themselves: fetchers, the controller's channels, a broker's own to
the controller. The answer is decoded in place in the receive buffer, which is reused: views in it (the records of a
Fetch) are valid until the next request. Nothing is retried here: the caller knows what can be repeated.
"""

import errno
from struct import Struct
from typing import Any, Final, Protocol

import trio

from cluster.network.dialling import Dial, Link, dial_tcp
from wire.apis import API_TABLE
from wire.errors import RemoteProtocolError
from wire.frames import decode_response, encode_request
from wire.schema import Request, Response

_LENGTH: Final = Struct(">i")
_BUFFER_BASE: Final = 64 * 1024
_BUFFER_STEP: Final = 1024 * 1024
"""How much is allocated for an announced answer before its bytes come."""


class ConnectionFailedError(OSError):
    """The other broker cannot be reached, went away, or did not answer in time; the connection is closed."""


class BrokerChannel(Protocol):
    """What the layers above use: `BrokerClient` over TCP, or the simulation's."""

    async def request(self, message: Request, version: int) -> Any:
        """Send a request, and return the decoded answer."""
        ...

    async def wait_ended(self) -> None:
        """Wait, while nothing is asked, until the other side ends the connection; for ever where there is none."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class BrokerClient:
    """One channel to one broker.

    Args:
        host: Its host name or address.
        port: Its port.
        client_id: The client id in our requests.
        connect_timeout_s: How long connecting may take.
        request_timeout_s: How long an answer may take, from the moment of asking.
        max_frame: The largest answer accepted, in bytes.
        dial: Makes connections; over TCP, except in a simulation.
    """

    __slots__ = (
        "_buffer",
        "_client_id",
        "_connect_timeout_s",
        "_correlation_id",
        "_dial",
        "_link",
        "_max_frame",
        "_request_timeout_s",
        "_waiting",
        "host",
        "port",
    )

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str | None,
        *,
        connect_timeout_s: float = 10.0,
        request_timeout_s: float = 30.0,
        max_frame: int = 2**31 - 1,
        dial: Dial = dial_tcp,
    ) -> None:
        self.host = host
        self.port = port
        self._client_id = client_id
        self._connect_timeout_s = connect_timeout_s
        self._request_timeout_s = request_timeout_s
        self._max_frame = max_frame
        self._dial = dial
        self._link: Link | None = None
        self._buffer = memoryview(b"")
        self._correlation_id = 0
        self._waiting = False

    def __repr__(self) -> str:
        state = "connected" if self._link is not None else "not connected"
        return f"<BrokerClient of {self.host}:{self.port}, {state}>"

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection, as far as we know."""
        return self._link is not None

    async def request(self, message: Request, version: int) -> Any:
        """Send a request and wait for its answer.

        If cancelled while waiting, it closes the connection: otherwise the answer would be read as that of the next
        request. The request may have been carried out.

        Args:
            message: The request.
            version: The API version to ask in.

        Returns:
            The decoded response; views in it are valid until the next request.

        Raises:
            ConnectionFailedError: no connection could be made, it broke, or the time ran out. Whether the request was
                carried out is unknown.
            RemoteProtocolError: the answer is not what this version says; the connection is closed.
            trio.BusyResourceError: another task's request is under way.
        """
        if self._waiting:
            raise trio.BusyResourceError(f"a request to {self.host}:{self.port} is under way")
        self._waiting = True
        answered = False
        try:
            link = self._link
            if (
                link is not None
                and link.usable_until is not None
                and trio.current_time() >= link.usable_until
            ):
                self.close()  # its session ends soon: a new connection authenticates anew
                link = None
            if link is None:
                link = self._link = await self._connect()
            self._correlation_id = correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
            data = encode_request(message, version, correlation_id, self._client_id)
            with trio.move_on_after(self._request_timeout_s) as scope:
                frame = await self._exchange(link, data)
            if scope.cancelled_caught:
                raise self._failure(errno.ETIMEDOUT, f"no answer within {self._request_timeout_s:g} s")
            got, response = decode_response(_response_class(type(message)), version, frame)
            if got != correlation_id:
                raise RemoteProtocolError(f"{self.host}:{self.port} answered {got}, not {correlation_id}")
            answered = True
            return response
        finally:
            self._waiting = False
            if not answered:
                self.close()

    async def wait_ended(self) -> None:
        """Wait, while no request is under way, until the other side ends the connection; for ever if there is none.

        Data that nobody asked for ends it, too. If cancelled, the connection stays as it is.

        Raises:
            trio.BusyResourceError: a request is under way.
        """
        if self._waiting:
            raise trio.BusyResourceError(f"a request to {self.host}:{self.port} is under way")
        link = self._link
        if link is None:
            await trio.sleep_forever()
        else:
            try:
                await link.receive_into(memoryview(bytearray(1)))
            except (OSError, trio.ClosedResourceError):
                pass
            if self._link is link:
                self.close()

    def close(self) -> None:
        """Close the connection; a request under way fails. The next request connects again."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    async def _connect(self) -> Link:
        try:
            with trio.fail_after(self._connect_timeout_s):
                return await self._dial(self.host, self.port)
        except trio.TooSlowError:
            raise self._failure(
                errno.ETIMEDOUT, f"no connection within {self._connect_timeout_s:g} s"
            ) from None
        except OSError as error:
            raise self._failure(error.errno, error.strerror or str(error)) from error

    async def _exchange(self, link: Link, data: bytes | bytearray) -> memoryview:
        """Send a request, and receive the answer to it."""
        try:
            await link.send(data)
            return await self._receive(link)
        except OSError as error:
            raise self._failure(error.errno, error.strerror or str(error)) from error
        except trio.ClosedResourceError:
            raise self._failure(errno.ENOTCONN, "closed") from None

    async def _receive(self, link: Link) -> memoryview:
        """Receive one frame; return its payload, a view of the buffer."""
        end = 0
        need = 4
        size = -1
        while end < need:
            if size < 0 or end == len(self._buffer):
                self._grow(need, end)
            # Nothing follows an answer before the next request, so the rest of the buffer may be filled.
            count = await link.receive_into(self._buffer[end:])
            if count == 0:
                raise ConnectionResetError(errno.ECONNRESET, "it closed the connection")
            end += count
            if size < 0 and end >= 4:
                size = _LENGTH.unpack_from(self._buffer, 0)[0]
                if not 0 <= size <= self._max_frame:
                    raise RemoteProtocolError(
                        f"{self.host}:{self.port} announces {size} bytes; 0 to {self._max_frame} are taken"
                    )
                need = 4 + size
        if end > need:
            raise RemoteProtocolError(
                f"{self.host}:{self.port} sent {end - need} bytes that nobody asked for"
            )
        return self._buffer[4:need]

    def _grow(self, need: int, filled: int) -> None:
        """Make room for more of an answer of `need` bytes; the buffer grows in steps, as the bytes arrive."""
        capacity = len(self._buffer)
        if capacity >= min(need, _BUFFER_BASE) and filled < capacity:
            return
        wanted = min(need, max(_BUFFER_BASE, _BUFFER_STEP if filled else 0, 2 * capacity))
        grown = memoryview(bytearray(max(wanted, _BUFFER_BASE)))
        grown[:filled] = self._buffer[:filled]
        self._buffer = grown

    def _failure(self, code: int | None, reason: str) -> ConnectionFailedError:
        return ConnectionFailedError(code or errno.EIO, f"{self.host}:{self.port}: {reason}")


_RESPONSES: dict[type[Request], type[Response]] = {}


def _response_class(request: type[Request]) -> type[Response]:
    found = _RESPONSES.get(request)
    if found is None:
        found = _RESPONSES[request] = API_TABLE[request.__schema__.api_key].response
    return found
