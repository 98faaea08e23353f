"""A connection over TCP: the trio shell around `frame_reader`, `connection` and `transmission`.

Two tasks at most. The reader waits for the socket to be readable, receives once, and begins every whole
request that has come, synchronously. The writer is started by the first answer that the socket does not take whole, and
sleeps again when everything is sent: an answer that the socket takes at once, as nearly all are, costs no task switch.

The socket is a raw one on trio's readiness. trio's own streams would set TCP_NOTSENT_LOWAT, which costs more
than nine tenths of the rate.
"""

import contextlib
import logging
import select
import socket
import ssl
from typing import Final

import trio

from cluster.network.buffer_pool import BufferPool
from cluster.network.byte_budget import ByteBudget
from cluster.network.connection import IN_FLIGHT_BYTES_MAX, Connection, Dispatch
from cluster.network.endpoints import SecurityProtocol
from cluster.network.frame_reader import FrameReader
from cluster.network.listener_security import ListenerSecurity
from cluster.network.network_counters import NetworkCounters
from cluster.network.response_slot import Answer, ResponseSlot
from cluster.network.tls_listener import UnnamedPeerError
from cluster.network.tls_transmission import TlsTransmission
from cluster.network.transmission import Progress, ShortFileError, Transmission, read_from_disk
from security.tls_session import TlsSession, failure_text

logger = logging.getLogger(__name__)

