"""A connection over TCP: the trio shell around `frame_reader`, `connection` and `transmission`.

Two tasks at most. The reader waits for the socket to be readable, receives once, and begins every whole
request that has come, synchronously. The writer is started by the first answer that the socket does not take
whole, and sleeps again when everything has gone: an answer that the socket takes at once, which is nearly
every answer, costs no task switch.

The socket is a raw one on trio's readiness. trio's own streams would set TCP_NOTSENT_LOWAT, which costs more
than nine tenths of the rate.
"""

import logging
import socket

import trio

from cluster.network.buffer_pool import BufferPool
from cluster.network.byte_budget import ByteBudget
from cluster.network.connection import IN_FLIGHT_BYTES_MAX, Connection, Dispatch
from cluster.network.endpoints import SecurityProtocol
from cluster.network.frame_reader import FrameReader
from cluster.network.network_counters import NetworkCounters
from cluster.network.response_slot import Answer
from cluster.network.transmission import Progress, ShortFileError, Transmission, read_from_disk

logger = logging.getLogger(__name__)


class SocketConnection(Connection):
    """One accepted TCP connection, served by `run`.

    Args:
        sock: The accepted socket, non-blocking; the connection owns and closes it.
        peer_host: The peer's address.
        peer_port: The peer's port.
        listener_name: Where it came in.
        dispatch: Begins a request.
        pool: Receive buffers.
        frame_size_max: ``socket.request.max.bytes``.
        security_protocol: The listener's.
        budget: The broker's bytes in flight.
        counters: Where bytes and requests are counted.
        in_flight_bytes_max: The bound of this connection.
    """

    __slots__ = (
        "_frames",
        "_nursery",
        "_pool",
        "_room",
        "_socket",
        "_transmission",
        "_writer",
        "_writes",
    )

    def __init__(
        self,
        sock: socket.socket,
        peer_host: str,
        peer_port: int,
        listener_name: str,
        dispatch: Dispatch,
        *,
        pool: BufferPool,
        frame_size_max: int,
        security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT,
        budget: ByteBudget | None = None,
        counters: NetworkCounters | None = None,
        in_flight_bytes_max: int = IN_FLIGHT_BYTES_MAX,
    ) -> None:
        super().__init__(
            peer_host,
            peer_port,
            listener_name,
            dispatch,
            security_protocol=security_protocol,
            budget=budget,
            counters=counters,
            in_flight_bytes_max=in_flight_bytes_max,
        )
        self._socket = sock
        self._pool = pool
        self._frames = FrameReader(pool, frame_size_max)
        self._transmission = Transmission(sock, pool)
        self._nursery: trio.Nursery | None = None
        self._writer = trio.lowlevel.ParkingLot()
        self._writes = False
        self._room = trio.lowlevel.ParkingLot()

    @property
    def sent_bytes(self) -> int:
        """Bytes that the socket has taken."""
        return self._transmission.sent_bytes

    @property
    def is_inside_frame(self) -> bool:
        """Whether the peer has sent a part of a request."""
        return self._frames.is_inside_frame

    @property
    def is_sending(self) -> bool:
        """Whether an answer waits for the peer to take it."""
        return bool(self._transmission)

    async def run(self) -> None:
        """Serve until the peer leaves or misbehaves, or the connection is closed.

        Cancelled or not, the connection is closed afterwards and its unsent answers are lost.
        """
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                if self.closed:
                    return
                await self._read()
                nursery.cancel_scope.cancel()
        finally:
            self.close()

    async def _read(self) -> None:
        sock = self._socket
        wait_readable = trio.lowlevel.wait_readable
        while not self.closed:
            if self.reads_no_more:
                # The answers under way close the connection; `close` cancels this wait.
                await trio.sleep_forever()
            try:
                await wait_readable(sock)
            except (trio.ClosedResourceError, ValueError):
                return  # closed under our hands; a closed socket's descriptor is -1
            if self.closed or self.reads_no_more:
                continue
            if not self._receive():
                return
            while self.waits_for_room:
                await self._room.park()
                if self.closed:
                    return
                self._begin_received()

    def _receive(self) -> bool:
        """Receive once and begin what has come; False if the peer has left."""
        frames = self._frames
        try:
            count = self._socket.recv_into(frames.space())
        except BlockingIOError:
            frames.settle()
            return True
        except OSError as error:
            logger.debug("%s is gone: %s", self.peer, error)
            return False
        if count == 0:
            return False
        self.received_bytes += count
        self._counters.received_bytes += count
        frames.received(count)
        self._begin_received()
        return not self.closed

    def _begin_received(self) -> None:
        """Begin every whole request in the buffer, as long as there is room in flight."""
        frames = self._frames
        if self._begin_requests(frames.next_frame):
            if self.closed:
                frames.abandon()
            else:
                frames.settle()

    def _transmit(self, answer: Answer) -> bool:
        try:
            before = self._transmission.sent_bytes
            progress = self._transmission.send(answer)
            self._counters.sent_bytes += self._transmission.sent_bytes - before
        except OSError as error:
            self._broken(error)
            return True
        if progress is Progress.DONE:
            return True
        self._wake_writer()
        return False

    def _wake_writer(self) -> None:
        if not self._writes:
            nursery = self._nursery
            if nursery is None or nursery.cancel_scope.cancel_called:
                return
            self._writes = True
            nursery.start_soon(self._write, name=f"writer to {self.peer}")
        else:
            self._writer.unpark()

    async def _write(self) -> None:
        """Send what the socket did not take at once, whenever there is some."""
        transmission = self._transmission
        while not self.closed:
            try:
                before = transmission.sent_bytes
                progress = transmission.pump()
                self._counters.sent_bytes += transmission.sent_bytes - before
                if progress is Progress.DONE:
                    self._all_transmitted()
                    if not transmission:
                        await self._writer.park()
                elif progress is Progress.BLOCKED:
                    await trio.lowlevel.wait_writable(self._socket)
                else:
                    data = await trio.to_thread.run_sync(read_from_disk, transmission.next_cold())
                    if not self.closed:
                        transmission.cold_data(data)
            except (trio.ClosedResourceError, ValueError):
                return
            except OSError as error:
                self._broken(error)

    def _broken(self, error: OSError) -> None:
        if isinstance(error, ShortFileError):
            logger.error("Closing the connection of %s on %s: %s", self.peer, self.listener_name, error)
        else:
            logger.debug("%s takes no more: %s", self.peer, error)
        self.close()

    def _room_again(self) -> None:
        self._room.unpark()

    def _disconnect(self) -> None:
        trio.lowlevel.notify_closing(self._socket)
        self._socket.close()
        self._transmission.clear()
        if not self.corked:
            self._frames.abandon()
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()
