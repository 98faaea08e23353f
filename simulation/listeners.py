"""Listeners on a simulated machine: `cluster.network.listener` without sockets.

Receive buffers are overwritten when they are given back: a handler that keeps a view into its request reads
rubbish in the very first run, not in the one with just the right load.
"""

import logging
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

import trio

from cluster.metrics.catalogue import BrokerMetrics
from cluster.network.buffer_pool import BufferPool
from cluster.network.connection import Connection, Dispatch
from cluster.network.connection_quotas import ConnectionQuotas
from cluster.network.endpoints import Endpoint
from cluster.network.frame_reader import FrameReader
from cluster.network.listener import ListenError
from cluster.network.listener_security import ListenerSecurity
from cluster.network.network_counters import NetworkCounters
from cluster.network.open_connections import NetworkLimits, OpenConnections
from cluster.network.response_slot import Answer, Part
from simulation.tcp_connection import End
from wire.file_range import FileRange

logger = logging.getLogger(__name__)

POISON: Final = b"\xdd"
"""What a receive buffer is full of once nobody may look at it."""


class PoisoningPool(BufferPool):
    """A pool whose buffers are overwritten as they come back."""

    __slots__ = ()

    def give_back(self, buffer: memoryview) -> None:
        """Overwrite a buffer and take it back."""
        buffer[:] = POISON * len(buffer)
        super().give_back(buffer)


class SimulatedConnection(Connection):
    """One accepted connection of a simulated network, served by `run`."""

    __slots__ = ("_end", "_frames", "_queue", "_room", "_scope", "_sent_bytes")

    def __init__(
        self,
        end: End,
        peer_host: str,
        peer_port: int,
        endpoint: Endpoint,
        dispatch: Dispatch,
        limits: NetworkLimits,
        connections: OpenConnections,
        counters: NetworkCounters,
        pool: BufferPool,
    ) -> None:
        super().__init__(
            peer_host,
            peer_port,
            endpoint.listener_name,
            dispatch,
            security_protocol=endpoint.security_protocol,
            budget=connections.budget,
            counters=counters,
            in_flight_bytes_max=limits.in_flight_bytes_max,
        )
        self._end = end
        self._frames = FrameReader(pool, limits.frame_size_max)
        self._queue: deque[Part] = deque()
        self._room = trio.lowlevel.ParkingLot()
        self._scope = trio.CancelScope()
        self._sent_bytes = 0
        end.on_room = self._pump

    @property
    def sent_bytes(self) -> int:
        """Bytes that the network has taken."""
        return self._sent_bytes

    @property
    def is_inside_frame(self) -> bool:
        """Whether the peer has sent a part of a request."""
        return self._frames.is_inside_frame

    @property
    def is_sending(self) -> bool:
        """Whether an answer waits for the peer to take it."""
        return bool(self._queue)

    async def run(self) -> None:
        """Serve until the peer leaves or misbehaves, or the connection is closed."""
        try:
            with self._scope:
                while not self.closed and await self._receive():
                    while self.waits_for_room:
                        await self._room.park()
                        self._begin_received()
        finally:
            self.close()

    async def _receive(self) -> bool:
        """Begin what comes next; False if nothing more comes."""
        if self.reads_no_more:
            await trio.sleep_forever()
        try:
            await self._end.wait_readable()
            if self.reads_no_more:
                return not self.closed
            count = self._end.receive_into(self._frames.space())
        except (OSError, trio.ClosedResourceError):
            return False
        if count:
            self.received_bytes += count
            self._counters.received_bytes += count
            self._frames.received(count)
            self._begin_received()
        return count != 0

    def _begin_received(self) -> None:
        if self._begin_requests(self._frames.next_frame):
            if self.closed:
                self._frames.abandon()
            else:
                self._frames.settle()

    def _transmit(self, answer: Answer) -> bool:
        if isinstance(answer, bytes | bytearray | memoryview | FileRange):
            self._queue.append(answer)
        else:
            self._queue.extend(answer)
        return self._send_queued()

    def _pump(self) -> None:
        """There is room on the way to the peer."""
        if self._queue and self._send_queued() and not self.closed:
            self._all_transmitted()

    def _send_queued(self) -> bool:
        """Send what there is room for; False if something is left."""
        queue = self._queue
        try:
            while queue:
                part = queue[0]
                data = _read(part) if isinstance(part, FileRange) else part
                sent = self._end.send(data)
                self._sent_bytes += sent
                self._counters.sent_bytes += sent
                if sent < len(data):
                    queue[0] = memoryview(data)[sent:]
                    return False
                queue.popleft()
        except OSError as error:
            logger.info("Closing the connection of %s: %s", self.peer, error)
            self.close()
        return True

    def _limit_frames(self, size_max: int) -> None:
        self._frames.frame_size_max = size_max

    def _room_again(self) -> None:
        self._room.unpark()

    def _disconnect(self) -> None:
        self._end.close()
        self._queue.clear()
        if not self.corked:
            self._frames.abandon()
        self._scope.cancel()


class PortOwner(Protocol):
    """The machine that listeners are on; `SimulatedHost` is one."""

    def take_port(self, port: int, listeners: "SimulatedListeners") -> int:
        """Bind a port, a free one where it is 0, and return it."""
        ...

    def give_back_port(self, port: int, listeners: "SimulatedListeners") -> None:
        """Bind it no more."""
        ...


