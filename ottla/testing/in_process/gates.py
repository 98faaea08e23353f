"""Which ends of a cluster can reach each other now, and waiting until they can."""

from typing import Final

import trio

CLIENTS: Final = "clients"
"""The name of the end that stands for all clients; a broker's end is named by its id as text."""
ZOOKEEPER: Final = "ZooKeeper"


class Gates:
    """What is cut and what is paused. Nothing is lost at a closed gate: it waits, as on a network that retransmits."""

    def __init__(self) -> None:
        self._paused: set[str] = set()
        self._cut: set[frozenset[str]] = set()
        self._changed = trio.Event()

    def pause(self, end: str) -> None:
        """Close every gate of one end, as if its process had been stopped."""
        self._paused.add(end)
        self._note_change()

    def resume(self, end: str) -> None:
        """Undo a pause; cuts stay."""
        self._paused.discard(end)
        self._note_change()

    def cut(self, first: str, second: str) -> None:
        """Close the gate between two ends, both ways."""
        self._cut.add(frozenset((first, second)))
        self._note_change()

    def heal(self, end: str | None = None) -> None:
        """Undo the cuts of one end, or all of them; pauses stay."""
        self._cut = set() if end is None else {pair for pair in self._cut if end not in pair}
        self._note_change()

    def is_paused(self, end: str) -> bool:
        """Return whether an end is paused."""
        return end in self._paused

    def is_open(self, first: str, second: str) -> bool:
        """Return whether two ends can reach each other."""
        return not (
            first in self._paused or second in self._paused or frozenset((first, second)) in self._cut
        )

    async def dialable(self, source: str, target: str) -> None:
        """Wait until a connection can be made; to a paused end it can, since its kernel still accepts connections."""
        while source in self._paused or frozenset((source, target)) in self._cut:
            await self._changed.wait()

    async def passable(self, first: str, second: str) -> None:
        """Wait until two ends can reach each other; returns without a checkpoint if they can already."""
        while not self.is_open(first, second):
            await self._changed.wait()

    async def change(self) -> None:
        """Wait for the next change of any gate."""
        await self._changed.wait()

    def _note_change(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()
