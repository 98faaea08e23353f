"""Whole brokers in one process: a cluster forms, replicates, loses brokers and gets them back."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import trio
import trio.testing

from cluster.broker.broker import State
from cluster.network.broker_client import ConnectionFailedError
from simulation.cluster import SimulatedCluster
from wire.errors import Error
from wire.messages.api_versions import ApiVersionsRequest
from wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.records.batch import iter_headers
from wire.records.builder import build_batch
from wire.records.record import Record, iter_records

TOPIC = "t"


def simulated(seed: int, test: Callable[[SimulatedCluster], Awaitable[None]]) -> None:
    """Run a test on a cluster of three brokers that all know each other."""

    async def main() -> None:
        cluster = SimulatedCluster(seed)
        async with trio.open_nursery() as nursery:
            await nursery.start(cluster.run)
            await cluster.start()
            await know_each_other(cluster)
            await test(cluster)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_session_that_expires_during_recovery_does_not_end_the_start() -> None:
    async def test(cluster: SimulatedCluster) -> None:
        await create(cluster)
        await cluster.stop(0)
        machine = cluster.machines[0]
        machine.work_delay_s = 5.0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cluster.start, 0)
            await cluster.wait(
                lambda: machine.broker is not None and machine.broker.state is State.RECOVERING
            )
            cluster.ensemble.expire(machine.session.session_id)
            machine.work_delay_s = 0.0
        await know_each_other(cluster)

    simulated(7, test)


async def know_each_other(cluster: SimulatedCluster) -> None:
    ids = sorted(cluster.running())
    await cluster.wait(
        lambda: all(
            broker.describe().get("live_brokers") == ids and broker.describe()["controller_id"] in ids
            for broker in cluster.running().values()
        )
    )


def controller_of(cluster: SimulatedCluster) -> int:
    (controller,) = [number for number, broker in cluster.running().items() if is_controller(broker)]
    return controller


def is_controller(broker) -> bool:
    return broker.describe()["controller"]["active"]


def partition_of(cluster: SimulatedCluster, broker_id: int, partition: int = 0) -> dict:
    for each in cluster.running()[broker_id].partition_descriptions():
        if (each["topic"], each["partition"]) == (TOPIC, partition):
            return each
    return {}


def leader_of(cluster: SimulatedCluster) -> int:
    leaders = [number for number in cluster.running() if partition_of(cluster, number).get("is_leader")]
    return leaders[0] if len(leaders) == 1 else -1


async def create(cluster: SimulatedCluster, partitions: int = 1) -> None:
    client = cluster.client(controller_of(cluster))
    configs = [CreatableTopicConfig(name="min.insync.replicas", value="2")]
    topic = CreatableTopic(name=TOPIC, num_partitions=partitions, replication_factor=3, configs=configs)
    response = await client.request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    assert [each.error_code for each in response.topics] == [0]
    client.close()


async def produce(cluster: SimulatedCluster, value: bytes) -> Error:
    client = cluster.client(leader_of(cluster))
    batch = build_batch([Record(offset=0, timestamp=1, key=None, value=value, headers=[], sequence=-1)])
    data = TopicProduceData(
        name=TOPIC, partition_data=[PartitionProduceData(index=0, records=bytearray(batch))]
    )
    response = await client.request(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), 9)
    client.close()
    return Error.from_code(response.responses[0].partition_responses[0].error_code)


async def read_all(cluster: SimulatedCluster) -> list[bytes]:
    leader = leader_of(cluster)
    client = cluster.client(leader)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=10,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
    )
    response = await client.request(request, 12)
    (found,) = response.responses[0].partitions
    assert found.error_code == 0
    records = bytes(found.records or b"")
    client.close()
    return [
        record.value
        for position, header in iter_headers(memoryview(records))
        for record in iter_records(memoryview(records), position, header)
    ]


async def read(cluster: SimulatedCluster, expected: list[bytes]) -> None:
    """Read until everything expected is there; a new leader's high watermark can lag for a moment, no longer."""
    with trio.fail_after(10):
        while (found := await read_all(cluster)) != expected:
            assert found == expected[: len(found)]


