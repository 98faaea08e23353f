"""The pending actions of a simulated world, in the order of their times.

Actions of equal time happen in the order in which they were added, so that a run depends only on the times that a seed
gave.
"""

import math
from collections.abc import Callable
from heapq import heappop, heappush
from typing import NoReturn

import trio


class Scheduler:
    """Synchronous actions at times of trio's clock, done by one task.

    `at` may be called from anywhere on the trio thread, actions included. Actions added before `run` begins are done
    once it has.
    """

    __slots__ = ("_actions", "_number", "_scope")

    def __init__(self) -> None:
        self._actions: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._scope: trio.CancelScope | None = None

    def __len__(self) -> int:
        """How many actions are pending."""
        return len(self._actions)

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Call `action` at `when`, in seconds of trio's clock; a time that has passed means soon."""
        self._number += 1
        heappush(self._actions, (when, self._number, action))
        if self._scope is not None and when < self._scope.deadline:
            self._scope.deadline = when

    async def run(self) -> NoReturn:
        """Do the actions as their times come, for ever. An exception of one of them ends it."""
        actions = self._actions
        while True:
            with trio.CancelScope(deadline=actions[0][0] if actions else math.inf) as self._scope:
                await trio.sleep_forever()
            now = trio.current_time()
            while actions and actions[0][0] <= now:
                heappop(actions)[2]()
