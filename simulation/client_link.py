"""A connection of the client library over the simulated network: in place of `ottla.client.link.Link`."""

from collections import deque
from collections.abc import Awaitable, Callable
from struct import Struct
from typing import Final

import trio

from ottla.addresses import Address
from ottla.client.errors import BrokerUnreachable
from simulation.network import SimulatedNetwork
from simulation.tcp_connection import End

_LENGTH: Final = Struct(">i")
_SPACE: Final = 64 * 1024


class SimulatedClientLink:
    """A connection to one address. One task receives; any may send.

    Attributes:
        address: What was dialled.
    """

    def __init__(self, end: End, address: Address) -> None:
        self.address = address
        self._end = end
        self._received = bytearray()
        self._space = memoryview(bytearray(_SPACE))
        self._backlog: deque[memoryview] = deque()

    @property
    def has_backlog(self) -> bool:
        """Whether some bytes still wait for the network to take them."""
        return bool(self._backlog)

    def send_nowait(self, *pieces: bytes | bytearray | memoryview) -> None:
        """Send what the network takes now, and keep the rest for `flush`.

        Raises:
            BrokerUnreachable: the connection is broken.
        """
        self._backlog.append(memoryview(b"".join(pieces)))
        if len(self._backlog) == 1:
            self._send_backlog()

    async def flush(self) -> None:
        """Send what is kept. Cancelled, it keeps the unsent rest.

        Raises:
            BrokerUnreachable: the connection is broken.
        """
        self._send_backlog()
        while self._backlog:
            await self._end.wait_writable()
            self._send_backlog()

    async def receive_frame(self) -> bytes:
        """Return the next frame, without its length. Cancelled, nothing is lost.

        Raises:
            BrokerUnreachable: the connection was closed or broke.
        """
        received = self._received
        while True:
            if len(received) >= _LENGTH.size:
                whole = _LENGTH.size + _LENGTH.unpack_from(received)[0]
                if len(received) >= whole:
                    frame = bytes(received[_LENGTH.size : whole])
                    del received[:whole]
                    return frame
            await self._end.wait_readable()
            try:
                count = self._end.receive_into(self._space)
            except OSError as error:
                raise self._broken(error) from None
            if count == 0:
                raise BrokerUnreachable(f"{self.address} closed the connection")
            if count is not None:
                received += self._space[:count]

    def close(self) -> None:
        """Close this side; a task that waits for it gets `trio.ClosedResourceError`."""
        self._end.close()

    def _send_backlog(self) -> None:
        backlog = self._backlog
        try:
            while backlog:
                sent = self._end.send(backlog[0])
                if sent == 0:
                    return
                if sent == len(backlog[0]):
                    backlog.popleft()
                else:
                    backlog[0] = backlog[0][sent:]
        except OSError as error:
            raise self._broken(error) from None

    def _broken(self, error: OSError) -> BrokerUnreachable:
        return BrokerUnreachable(f"the connection to {self.address} broke: {error.strerror or error}")


def client_dialer(
    network: SimulatedNetwork, host: str
) -> Callable[[Address, float], Awaitable[SimulatedClientLink]]:
    """Return the function that connects the clients on a simulated machine: the `dialer` of a `Kafka`.

    Args:
        network: The network.
        host: The machine that the clients run on.
    """

    async def dial(address: Address, timeout_s: float) -> SimulatedClientLink:
        network.host(host)
        with trio.move_on_after(timeout_s):
            try:
                end = await network.connect(host, address.host, address.port)
            except OSError as error:
                raise BrokerUnreachable(f"{address}: {error.strerror or error}") from None
            return SimulatedClientLink(end, address)
        raise BrokerUnreachable(f"{address}: no connection within {timeout_s:g} s")

    return dial
