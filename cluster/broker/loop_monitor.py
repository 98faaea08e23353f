"""How long the broker's loop stalls, and which task holds it.

A *turn* is what the loop does between two polls of its sockets and timers: one step of each task that is ready.
Nothing else runs during a turn. Each turn is measured in elapsed time, not processor time, so one in which the
machine took the processor away counts, too. The task with the longest step is named.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trio.abc import Instrument

from timing.clock import Clock
from wire.types import MonotonicSeconds

if TYPE_CHECKING:
    import trio

    from cluster.metrics.catalogue import BrokerMetrics

logger = logging.getLogger(__name__)

WINDOW_S: Final = 30.0
"""The longest turn is that of the last one or two such windows: long enough for a dashboard to see it."""
LOG_AGAIN_S: Final = 1.0
"""The least time between two log lines about long turns."""
COUNTED_S: Final = 0.001
"""Shorter turns, nearly all of them, are not counted."""
_ITSELF: Final = "trio"
"""The name shown when no task held the loop: thousands of timeouts expired, for example."""


class Turn(NamedTuple):
    """One turn of the loop: how long it took, in seconds, and the task whose step took longest."""

    seconds: float
    task: str


NO_TURN: Final = Turn(0.0, "")


class LoopMonitor(Instrument):
    """Measures the turns of one trio loop. Add it with `trio.lowlevel.add_instrument`.

    Args:
        clock: Monotonic time.
        log_above_s: Log each turn that is longer; 0 logs none.

    Attributes:
        slow_turns: How many turns were longer than `log_above_s`.
    """

    def __init__(self, clock: Clock, log_above_s: float) -> None:
        self._monotonic: Callable[[], MonotonicSeconds] = clock.monotonic
        self._log_above_s = log_above_s
        now = clock.monotonic()
        self._turn_began: MonotonicSeconds | None = (
            None  # None: the monitor can be added in the middle of a turn
        )
        self._step_began = self._window_began = now
        self._logged_at = now - LOG_AGAIN_S
        self._stepping: trio.lowlevel.Task | None = None
        self._longest_step_s = 0.0
        self._longest_stepper: trio.lowlevel.Task | None = None
        self._present = self._former = NO_TURN
        self._since_asked = NO_TURN
        self._observe: Callable[[float], None] = _observe_nothing
        self.slow_turns = 0

    def add_probes(self, metrics: "BrokerMetrics") -> None:
        """Add the measurements to a broker's metrics."""
        self._observe = metrics.loop_turn_ms.only.observe
        metrics.probe("ottla_loop_slowturns", lambda: float(self.slow_turns))
        metrics.probe("ottla_loop_longestturnms", self._longest_by_task)

    @property
    def longest(self) -> Turn:
        """The longest turn of the last one or two windows."""
        self._roll(self._monotonic())
        return max(self._present, self._former)

    def take_longest(self) -> Turn:
        """Return the longest turn since the last call."""
        taken, self._since_asked = self._since_asked, NO_TURN
        return taken

    def _longest_by_task(self) -> dict[tuple[str, ...], float]:
        longest = self.longest
        return {(longest.task,): longest.seconds * 1000} if longest.task else {}

    # What trio calls

    def after_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - trio's signature
        """Begin a turn."""
        self._turn_began = self._step_began = self._monotonic()
        self._stepping = self._longest_stepper = None
        self._longest_step_s = 0.0

    def before_task_step(self, task: "trio.lowlevel.Task") -> None:
        """Begin a task's step, which ends the one before."""
        now = self._monotonic()
        took = now - self._step_began
        if took > self._longest_step_s:
            self._longest_step_s = took
            self._longest_stepper = self._stepping
        self._stepping = task
        self._step_began = now

    def before_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - trio's signature
        """End a turn."""
        began, self._turn_began = self._turn_began, None
        if began is None:
            return
        now = self._monotonic()
        seconds = now - began
        if seconds < COUNTED_S:
            return
        stepper = self._stepping if now - self._step_began > self._longest_step_s else self._longest_stepper
        self._stepping = self._longest_stepper = None
        turn = Turn(seconds, _ITSELF if stepper is None else stepper.name)
        self._observe(seconds * 1000)
        self._roll(now)
        self._present = max(self._present, turn)
        self._since_asked = max(self._since_asked, turn)
        if seconds > self._log_above_s > 0:
            self.slow_turns += 1
            if now - self._logged_at >= LOG_AGAIN_S:
                self._logged_at = now
                logger.warning(
                    "the loop stood still for %.0f ms, most of it in %s", seconds * 1000, turn.task
                )

    def _roll(self, now: float) -> None:
        if now - self._window_began >= WINDOW_S:
            lasted = now - self._window_began
            self._former = self._present if lasted < 2 * WINDOW_S else NO_TURN
            self._present = NO_TURN
            self._window_began = MonotonicSeconds(now)

    def describe(self) -> dict[str, Any]:
        """Describe the longest recent turn, as plain values."""
        longest = self.longest
        return {"longest_turn_ms": round(longest.seconds * 1000, 1), "task": longest.task}


def _observe_nothing(_: float) -> None:
    """Do nothing: in place of the histogram until there is one."""
