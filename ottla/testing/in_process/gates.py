"""Which ends of a cluster reach each other at this moment, and waiting until they do."""

from typing import Final

import trio

CLIENTS: Final = "clients"
"""The end that all clients are, in the names of ends; a broker's is its id as text."""
ZOOKEEPER: Final = "ZooKeeper"


class Gates:
    """What is cut and what is paused. Nothing is lost at a closed gate: it waits, as on a network that sends again."""

    def __init__(self) -> None:
        self._paused: set[str] = set()
        self._cut: set[frozenset[str]] = set()
        self._changed = trio.Event()

    def pause(self, end: str) -> None:
        """Close every gate of one end, as if its process had been stopped."""
        self._paused.add(end)
        self._note_change()

    def resume(self, end: str) -> None:
        """Take a pause back; cuts stay."""
        self._paused.discard(end)
        self._note_change()

    def cut(self, first: str, second: str) -> None:
        """Close the gate between two ends, both ways."""
        self._cut.add(frozenset((first, second)))
        self._note_change()

    def heal(self, end: str | None = None) -> None:
        """Take back the cuts of one end, or all of them; pauses stay."""
        self._cut = set() if end is None else {pair for pair in self._cut if end not in pair}
        self._note_change()

    def is_paused(self, end: str) -> bool:
        """Tell whether an end is paused."""
        return end in self._paused

    def is_open(self, first: str, second: str) -> bool:
        """Tell whether two ends reach each other."""
        return not (
            first in self._paused or second in self._paused or frozenset((first, second)) in self._cut
        )

    async def dialable(self, source: str, target: str) -> None:
        """Wait until a connection can be made: a paused end takes none up, but its system accepts them."""
        while source in self._paused or frozenset((source, target)) in self._cut:
            await self._changed.wait()

    async def passable(self, first: str, second: str) -> None:
        """Wait until two ends reach each other; returns without a checkpoint where they do."""
        while not self.is_open(first, second):
            await self._changed.wait()

    async def change(self) -> None:
        """Wait for the next change of any gate."""
        await self._changed.wait()

    def _note_change(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()
