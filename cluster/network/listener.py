"""Every listener of one broker: binding, accepting, cutting off the idle and the slow, stopping.

`bind` takes the ports, so that a taken one is known before the broker registers; peers that come before
`serve` wait in the kernel's backlog. Each accepted connection is a task in the nursery of `serve`.
"""

import errno
import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import trio

from cluster.metrics.catalogue import BrokerMetrics
from cluster.network.buffer_pool import BufferPool
from cluster.network.connection import Connection, Dispatch
from cluster.network.connection_quotas import ConnectionQuotas
from cluster.network.endpoints import Endpoint
from cluster.network.listener_security import ListenerSecurity
from cluster.network.network_counters import NetworkCounters
from cluster.network.open_connections import NetworkLimits, OpenConnections
from cluster.network.socket_connection import SocketConnection

__all__ = ["Listeners", "ListenError", "NetworkLimits"]

logger = logging.getLogger(__name__)

ACCEPTS_AT_ONCE: Final = 64
"""Connections accepted before other tasks get their turn."""
ACCEPT_RETRY_S: Final = 0.1
"""How long accepting rests after it failed: for want of descriptors or memory, or as an interface is down."""

_OURS: Final = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK, errno.EOPNOTSUPP, errno.EFAULT})
"""What accepting fails with where we have made a mistake; whatever else it fails with, the network or the host has."""
HELD_MAX: Final = 500
"""Connections that came too fast for their address and are held unread; beyond them such are closed at once."""

_PEER_LEFT: Final = frozenset({errno.ECONNABORTED, errno.EPROTO, errno.EPERM, errno.EINTR})


class ListenError(OSError):
    """An endpoint cannot be bound: the port is taken, or the host is not ours."""

    def __init__(self, endpoint: Endpoint, cause: OSError) -> None:
        reason = cause.strerror or str(cause)
        super().__init__(cause.errno, f"cannot listen on {endpoint}: {reason}")
        self.endpoint = endpoint