class SimulatedListeners:
    """The listeners of one broker on a simulated machine; methods and attributes are those of `Listeners`."""

    def __init__(
        self,
        host: PortOwner,
        endpoints: Sequence[Endpoint],
        dispatch: Dispatch,
        *,
        limits: NetworkLimits | None = None,
        quotas: ConnectionQuotas | None = None,
        counters: NetworkCounters | None = None,
        security: Mapping[str, ListenerSecurity] | None = None,
    ) -> None:
        self._security = security or {}
        if any(each.tls is not None for each in self._security.values()):
            raise ValueError("a simulated network carries no TLS")
        self._host = host
        self._endpoints = tuple(endpoints)
        self._dispatch = dispatch
        self._limits = NetworkLimits() if limits is None else limits
        names = tuple(endpoint.listener_name for endpoint in endpoints)
        self.quotas = ConnectionQuotas(names) if quotas is None else quotas
        self.counters = NetworkCounters() if counters is None else counters
        self._pool = PoisoningPool()
        self._open = OpenConnections(self._limits, self.quotas, self.counters)
        self._ports: dict[int, Endpoint] = {}
        self._backlogs: dict[int, tuple[trio.MemorySendChannel[End], trio.MemoryReceiveChannel[End]]] = {}
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
        """Have the metrics show the listeners' counts."""
        self._open.add_probes(metrics)

    def bind(self) -> None:
        """Take every port. Does nothing if that was done.

        Raises:
            ListenError: one is taken; those taken before are given back.
        """
        if self._ports:
            return
        for endpoint in self._endpoints:
            try:
                port = self._host.take_port(endpoint.port, self)
            except OSError as error:
                self.close()
                raise ListenError(endpoint, error) from error
            self._ports[port] = endpoint
            self._backlogs[port] = trio.open_memory_channel[End](self._limits.backlog)

    def bound_port(self, listener_name: str) -> int:
        """Return the port that a listener has. Raises KeyError if there is none."""
        return self.bound_ports()[listener_name]

    def bound_ports(self) -> dict[str, int]:
        """Return the port of each listener that is bound."""
        return {endpoint.listener_name: port for port, endpoint in self._ports.items()}

    def accept(self, end: End) -> bool:
        """Take a connection that the network brings; False where too many wait already."""
        try:
            self._backlogs[end.port][0].send_nowait(end)
        except trio.WouldBlock:
            return False
        return True

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Accept and serve until `stop` has done its work, or until cancelled.

        Raises:
            ListenError: a port is taken.
        """
        if self._stopping:
            task_status.started()
            return
        self.bind()
        try:
            async with trio.open_nursery() as nursery:
                with trio.CancelScope() as self._accepting:
                    async with trio.open_nursery() as acceptors:
                        for port, endpoint in self._ports.items():
                            acceptors.start_soon(self._accept_all, endpoint, port, nursery)
                        acceptors.start_soon(self._open.watch_slow_peers)
                        task_status.started()
                self.close()
        finally:
            self.close()
            self._open.close()

    async def stop(self, grace_s: float) -> None:
        """Accept no more, begin no more requests, and let those begun be answered within `grace_s` seconds."""
        self.stop_accepting()
        await self._open.finish(grace_s)

    def stop_accepting(self) -> None:
        """Close the ports; connections stay."""
        self._stopping = True
        self.close()
        if self._accepting is not None:
            self._accepting.cancel()

    def close(self) -> None:
        """Release the ports; connections that were not accepted yet are closed."""
        ports, self._ports = self._ports, {}
        for port in ports:
            self._host.give_back_port(port, self)
            waiting = self._backlogs.pop(port)[1]
            while True:
                try:
                    waiting.receive_nowait().close()
                except trio.WouldBlock:
                    break

    async def _accept_all(self, endpoint: Endpoint, port: int, nursery: trio.Nursery) -> None:
        name = endpoint.listener_name
        waiting = self._backlogs[port][1]
        while True:
            await self._open.wait_slot(name)
            end = await waiting.receive()
            peer = end.peer
            if not self._open.may_join(name, peer.host, peer.port):
                end.close()
                continue
            connection = SimulatedConnection(
                end,
                peer.host,
                peer.port,
                endpoint,
                self._dispatch,
                self._limits,
                self._open,
                self.counters,
                self._pool,
            )
            self._open.join(connection)
            security = self._security.get(endpoint.listener_name)
            if security is not None:
                frame_size_max, now = self._limits.frame_size_max, trio.current_time()
                security.guard(connection, self._dispatch, frame_size_max, self.counters, now)
                self._open.await_authentication(connection)
            nursery.start_soon(connection.run, name=f"connection of {connection.peer}")


def _read(file_range: FileRange) -> bytes:
    """Read a range from a file of the machine, or of a simulated disk, which has no descriptor.

    Raises:
        OSError: the file is too short, or has gone.
    """
    pread = getattr(file_range.file, "pread", None)
    if pread is None:
        data = os.pread(file_range.file.fileno(), file_range.size, file_range.position)
    else:
        data = pread(file_range.size, file_range.position)
    if len(data) != file_range.size:
        end = file_range.position + file_range.size
        raise OSError(f"a file ends before byte {end}, which was to be sent")
    return data
