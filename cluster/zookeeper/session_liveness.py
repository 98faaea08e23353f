"""The clock by which a controller fences itself: how long ago was a probe sent that ZooKeeper then answered?

ZooKeeper counts a session's silence from what it last *received*, which is later than our sending of it. So a
session whose last answered probe was sent less than its timeout ago is alive, whatever has happened since;
past that nothing is known, and a controller must act as if another one were elected. Waiting to be told is
not enough: kazoo tells an expiry only after it has reconnected.
"""

from typing import Final

from wire.types import MonotonicSeconds

PROBES_PER_TIMEOUT: Final = 6


class SessionLiveness:
    """When the session was last known to live. Never known before the first answer."""

    __slots__ = ("_last_sent_at", "timeout_s")

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._last_sent_at: MonotonicSeconds | None = None

    @property
    def probe_interval_s(self) -> float:
        """How long to wait between two probes, in seconds."""
        return self.timeout_s / PROBES_PER_TIMEOUT

    def answered(self, sent_at: MonotonicSeconds) -> None:
        """Note that a probe was answered.

        Args:
            sent_at: When it was handed over to be sent, not when its answer came.
        """
        if self._last_sent_at is None or sent_at > self._last_sent_at:
            self._last_sent_at = sent_at

    def lost(self) -> None:
        """Note that the session is gone."""
        self._last_sent_at = None

    def is_live(self, now: MonotonicSeconds) -> bool:
        """Tell whether the session must be alive now."""
        return self._last_sent_at is not None and now - self._last_sent_at < self.timeout_s
