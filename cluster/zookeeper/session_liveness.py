"""The clock by which a controller fences itself: how long ago was a probe sent that ZooKeeper then answered?

ZooKeeper counts a session's silence from the last message it *received*, which is later than when we sent it. So a
session whose last answered probe was sent less than its timeout ago is alive, whatever has happened since; after that
nothing is known, and a controller must act as if another one were elected. To wait for the expiry event is not enough:
kazoo reports it only after it has reconnected.

The monotonic clock stands still while the machine is suspended, and ZooKeeper's does not: so the probe's age is also
taken from a clock that counts suspensions, and the greater age counts.
"""

from collections.abc import Callable
from typing import Final

from wire.types import MonotonicSeconds

PROBES_PER_TIMEOUT: Final = 6


class SessionLiveness:
    """Whether the session is known to be live; never before the first answer."""

    __slots__ = ("_boottime", "_last_sent_at", "_skew_s", "timeout_s")

    def __init__(self, timeout_s: float, boottime: Callable[[], float] | None = None) -> None:
        """Make it.

        Args:
            timeout_s: The session timeout, in seconds.
            boottime: A clock in seconds that goes on while the machine is suspended; None if there is none.
        """
        self.timeout_s = timeout_s
        self._boottime = boottime
        self._last_sent_at: MonotonicSeconds | None = None
        self._skew_s = 0.0
        """How far the boot clock was ahead of the monotonic one when that probe was sent."""

    @property
    def probe_interval_s(self) -> float:
        """How long to wait between two probes, in seconds."""
        return self.timeout_s / PROBES_PER_TIMEOUT

    def skew_s(self, now: MonotonicSeconds) -> float:
        """Return how far the boot clock is ahead of the monotonic one: it grows with each suspension."""
        return 0.0 if self._boottime is None else self._boottime() - now

    def answered(self, sent_at: MonotonicSeconds, skew_s: float = 0.0) -> None:
        """Note that a probe was answered.

        Args:
            sent_at: When it was handed over to be sent, not when its answer came.
            skew_s: What `skew_s` returned then.
        """
        if self._last_sent_at is None or sent_at > self._last_sent_at:
            self._last_sent_at = sent_at
            self._skew_s = skew_s

    def lost(self) -> None:
        """Note that the session is gone."""
        self._last_sent_at = None

    def is_live(self, now: MonotonicSeconds) -> bool:
        """Return whether the session must be alive now."""
        if self._last_sent_at is None:
            return False
        suspended_s = max(0.0, self.skew_s(now) - self._skew_s)
        return now - self._last_sent_at + suspended_s < self.timeout_s
