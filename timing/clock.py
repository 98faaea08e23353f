"""Wall and monotonic clocks, handed in by constructor so that tests control them.

Wall time stamps records and decides retention; monotonic time measures delays. They are different types.
"""

import time
from collections.abc import Callable
from typing import Protocol

from wire.types import MonotonicSeconds, WallMs


class Clock(Protocol):
    """Both clocks of a machine, or of a simulation."""

    def wall_ms(self) -> WallMs:
        """Return milliseconds since 1970; it may jump either way."""
        ...

    def monotonic(self) -> MonotonicSeconds:
        """Return seconds on a clock that never goes back."""
        ...


class RecordClock(Clock, Protocol):
    """A clock that is read for each record, where a Python call of its own would cost too much."""

    @property
    def wall_ns(self) -> Callable[[], int]:
        """The function that returns nanoseconds since 1970."""
        ...


class SystemClock:
    """The machine's own clocks. The only place that reads them."""

    __slots__ = ()

    wall_ns = staticmethod(time.time_ns)

    def wall_ms(self) -> WallMs:
        """Return milliseconds since 1970 on the machine's wall clock."""
        # The NewType's call would cost as much as the rest, and this is called for each record.
        return time.time_ns() // 1_000_000  # type: ignore[return-value]

    def monotonic(self) -> MonotonicSeconds:
        """Return seconds on the machine's monotonic clock."""
        return MonotonicSeconds(time.monotonic())

    def boottime(self) -> float:
        """Return seconds on a clock that never goes back and keeps counting while the machine is suspended."""
        return (
            time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
        )
