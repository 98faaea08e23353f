"""A connection that a simulated machine made: the client's side."""

from typing import Final

from simulation.tcp_connection import End


class SimulatedLink:
    """An implementation of `cluster.network.dialling.Link` over a simulated connection."""

    __slots__ = ("_end",)

    usable_until: Final = None

    def __init__(self, end: End) -> None:
        self._end = end

    async def send(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of `data`."""
        left = memoryview(data)
        while True:
            left = left[self._end.send(left) :]
            if not left:
                return
            await self._end.wait_writable()

    async def receive_into(self, space: memoryview) -> int:
        """Receive what has arrived; wait until something has."""
        while True:
            await self._end.wait_readable()
            count = self._end.receive_into(space)
            if count is not None:
                return count

    def close(self) -> None:
        """Close this side."""
        self._end.close()
