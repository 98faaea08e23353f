"""Waiting for conditions that no event announces."""

from collections.abc import Callable

from timing.clock import SystemClock
from timing.polling import poll_until

WAIT_TIMEOUT_S = 60.0
_LOOK_AGAIN_S = 0.02


def until(condition: Callable[[], object], timeout_s: float = WAIT_TIMEOUT_S) -> None:
    """Poll until a condition holds; fail if it does not in time."""
    found = poll_until(
        lambda: bool(condition()), SystemClock(), timeout_s=timeout_s, interval_s=_LOOK_AGAIN_S
    )
    assert found, f"not within {timeout_s:g} s"