def in_sync(cluster: SimulatedCluster, count: int) -> bool:
    leader = leader_of(cluster)
    return leader >= 0 and len(partition_of(cluster, leader)["isr"]) == count


@pytest.mark.parametrize("seed", range(3))
def test_what_is_acknowledged_survives_its_leader(seed):
    async def test(cluster):
        await create(cluster)
        written = []
        for number in range(4):
            await cluster.wait(lambda: in_sync(cluster, 3))
            written.append(b"record %d" % number)
            assert await produce(cluster, written[-1]) is Error.NONE
            leader = leader_of(cluster)
            began = trio.current_time()
            if number == 3:
                await cluster.lose(leader)
            else:
                await cluster.kill(leader, guarded=number != 1)
            await cluster.wait(lambda gone=leader: leader_of(cluster) not in (-1, gone))
            took_s = trio.current_time() - began
            # With a guardian the session ends at once; without one it outlasts the process by its timeout.
            assert (took_s < 1) == (number in (0, 2)), took_s
            await read(cluster, written)
            cluster.restore(leader)
            await cluster.start(leader)
        await cluster.wait(lambda: in_sync(cluster, 3))
        await read(cluster, written)

    simulated(seed, test)


def test_a_stopped_broker_gives_its_leaders_away_and_comes_back():
    async def test(cluster):
        await create(cluster)
        await cluster.wait(lambda: in_sync(cluster, 3))
        for number in range(3):
            assert await produce(cluster, b"x") is Error.NONE
            before = leader_of(cluster)
            await cluster.stop(before)
            # Leadership moved before the broker left; the new leader learns of it in the same moment.
            await cluster.wait(lambda gone=before: leader_of(cluster) not in (-1, gone), timeout_s=0.1)
            assert in_sync(cluster, 2), "and it left the in-sync replicas"
            await cluster.start(before)
            await cluster.wait(lambda: in_sync(cluster, 3))
            await read(cluster, [b"x"] * (number + 1))

    simulated(7, test)


def test_a_broker_that_returns_within_its_session_obeys_nobody_before_it_has_an_epoch():
    async def answers(cluster, broker_id):
        client = cluster.client(broker_id)
        try:
            with trio.move_on_after(0.5), suppress(ConnectionFailedError):
                await client.request(ApiVersionsRequest(), 0)
                return True
            return False
        finally:
            client.close()

    async def test(cluster):
        await create(cluster)
        victim = leader_of(cluster)
        await cluster.kill(victim, guarded=False)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cluster.start, victim)
            await trio.sleep(0.5)
            assert not await answers(cluster, victim)
            assert not cluster.machines[victim].broker.ready.is_set()
        assert await answers(cluster, victim)

    simulated(3, test)


def test_an_expired_session_brings_a_new_registration():
    async def test(cluster):
        await create(cluster)
        await cluster.wait(lambda: in_sync(cluster, 3))
        victim = controller_of(cluster)
        before = cluster.running()[victim].describe()["broker_epoch"]
        cluster.ensemble.expire(cluster.machines[victim].session.session_id)
        await cluster.wait(lambda: cluster.running()[victim].describe()["broker_epoch"] > before)
        await cluster.wait(lambda: sum(map(is_controller, cluster.running().values())) == 1)
        await know_each_other(cluster)
        await cluster.wait(lambda: in_sync(cluster, 3))
        assert await produce(cluster, b"after") is Error.NONE
        await read(cluster, [b"after"])

    simulated(3, test)


def test_a_machine_that_comes_back_empty_never_leads_what_it_lost():
    async def test(cluster):
        await create(cluster)
        await cluster.wait(lambda: in_sync(cluster, 3))
        assert await produce(cluster, b"kept") is Error.NONE
        leader = leader_of(cluster)
        await cluster.kill(leader)
        await cluster.wait(lambda: leader_of(cluster) not in (-1, leader))
        cluster.machines[leader].disk.remove_directory("/logs")
        await cluster.start(leader)
        await cluster.wait(lambda: in_sync(cluster, 3))
        assert partition_of(cluster, leader)["log_end"] == 1
        await read(cluster, [b"kept"])

    simulated(11, test)
