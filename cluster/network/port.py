"""What a listener accepts on: a port of this machine, or of a simulated one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import trio

from cluster.network.buffer_pool import BufferPool
from cluster.network.connection import Connection, Dispatch
from cluster.network.endpoints import Endpoint
from cluster.network.open_connections import NetworkLimits, OpenConnections

if TYPE_CHECKING:
    from cluster.network.listener_security import ListenerSecurity
    from cluster.network.network_counters import NetworkCounters


class ListenError(OSError):
    """An endpoint cannot be bound: the port is taken, or the host is not ours."""

    def __init__(self, endpoint: Endpoint, cause: OSError) -> None:
        reason = cause.strerror or str(cause)
        super().__init__(cause.errno, f"cannot listen on {endpoint}: {reason}")
        self.endpoint = endpoint


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How connections to one endpoint are served.

    Attributes:
        endpoint: The endpoint.
        dispatch: Begins a request.
        limits: The bounds.
        connections: The present ones, over all listeners of the broker.
        counters: Where traffic is counted.
        pool: Receive buffers.
        security: What peers have to pass; None if anybody may send requests.
    """

    endpoint: Endpoint
    dispatch: Dispatch
    limits: NetworkLimits
    connections: OpenConnections
    counters: "NetworkCounters"
    pool: BufferPool
    security: "ListenerSecurity | None"

    def join(self, connection: Connection) -> None:
        """Hold a connection that was counted, until it closes; its peer must authenticate if `security` demands it."""
        self.connections.join(connection)
        if self.security is not None:
            size_max = self.limits.frame_size_max
            self.security.guard(connection, self.dispatch, size_max, self.counters, trio.current_time())
            self.connections.await_authentication(connection)


class Port(Protocol):
    """A port that is bound, from its making to `close`."""

    @property
    def number(self) -> int:
        """The port's number, even if the endpoint's is 0."""
        ...

    async def accept_all(self, nursery: trio.Nursery) -> None:
        """Accept until `close`, or until cancelled; each connection runs in `nursery`."""
        ...

    def close(self) -> None:
        """Release the port. Does nothing if that was done."""
        ...


OpenPort: TypeAlias = Callable[[Arrivals], Port]
"""Binds the port of an endpoint, or any free one if its number is 0; raises ListenError."""
