"""Time in a simulation: both clocks of every machine follow trio's."""

from contextlib import suppress
from typing import Final

import trio

from wire.types import MonotonicSeconds, WallMs

WALL_START_MS: Final = 1_700_000_000_000
"""The wall clock when the simulation begins."""


class SimulatedClock:
    """Both clocks of a machine, driven by trio's clock: a `MockClock` moves all of them at once.

    Attributes:
        jump_ms: How far a fault has set the wall clock off, in milliseconds.
    """

    def __init__(self) -> None:
        self.jump_ms = 0
        self._latest = 0.0

    def wall_ms(self) -> WallMs:
        """Return milliseconds since 1970."""
        return WallMs(WALL_START_MS + self.jump_ms + int(self.monotonic() * 1000))

    def wall_ns(self) -> int:
        """Return nanoseconds since 1970."""
        return self.wall_ms() * 1_000_000

    def monotonic(self) -> MonotonicSeconds:
        """Return seconds since the simulation began.

        In a thread that works while the loop waits for it, time stands still.
        """
        with suppress(RuntimeError):
            self._latest = trio.current_time()
        return MonotonicSeconds(self._latest)
