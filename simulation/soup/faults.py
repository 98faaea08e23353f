"""The faults of a run, by name: each begins, lasts, and is undone."""

import errno
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from random import Random
from typing import Any, Final

import trio

from simulation.cluster import Machine
from simulation.soup.plan import CONTROLLER, Happening
from simulation.soup.world import CLIENTS, World

Fault = Callable[[World, Happening], Awaitable[None]]

_WHOLE_WITHIN_S: Final = 5.0
_DAY_MS: Final = 86_400_000


async def kill(world: World, happening: Happening) -> None:
    """A broker's process dies, and its guardian closes the session."""
    await _kill(world, happening, guarded=True)


async def kill_unguarded(world: World, happening: Happening) -> None:
    """A broker's process dies with its guardian: its session is left to others, or to its timeout."""
    await _kill(world, happening, guarded=False)


async def _kill(world: World, happening: Happening, *, guarded: bool) -> None:
    machine = world.machine(happening.broker)
    if machine.broker is None or world.power.locked():
        return
    number = world.number_of(machine)
    world.note(f"broker {number} is killed")
    await world.cluster.kill(number, guarded=guarded)
    await trio.sleep(happening.lasts)
    await _bring_back(world, machine)


async def lose_power(world: World, happening: Happening) -> None:
    """A machine loses power, and what was not synced.

    Unless the run is a durable one, that may lose acknowledged records when other copies are away: then it happens only
    to a whole cluster, and no broker is taken away until it is whole again.
    """
    machine = world.machine(happening.broker)
    number = world.number_of(machine)
    if world.plan.durable:
        if machine.broker is None:
            return
        await _cut_power(world, machine, number, happening.lasts)
        return
    if world.power.locked() or not world.is_quiet:
        return
    async with world.power:
        try:
            await world.cluster.wait(world.is_whole, _WHOLE_WITHIN_S)
        except trio.TooSlowError:
            return
        await _cut_power(world, machine, number, happening.lasts)
        while not world.is_whole():  # noqa: ASYNC110 - no event reports it
            await trio.sleep(0.1)


async def _cut_power(world: World, machine: Machine, number: int, lasts: float) -> None:
    world.note(f"broker {number} loses power")
    await world.cluster.lose(number)
    await trio.sleep(lasts)
    world.cluster.restore(number)
    await _bring_back(world, machine)


async def stop(world: World, happening: Happening) -> None:
    """A broker is stopped by a controlled shutdown, and started again."""
    machine = world.machine(happening.broker)
    if machine.broker is None or world.power.locked():
        return
    number = world.number_of(machine)
    world.note(f"broker {number} is stopped")
    await world.cluster.stop(number)
    await trio.sleep(happening.lasts)
    await _bring_back(world, machine)


async def rolling_restart(world: World, happening: Happening) -> None:
    """Every broker is stopped and started, one after the other."""
    for number in world.broker_ids:
        await stop(world, Happening(happening.at, "stop", number, lasts=0.1))


async def pause(world: World, happening: Happening) -> None:
    """A broker stands still, as after SIGSTOP: nothing reaches it, and nothing leaves it."""
    machine = world.machine(happening.broker)
    session = machine.session
    if machine.broker is None or session is None or world.power.locked():
        return
    world.note(f"{machine.name} is paused")
    world.cluster.network.isolate(machine.name)
    session.disconnect(silently=True)
    try:
        await trio.sleep(happening.lasts)
    finally:
        world.cluster.network.rejoin(machine.name)
        world.cluster.reconnect(world.number_of(machine))


async def cut(world: World, happening: Happening) -> None:
    """Two brokers cannot reach each other."""
    await _cut(world, happening, one_way=False)


async def one_way_cut(world: World, happening: Happening) -> None:
    """What one broker sends to another does not arrive."""
    await _cut(world, happening, one_way=True)


async def _cut(world: World, happening: Happening, *, one_way: bool) -> None:
    first, second = world.machine(happening.broker).name, world.machine(happening.other).name
    if first == second or world.power.locked():
        return
    world.note(f"{first} is cut off from {second}")
    world.cluster.network.cut(first, second, one_way=one_way)
    await _last(happening, partial(world.cluster.network.heal, first, second))


