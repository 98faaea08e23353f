"""Time in a simulation: both clocks of every machine go with trio's."""

from typing import Final

import trio

from wire.types import MonotonicSeconds, WallMs

WALL_START_MS: Final = 1_700_000_000_000
"""The wall clock when the simulation begins."""


class SimulatedClock:
    """Both clocks of a machine, driven by trio's clock: a `MockClock` moves all of them at once."""

    def wall_ms(self) -> WallMs:
        """Return milliseconds since 1970."""
        return WallMs(WALL_START_MS + int(trio.current_time() * 1000))

    def monotonic(self) -> MonotonicSeconds:
        """Return seconds since the simulation began."""
        return MonotonicSeconds(trio.current_time())
