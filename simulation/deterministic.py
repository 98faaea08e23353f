"""Running a trio program so that one seed means one run."""

import random
from collections.abc import Awaitable, Callable
from typing import Any

import trio
import trio._core._run as _trio_run
import trio.testing


def run_deterministically(main: Callable[[], Awaitable[Any]], seed: int) -> Any:
    """Run a program on a clock that jumps to the next thing to do, with trio's own chance drawn from a seed.

    trio draws the order of the tasks of one turn from a generator of its own, and has no public way to seed that;
    Hypothesis and pytest-trio do it as here. The order of sets of strings depends on ``PYTHONHASHSEED``, so only
    runs with the same value are the same.

    Args:
        main: The program.
        seed: The seed.

    Returns:
        What `main` returns.
    """
    internals: Any = _trio_run
    chance: random.Random = internals._r
    before = chance.getstate()
    allowed = internals._ALLOW_DETERMINISTIC_SCHEDULING
    chance.seed(seed)
    internals._ALLOW_DETERMINISTIC_SCHEDULING = True
    try:
        return trio.run(
            main, clock=trio.testing.MockClock(autojump_threshold=0), strict_exception_groups=True
        )
    finally:
        internals._ALLOW_DETERMINISTIC_SCHEDULING = allowed
        chance.setstate(before)
