"""What a SASL listener puts before its dispatcher: nothing passes until the peer has authenticated.

The gate is the dispatch of a new connection. Once the peer has proved its identity, the connection's frames go
to the dispatcher directly; only if the session has an end (KIP-368) does the gate stay, check the time of each request,
and let the peer authenticate again.
"""

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Final

from cluster.network.response_slot import ResponseSlot
from cluster.security.sasl_exchange import (
    Answered,
    Authenticated,
    Failed,
    SaslExchange,
    SaslSettings,
    illegal_state_answer,
)
from wire.apis import ApiKey
from wire.errors import RemoteProtocolError
from wire.frames import decode_request_header

if TYPE_CHECKING:
    from cluster.network.connection import Connection, Dispatch
    from cluster.network.network_counters import NetworkCounters
    from cluster.security.authentication_log import AuthenticationLog

REAUTHENTICATION_PAUSE_S: Final = 1.0
"""How long after one authentication the next may begin, as in Kafka."""
_API_KEY: Final = Struct(">h")


class SaslGate:
    """The authentication of one connection.

    Args:
        connection: The connection.
        settings: The listener's SASL.
        dispatch: Takes the requests of an authenticated peer.
        failure_delay_s: How long a refused peer waits for its answer
            (``connection.failed.authentication.delay.ms``).
        frame_size_max: The largest request of an authenticated peer.
        monotonic: Seconds on a clock that never goes back.
        counters: Where authentications are counted.
        log: Where failures are logged.
    """

    __slots__ = (
        "_began",
        "_connection",
        "_counters",
        "_dispatch",
        "_ends",
        "_exchange",
        "_failure_delay_s",
        "_first",
        "_frame_size_max",
        "_log",
        "_monotonic",
        "_settings",
    )

    def __init__(
        self,
        connection: "Connection",
        settings: SaslSettings,
        dispatch: "Dispatch",
        *,
        failure_delay_s: float,
        frame_size_max: int,
        monotonic: Callable[[], float],
        counters: "NetworkCounters",
        log: "AuthenticationLog",
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._dispatch = dispatch
        self._failure_delay_s = failure_delay_s
        self._frame_size_max = frame_size_max
        self._monotonic = monotonic
        self._counters = counters
        self._log = log
        self._exchange: SaslExchange | None = SaslExchange(settings)
        self._first: str | None = None  # the mechanism of the first authentication
        self._began = monotonic()
        self._ends = 0.0

    def begin(self, frame: memoryview, slot: ResponseSlot) -> None:
        """Handle one frame: a step of the authentication, or a request.

        Raises:
            RemoteProtocolError: the session has ended, or the frame is not a request; the connection is to be closed.
        """
        exchange = self._exchange
        if exchange is not None:
            self._take(exchange, frame, slot)
            return
        if len(frame) >= 2 and _API_KEY.unpack_from(frame)[0] == ApiKey.SASL_HANDSHAKE:
            self._begin_again(frame, slot)
        elif self._monotonic() >= self._ends:
            self._counters.expired_sessions += 1
            raise RemoteProtocolError("its session has ended, and it did not authenticate again")
        else:
            self._dispatch(frame, slot)

    def _begin_again(self, frame: memoryview, slot: ResponseSlot) -> None:
        now = self._monotonic()
        if now - self._began < REAUTHENTICATION_PAUSE_S:
            header, _ = decode_request_header(frame)
            answer = illegal_state_answer(header)
            if answer is None:
                raise RemoteProtocolError(f"SaslHandshake version {header.api_version} is not served")
            slot.complete(answer)
            return
        assert self._first is not None
        self._began = now
        exchange = self._exchange = SaslExchange(self._settings, (self._first, self._connection.principal))
        self._take(exchange, frame, slot)

    def _take(self, exchange: SaslExchange, frame: memoryview, slot: ResponseSlot) -> None:
        connection = self._connection
        outcome = exchange.receive(frame)
        match outcome:
            case Answered():
                if outcome.software is not None:
                    connection.client_software_name, connection.client_software_version = outcome.software
                slot.complete(outcome.answer)
            case Authenticated():
                self._authenticated(exchange.mechanism, outcome)
                slot.complete(outcome.answer)
            case Failed():
                self._failed(exchange.mechanism, outcome)
                connection.refuse(slot, outcome.answer, self._failure_delay_s)

    def _authenticated(self, mechanism: str, outcome: Authenticated) -> None:
        connection, counters = self._connection, self._counters
        self._exchange = None
        connection.principal = outcome.principal
        if self._first is not None:
            counters.reauthenticated += 1
        else:
            counters.authenticated += 1
            counters.authenticated_without_end += not outcome.is_told
            self._first = mechanism
            connection.authenticated(self._frame_size_max)
        if outcome.session_ms is None:
            connection.dispatch_by(self._dispatch)
        else:
            self._ends = self._monotonic() + outcome.session_ms / 1000

    def _failed(self, mechanism: str, outcome: Failed) -> None:
        counters, connection = self._counters, self._connection
        if self._first is None:
            counters.authentication_failed += 1
        else:
            counters.reauthentication_failed += 1
        self._log.failed(
            connection.peer_host, connection.listener_name, mechanism, outcome.user, outcome.reason
        )
