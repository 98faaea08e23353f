"""Running a trio program so that one seed means one run."""

import random
from collections.abc import Awaitable, Callable
from typing import Any

import trio
import trio._core._run as _trio_run
import trio.testing


def run_deterministically(main: Callable[[], Awaitable[Any]], seed: int) -> Any:
    """Run a program on a clock that jumps to the next thing to do, with trio's own chance drawn from a seed.

    trio runs the tasks of one turn in an order that it draws from a generator of its own. It has no public way to seed
    it; Hypothesis and pytest-trio do it as here. The order of sets of strings depends on ``PYTHONHASHSEED``, which must
    be the same in runs that are to be the same.

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
