"""The two meters that quotas are measured with: a rate over sampled windows, and a token bucket (KIP-599).

Both count time in whole milliseconds of any one clock, and behave to the millisecond as Kafka's Rate, SampledStat and
TokenBucket do, because clients are tuned to how those treat a burst.

Example: with 11 samples of a second and a quota of 1 MB/s, 20 MB at once after silence are a rate of 2 MB/s over a
window of 10 s; the throttle time is 10 s. 10 MB at once are no violation.
"""

import math
from typing import Final

_START, _LAST, _TOTAL = range(3)
MS_PER_S: Final = 1000


def java_round(value: float) -> int:
    """Round as Java's Math.round does: halves go up, without an addition that rounds by itself."""
    whole = math.floor(value)
    return whole + (value - whole >= 0.5)


class RateMeter:
    """A rate over the last windows; a burst counts for as long as its sample is kept.

    Args:
        samples: How many samples count (`quota.window.num`).
        window_ms: How long one is (`quota.window.size.seconds`).
    """

    __slots__ = ("_current", "_ring", "_samples", "_window_ms")

    def __init__(self, samples: int, window_ms: int) -> None:
        self._samples = samples
        self._window_ms = window_ms
        # One more sample is kept than counts: the oldest leaves gradually.
        self._ring: list[list[float]] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Count something that happened now; a negative value takes back what was counted."""
        ring = self._ring
        if not ring:
            ring.append([now_ms, now_ms, 0.0])
        sample = ring[self._current]
        if now_ms - sample[_START] >= self._window_ms:
            self._current = (self._current + 1) % (self._samples + 1)
            if self._current >= len(ring):
                ring.append([now_ms, now_ms, 0.0])
            sample = ring[self._current]
            sample[:] = [now_ms, now_ms, 0.0]
        sample[_TOTAL] += value
        sample[_LAST] = now_ms

    def per_second(self, now_ms: int) -> float:
        """Return the rate per second."""
        # In Kafka's order: another order rounds differently, and a throttle time could be a millisecond off.
        return self.total(now_ms) / (self.elapsed_ms(now_ms) / MS_PER_S)

    def total(self, now_ms: int) -> float:
        """Return the sum of the samples that count."""
        self._purge(now_ms)
        return sum(sample[_TOTAL] for sample in self._ring)

    def elapsed_ms(self, now_ms: int) -> int:
        """Return the milliseconds that the samples cover, missing ones included: a new count is no high rate."""
        self._purge(now_ms)
        oldest = min((sample[_START] for sample in self._ring), default=now_ms)
        elapsed = int(now_ms - oldest)
        missing = self._samples - 1 - elapsed // self._window_ms
        return max(elapsed + max(missing, 0) * self._window_ms, 1)

    def excess_ms(self, limit: float, now_ms: int) -> int:
        """Return for how many milliseconds to throttle until the rate is down to a limit; 0 while it is kept."""
        rate = self.per_second(now_ms)
        if rate <= limit:
            return 0
        return java_round((rate - limit) / limit * self.elapsed_ms(now_ms))

    def _purge(self, now_ms: int) -> None:
        expiry_ms = self._samples * self._window_ms
        for sample in self._ring:
            if now_ms - sample[_LAST] >= expiry_ms:
                sample[:] = [now_ms, now_ms, 0.0]


class TokenBucket:
    """Tokens that refill continuously; it starts full, and may be overdrawn by any number.

    Args:
        samples: How many windows the bucket holds (`controller.quota.window.num`).
        window_ms: How long one is (`controller.quota.window.size.seconds`).
    """

    __slots__ = ("_capacity_s", "_tokens", "_updated_ms")

    def __init__(self, samples: int, window_ms: int) -> None:
        self._capacity_s = samples * window_ms / MS_PER_S
        self._tokens: float | None = None
        self._updated_ms = 0

    def tokens(self, limit: float, now_ms: int) -> float:
        """Return the present number of tokens; below 0 the bucket is overdrawn.

        Args:
            limit: The tokens that are added in a second.
            now_ms: The time now.
        """
        capacity = self._capacity_s * limit
        if self._tokens is None:
            self._tokens = capacity
        else:
            elapsed_s = (now_ms - self._updated_ms) / MS_PER_S
            self._tokens = min(capacity, self._tokens + limit * elapsed_s)
        self._updated_ms = now_ms
        return self._tokens

    def take(self, count: float, limit: float, now_ms: int) -> None:
        """Take tokens, whether or not there are as many; a negative count returns some."""
        capacity = self._capacity_s * limit
        self._tokens = min(capacity, self.tokens(limit, now_ms) - count)

    def overdrawn_ms(self, limit: float, now_ms: int) -> int:
        """Return for how many milliseconds to throttle until no token is owed."""
        tokens = self.tokens(limit, now_ms)
        return java_round(-tokens / limit * MS_PER_S) if tokens < 0 else 0
