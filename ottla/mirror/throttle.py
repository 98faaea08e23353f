"""A limit of bytes a second. No I/O."""


class Throttle:
    """Delays what is sent so that it stays within a rate; unused time is not saved up.

    Args:
        rate: Bytes a second; None for no bound.
        now: Seconds.
    """

    def __init__(self, rate: float | None, now: float) -> None:
        self._rate = rate
        self._paid_until = now

    def delay_s(self, size: int, now: float) -> float:
        """Take bytes, and return how long to wait before they are sent."""
        if self._rate is None:
            return 0.0
        self._paid_until = max(self._paid_until, now) + size / self._rate
        return max(0.0, self._paid_until - size / self._rate - now)
