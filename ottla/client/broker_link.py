"""One connection to one broker: versions, correlation, deadlines, throttling.

A request is sent with a callback, which gets the decoded answer or the error, in the order of the requests; it is
called by the link's reader and must not wait. `request` wraps that for tasks that wait. There is no task, event
or lock per request.

A request timeout closes the connection and fails all in flight on it: answers come in order, so what stands behind
a lost answer would wait for ever. ``throttle_time_ms`` stops sending until it is over (KIP-219).
"""

import os
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.addresses import Address
from ottla.client import runtime
from ottla.client.errors import (
    AuthenticationError,
    BrokerUnreachable,
    ClientError,
    RequestTimedOut,
    UnsupportedByBroker,
)
from ottla.client.link import Frame, Link
from ottla.client.settings import ConnectionSettings
from security.errors import AuthenticationError as RefusedError
from wire.apis import API_TABLE, ApiKey
from wire.errors import Error, RemoteProtocolError
from wire.frames import decode_response, encode_request, encode_request_pieces
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wire.schema import Request, Response
from wire.types import BrokerId

if TYPE_CHECKING:
    from security.sasl_client import SaslCredentials

CLIENT_SOFTWARE: Final = "ottla"
CLIENT_SOFTWARE_VERSION: Final = "0.1.0"
_HELLO_VERSION: Final = 3
"""The version of ApiVersions sent first: every broker since 2.4 reads it, older ones answer in version 0."""

_SESSION_PART: Final = 0.85
"""The part of a SASL session's lifetime after which a connection is replaced."""

FramePieces = list[bytearray | memoryview]
OnDone = Callable[[Any], None]
"""Gets the response, None where none was expected, or a `ClientError`."""


class _Pending:
    """A request without an answer so far."""

    __slots__ = ("correlation_id", "deadline", "on_done", "response", "version")

    def __init__(
        self, correlation_id: int, response: type[Response], version: int, deadline: float, on_done: OnDone
    ) -> None:
        self.correlation_id = correlation_id
        self.response = response
        self.version = version
        self.deadline = deadline
        self.on_done = on_done


