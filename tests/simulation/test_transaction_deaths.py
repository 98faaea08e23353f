"""Brokers die at changes of their disks while transactions run: here at some of them; run this file for all.

    python -m tests.simulation.test_transaction_deaths [CASE ...]

A change of a disk is a crash point: a coordinator dies before and after each of its records, between the first marker
and the last, and before the record that completes; a leader before and after a marker, and between the log and the
index of aborted transactions; the group's coordinator likewise. The victim is one broker, one that has all roles, or
all brokers at once; its process is killed, or its machine loses what was not synced. Afterwards each input is in
the output once, both outputs agree, and nothing is open.
"""

import random
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import pytest
import trio
import trio.testing

from simulation.cluster import SimulatedCluster
from tests.simulation.deaths import die_and_come_back, report_all
from tests.simulation.test_broker import know_each_other
from tests.simulation.test_transactions import SETTINGS, SOURCE, TARGET, check, create, heal
from tests.simulation.transactional_client import Transformer

INPUTS = 8
SEED = 2
ENDS_SEED = 0
"""Decides which transactions the client aborts; the cluster's own random numbers depend on all that brokers do."""
TOLD_OF_EACH = 5
BROKERS = (0, 1, 2)


class Case(NamedTuple):
    """Who dies, and of what.

    Attributes:
        victims: They die at once; the changes of the first one's disk are counted.
        power: Whether what was not synced is lost.
        gathered: Whether the first of them leads everything.
    """

    victims: tuple[int, ...]
    power: bool = False
    gathered: bool = False


CASES = {
    **{f"broker {each}": Case((each,)) for each in BROKERS},
    **{f"broker {each} loses power": Case((each,), power=True) for each in BROKERS},
    "the one that leads all": Case((0,), gathered=True),
    "the one that leads all loses power": Case((0,), power=True, gathered=True),
    "all": Case(BROKERS),
    "all lose power": Case(BROKERS, power=True),
}


class Told(NamedTuple):
    """The outcome of a run: the changes of each disk, how its transactions ended, and which brokers had a role."""

    changes: Mapping[int, int]
    commits: int
    aborts: int
    roles: frozenset[int]


def tell(case: Case, number: int | None) -> Told:
    """Run transactions; with a number, the victims die at that change of the first one's disk."""
    stories: list[Told] = []
    flush = {"log.flush.on.ack": "true"} if case.power else {}

    async def main() -> None:
        cluster = SimulatedCluster(SEED, settings=SETTINGS | flush)
        async with trio.open_nursery() as nursery:
            await nursery.start(cluster.run)
            await cluster.start()
            await know_each_other(cluster)
            await create(cluster)
            transformer = Transformer(cluster, "worker-0", (SOURCE, 0), f"{TARGET}-0", INPUTS)
            transformer.chance = random.Random(ENDS_SEED)
            # The first requests for the coordinators create their topics.
            roles = [
                await transformer.coordinator(1, "worker-0"),
                await transformer.coordinator(0, "worker-0"),
            ]
            while -1 in roles:
                roles = [await transformer.coordinator(key_type, "worker-0") for key_type in (1, 0)]
            if case.gathered:
                await gather(cluster, case.victims[0])
            before = {each: machine.disk.changes for each, machine in cluster.machines.items()}
            roles = [
                await transformer.coordinator(1, "worker-0"),
                await transformer.coordinator(0, "worker-0"),
                *(transformer.leader(f"{TARGET}-0", partition) for partition in (0, 1)),
            ]
            with trio.fail_after(300):
                async with trio.open_nursery() as working:
                    working.start_soon(transformer.run)
                    if number is not None:
                        await die(cluster, case, number)
            await heal(cluster)
            await check(cluster, [transformer])
            changes = {
                each: machine.disk.changes - before[each] for each, machine in cluster.machines.items()
            }
            stories.append(Told(changes, transformer.commits, transformer.aborts, frozenset(roles)))
            nursery.cancel_scope.cancel()

    try:
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    except BaseException as error:
        error.add_note(f"{case} at change {number}")
        raise
    return stories[0]


async def gather(cluster: SimulatedCluster, leader: int) -> None:
    """Make one broker lead everything."""
    for other in BROKERS:
        if other != leader:
            await cluster.stop(other)
    for other in BROKERS:
        if other != leader:
            await cluster.start(other)
    await know_each_other(cluster)
    await cluster.wait(
        lambda: all(
            len(each["isr"]) == len(BROKERS)
            for each in cluster.running()[leader].partition_descriptions()  # type: ignore[index]
        )
    )


async def die(cluster: SimulatedCluster, case: Case, number: int) -> None:
    """Wait for the change, let the victims die at it, and start them again."""
    first = cluster.machines[case.victims[0]]  # type: ignore[index]
    cluster.kill_at_change(case.victims[0], number)
    # A run can take fewer changes than the first one: then nobody dies.
    with trio.move_on_after(60):
        await first.ended.wait()
    cluster.kill_at_change(case.victims[0], None)
    if not first.ended.is_set():
        return
    await die_and_come_back(cluster, case.victims, power=case.power)


def deaths(case: Case) -> Iterator[int]:
    """Yield the changes at which the victims can die."""
    stories = tell(case, None)
    assert stories.commits
    assert stories.aborts
    assert not case.gathered or stories.roles == {case.victims[0]}
    yield from range(1, stories.changes[case.victims[0]] + 1)


@pytest.mark.parametrize("name", CASES)
def test_each_input_is_in_the_output_once_when_there_die(name: str) -> None:
    numbers = list(deaths(CASES[name]))
    step = len(numbers) // TOLD_OF_EACH
    assert step
    for number in numbers[step // 2 :: step]:
        tell(CASES[name], number)


def every_death_of(name: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield each change of a case at which its victims can die, with the function that runs it."""
    for number in deaths(CASES[name]):
        yield f"change {number}", partial(tell, CASES[name], number)


def main(names: list[str]) -> int:
    """Run everything; return how many deaths did not end well."""
    return report_all({name: partial(every_death_of, name) for name in names or CASES})


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 125))
