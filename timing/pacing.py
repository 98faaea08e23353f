"""Yielding to the event loop during work on many items."""

from typing import Final

import trio

from timing.clock import Clock

TURN_S: Final = 0.004
"""How long such work may block the loop at a time, in seconds."""
ITEMS_MAX: Final = 64
"""How many items it may handle at a time, however quickly: a limit for simulations, where time stands still."""


class Pacer:
    """Counts items and time since the last turn of the loop.

    Args:
        clock: Monotonic time.
        items_max: How many items may be handled in one turn.
    """

    __slots__ = ("_clock", "_ends", "_items", "_items_max")

    def __init__(self, clock: Clock, items_max: int = ITEMS_MAX) -> None:
        self._clock = clock
        self._items_max = items_max
        self._items = 0
        self._ends = clock.monotonic() + TURN_S

    async def pace(self) -> None:
        """Count a handled item; yield to the loop when the turn is used up.

        Shared state may have changed afterwards.
        """
        self._items += 1
        if self._items >= self._items_max or self._clock.monotonic() >= self._ends:
            await trio.lowlevel.checkpoint()
            self._items = 0
            self._ends = self._clock.monotonic() + TURN_S
