"""Waiting for what tells nobody when it comes about."""

import select
import time
from collections.abc import Callable

WAIT_TIMEOUT_S = 60.0
_LOOK_AGAIN_S = 0.02


def until(condition: Callable[[], object], timeout_s: float = WAIT_TIMEOUT_S) -> None:
    """Look until a condition holds; fail if it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s"
        select.select([], [], [], _LOOK_AGAIN_S)
