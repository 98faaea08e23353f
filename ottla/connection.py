"""A client's connection to one broker: framing, version negotiation, one request at a time.

Versions are negotiated per connection by ApiVersions, asked in the newest version that we have; a broker that
is older says so in version 0 (KIP-511), and is asked again in what it knows.
"""

import os
import socket
import ssl
from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Any, Final

import trio

from security.client_config import PLAINTEXT, ClientSecurity
from security.errors import AuthenticationError
from security.sasl_client import SaslCredentials, authenticate
from security.tls_session import failure_text
from wire.apis import API_TABLE, ApiKey
from wire.errors import Error, RemoteProtocolError
from wire.frames import decode_response, encode_request
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wire.schema import Request

CLIENT_SOFTWARE: Final = "ottla"
CLIENT_SOFTWARE_VERSION: Final = "0.1.0"
FRAME_SIZE_MAX: Final = 128 * 1024 * 1024

_LENGTH: Final = Struct(">i")


class ConnectError(OSError):
    """A broker cannot be reached, or went away while we waited; the text says which and why, for people."""


class AuthenticationFailedError(ConnectError):
    """The broker refused us, or its certificate is not to be trusted: trying again changes nothing."""


class NoCommonVersionError(Exception):
    """The broker does not serve an API, or in no version that we know."""


class Connection:
    """One connection, made by `connect`. Requests of several tasks wait for each other.

    Attributes:
        host: The broker's host, as given.
        port: Its port.
        is_open: False once the connection has broken or was closed.
    """

    def __init__(self, stream: trio.abc.Stream, host: str, port: int, client_id: str) -> None:
        self.host = host
        self.port = port
        self.is_open = True
        self._stream = stream
        self._client_id = client_id
        self._versions: Mapping[int, tuple[int, int]] = {}
        self._correlation_id = 0
        self._lock = trio.Lock()

    def __repr__(self) -> str:
        return f"<Connection to {self.host}:{self.port}, {'open' if self.is_open else 'closed'}>"

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """The lowest and highest version of each API that the broker serves, by key."""
        return self._versions

    def version_for(self, api_key: int) -> int:
        """Return the newest version of an API that both sides know.

        Raises:
            NoCommonVersionError: there is none.
        """
        api = API_TABLE[api_key]
        served = self._versions.get(api_key)
        if served is None:
            raise NoCommonVersionError(f"the broker at {self.host}:{self.port} does not serve {api.name}")
        version = min(api.max_version, served[1])
        if version < max(api.min_version, served[0]):
            raise NoCommonVersionError(
                f"{api.name} is served by {self.host}:{self.port} in versions {served[0]} to {served[1]}, "
                f"known here in {api.min_version} to {api.max_version}"
            )
        return version

    async def request(self, message: Request, timeout_s: float) -> Any:
        """Send a request in the newest version both sides know, and return the decoded response.

        Cancelled or timed out while waiting, it closes the connection: the answer would otherwise be taken
        for the next one's. Whether the request was carried out is then unknown.

        Raises:
            ConnectError: the connection broke, or no answer came in time.
            NoCommonVersionError: the broker does not serve it.
            RemoteProtocolError: the answer is not Kafka's.
        """
        return await self._request(message, self.version_for(message.__schema__.api_key), timeout_s)

    async def authenticate(self, credentials: SaslCredentials, timeout_s: float) -> None:
        """Pass SASL, before anything else is asked.

        Raises:
            ConnectError: the broker refuses the credentials or the mechanism, or the connection broke.
            RemoteProtocolError: what answered is no Kafka broker.
        """
        exchange = authenticate(credentials, self._client_id)
        try:
            with trio.fail_after(timeout_s):
                frame = next(exchange)
                while True:
                    await self._stream.send_all(frame)
                    frame = exchange.send(bytes(await self._receive_frame()))
        except StopIteration:
            return
        except AuthenticationError as error:
            raise AuthenticationFailedError(f"{self.host}:{self.port}: {error}") from None
        except trio.TooSlowError:
            raise ConnectError(f"{self.host}:{self.port} did not answer within {timeout_s:g} s") from None
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectError(f"the connection to {self.host}:{self.port} broke: {error}") from None

    async def negotiate(self, timeout_s: float) -> None:
        """Learn what the broker serves.

        Raises:
            ConnectError: it closed the connection, or did not answer in time.
            RemoteProtocolError: what answered is no Kafka broker.
        """
        version = API_TABLE[ApiKey.API_VERSIONS].max_version
        request = ApiVersionsRequest(
            client_software_name=CLIENT_SOFTWARE, client_software_version=CLIENT_SOFTWARE_VERSION
        )
        answer = await self._request(request, version, timeout_s)
        if answer.error_code == Error.UNSUPPORTED_VERSION:
            served = [api.max_version for api in answer.api_keys if api.api_key == ApiKey.API_VERSIONS]
            version = min(version, served[0]) if served else 0
            answer = await self._request(request, version, timeout_s)
        if answer.error_code != Error.NONE:
            error = Error.from_code(answer.error_code)
            raise ConnectError(f"{self.host}:{self.port} refuses ApiVersions: {error.name}")
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}

    async def close(self) -> None:
        """Close the connection. A request under way fails."""
        self.is_open = False
        await trio.aclose_forcefully(self._stream)

    async def _request(self, message: Request, version: int, timeout_s: float) -> Any:
        async with self._lock:
            if not self.is_open:
                raise ConnectError(f"the connection to {self.host}:{self.port} is closed")
            self._correlation_id = number = (self._correlation_id + 1) & 0x7FFFFFFF
            data = encode_request(message, version, number, self._client_id)
            answered = False
            try:
                with trio.fail_after(timeout_s):
                    await self._stream.send_all(data)
                    frame = await self._receive_frame()
                response = self._decode(message, version, number, frame)
                answered = True
            except trio.TooSlowError:
                raise ConnectError(f"{self.host}:{self.port} did not answer within {timeout_s:g} s") from None
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise ConnectError(f"the connection to {self.host}:{self.port} broke: {error}") from None
            finally:
                if not answered:
                    await self.close()
        return response

    def _decode(self, message: Request, version: int, number: int, frame: bytearray) -> Any:
        cls = API_TABLE[message.__schema__.api_key].response
        if cls is ApiVersionsResponse and _LENGTH.size + 2 <= len(frame):
            # A broker that does not know the version answers in version 0.
            refused = int.from_bytes(frame[4:6], "big") == Error.UNSUPPORTED_VERSION
            version = 0 if refused else version
        got, response = decode_response(cls, version, frame)
        if got != number:
            raise RemoteProtocolError(f"{self.host}:{self.port} answered request {got}, not {number}")
        return response

    async def _receive_frame(self) -> bytearray:
        (size,) = _LENGTH.unpack(await self._receive_exactly(_LENGTH.size))
        if not 4 <= size <= FRAME_SIZE_MAX:
            raise RemoteProtocolError(
                f"{self.host}:{self.port} is no Kafka broker: its answer has length {size}"
            )
        return await self._receive_exactly(size)

    async def _receive_exactly(self, size: int) -> bytearray:
        data = bytearray()
        while len(data) < size:
            chunk = await self._stream.receive_some(min(size - len(data), 1 << 20))
            if not chunk:
                raise ConnectError(
                    f"{self.host}:{self.port} closed the connection"
                    + ("" if self._versions else " instead of answering: does the port expect TLS or SASL?")
                )
            data += chunk
        return data


