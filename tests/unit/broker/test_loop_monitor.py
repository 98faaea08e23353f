"""The loop's turns are measured, and the task that takes long is named."""

import logging

import pytest
import trio

from cluster.broker.loop_monitor import LOG_AGAIN_S, WINDOW_S, LoopMonitor
from cluster.metrics.catalogue import BrokerMetrics
from wire.types import MonotonicSeconds, WallMs


class TurnedClock:
    """A clock that moves only when a task works."""

    def __init__(self) -> None:
        self.now = 100.0

    def wall_ms(self) -> WallMs:
        return WallMs(int(self.now * 1000))

    def monotonic(self) -> MonotonicSeconds:
        return MonotonicSeconds(self.now)


def run(monitor: LoopMonitor, clock: TurnedClock, *works: tuple[str, float]) -> None:
    """Run one task for each name and number of seconds, each in its own turn of the loop."""

    async def work(seconds: float) -> None:
        clock.now += seconds

    async def main() -> None:
        for name, seconds in works:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(work, seconds, name=name)

    trio.run(main, instruments=[monitor])
    monitor.before_io_wait(0)  # the last turn of a run ends without this call


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


def test_the_longest_turn_and_its_task(clock: TurnedClock) -> None:
    monitor = LoopMonitor(clock, 0.1)
    run(monitor, clock, ("quick", 0.002), ("slow", 0.08), ("middling", 0.03))
    assert monitor.longest.task == "slow"
    assert monitor.longest.seconds == pytest.approx(0.08)
    assert monitor.describe() == {"longest_turn_ms": 80.0, "task": "slow"}


def test_a_turn_that_it_was_added_in_does_not_count(clock: TurnedClock) -> None:
    monitor = LoopMonitor(clock, 0.0)

    async def main() -> None:
        trio.lowlevel.add_instrument(monitor)
        clock.now += 5
        await trio.lowlevel.checkpoint()
        clock.now += 0.01

    trio.run(main)
    assert monitor.longest.seconds == pytest.approx(0.01)


def test_the_longest_step_of_a_turn_names_it(clock: TurnedClock) -> None:
    monitor = LoopMonitor(clock, 0.0)

    async def work(seconds: float) -> None:
        clock.now += seconds

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for name, seconds in (("a", 0.01), ("b", 0.05), ("c", 0.02)):
                nursery.start_soon(work, seconds, name=name)

    trio.run(main, instruments=[monitor])
    assert monitor.longest.task == "b"
    assert monitor.longest.seconds == pytest.approx(0.08)


def test_it_passes_after_a_while(clock: TurnedClock) -> None:
    monitor = LoopMonitor(clock, 0.0)
    run(monitor, clock, ("slow", 0.08))
    clock.now += WINDOW_S
    assert monitor.longest.task == "slow"
    run(monitor, clock, ("quick", 0.002))
    assert monitor.longest.task == "slow"
    clock.now += WINDOW_S
    assert monitor.longest.task == "quick"
    clock.now += 2 * WINDOW_S
    assert monitor.longest.task == ""


def test_who_asks_again_gets_what_was_since(clock: TurnedClock) -> None:
    monitor = LoopMonitor(clock, 0.0)
    run(monitor, clock, ("slow", 0.08))
    assert monitor.take_longest().task == "slow"
    run(monitor, clock, ("quick", 0.002))
    assert monitor.take_longest().task == "quick"
    assert monitor.take_longest().task == ""


def test_long_turns_are_counted_and_logged_once_a_second(
    clock: TurnedClock, caplog: pytest.LogCaptureFixture
) -> None:
    monitor = LoopMonitor(clock, 0.1)
    metrics = BrokerMetrics()
    monitor.add_probes(metrics)
    with caplog.at_level(logging.WARNING):
        run(monitor, clock, ("one", 0.2), ("two", 0.3), ("short", 0.05))
        clock.now += LOG_AGAIN_S
        run(monitor, clock, ("three", 0.15))
    assert [record.getMessage() for record in caplog.records] == [
        "the loop stood still for 200 ms, most of it in one",
        "the loop stood still for 150 ms, most of it in three",
    ]
    assert monitor.slow_turns == 3
    values = metrics.registry.values()
    assert values["ottla_loop_slowturns_total"] == 3
    assert values["ottla_loop_longestturnms{task=two}"] == pytest.approx(300)
    assert metrics.loop_turn_ms.only.count == 4
