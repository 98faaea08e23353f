"""Long work lets others run: after some items, or after some time."""

from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from simulation.clock import SimulatedClock
from timing.pacing import ITEMS_MAX, TURN_S, Pacer


@pytest.mark.parametrize(("step_s", "in_one_turn"), [(0.0, ITEMS_MAX), (TURN_S / 2, 2), (2 * TURN_S, 1)])
def test_the_loop_turns_in_time(step_s: float, in_one_turn: int) -> None:
    clock = MockClock()

    async def main() -> None:
        turns: list[int] = []
        done = 0

        async def watch() -> None:
            while True:
                turns.append(done)
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await trio.lowlevel.checkpoint()
            pacer = Pacer(SimulatedClock())
            for _ in range(3 * ITEMS_MAX):
                clock.jump(step_s)
                done += 1
                await pacer.pace()
            nursery.cancel_scope.cancel()
        steps = {after - before for before, after in pairwise(turns)}
        # Which of two tasks runs first in a turn is random.
        assert steps <= {0, in_one_turn, 2 * in_one_turn}
        assert steps - {0}

    trio.run(main, clock=clock)
