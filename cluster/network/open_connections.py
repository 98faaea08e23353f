"""The connections that a broker's listeners hold: which may join, which are cut off, and how all of them end.

Everything here is the same over TCP and over a simulated network; how connections are made is not.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import trio

from cluster.metrics.catalogue import BrokerMetrics
from cluster.network.byte_budget import ByteBudget
from cluster.network.connection import IN_FLIGHT_BYTES_MAX, Connection
from cluster.network.connection_quotas import ConnectionQuotas, TooManyConnectionsError
from cluster.network.network_counters import NetworkCounters
from cluster.network.slow_peers import SlowPeers

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NetworkLimits:
    """The bounds of a broker's connections; the descriptions name Kafka's settings.

    Attributes:
        frame_size_max: ``socket.request.max.bytes``.
        idle_close_s: ``connections.max.idle.ms``, in seconds; zero or less means never.
        in_flight_bytes_max: Bytes of one connection's requests begun, and of answers that the peer has not taken yet.
        broker_in_flight_bytes_max: The same for all connections, ``queued.max.request.bytes``; zero or less means no
            bound.
        slow_frame_s: How long a request may take to arrive before its rate is checked.
        slow_rate_min: Bytes a second below which the peer is cut off then.
        descriptor_max: Connections whose descriptor is not below this are refused: files need some, too.
        unread_s: How long a peer may read nothing of an answer.
        authentication_s: How long TLS and SASL may take together.
        unauthenticated_max: How many connections may be authenticating at a time; beyond that the oldest one is closed.
        send_buffer: ``socket.send.buffer.bytes``; None leaves the kernel's own sizing, which is best.
        receive_buffer: ``socket.receive.buffer.bytes``; likewise.
        backlog: ``socket.listen.backlog.size``.
    """

    frame_size_max: int = 104_857_600
    idle_close_s: float = 600.0
    in_flight_bytes_max: int = IN_FLIGHT_BYTES_MAX
    broker_in_flight_bytes_max: int = 0
    slow_frame_s: float = 30.0
    slow_rate_min: int = 1024
    unread_s: float = 60.0
    descriptor_max: int = 1 << 31
    authentication_s: float = 30.0
    unauthenticated_max: int = 4096
    send_buffer: int | None = None
    receive_buffer: int | None = None
    backlog: int = 1024


class OpenConnections:
    """The present connections, over all listeners of one broker.

    Args:
        limits: The bounds.
        quotas: How many connections are accepted.
        counters: Where they are counted.

    Attributes:
        budget: Bytes in flight over all of them.
    """

    __slots__ = (
        "_connections",
        "_counters",
        "_last_left",
        "_limits",
        "_quotas",
        "_unauthenticated",
        "budget",
    )

    def __init__(self, limits: NetworkLimits, quotas: ConnectionQuotas, counters: NetworkCounters) -> None:
        self._limits = limits
        self._quotas = quotas
        self._counters = counters
        self.budget = ByteBudget(limits.broker_in_flight_bytes_max)
        self._connections: dict[Connection, None] = {}
        self._unauthenticated: dict[Connection, None] = {}
        self._last_left = trio.Event()

    def __iter__(self) -> Iterator[Connection]:
        return iter(tuple(self._connections))

    def __len__(self) -> int:
        return len(self._connections)

    def may_join(self, listener_name: str, host: str, port: int) -> bool:
        """Count a peer that has connected; return False, with a log line, if its address is at its limit already."""
        try:
            self._quotas.take(listener_name, host, trio.current_time())
        except TooManyConnectionsError as error:
            logger.warning("Refusing a connection of %s:%d on %s: %s", host, port, listener_name, error)
            self._counters.rejected += 1
            return False
        self._counters.accepted += 1
        return True

    def holds_back(self, host: str) -> float:
        """Count a peer for its address; return for how many seconds to hold it unread, then close it; 0 to serve it."""
        throttle_s = self._quotas.address_throttle_s(host, trio.current_time())
        if throttle_s:
            self._counters.rejected += 1
        return throttle_s

    def join(self, connection: Connection) -> None:
        """Hold the connection of a peer that was counted, until it closes."""
        self._connections[connection] = None
        connection.idle_since = trio.current_time()
        connection.call_on_close(lambda: self._leave(connection))
        if self._quotas.is_over_total(connection.listener_name):
            self._make_room()

    def await_authentication(self, connection: Connection) -> None:
        """Bound the connections that have yet to authenticate: over the limit the oldest of them is closed."""
        waiting = self._unauthenticated
        waiting[connection] = None
        connection.on_authenticated = lambda: waiting.pop(connection, None)
        if len(waiting) > self._limits.unauthenticated_max:
            self._counters.cut_off += 1
            next(iter(waiting)).cut_off("too many connections are authenticating, and it is the oldest")

    def has_slot(self, listener_name: str) -> bool:
        """Whether a listener may accept one more connection now."""
        quotas = self._quotas
        return quotas.has_slot(listener_name) and not quotas.rest_s(listener_name, trio.current_time())

    async def wait_slot(self, listener_name: str) -> None:
        """Wait until a listener may accept one more connection."""
        while not self.has_slot(listener_name):
            rest_s = self._quotas.rest_s(listener_name, trio.current_time())
            if rest_s:
                logger.debug("%s rests for %.3f s: connections come too fast", listener_name, rest_s)
                await trio.sleep(rest_s)
                continue
            slot = trio.Event()
            self._quotas.call_when_slot(slot.set)
            logger.warning("%s has all the connections it may; new ones wait", listener_name)
            await slot.wait()

    async def finish(self, grace_s: float) -> None:
        """Have every connection begin no more requests, and close when those begun have been answered.

        Args:
            grace_s: Seconds after which unanswered requests are dropped.

        If cancelled, the connections go on by themselves until their requests are answered.
        """
        for connection in self:
            connection.finish()
        with trio.move_on_after(grace_s):
            while self._connections:
                await self._last_left.wait()
        self.close()

    def close(self) -> None:
        """Close all of them at once."""
        for connection in self:
            connection.close()

    async def watch_slow_peers(self) -> None:
        """Cut off the idle and the slow, until cancelled."""
        limits = self._limits
        watch = SlowPeers(
            idle_close_s=limits.idle_close_s,
            slow_frame_s=limits.slow_frame_s,
            slow_rate_min=limits.slow_rate_min,
            unread_s=limits.unread_s,
            authentication_s=limits.authentication_s,
        )
        while True:
            await trio.sleep(watch.interval_s)
            now = trio.current_time()
            for connection in self:
                reason = watch.judge(connection, now)
                if reason is not None:
                    self._counters.cut_off += 1
                    connection.cut_off(reason)

    def add_probes(self, metrics: BrokerMetrics) -> None:
        """Register probes of the counts."""
        counters = self._counters
        prefix = "kafka_network_socketserver_"
        metrics.probe(prefix + "connectioncount", self._quotas.counts_by_listener)
        metrics.probe(prefix + "acceptrestseconds", self._quotas.rests_by_listener)
        metrics.probe(prefix + "connectionsaccepted", lambda: counters.accepted)
        metrics.probe(prefix + "connectionsrejected", lambda: counters.rejected)
        metrics.probe(prefix + "connectionscutoff", lambda: counters.cut_off)
        for name, attribute in (
            ("successfulauthentications", "authenticated"),
            ("successfulauthenticationsnoreauth", "authenticated_without_end"),
            ("failedauthentications", "authentication_failed"),
            ("successfulreauthentications", "reauthenticated"),
            ("failedreauthentications", "reauthentication_failed"),
            ("expiredconnectionskilled", "expired_sessions"),
        ):
            metrics.probe(prefix + name, partial(getattr, counters, attribute))
        metrics.probe(prefix + "receivedbytes", lambda: counters.received_bytes)
        metrics.probe(prefix + "sentbytes", lambda: counters.sent_bytes)
        metrics.probe("kafka_network_requestchannel_inflightbytes", lambda: self.budget.used)

    def _leave(self, connection: Connection) -> None:
        del self._connections[connection]
        self._unauthenticated.pop(connection, None)
        self._quotas.give_back(connection.listener_name, connection.peer_host)
        if not self._connections:
            self._last_left.set()
            self._last_left = trio.Event()

    def _make_room(self) -> None:
        """Close the longest idle connection of an unprotected listener."""
        for connection in sorted(self._connections, key=lambda each: each.idle_since):
            if not self._quotas.is_protected(connection.listener_name):
                connection.cut_off("the broker has all the connections it may, and another broker came")
                return