# Elsewhere than on Linux a close is seen only once everything before it has been read.
_GONE: Final = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR
LINGER_S: Final = 1.0
"""How long a refused peer may take to read the answer before the connection is closed."""
DISCARD_BYTES: Final = 64 * 1024
CONTROL_BYTES_MAX: Final = 64 * 1024
"""How many bytes of TLS's own messages may wait for a peer that does not read: answers to key updates, alerts."""
LOW_WATER_MAX: Final = 16 * 1024
"""The most bytes of a request that are left in the socket before the reader is woken; see `_await_bytes`."""
RECORD_BYTES_MAX: Final = 17 * 1024
"""The size of a TLS record with header and tag; OpenSSL can hold all of it but the last byte."""
_COLD_READS: Final = trio.CapacityLimiter(16)
"""The threads that read cold ranges of logs for clients, so that a disk that does not answer blocks no other work."""


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
        guard: The authentication that the peer has to pass; None on a PLAINTEXT listener.
    """

    __slots__ = (
        "_frames",
        "_guard",
        "_low_water",
        "_nursery",
        "_pool",
        "_room",
        "_socket",
        "_tls",
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
        guard: ListenerSecurity | None = None,
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
        self._guard = guard
        self._tls = None if guard is None or guard.tls is None else guard.tls.session()
        if self._tls is None:
            self._transmission = Transmission(sock, pool)
        else:
            self._transmission = TlsTransmission(sock, pool, self._tls)
        self._nursery: trio.Nursery | None = None
        self._writer = trio.lowlevel.ParkingLot()
        self._writes = False
        self._room = trio.lowlevel.ParkingLot()
        self._low_water = 1

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

    @property
    def peer_has_gone(self) -> bool:
        """Whether the peer has closed its side or broken the connection, whatever it sent before that."""
        if self.closed:
            return True
        poll = select.poll()
        poll.register(self._socket, _GONE)
        return bool(poll.poll(0))

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
        if self._tls is not None and not await self._shake_hands(self._tls):
            return
        receive = self._receive if self._tls is None else self._receive_tls
        wait_readable = trio.lowlevel.wait_readable
        while not self.closed:
            if self.reads_no_more:
                # The answers under way close the connection; `close` cancels this wait.
                await trio.sleep_forever()
            try:
                await wait_readable(sock)
            except (trio.ClosedResourceError, ValueError):
                return  # closed while we waited; a closed socket's descriptor is -1
            if self.closed or self.reads_no_more:
                continue
            if not receive():
                return
            while self.waits_for_room:
                await self._room.park()
                if self.closed:
                    return
                self._begin_received()
                if self._tls is not None and not self._decrypt(self._tls):
                    return

    def _receive(self) -> bool:
        """Receive once and begin the requests that are complete; False if the peer has left."""
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
        if self.closed:
            return False
        self._await_bytes(frames.missing_bytes)
        return True

    def _await_bytes(self, missing: int) -> None:
        """Have the system wake the reader for many bytes at a time while the rest of a large request comes.

        A client that encrypts each record of a batch by itself sends a packet for each, and a wake for each
        would cost more than its decryption. Nothing is delayed: a request begins only when the whole of it is here.
        """
        low_water = LOW_WATER_MAX if missing >= LOW_WATER_MAX else 1
        if low_water != self._low_water:
            self._low_water = low_water
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, low_water)

    async def _shake_hands(self, tls: TlsSession) -> bool:
        """Complete the TLS handshake, and name the peer; False if the connection is to be closed."""
        guard = self._guard
        assert guard is not None
        assert guard.tls is not None
        scratch = guard.tls.scratch
        try:
            while True:
                await trio.lowlevel.wait_readable(self._socket)
                count = self._receive_into(scratch)
                if count is None:
                    continue
                if count == 0:
                    guard.failed_handshake(
                        self, "the peer ended the connection during the handshake", self._counters
                    )
                    return False
                tls.feed(scratch[:count])
                async with guard.tls.turns:
                    is_complete = tls.handshake()
                    # The turn is held for one round of the loop: other tasks run between the handshakes.
                    await trio.lowlevel.checkpoint()
                self._flush()
                if self.closed:
                    return False
                if is_complete:
                    guard.passed_tls(self, tls, self._counters)
                    return self._decrypt(tls)
        except (trio.ClosedResourceError, ValueError):
            return False
        except (ssl.SSLError, UnnamedPeerError) as error:
            text = failure_text(error) if isinstance(error, ssl.SSLError) else str(error)
            guard.failed_handshake(self, text, self._counters)
            self._flush()
            await self._see_out()
            return False

    def _receive_into(self, space: memoryview) -> int | None:
        """Receive once and return the number of bytes; None if there are none, 0 if the peer has left."""
        try:
            count = self._socket.recv_into(space)
        except BlockingIOError:
            return None
        except OSError as error:
            logger.debug("%s is gone: %s", self.peer, error)
            return 0
        self.received_bytes += count
        self._counters.received_bytes += count
        return count

    def _receive_tls(self) -> bool:
        """Receive once, decrypt, and begin the requests that are complete; False if the peer has left."""
        tls, guard = self._tls, self._guard
        assert tls is not None
        assert guard is not None
        assert guard.tls is not None
        scratch = guard.tls.scratch
        count = self._receive_into(scratch)
        if count is None:
            return True
        if count == 0:
            return False
        tls.feed(scratch[:count])
        return self._decrypt(tls)

    def _decrypt(self, tls: TlsSession) -> bool:
        """Begin every whole request that TLS holds, as long as there is room in flight; False at the end."""
        frames = self._frames
        try:
            while not (self.closed or self.reads_no_more or self.waits_for_room):
                count = tls.read_into(frames.space())
                if count is None:
                    frames.settle()
                    break
                if count == 0:
                    return False
                frames.received(count)
                self._begin_received()
        except ssl.SSLError as error:
            if not self.closed:
                self.cut_off(failure_text(error))
            return False
        if tls.outgoing_size:
            if tls.outgoing_size > CONTROL_BYTES_MAX:
                self.cut_off("it floods the connection with messages of TLS itself")
                return False
            self._flush()
        if self.closed:
            return False
        # The part of a record that OpenSSL holds is no longer in the socket, and not yet in the frame.
        self._await_bytes(frames.missing_bytes - RECORD_BYTES_MAX)
        return True

    def _flush(self) -> None:
        """Send TLS's own messages."""
        try:
            before = self._transmission.sent_bytes
            progress = self._transmission.pump()
            self._counters.sent_bytes += self._transmission.sent_bytes - before
        except OSError as error:
            self._broken(error)
            return
        if progress is not Progress.DONE:
            self._wake_writer()

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
                    data = await trio.to_thread.run_sync(
                        read_from_disk, transmission.next_cold(), limiter=_COLD_READS
                    )
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

    def _say_goodbye(self, tls: TlsSession) -> None:
        """Send close_notify, if the socket takes it at once: without it a peer may suspect truncation."""
        if self._transmission:
            return
        tls.close()
        with contextlib.suppress(OSError):
            self._socket.send(tls.outgoing())

    def _room_again(self) -> None:
        self._room.unpark()

    def _limit_frames(self, size_max: int) -> None:
        self._frames.frame_size_max = size_max

    def refuse(self, slot: ResponseSlot, answer: Answer | None, delay_s: float) -> None:
        """Close the connection of a peer that failed to authenticate, `delay_s` from now."""
        self.reads_no_more = True
        nursery = self._nursery
        if nursery is None or nursery.cancel_scope.cancel_called:
            self.close()
            return
        nursery.start_soon(self._refuse_later, slot, answer, delay_s, name=f"refusal of {self.peer}")

    def _discard(self) -> bool:
        """Discard input; False if the peer has left."""
        try:
            return bool(self._socket.recv(DISCARD_BYTES))
        except BlockingIOError:
            return True
        except OSError:
            return False

    async def _refuse_later(self, slot: ResponseSlot, answer: Answer | None, delay_s: float) -> None:
        """Send a last answer and wait until it is read: closing with unread input would reset the connection."""
        await trio.sleep(delay_s)
        if self.closed:
            return
        if answer is not None:
            self.lingers = True
            slot.complete(answer)
        await self._see_out()

    async def _see_out(self) -> None:
        """Wait until the peer has read the last answer, and close."""
        with trio.move_on_after(LINGER_S), contextlib.suppress(OSError, trio.ClosedResourceError, ValueError):
            while not self.closed and self._transmission:
                await trio.lowlevel.wait_writable(self._socket)
            if not self.closed:
                self._socket.shutdown(socket.SHUT_WR)
            while not self.closed and self._discard():
                await trio.lowlevel.wait_readable(self._socket)
        self.close()

    def _disconnect(self) -> None:
        if self._tls is not None and self._tls.established:
            self._say_goodbye(self._tls)
        trio.lowlevel.notify_closing(self._socket)
        self._socket.close()
        self._transmission.clear()
        if not self.corked:
            self._frames.abandon()
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()