async def isolate(world: World, happening: Happening) -> None:
    """A broker reaches ZooKeeper, but no other machine."""
    name = world.machine(happening.broker).name
    if world.power.locked():
        return
    world.note(f"{name} is isolated")
    world.cluster.network.isolate(name)
    await _last(happening, partial(world.cluster.network.rejoin, name))


async def cut_clients(world: World, happening: Happening) -> None:
    """Clients do not reach a broker."""
    name = world.machine(happening.broker).name
    world.note(f"clients are cut off from {name}")
    world.cluster.network.cut(CLIENTS, name)
    await _last(happening, partial(world.cluster.network.heal, CLIENTS, name))


async def lose_answers(world: World, happening: Happening) -> None:
    """A broker receives its clients' requests, but its answers do not arrive; then their connections break."""
    name = world.machine(happening.broker).name
    world.note(f"answers of {name} to clients are lost")
    world.cluster.network.cut(name, CLIENTS, one_way=True)
    try:
        await trio.sleep(happening.lasts)
    finally:
        world.cluster.network.break_connections(CLIENTS, name)
        world.cluster.network.heal(name, CLIENTS)


async def break_connections(world: World, happening: Happening) -> None:
    """Every connection of a broker breaks."""
    name = world.machine(happening.broker).name
    world.note(f"connections of {name} break")
    for other in [CLIENTS, *(each.name for each in world.cluster.machines.values())]:
        world.cluster.network.break_connections(name, other)


async def stall(world: World, happening: Happening) -> None:
    """The network delays some of what is sent, and breaks a connection now and then."""
    faults = world.cluster.network.faults
    world.note("the network stalls")
    faults.stall_chance, faults.reset_chance = 0.05, 0.002
    try:
        await trio.sleep(happening.lasts)
    finally:
        faults.stall_chance = faults.reset_chance = 0.0


async def cut_zookeeper(world: World, happening: Happening) -> None:
    """A broker does not reach ZooKeeper, and gets no error."""
    machine = world.machine(happening.broker)
    if machine.broker is None or machine.session is None or world.power.locked():
        return
    world.note(f"{machine.name} is cut off from ZooKeeper")
    machine.session.disconnect(silently=True)
    await _last(happening, partial(world.cluster.reconnect, world.number_of(machine)))


async def lose_zookeeper(world: World, happening: Happening) -> None:
    """No broker reaches ZooKeeper."""
    if world.power.locked():
        return
    world.note("ZooKeeper is away")
    for machine in world.cluster.machines.values():
        if machine.broker is not None and machine.session is not None:
            machine.session.disconnect()
    try:
        await trio.sleep(happening.lasts)
    finally:
        for machine in world.cluster.machines.values():
            world.cluster.reconnect(world.number_of(machine))


async def expire(world: World, happening: Happening) -> None:
    """A healthy broker's session expires."""
    machine = world.machine(happening.broker)
    session = machine.session
    if machine.broker is None or session is None or world.power.locked():
        return
    if world.cluster.ensemble.is_alive(session.session_id):
        world.note(f"the session of {machine.name} expires")
        world.cluster.ensemble.expire(session.session_id)


async def fill_disk(world: World, happening: Happening) -> None:
    """A broker's disk is full."""
    await _fail_disk(world, happening, errno.ENOSPC, "is full")


async def fail_disk(world: World, happening: Happening) -> None:
    """A broker's disk fails every write."""
    await _fail_disk(world, happening, errno.EIO, "fails")


async def _fail_disk(world: World, happening: Happening, error: int, what: str) -> None:
    machine = world.machine(happening.broker)
    if machine.broker is None or world.power.locked():
        return
    world.note(f"the disk of {machine.name} {what}")
    machine.disk.fail_at(1, error)
    try:
        await trio.sleep(happening.lasts)
    finally:
        machine.disk.fail_at(None)
    if machine.broker is not None:
        # Directories that went offline stay so until the broker is started again.
        await world.cluster.kill(world.number_of(machine))
    await _bring_back(world, machine)


