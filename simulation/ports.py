"""Ports of a simulated machine, and the connections that they accept: `cluster.network.tcp_port` without sockets.

Receive buffers are overwritten when they are given back, so that a handler that keeps a view into its request reads
rubbish in the very first run, not only under just the right load.
"""

import logging
import os
from collections import deque
from typing import Final, Protocol

import trio

from cluster.network.buffer_pool import BufferPool
from cluster.network.connection import Connection
from cluster.network.frame_reader import FrameReader
from cluster.network.port import Arrivals, ListenError
from cluster.network.response_slot import Answer, Part
from simulation.tcp_connection import End
from wire.file_range import FileRange

logger = logging.getLogger(__name__)

POISON: Final = b"\xdd"
"""The byte that fills a receive buffer once it may no longer be read."""


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

    def __init__(self, end: End, arrivals: Arrivals) -> None:
        endpoint, limits, counters = arrivals.endpoint, arrivals.limits, arrivals.counters
        super().__init__(
            end.peer.host,
            end.peer.port,
            endpoint.listener_name,
            arrivals.dispatch,
            security_protocol=endpoint.security_protocol,
            budget=arrivals.connections.budget,
            counters=counters,
            in_flight_bytes_max=limits.in_flight_bytes_max,
        )
        self._end = end
        self._frames = FrameReader(arrivals.pool, limits.frame_size_max)
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

    @property
    def peer_has_gone(self) -> bool:
        """Whether the peer's end, or a break, has arrived."""
        return self.closed or self._end.is_over

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
        """Receive bytes and begin the requests in them; return False if nothing more comes."""
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
        """Send more: there is room on the way to the peer."""
        if self._queue and self._send_queued() and not self.closed:
            self._all_transmitted()

    def _send_queued(self) -> bool:
        """Send what there is room for; return False if something is left."""
        queue = self._queue
        try:
            while queue:
                part = queue[0]
                data = read_range(part) if isinstance(part, FileRange) else part
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
    """The machine that ports are on; `SimulatedHost` is one."""

    def take_port(self, number: int, port: "SimulatedPort") -> int:
        """Bind a port, a free one where the number is 0, and return its number."""
        ...

    def give_back_port(self, number: int, port: "SimulatedPort") -> None:
        """Release a port."""
        ...


class SimulatedPort:
    """A port of a simulated machine.

    Args:
        host: The machine.
        arrivals: What serves accepted connections.

    Raises:
        ListenError: the port is taken.
    """

    def __init__(self, host: PortOwner, arrivals: Arrivals) -> None:
        if arrivals.security is not None and arrivals.security.tls is not None:
            raise ValueError("a simulated network carries no TLS")
        self._host = host
        self._arrivals = arrivals
        try:
            self._number = host.take_port(arrivals.endpoint.port, self)
        except OSError as error:
            raise ListenError(arrivals.endpoint, error) from error
        self._came, self._waiting = trio.open_memory_channel[End](arrivals.limits.backlog)

    @property
    def number(self) -> int:
        """The port's number, also where the endpoint's is 0."""
        return self._number

    def accept(self, end: End) -> bool:
        """Queue a connection from the network; return False where too many wait already."""
        try:
            self._came.send_nowait(end)
        except trio.WouldBlock:
            return False
        return True

    async def accept_all(self, nursery: trio.Nursery) -> None:
        """Accept until cancelled; each connection runs in `nursery`."""
        arrivals = self._arrivals
        connections, name = arrivals.connections, arrivals.endpoint.listener_name
        while True:
            await connections.wait_slot(name)
            end = await self._waiting.receive()
            if not connections.may_join(name, end.peer.host, end.peer.port):
                end.close()
                continue
            connection = SimulatedConnection(end, arrivals)
            arrivals.join(connection)
            nursery.start_soon(connection.run, name=f"connection of {connection.peer}")

    def close(self) -> None:
        """Release the port; connections that were not accepted yet are closed."""
        self._host.give_back_port(self._number, self)
        while True:
            try:
                self._waiting.receive_nowait().close()
            except trio.WouldBlock:
                break


def read_range(file_range: FileRange) -> bytes:
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


class DyingPort:
    """A port whose program was killed: the kernel accepts connections until it closes the port."""

    def accept(self, _: End) -> bool:
        """Accept a connection that is never served."""
        return True
