"""A port of this machine: binding it, accepting on it, and refusing peers that connect too fast."""

import errno
import logging
import os
import socket
from typing import Final

import trio

from cluster.network.endpoints import Endpoint
from cluster.network.open_connections import NetworkLimits
from cluster.network.port import Arrivals, ListenError
from cluster.network.socket_connection import SocketConnection

logger = logging.getLogger(__name__)

ACCEPTS_AT_ONCE: Final = 64
"""Connections accepted before other tasks get their turn."""
ACCEPT_TURN_S: Final = 0.002
"""How long accepting may hold the loop at a time: with TLS a connection is expensive before it has sent anything."""
ACCEPT_RETRY_S: Final = 0.1
"""How long accepting pauses after a failure, such as a lack of descriptors or memory, or an interface that is down."""

_OURS: Final = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK, errno.EOPNOTSUPP, errno.EFAULT})
"""Errors of accepting that are bugs of ours; all others are faults of the network or the host."""
HELD_MAX: Final = 500
"""How many connections over their address's rate are held unread; beyond that they are closed at once."""

_PEER_LEFT: Final = frozenset({errno.ECONNABORTED, errno.EPROTO, errno.EPERM, errno.EINTR})


class TcpPort:
    """A listening socket.

    Args:
        arrivals: How connections are served.

    Raises:
        ListenError: the port cannot be bound.
    """

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._socket = _listen(arrivals.endpoint, arrivals.limits)
        self._held = 0

    @property
    def number(self) -> int:
        """The port's number, even if the endpoint's is 0."""
        number: int = self._socket.getsockname()[1]
        return number

    def close(self) -> None:
        """Release the port. Does nothing if that was done."""
        try:
            trio.lowlevel.notify_closing(self._socket)
        except RuntimeError:
            pass  # outside a trio run no task waits for it
        self._socket.close()

    async def accept_all(self, nursery: trio.Nursery) -> None:
        """Accept until `close`, or until cancelled; each connection runs in `nursery`."""
        endpoint, sock, connections = self._arrivals.endpoint, self._socket, self._arrivals.connections
        name = endpoint.listener_name
        exhausted = False
        while True:
            await connections.wait_slot(name)
            try:
                await trio.lowlevel.wait_readable(sock)
            except trio.ClosedResourceError:
                return
            turn_ends = trio.current_time() + ACCEPT_TURN_S
            for _ in range(ACCEPTS_AT_ONCE):
                if not connections.has_slot(name):
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
                    if accepted.fileno() >= self._arrivals.limits.descriptor_max:
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
                self._accept(accepted, address, nursery)
                if trio.current_time() >= turn_ends:
                    break

    async def _hold(self, sock: socket.socket, seconds: float) -> None:
        """Hold a connection unread, then close it: a peer that is refused at once reconnects at once."""
        self._held += 1
        try:
            await trio.sleep(seconds)
        finally:
            self._held -= 1
            sock.close()

    def _accept(self, sock: socket.socket, address: tuple[str, int], nursery: trio.Nursery) -> None:
        host, port = address[0].removeprefix("::ffff:"), address[1]
        arrivals = self._arrivals
        endpoint, limits, connections = arrivals.endpoint, arrivals.limits, arrivals.connections
        held_s = connections.holds_back(host)
        if held_s and self._held < HELD_MAX:
            nursery.start_soon(self._hold, sock, held_s, name=f"held connection of {host}")
            return
        if held_s or not connections.may_join(endpoint.listener_name, host, port):
            sock.close()
            return
        connection = SocketConnection(
            sock,
            host,
            port,
            endpoint.listener_name,
            arrivals.dispatch,
            pool=arrivals.pool,
            frame_size_max=limits.frame_size_max,
            security_protocol=endpoint.security_protocol,
            budget=connections.budget,
            counters=arrivals.counters,
            in_flight_bytes_max=limits.in_flight_bytes_max,
            guard=arrivals.security,
        )
        arrivals.join(connection)
        try:
            _configure(sock, limits.send_buffer)
        except OSError as error:
            logger.debug("%s left before it was served: %s", connection.peer, error)
            connection.close()
            return
        nursery.start_soon(connection.run, name=f"connection of {connection.peer}")


def _listen(endpoint: Endpoint, limits: NetworkLimits) -> socket.socket:
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


def _resolve(endpoint: Endpoint) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """Return the address to bind; an empty host is every address, of both families if there is IPv6."""
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
