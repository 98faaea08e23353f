"""What a listener demands of its peers before their first request."""

from collections.abc import Callable
from dataclasses import dataclass

from cluster.network.connection import Connection, Dispatch
from cluster.network.network_counters import NetworkCounters
from cluster.network.sasl_gate import SaslGate
from cluster.network.tls_listener import TlsListener
from cluster.security.authentication_log import AuthenticationLog
from cluster.security.sasl_exchange import SaslSettings
from security.tls_session import TlsSession


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """The security of one listener.

    Attributes:
        tls: Its TLS; None on a SASL_PLAINTEXT listener.
        sasl: Its SASL mechanisms; None on an SSL listener.
        frame_size_max: ``sasl.server.max.receive.size``: the largest frame before authentication.
        failure_delay_s: ``connection.failed.authentication.delay.ms``, in seconds.
        monotonic: Seconds on a clock that never goes back.
        log: Where failed authentications go.
    """

    tls: TlsListener | None
    sasl: SaslSettings | None
    frame_size_max: int
    failure_delay_s: float
    monotonic: Callable[[], float]
    log: AuthenticationLog

    def guard(
        self,
        connection: Connection,
        dispatch: Dispatch,
        frame_size_max: int,
        counters: NetworkCounters,
        now: float,
    ) -> None:
        """Have a new connection authenticate before its requests are dispatched.

        Args:
            connection: The new connection.
            dispatch: Takes the requests of authenticated peers.
            frame_size_max: The largest of them.
            counters: Where authentications are counted.
            now: Seconds, on the loop's clock.
        """
        if self.sasl is not None:
            gate = SaslGate(
                connection,
                self.sasl,
                dispatch,
                failure_delay_s=self.failure_delay_s,
                frame_size_max=frame_size_max,
                monotonic=self.monotonic,
                counters=counters,
                log=self.log,
            )
            connection.await_authentication(gate.begin, self.frame_size_max, now)
        else:
            connection.await_authentication(dispatch, frame_size_max, now)

    def passed_tls(self, connection: Connection, session: TlsSession, counters: NetworkCounters) -> None:
        """Name the peer of a connection whose handshake is complete; SASL, if configured, comes next.

        Raises:
            UnnamedPeerError: its certificate yields no principal.
        """
        assert self.tls is not None
        connection.principal = self.tls.principal_of(session)
        if self.sasl is None:
            counters.authenticated += 1
            connection.authenticated()

    def failed_handshake(self, connection: Connection, reason: str, counters: NetworkCounters) -> None:
        """Count and log a peer that TLS refused."""
        counters.authentication_failed += 1
        self.log.failed(connection.peer_host, connection.listener_name, "TLS", "", reason)
