"""Every listener of one broker: binding, accepting, cutting off the idle and the slow, stopping.

`bind` takes the ports, so that one already in use is found before the broker registers; peers that connect before
`serve` wait in the backlog. Each accepted connection is a task in the nursery of `serve`. Where the ports are, on this
machine or a simulated one, is the caller's choice.
"""

from collections.abc import Iterator, Mapping, Sequence

import trio

from cluster.metrics.catalogue import BrokerMetrics
from cluster.network.buffer_pool import BufferPool
from cluster.network.connection import Connection, Dispatch
from cluster.network.connection_quotas import ConnectionQuotas
from cluster.network.endpoints import Endpoint
from cluster.network.listener_security import ListenerSecurity
from cluster.network.network_counters import NetworkCounters
from cluster.network.open_connections import NetworkLimits, OpenConnections
from cluster.network.port import Arrivals, OpenPort, Port
from cluster.network.tcp_port import TcpPort


class Listeners:
    """The listeners of one broker.

    Args:
        endpoints: Where to listen; port 0 takes any free port.
        dispatch: Begins a request.
        limits: The bounds.
        quotas: How many connections are accepted; unlimited if None.
        counters: Where traffic is counted.
        security: What peers have to pass, by listener name, on listeners that are not PLAINTEXT.
        open_port: Binds an endpoint.
        pool: Receive buffers; of its own if None.

    Attributes:
        counters: The totals.
        quotas: The counts and limits.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        dispatch: Dispatch,
        *,
        limits: NetworkLimits | None = None,
        quotas: ConnectionQuotas | None = None,
        counters: NetworkCounters | None = None,
        security: Mapping[str, ListenerSecurity] | None = None,
        open_port: OpenPort = TcpPort,
        pool: BufferPool | None = None,
    ) -> None:
        self._security = security or {}
        self._endpoints = tuple(endpoints)
        self._dispatch = dispatch
        self._limits = NetworkLimits() if limits is None else limits
        names = tuple(endpoint.listener_name for endpoint in endpoints)
        self.quotas = ConnectionQuotas(names) if quotas is None else quotas
        self.counters = NetworkCounters() if counters is None else counters
        self._open_port = open_port
        self._pool = BufferPool() if pool is None else pool
        self._open = OpenConnections(self._limits, self.quotas, self.counters)
        self._ports: list[tuple[Endpoint, Port]] = []
        self._accepting: trio.CancelScope | None = None
        self._stopping = False

    @property
    def connections(self) -> Iterator[Connection]:
        """The connections there are now."""
        return iter(self._open)

    @property
    def in_flight_bytes(self) -> int:
        """Bytes of requests and answers in flight, over all connections."""
        return self._open.budget.used

    def add_probes(self, metrics: BrokerMetrics) -> None:
        """Register probes of the listeners' counts."""
        self._open.add_probes(metrics)

    def bind(self) -> None:
        """Bind every port. Does nothing if they are bound.

        Raises:
            ListenError: one cannot be bound; those bound before are released.
        """
        if self._ports:
            return
        try:
            for endpoint in self._endpoints:
                self._ports.append((endpoint, self._open_port(self._arrivals(endpoint))))
        except BaseException:
            self.close()
            raise

    def bound_port(self, listener_name: str) -> int:
        """Return the port that a listener is bound to, even if the endpoint's is 0.

        Raises:
            KeyError: there is no such listener, or it is not bound.
        """
        return self.bound_ports()[listener_name]

    def bound_ports(self) -> dict[str, int]:
        """Return the port of each listener that is bound."""
        return {endpoint.listener_name: port.number for endpoint, port in self._ports}

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Accept and serve until `stop` has done its work, or until cancelled.

        Cancelled or not, every connection and every port is closed afterwards.

        Raises:
            ListenError: a port cannot be bound.
        """
        if self._stopping:
            task_status.started()
            return
        self.bind()
        try:
            async with trio.open_nursery() as nursery:
                with trio.CancelScope() as self._accepting:
                    async with trio.open_nursery() as acceptors:
                        for endpoint, port in self._ports:
                            acceptors.start_soon(port.accept_all, nursery, name=f"acceptor of {endpoint}")
                        acceptors.start_soon(self._open.watch_slow_peers)
                        task_status.started()
                self.close()
        finally:
            self.close()
            self._open.close()

    async def stop(self, grace_s: float) -> None:
        """Accept no more, begin no more requests, and let those begun be answered.

        Args:
            grace_s: Seconds after which unanswered requests are dropped.

        If cancelled, the connections go on by themselves until their requests are answered.
        """
        self.stop_accepting()
        await self._open.finish(grace_s)

    def stop_accepting(self) -> None:
        """Close the ports; connections stay."""
        self._stopping = True
        self.close()
        if self._accepting is not None:
            self._accepting.cancel()

    def close(self) -> None:
        """Release the ports."""
        ports, self._ports = self._ports, []
        for _, port in ports:
            port.close()

    def _arrivals(self, endpoint: Endpoint) -> Arrivals:
        return Arrivals(
            endpoint,
            self._dispatch,
            self._limits,
            self._open,
            self.counters,
            self._pool,
            self._security.get(endpoint.listener_name),
        )
