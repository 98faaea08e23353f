"""The rate of new connections (KIP-612): a limit per second, measured over windows as Kafka does."""

from collections import deque
from typing import Final

NO_LIMIT: Final = 2**31 - 1


class CreationRate:
    """Counts new connections, and says how long to pause accepting so that the limit is kept.

    The rate is taken over all windows that are kept, so a burst after a quiet time is let through as far as the average
    allows. A pause lasts until the average is down to the limit, but no longer than a window; what comes after it is
    let through and counted again.

    Args:
        windows: How many windows are kept, the present one among them (``quota.window.num``).
        window_s: How long one is, in seconds (``quota.window.size.seconds``).

    Attributes:
        limit: Connections a second; may be changed at any time.
    """

    __slots__ = ("_counts", "_window_s", "_windows", "limit")

    def __init__(self, windows: int, window_s: float) -> None:
        self.limit = NO_LIMIT
        self._windows = windows
        self._window_s = window_s
        self._counts: deque[tuple[float, int]] = deque()

    def record(self, now_s: float) -> float:
        """Count a connection.

        Args:
            now_s: Monotonic time, in seconds.

        Returns:
            For how many seconds to accept no more; 0 while the limit is kept.
        """
        if self.limit >= NO_LIMIT:
            self._counts.clear()
            return 0.0
        counts, window_s = self._counts, self._window_s
        while counts and counts[0][0] <= now_s - self._windows * window_s:
            counts.popleft()
        if counts and now_s < counts[-1][0] + window_s:
            start_s, count = counts.pop()
            counts.append((start_s, count + 1))
        else:
            counts.append((now_s, 1))
        elapsed_s = self._elapsed_s(now_s)
        taken = sum(count for _, count in counts)
        if taken <= self.limit * elapsed_s:
            return 0.0
        if self.limit == 0:
            return window_s
        return min(taken / self.limit - elapsed_s, window_s)

    def _elapsed_s(self, now_s: float) -> float:
        """Return the seconds that the windows cover, missing ones included, so that a new count is no high rate."""
        elapsed_s = now_s - self._counts[0][0]
        missing = self._windows - 1 - int(elapsed_s / self._window_s)
        return max(elapsed_s + max(missing, 0) * self._window_s, self._window_s)
