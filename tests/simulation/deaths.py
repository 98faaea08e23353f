"""Brokers die at each write of a story, to ZooKeeper or to a disk: they are killed, or their machines lose power.

The first run counts the writes. In each other run a death happens at one of them; the victims come back, and the story
has to end as it should: all partitions led, all replicas in sync, and every acknowledged record there.
"""

import itertools
import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import trio
import trio.testing

from simulation.cluster import SimulatedCluster
from tests.simulation.kill_at_every_write import BROKERS, CONTROLLER, DOWN_S, PATIENCE_S, SETTINGS, Telling

ZOOKEEPER: Final = -1
"""In place of a broker's disk: writes to ZooKeeper are counted."""


class Death(NamedTuple):
    """Who dies when, and of what.

    Attributes:
        victims: Broker ids, or `CONTROLLER` for the controller when the story begins. The first one's disk is counted.
        counted: `ZOOKEEPER`, or the victim whose disk's changes are counted.
        number: Which write, counted from 1.
        power: Whether all victims lose power, and what was not synced; otherwise their processes are killed.
    """

    victims: tuple[int, ...]
    counted: int
    number: int
    power: bool

    def __str__(self) -> str:
        who = " and ".join(
            "the controller" if each == CONTROLLER else f"broker {each}" for each in self.victims
        )
        where = "ZooKeeper" if self.counted == ZOOKEEPER else "its disk"
        how = "loses power" if self.power else "is killed"
        return f"{who} {how} at write {self.number} to {where}"


class Counts(NamedTuple):
    """The writes of one run: to ZooKeeper, and to each broker's disk."""

    zookeeper: int
    disks: dict[int, int]
    controller: int

    def of(self, counted: int) -> int:
        """Return the writes of one kind."""
        if counted == ZOOKEEPER:
            return self.zookeeper
        return self.disks[self.controller if counted == CONTROLLER else counted]


async def tell_once(telling: Telling, death: Death | None) -> Counts:
    """Run a story with one death, or none; return the writes that it took."""
    cluster = telling.cluster
    await cluster.wait(telling.has_controller)
    async with trio.open_nursery() as nursery:
        await telling.prepare(nursery)
        controller = telling.controller()
        disks = {number: machine.disk for number, machine in cluster.machines.items()}
        before = {number: disk.changes for number, disk in disks.items()}
        if death is not None:
            victims = tuple(
                dict.fromkeys(controller if each == CONTROLLER else each for each in death.victims)
            )
            await _act_and_die(telling, nursery, death, victims)
        else:
            cluster.ensemble.on_write = telling._on_write
            nursery.start_soon(telling.act)
        await cluster.wait(lambda: telling.has_controller() and telling.is_done(), timeout_s=PATIENCE_S)
        counts = Counts(
            telling.writes,
            {number: disk.changes - before[number] for number, disk in disks.items()},
            controller,
        )
        cluster.ensemble.on_write = None
        await telling.check()
        nursery.cancel_scope.cancel()
    return counts


async def _act_and_die(
    telling: Telling, nursery: trio.Nursery, death: Death, victims: tuple[int, ...]
) -> None:
    cluster = telling.cluster
    first = victims[0]
    machine = cluster.machines[first]
    telling._wanted = death.number if death.counted == ZOOKEEPER else 0
    cluster.ensemble.on_write = telling._on_write
    if death.counted != ZOOKEEPER:
        cluster.kill_at_change(first, death.number)
    nursery.start_soon(telling.act)
    # A run can take fewer writes than the first one; then nobody dies.
    await cluster.wait(
        lambda: (
            telling._reached.is_set()
            or machine.ended.is_set()
            or (telling.has_controller() and telling.is_done())
        ),
        timeout_s=PATIENCE_S,
    )
    cluster.kill_at_change(first, None)
    if not (telling._reached.is_set() or machine.ended.is_set()):
        return
    await die_and_come_back(cluster, victims, power=death.power)


async def die_and_come_back(cluster: SimulatedCluster, victims: Sequence[int], *, power: bool) -> None:
    """Kill brokers, or cut their machines' power, all at once; start them again after `DOWN_S` seconds."""
    for victim in victims:
        await (cluster.lose(victim) if power else cluster.kill(victim))
    await trio.sleep(DOWN_S)
    for victim in victims:
        if power:
            cluster.restore(victim)
    async with trio.open_nursery() as starts:
        for victim in victims:
            starts.start_soon(cluster.start, victim)


def tell(
    story: Callable[[SimulatedCluster], Telling], seed: int, death: Death | None, *, power: bool = False
) -> Counts:
    """Run a story in a cluster of its own; if power is lost, one that acknowledges only what is on disk."""
    counts: list[Counts] = []
    flush = {"log.flush.on.ack": "true"} if power or (death is not None and death.power) else {}
    settings = SETTINGS | flush | getattr(story, "settings", {})

    async def main() -> None:
        cluster = SimulatedCluster(seed, broker_count=BROKERS, settings=settings)
        async with trio.open_nursery() as nursery:
            await nursery.start(cluster.run)
            await cluster.start()
            counts.append(await tell_once(story(cluster), death))
            nursery.cancel_scope.cancel()

    try:
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    except BaseException as error:
        error.add_note("nobody died" if death is None else str(death))
        raise
    return counts[0]


def deaths(story: Callable[[SimulatedCluster], Telling], victims: Sequence[int]) -> Iterator[Death]:
    """Return every death of a story: of the controller, of each victim, and of both at once, at each write."""
    counts = {power: tell(story, 1, None, power=power) for power in (False, True)}
    groups = [
        (CONTROLLER,),
        *((victim,) for victim in victims),
        *((CONTROLLER, victim) for victim in victims),
    ]
    for group, power in itertools.product(groups, (False, True)):
        for counted in (ZOOKEEPER, group[0]):
            for number in range(1, counts[power].of(counted) + 1):
                yield Death(group, counted, number, power)


def report_all(stories: Mapping[str, Callable[[], Iterable[tuple[object, Callable[[], object]]]]]) -> int:
    """Run every death of every story, print how each story went, and return how many deaths did not end well.

    Args:
        stories: By name, a function that yields each death with the function that runs it.
    """
    logging.disable(logging.CRITICAL)
    failed = 0
    for name, every in stories.items():
        began, count = time.monotonic(), 0
        for death, telling in every():
            count += 1
            try:
                telling()
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                failed += 1
                sys.stdout.write(f"{name}: {death}: {error!r}\n")
        sys.stdout.write(f"{name}: {count} deaths in {time.monotonic() - began:.0f} s\n")
        sys.stdout.flush()
    return failed