async def connect(
    host: str, port: int, client_id: str, timeout_s: float, security: ClientSecurity = PLAINTEXT
) -> Connection:
    """Connect to a broker, pass TLS and SASL where it demands them, and negotiate versions.

    Raises:
        AuthenticationFailedError: TLS or SASL failed; the text says why.
        ConnectError: it cannot be reached; the text says why.
        RemoteProtocolError: what answered there is no Kafka broker.
    """
    try:
        with trio.fail_after(timeout_s):
            stream: trio.abc.Stream = await trio.open_tcp_stream(host, port)
    except trio.TooSlowError:
        raise ConnectError(f"{host}:{port} does not accept a connection within {timeout_s:g} s") from None
    except socket.gaierror as error:
        raise ConnectError(f"the host name {host!r} does not resolve: {error.strerror}") from None
    except OSError as error:
        raise ConnectError(f"{host}:{port}: {_reason(error)}") from None
    if security.context is not None:
        stream = await _secured(stream, security.context, host, port, timeout_s)
    connection = Connection(stream, host, port, client_id)
    try:
        if security.credentials is not None:
            await connection.authenticate(security.credentials, timeout_s)
        await connection.negotiate(timeout_s)
    except BaseException:
        await connection.close()
        raise
    return connection


async def _secured(
    stream: trio.abc.Stream, context: ssl.SSLContext, host: str, port: int, timeout_s: float
) -> trio.abc.Stream:
    """Put TLS over a stream; where that fails, the stream is closed."""
    secured = trio.SSLStream(stream, context, server_hostname=host, https_compatible=True)
    try:
        with trio.fail_after(timeout_s):
            await secured.do_handshake()
    except trio.TooSlowError:
        await trio.aclose_forcefully(stream)
        raise ConnectError(f"{host}:{port} does not complete TLS within {timeout_s:g} s") from None
    except trio.BrokenResourceError as error:
        await trio.aclose_forcefully(stream)
        cause = error.__cause__
        text = failure_text(cause) if isinstance(cause, ssl.SSLError) else "the connection was closed"
        raise AuthenticationFailedError(f"{host}:{port}: TLS failed: {text}") from None
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return secured


def _reason(error: OSError) -> str:
    """Say why no address of a name could be connected to: trio keeps what each gave as the cause."""
    cause = error.__cause__
    attempts: Sequence[BaseException | None] = (
        cause.exceptions if isinstance(cause, BaseExceptionGroup) else [cause]
    )
    texts: dict[str, None] = {}
    for attempt in attempts:
        while isinstance(attempt, OSError) and attempt.errno is None and attempt.__cause__ is not None:
            attempt = attempt.__cause__
        if isinstance(attempt, OSError) and attempt.errno is not None:
            texts[os.strerror(attempt.errno)] = None
    return "; ".join(texts) or str(error)