async def slow_disk(world: World, happening: Happening) -> None:
    """A broker's work in threads takes long."""
    machine = world.machine(happening.broker)
    world.note(f"the disk of {machine.name} is slow")
    machine.work_delay_s = happening.amount / 1000
    try:
        await trio.sleep(happening.lasts)
    finally:
        machine.work_delay_s = 0.0


async def jump_clock(world: World, happening: Happening) -> None:
    """A machine's wall clock jumps, and stays off."""
    machine = world.machine(happening.broker)
    world.note(f"the clock of {machine.name} jumps by {happening.amount} ms")
    machine.clock.jump_ms += happening.amount
    await trio.lowlevel.checkpoint()


async def _last(happening: Happening, take_back: Callable[[], object]) -> None:
    """Let a fault last for its time, and undo it in any case."""
    try:
        await trio.sleep(happening.lasts)
    finally:
        take_back()


async def _bring_back(world: World, machine: Machine) -> None:
    """Start a broker, again and again: a start may fail while other faults last."""
    number = world.number_of(machine)
    while machine.broker is None and not world.cluster.network.is_cut(machine.name, machine.name):
        world.note(f"broker {number} is started")
        await world.cluster.start(number)
        if machine.broker is None:
            await trio.sleep(1.0)


# What draws them

Fields = Mapping[str, Any]


def _one(least_s: float, most_s: float) -> Callable[[Random, int], Fields]:
    def draw(chance: Random, brokers: int) -> Fields:
        broker = CONTROLLER if chance.random() < 0.3 else chance.randrange(brokers)
        return {"broker": broker, "lasts": round(chance.uniform(least_s, most_s), 3)}

    return draw


def _pair(least_s: float, most_s: float) -> Callable[[Random, int], Fields]:
    def draw(chance: Random, brokers: int) -> Fields:
        first, second = chance.sample(range(brokers), 2)
        return {"broker": first, "other": second, "lasts": round(chance.uniform(least_s, most_s), 3)}

    return draw


def _slow(chance: Random, brokers: int) -> Fields:
    return {**_one(0.5, 8.0)(chance, brokers), "amount": chance.choice((20, 200, 1500))}


def _jump(chance: Random, brokers: int) -> Fields:
    return {
        "broker": chance.randrange(brokers),
        "amount": chance.choice((-2 * _DAY_MS, -5000, 5000, 2 * _DAY_MS)),
    }


FAULTS: Final[Mapping[str, tuple[Fault, Callable[[Random, int], Fields]]]] = {
    "kill": (kill, _one(0.0, 5.0)),
    "kill-unguarded": (kill_unguarded, _one(0.0, 8.0)),
    "power": (lose_power, _one(0.0, 6.0)),
    "stop": (stop, _one(0.0, 3.0)),
    "rolling-restart": (rolling_restart, _one(0.0, 0.0)),
    "pause": (pause, _one(0.1, 8.0)),
    "cut": (cut, _pair(0.1, 10.0)),
    "one-way-cut": (one_way_cut, _pair(0.1, 10.0)),
    "isolate": (isolate, _one(0.1, 10.0)),
    "cut-clients": (cut_clients, _one(0.1, 6.0)),
    "lose-answers": (lose_answers, _one(0.1, 4.0)),
    "break": (break_connections, _one(0.0, 0.0)),
    "stall": (stall, _one(0.5, 8.0)),
    "cut-zookeeper": (cut_zookeeper, _one(0.1, 8.0)),
    "lose-zookeeper": (lose_zookeeper, _one(0.1, 6.0)),
    "expire": (expire, _one(0.0, 0.0)),
    "full-disk": (fill_disk, _one(0.1, 4.0)),
    "bad-disk": (fail_disk, _one(0.1, 4.0)),
    "slow-disk": (slow_disk, _slow),
    "clock": (jump_clock, _jump),
}
"""Each fault by name: its function, and the function that draws its parameters."""
