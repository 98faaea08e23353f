"""Exponential back-off with jitter (KIP-580)."""

import random
from typing import Final

_EXPONENT_MAX: Final = 32
"""Doublings after which every maximum is reached; larger powers would overflow a float."""


class Backoff:
    """How long to wait before the next attempt: ``min(maximum, base * 2^failures * U(0.8, 1.2))``.

    The maximum is applied after the jitter, so that it is never exceeded.

    Args:
        base_s: Seconds before the second attempt, jitter aside.
        maximum_s: The longest wait, in seconds.
        source: Where the jitter comes from.
    """

    __slots__ = ("_base_s", "_maximum_s", "_source")

    def __init__(self, base_s: float, maximum_s: float, source: random.Random) -> None:
        self._base_s = base_s
        self._maximum_s = maximum_s
        self._source = source

    def delay_s(self, failures: int) -> float:
        """Return the seconds to wait after this many failures before (0: the first one)."""
        grown: float = self._base_s * 2 ** min(failures, _EXPONENT_MAX)
        return min(self._maximum_s, grown * self._source.uniform(0.8, 1.2))