class BrokerLink:
    """A connection that is used by `broker_links`, which runs it.

    Attributes:
        broker_id: The broker that it leads to, -1 while that is unknown (a bootstrap address).
        address: What was dialled.
        versions: The lowest and highest version of each API that the broker serves, by key.
        is_open: False once it broke or was closed.
        last_used: When something was last sent, on the loop's clock.
        retires_at: When it is to be replaced, since its SASL session ends soon after.
    """

    def __init__(self, link: Link, broker_id: BrokerId, settings: ConnectionSettings) -> None:
        self.broker_id = broker_id
        self.address: Address = link.address
        self.versions: Mapping[int, tuple[int, int]] = {}
        self.is_open = True
        self.last_used = runtime.current_time()
        self.retires_at = float("inf")
        self._link = link
        self._settings = settings
        self._pending: deque[_Pending] = deque()
        self._throttled: deque[tuple[FramePieces, OnDone | None]] = deque()
        self._throttled_until = 0.0
        self._unflushed: list[OnDone] = []
        self._correlation_id = 0
        self._reading = runtime.cancel_scope()
        self._process = os.getpid()
        self._is_retired = False
        self._needs_writer = runtime.new_event()

    def __repr__(self) -> str:
        return f"<BrokerLink to {self.broker_id} at {self.address}, {'open' if self.is_open else 'closed'}>"

    @property
    def in_flight(self) -> int:
        """How many requests have no answer yet."""
        return len(self._pending)

    @property
    def throttled_until(self) -> float:
        """Until when, on the loop's clock, nothing is sent, because the broker said so."""
        return self._throttled_until

    def serves(self, api_key: ApiKey, version: int) -> bool:
        """Return whether the broker serves an API in this version, or in a later one only."""
        served = self.versions.get(api_key)
        return served is not None and served[1] >= version

    def version_for(self, api_key: int, at_most: int | None = None) -> int:
        """Return the newest version of an API that both sides know.

        Raises:
            UnsupportedByBroker: There is none.
        """
        api = API_TABLE[api_key]
        served = self.versions.get(api_key)
        if served is None:
            raise UnsupportedByBroker(f"the broker at {self.address} does not serve {api.name}")
        ours = api.max_version if at_most is None else min(api.max_version, at_most)
        version = min(ours, served[1])
        if version < max(api.min_version, served[0]):
            raise UnsupportedByBroker(
                f"{api.name} is served by {self.address} in versions {served[0]} to {served[1]}, "
                f"known here in {api.min_version} to {ours}"
            )
        return version

    def start(
        self,
        message: Request,
        on_done: OnDone,
        *,
        timeout_s: float | None = None,
        at_most: int | None = None,
        answered: bool = True,
    ) -> None:
        """Send a request; ``on_done`` is called once, later, with the answer or with a `ClientError`.

        Args:
            message: What to send, in the newest version that both sides know.
            on_done: Called by the reader; it must neither wait nor raise.
            timeout_s: How long the answer may take, None for the request timeout.
            at_most: The newest version to use, where a later one means something else.
            answered: False for Produce with acks=0: done once the kernel has it.

        Raises:
            BrokerUnreachable: The connection is closed; ``on_done`` is not called.
            UnsupportedByBroker: The broker does not serve it; likewise.
        """
        if not self.is_open:
            raise BrokerUnreachable(f"the connection to {self.address} is closed")
        if os.getpid() != self._process:
            raise RuntimeError("the process was forked: a client belongs to the process that connected it")
        api_key = message.__schema__.api_key
        version = self.version_for(api_key, at_most)
        self._correlation_id = number = (self._correlation_id + 1) & 0x7FFFFFFF
        pieces = encode_request_pieces(message, version, number, self._settings.client_id)
        self._send(pieces, None if answered else on_done)
        if answered and self.is_open:
            sent_at = max(self.last_used, self._throttled_until)
            deadline = sent_at + (self._settings.request_timeout if timeout_s is None else timeout_s)
            response = API_TABLE[api_key].response
            self._pending.append(_Pending(number, response, version, deadline, on_done))
            if deadline < self._reading.deadline:
                self._reading.deadline = deadline

    def _send(self, pieces: FramePieces, on_sent: OnDone | None) -> None:
        self.last_used = runtime.current_time()
        if self._throttled or self.last_used < self._throttled_until:
            self._throttled.append((pieces, on_sent))
            self._needs_writer.set()
            return
        try:
            self._link.send_nowait(*pieces)
        except BrokerUnreachable as error:
            self._fail(error)
            raise
        if self._link.has_backlog:
            if on_sent is not None:
                self._unflushed.append(on_sent)
            self._needs_writer.set()
        elif on_sent is not None:
            on_sent(None)

    async def request(
        self, message: Request, *, timeout_s: float | None = None, at_most: int | None = None
    ) -> Any:
        """Send a request and return the decoded answer; arguments as `start`.

        Cancelled, it leaves the connection as it is: the answer is dropped when it comes, and whether the request
        was carried out is unknown.

        Raises:
            BrokerUnreachable: The connection broke, or no answer came in time.
            UnsupportedByBroker: The broker does not serve it.
        """
        await runtime.checkpoint_if_cancelled()
        answer = runtime.new_handoff()
        self.start(message, answer.put, timeout_s=timeout_s, at_most=at_most)
        result = await answer.wait()
        if isinstance(result, ClientError):
            raise result
        return result

    async def open(self) -> None:
        """Negotiate versions and authenticate; before it nothing else may be sent.

        Raises:
            BrokerUnreachable: The broker closed the connection, or is not a Kafka broker.
            AuthenticationError: It refuses the credentials.
        """
        hello = ApiVersionsRequest(
            client_software_name=CLIENT_SOFTWARE, client_software_version=CLIENT_SOFTWARE_VERSION
        )
        answer = await self._ask(hello, _HELLO_VERSION)
        if answer.error_code == Error.UNSUPPORTED_VERSION:
            answer = await self._ask(hello, 0)
        if answer.error_code:
            error = Error.from_code(answer.error_code)
            raise BrokerUnreachable(f"{self.address} refuses ApiVersions: {error.text} ({error.name})")
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        if self._settings.sasl is not None:
            await self._authenticate(self._settings.sasl)

    async def _authenticate(self, credentials: "SaslCredentials") -> None:
        from security.sasl_client import authenticate

        exchange = authenticate(credentials, self._settings.client_id, asks_versions=False)
        try:
            frame = next(exchange)
            while True:
                self._link.send_nowait(frame)
                await self._link.flush()
                frame = exchange.send(bytes(await self._link.receive_frame()))
        except StopIteration as end:
            if end.value:
                lifetime_s = end.value / 1000
                self.retires_at = runtime.current_time() + _SESSION_PART * lifetime_s
        except RefusedError as error:
            raise AuthenticationError(
                f"{self.address} refuses the {credentials.mechanism} credentials: {error}"
            ) from None
        except RemoteProtocolError as error:
            raise BrokerUnreachable(f"{self.address} sent a malformed answer: {error}") from None

    def retire(self) -> None:
        """Close the connection once everything in flight is answered."""
        self._is_retired = True
        if not self._pending:
            self.close()

    async def _ask(self, message: Request, version: int) -> Any:
        """Exchange one message before the reader runs."""
        self._correlation_id = number = self._correlation_id + 1
        self._link.send_nowait(encode_request(message, version, number, self._settings.client_id))
        await self._link.flush()
        try:
            frame = await self._link.receive_frame()
        except BrokerUnreachable as error:
            if self.versions:
                raise
            raise BrokerUnreachable(
                f"{error} instead of answering ApiVersions: does the port expect TLS or SASL?"
            ) from None
        cls = API_TABLE[message.__schema__.api_key].response
        if cls is ApiVersionsResponse and int.from_bytes(frame[4:6], "big") == Error.UNSUPPORTED_VERSION:
            version = 0
        return self._decode(cls, version, number, frame)

    async def run(self) -> None:
        """Receive and send until the link is closed; never raises but for cancellation, which closes it."""
        try:
            async with runtime.open_nursery() as nursery:
                nursery.start_soon(self._write, nursery.cancel_scope)
                try:
                    await self._read()
                except BrokerUnreachable as error:
                    self._fail(error)
                except runtime.ClosedResourceError:
                    pass
                nursery.cancel_scope.cancel()
        finally:
            self.close()

    async def _read(self) -> None:
        while self.is_open:
            first = min((each.deadline for each in self._pending), default=float("inf"))
            frame: Frame | None = None
            with runtime.cancel_scope(deadline=first) as self._reading:
                frame = await self._link.receive_frame()
            if frame is None:
                raise RequestTimedOut(f"{self.address} did not answer within the request timeout")
            self._take(frame)
            await runtime.checkpoint()

    def _take(self, frame: Frame) -> None:
        if not self._pending:
            raise BrokerUnreachable(f"{self.address} sent an answer to nothing")
        pending = self._pending.popleft()
        try:
            response = self._decode(pending.response, pending.version, pending.correlation_id, frame)
        except BrokerUnreachable as error:
            self._pending.appendleft(pending)
            raise error
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self._throttled_until = max(self._throttled_until, runtime.current_time() + throttle_ms / 1000)
        pending.on_done(response)
        if self._is_retired and not self._pending:
            self.close()

    def _decode(self, cls: type[Response], version: int, number: int, frame: Frame) -> Any:
        try:
            got, response = decode_response(cls, version, frame)
        except RemoteProtocolError as error:
            raise BrokerUnreachable(f"{self.address} sent a malformed answer: {error}") from None
        if got != number:
            raise BrokerUnreachable(f"{self.address} answered request {got}, not {number}")
        return response

    async def _write(self, scope: runtime.CancelScope) -> None:
        """Send what was kept back by the kernel or by a throttle."""
        try:
            while True:
                await self._needs_writer.wait()
                self._needs_writer = runtime.new_event()
                await self._link.flush()
                while self._throttled:
                    await runtime.sleep_until(self._throttled_until)
                    pieces, on_sent = self._throttled.popleft()
                    self._link.send_nowait(*pieces)
                    await self._link.flush()
                    if on_sent is not None:
                        on_sent(None)
                sent, self._unflushed = self._unflushed, []
                for on_sent in sent:
                    on_sent(None)
        except BrokerUnreachable as error:
            self._fail(error)
            scope.cancel()
        except runtime.ClosedResourceError:
            pass

    def _fail(self, error: ClientError) -> None:
        """Close the connection, and fail everything in flight, in order."""
        if not self.is_open:
            return
        self.is_open = False
        self._link.close()
        pending, self._pending = self._pending, deque()
        unsent = [each for _, each in self._throttled if each is not None] + self._unflushed
        self._throttled.clear()
        self._unflushed = []
        for on_done in [*(each.on_done for each in pending), *unsent]:
            on_done(error)

    def close(self) -> None:
        """Close the connection; what is in flight fails."""
        self._fail(BrokerUnreachable(f"the connection to {self.address} was closed"))
