"""Waiting by polling, for conditions that no event announces."""

import time
from collections.abc import Callable
from typing import TypeVar

from timing.clock import Clock

T = TypeVar("T")


def poll_until(
    look: Callable[[], T | None], clock: Clock, *, timeout_s: float, interval_s: float
) -> T | None:
    """Call `look` until it returns something.

    Args:
        look: Returns what it sees; None and False mean nothing yet.
        clock: Measures the timeout.
        timeout_s: The time limit in seconds; `look` is called once in any case.
        interval_s: The pause between two calls, in seconds.

    Returns:
        What `look` returned; None if nothing came in time.
    """
    deadline = clock.monotonic() + timeout_s
    while True:
        seen = look()
        if seen is not None and seen is not False:
            return seen
        if clock.monotonic() >= deadline:
            return None
        pause_between_looks(interval_s)


def pause_between_looks(interval_s: float) -> None:
    """Pause the thread between two polls; signal handlers run meanwhile."""
    time.sleep(interval_s)  # noqa: TID251 - the one place: every other wait is for a condition
