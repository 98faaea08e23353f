"""The loads of consumer groups: rebalances, commits, and the loss of a coordinator with all of its state."""

import statistics
from itertools import count, islice
from random import Random

import trio
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient

from bench.group_members import ANSWER_S, GroupClient, GroupMember, coordinator_of
from bench.loads import Figures, topic_of
from bench.processes import cpu_s
from bench.systems import System
from cluster.coordinator.java_hash import partition_for
from ottla.addresses import Address
from ottla.client.errors import BrokerUnreachable

OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITIONS = 50
_CONNECTING_AT_ONCE = 50
_REBALANCES = 3
_COMMITTERS = 20
_COMMITTED_AT_ONCE = 10
_TAKEOVER_PARTITIONS = 200
_FOLLOWED_S = 15
_LOOK_S = 0.002


def rebalance(system: System, members: int) -> Figures:
    """Make the leader of a group rejoin, and time the rebalance until every member has its assignment."""
    return trio.run(_rebalance, system, members)


async def _rebalance(system: System, count_of_members: int) -> Figures:
    group = f"bench-of-{count_of_members}"
    _, address = await coordinator_of(system, group)
    members = [GroupMember(address, group) for _ in range(count_of_members)]
    connecting = trio.CapacityLimiter(_CONNECTING_AT_ONCE)
    opened, over = trio.Event(), trio.Event()
    waiting = count_of_members

    async def hold(member: GroupMember) -> None:
        nonlocal waiting
        async with connecting:
            await member.__aenter__()
        waiting -= 1
        if not waiting:
            opened.set()
        try:
            await over.wait()
        finally:
            await member.__aexit__(None, None, None)

    async with trio.open_nursery() as nursery:
        for member in members:
            nursery.start_soon(hold, member)
        await opened.wait()
        async with trio.open_nursery() as joining:
            for member in members:
                joining.start_soon(member.rejoin)
        pids = system.broker_pids()
        times, cpu = [], cpu_s(pids)
        for _ in range(_REBALANCES):
            times.append(await _rebalance_once(members))
        cpu = cpu_s(pids) - cpu
        over.set()
    return {
        "s": statistics.median(times),
        "CPU ms per member": cpu * 1000 / _REBALANCES / count_of_members,
    }


async def _rebalance_once(members: list[GroupMember]) -> float:
    started = trio.current_time()

    async def go_through(member: GroupMember) -> None:
        if not member.leads:
            await member.wait_rebalance()
        await member.rejoin()

    async with trio.open_nursery() as nursery:
        for member in members:
            nursery.start_soon(go_through, member)
    return trio.current_time() - started


def commits(system: System, seconds: float) -> Figures:
    """Let groups commit ten offsets at a time, each again as soon as it is answered."""
    return trio.run(_commits, system, seconds, topic_of(system, 3, _COMMITTED_AT_ONCE))


async def _commits(system: System, seconds: float, topic: str) -> Figures:
    done = 0

    async def commit(group: str, address: Address) -> None:
        nonlocal done
        async with GroupClient(address) as client:
            for offset in count():
                await client.commit(group, topic, dict.fromkeys(range(_COMMITTED_AT_ONCE), offset))
                done += 1

    groups = [f"committer-{number}" for number in range(_COMMITTERS)]
    places = [(await coordinator_of(system, group))[1] for group in groups]
    pids = system.broker_pids()
    async with trio.open_nursery() as nursery:
        for group, address in zip(groups, places, strict=True):
            nursery.start_soon(commit, group, address)
        await trio.sleep(seconds / 5)
        before, cpu, started = done, cpu_s(pids), trio.current_time()
        await trio.sleep(seconds)
        rate = (done - before) / (trio.current_time() - started)
        cpu = (cpu_s(pids) - cpu) / (done - before)
        nursery.cancel_scope.cancel()
    return {"commits/s": rate, "CPU s per M commits": cpu * 1e6}


def takeover(system: System, offsets: int) -> Figures:
    """Kill the coordinator of groups whose offsets are all in one partition, and restart it."""
    topic = topic_of(system, 3, _TAKEOVER_PARTITIONS)
    return trio.run(_takeover, system, offsets // _TAKEOVER_PARTITIONS, topic)


async def _takeover(system: System, count_of_groups: int, topic: str) -> Figures:
    home = partition_for(topic, OFFSETS_PARTITIONS)
    names = (f"{topic}-{number}" for number in count())
    groups = list(islice((n for n in names if partition_for(n, OFFSETS_PARTITIONS) == home), count_of_groups))
    former, address = await coordinator_of(system, groups[0])
    await _fill(address, groups, topic)
    # By now the followers have caught up: they check every few seconds.
    await trio.sleep(_FOLLOWED_S)
    probe = Random(0).choice(groups)
    started = trio.current_time()
    system.kill(former)
    while True:
        _, other = await coordinator_of(system, probe, without=former)
        if await _serves(other, probe, topic):
            break
        await trio.sleep(_LOOK_S)
    moved = trio.current_time() - started
    await trio.to_thread.run_sync(system.start, former)
    returned = await _take_back(system, former, home, address, probe, topic)
    return {"s after kill -9": moved, "s of the restarted broker": returned}


async def _fill(address: Address, groups: list[str], topic: str) -> None:
    left = iter(groups)

    async def commit() -> None:
        async with GroupClient(address) as client:
            for group in left:
                await client.commit(group, topic, dict.fromkeys(range(_TAKEOVER_PARTITIONS), 7))

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(commit)


async def _take_back(
    system: System, broker: int, home: int, address: Address, group: str, topic: str
) -> float:
    """Make the restarted broker the leader again; return the time from the election until it serves."""
    admin = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})

    def elect() -> None:
        while True:
            partition = admin.list_topics(OFFSETS_TOPIC, timeout=30).topics[OFFSETS_TOPIC].partitions[home]
            if broker in partition.isrs and len(partition.isrs) == len(partition.replicas):
                break
        elected = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(OFFSETS_TOPIC, home)])
        elected.result(timeout=60)

    with trio.fail_after(ANSWER_S):
        await trio.to_thread.run_sync(elect)
        started = trio.current_time()
        while not await _serves(address, group, topic):  # noqa: ASYNC110  # another process does not notify us
            await trio.sleep(_LOOK_S)
    return trio.current_time() - started


async def _serves(address: Address, group: str, topic: str) -> bool:
    try:
        async with GroupClient(address) as client:
            found = await client.position(group, topic, _TAKEOVER_PARTITIONS - 1)
    except BrokerUnreachable:
        return False
    if found is not None and found != 7:
        raise RuntimeError(f"the offset of {group} is {found} after the takeover")
    return found is not None
