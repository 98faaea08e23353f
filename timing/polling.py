"""Waiting for a condition that nobody announces: by looking again and again."""

import time
from collections.abc import Callable
from typing import TypeVar

from timing.clock import Clock

T = TypeVar("T")


def poll_until(
    look: Callable[[], T | None], clock: Clock, *, timeout_s: float, interval_s: float
) -> T | None:
    """Look until there is something to see.

    Args:
        look: Returns what it sees; None and False mean nothing yet.
        clock: Measures the timeout.
        timeout_s: How long to go on, in seconds. It looks once in any case.
        interval_s: The pause between two looks, in seconds.

    Returns:
        What was seen; None if there was nothing in time.
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
    """Pause the thread between two looks; the handlers of signals run meanwhile."""
    time.sleep(interval_s)  # noqa: TID251 - the one place: every other wait is for a condition
