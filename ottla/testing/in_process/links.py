"""Connections between the brokers of one process, which stand still while a gate is closed."""

import contextlib
from collections.abc import AsyncIterator

import trio

from cluster.network.dialling import Link
from ottla.testing.in_process.gates import Gates


class GatedLink:
    """A connection of one broker to another.

    Args:
        inner: What carries the bytes.
        gates: What is cut.
        source: The end that dialled.
        target: The end that accepted.
    """

    def __init__(self, inner: Link, gates: Gates, source: str, target: str) -> None:
        self._inner = inner
        self._gates = gates
        self._ends = (source, target)
        self._waits: set[trio.CancelScope] = set()
        self._closed = False

    @property
    def usable_until(self) -> float | None:
        """When it is to be replaced, in seconds of the loop's clock; None for never."""
        return self._inner.usable_until

    async def send(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of `data`, once the gate is open."""
        async with self._interruptible():
            await self._gates.passable(*self._ends)
        await self._inner.send(data)

    async def receive_into(self, space: memoryview) -> int:
        """Receive what has come, or the end of the connection, once the gate is open."""
        try:
            return await self._inner.receive_into(space)
        finally:
            async with self._interruptible():
                await self._gates.passable(*self._ends)

    def close(self) -> None:
        """Close the connection; a task that waits at the gate gets trio.ClosedResourceError."""
        self._closed = True
        for scope in self._waits:
            scope.cancel()
        self._inner.close()

    @contextlib.asynccontextmanager
    async def _interruptible(self) -> AsyncIterator[None]:
        if self._closed:
            raise trio.ClosedResourceError
        with trio.CancelScope() as scope:
            self._waits.add(scope)
            try:
                yield
            finally:
                self._waits.discard(scope)
        if scope.cancelled_caught:
            raise trio.ClosedResourceError