class Listeners:
    """The listeners of one broker.

    Args:
        endpoints: Where to listen; port 0 takes any free port.
        dispatch: Begins a request.
        limits: The bounds.
        quotas: How many connections are taken; unlimited if None.
        counters: Where traffic is counted.
        security: What peers have to pass, by listener name, on listeners that are not PLAINTEXT.

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
    ) -> None:
        self._security = security or {}
        self._endpoints = tuple(endpoints)
        self._dispatch = dispatch
        self._limits = NetworkLimits() if limits is None else limits
        names = tuple(endpoint.listener_name for endpoint in endpoints)
        self.quotas = ConnectionQuotas(names) if quotas is None else quotas
        self.counters = NetworkCounters() if counters is None else counters
        self._pool = BufferPool()
        self._open = OpenConnections(self._limits, self.quotas, self.counters)
        self._sockets: list[tuple[Endpoint, socket.socket]] = []
        self._accepting: trio.CancelScope | None = None
        self._stopping = False
        self._held = 0

    @property
    def connections(self) -> Iterator[Connection]:
        """The connections there are now."""
        return iter(self._open)

    @property
    def in_flight_bytes(self) -> int:
        """Bytes of requests and answers in flight, over all connections."""
        return self._open.budget.used

    def add_probes(self, metrics: BrokerMetrics) -> None:
        """Have the metrics show the listeners' counts."""
        self._open.add_probes(metrics)

    def bind(self) -> None:
        """Take every port. Does nothing if that was done.

        Raises:
            ListenError: one cannot be taken; those taken before are given back.
        """
        if self._sockets:
            return
        try:
            for endpoint in self._endpoints:
                self._sockets.append((endpoint, self._listen(endpoint)))
        except BaseException:
            self.close()
            raise

    def bound_port(self, listener_name: str) -> int:
        """Return the port that a listener has, which tells what port 0 became.

        Raises:
            KeyError: there is no such listener, or it is not bound.
        """
        return self.bound_ports()[listener_name]

    def bound_ports(self) -> dict[str, int]:
        """Return the port of each listener that is bound."""
        return {endpoint.listener_name: sock.getsockname()[1] for endpoint, sock in self._sockets}

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Accept and serve until `stop` has done its work, or until cancelled.

        Cancelled or not, every connection and every port is closed afterwards.

        Raises:
            ListenError: a port cannot be taken.
        """
        if self._stopping:
            task_status.started()
            return
        self.bind()
        try:
            async with trio.open_nursery() as nursery:
                with trio.CancelScope() as self._accepting:
                    async with trio.open_nursery() as acceptors:
                        for endpoint, sock in self._sockets:
                            acceptors.start_soon(
                                self._accept_all, endpoint, sock, nursery, name=f"acceptor of {endpoint}"
                            )
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

        Cancelled, it leaves the connections to go on by themselves until they are answered.
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
        sockets, self._sockets = self._sockets, []
        for _, sock in sockets:
            try:
                trio.lowlevel.notify_closing(sock)
            except RuntimeError:
                pass  # outside a trio run nobody waits for it
            sock.close()

    def _listen(self, endpoint: Endpoint) -> socket.socket:
        limits = self._limits
        try:
            family, address = _resolve(endpoint)
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            raise ListenError(endpoint, error) from error
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                # An empty host means every address, IPv4 included; a named one means itself.
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if not endpoint.host else 1)
            if limits.receive_buffer is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.receive_buffer)
            sock.setblocking(False)
            sock.bind(address)
            sock.listen(limits.backlog)
        except OSError as error:
            sock.close()
            raise ListenError(endpoint, error) from error
        return sock

    async def _accept_all(self, endpoint: Endpoint, sock: socket.socket, nursery: trio.Nursery) -> None:
        name = endpoint.listener_name
        exhausted = False
        while True:
            await self._open.wait_slot(name)
            try:
                await trio.lowlevel.wait_readable(sock)
            except trio.ClosedResourceError:
                return
            for _ in range(ACCEPTS_AT_ONCE):
                if not self._open.has_slot(name):
                    break
                try:
                    accepted, address = sock.accept()
                except BlockingIOError:
                    break
                except OSError as error:
                    if error.errno in _PEER_LEFT:
                        continue
                    if error.errno in _OURS:
                        raise
                    failure = os.strerror(error.errno or 0)
                else:
                    failure = ""
                    if accepted.fileno() >= self._limits.descriptor_max:
                        accepted.close()
                        failure = "the descriptors that are left are kept for files"
                if failure:
                    if not exhausted:
                        logger.error("%s takes no connections for now: %s", endpoint, failure)
                    exhausted = True
                    await trio.sleep(ACCEPT_RETRY_S)
                    break
                if exhausted:
                    logger.info("%s takes connections again", endpoint)
                    exhausted = False
                self._accept(endpoint, accepted, address, nursery)

    async def _hold(self, sock: socket.socket, seconds: float) -> None:
        """Keep a connection unread, then close it: a peer that is refused at once comes again at once."""
        self._held += 1
        try:
            await trio.sleep(seconds)
        finally:
            self._held -= 1
            sock.close()

    def _accept(
        self, endpoint: Endpoint, sock: socket.socket, address: tuple[str, int], nursery: trio.Nursery
    ) -> None:
        host, port = address[0].removeprefix("::ffff:"), address[1]
        name = endpoint.listener_name
        held_s = self._open.holds_back(host)
        if held_s and self._held < HELD_MAX:
            nursery.start_soon(self._hold, sock, held_s, name=f"held connection of {host}")
            return
        if held_s or not self._open.may_join(name, host, port):
            sock.close()
            return
        limits = self._limits
        security = self._security.get(name)
        connection = SocketConnection(
            sock,
            host,
            port,
            name,
            self._dispatch,
            pool=self._pool,
            frame_size_max=limits.frame_size_max,
            security_protocol=endpoint.security_protocol,
            budget=self._open.budget,
            counters=self.counters,
            in_flight_bytes_max=limits.in_flight_bytes_max,
            guard=security,
        )
        self._open.join(connection)
        if security is not None:
            security.guard(
                connection, self._dispatch, limits.frame_size_max, self.counters, trio.current_time()
            )
            self._open.await_authentication(connection)
        try:
            _configure(sock, limits.send_buffer)
        except OSError as error:
            logger.debug("%s left before it was served: %s", connection.peer, error)
            connection.close()
            return
        nursery.start_soon(connection.run, name=f"connection of {connection.peer}")


def _resolve(endpoint: Endpoint) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """Return the address to bind; an empty host is every address, of both families where there is IPv6."""
    if not endpoint.host:
        if socket.has_dualstack_ipv6():
            return socket.AF_INET6, ("::", endpoint.port)
        return socket.AF_INET, ("0.0.0.0", endpoint.port)
    found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    return family, (str(address[0]), endpoint.port)


def _configure(sock: socket.socket, send_buffer: int | None) -> None:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if send_buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
