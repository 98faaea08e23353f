"""Decided transactions whose markers cannot be written yet, and what goes on meanwhile."""

from collections.abc import Awaitable, Callable, Sequence

import pytest
import trio
import trio.testing

from simulation.cluster import SimulatedCluster
from tests.simulation.test_broker import controller_of, know_each_other
from tests.simulation.test_late_end_of_transaction import end, ended
from tests.simulation.test_transactions import SETTINGS, SOURCE
from tests.simulation.transactional_client import Transformer
from wire.errors import Error
from wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from wire.messages.delete_topics import DeleteTopicsRequest
from wire.types import BrokerId

TOPIC, OTHER = "out", "others"
BROKERS = (0, 1, 2)


def run(story: Callable[[SimulatedCluster], Awaitable[None]], **settings: str) -> None:
    """Run a story on a cluster of three brokers."""

    async def main() -> None:
        # Every broker coordinates some ids.
        places = {"transaction.state.log.num.partitions": "6"}
        cluster = SimulatedCluster(7, settings=SETTINGS | places | settings)
        async with trio.open_nursery() as nursery:
            await nursery.start(cluster.run)
            await cluster.start()
            await know_each_other(cluster)
            with trio.fail_after(300):
                await story(cluster)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def create(cluster: SimulatedCluster, topic: str, replicas: Sequence[int], min_isr: int = 1) -> None:
    """Make a topic of two partitions on the same brokers, led by the first of them."""
    places = [
        CreatableReplicaAssignment(partition_index=number, broker_ids=[BrokerId(each) for each in replicas])
        for number in (0, 1)
    ]
    config = CreatableTopicConfig(name="min.insync.replicas", value=str(min_isr))
    made = CreatableTopic(
        name=topic, num_partitions=-1, replication_factor=-1, assignments=places, configs=[config]
    )
    client = cluster.client(controller_of(cluster))
    while True:
        answer = await client.request(CreateTopicsRequest(topics=[made], timeout_ms=10_000), 7)
        code = answer.topics[0].error_code
        if code != Error.TOPIC_ALREADY_EXISTS:
            break
        # Its deletion is not complete yet.
        await trio.sleep(0.1)
    assert code == Error.NONE, answer
    client.close()


async def delete(cluster: SimulatedCluster, topic: str) -> None:
    client = cluster.client(controller_of(cluster))
    answer = await client.request(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 5)
    assert answer.responses[0].error_code == 0, answer
    client.close()


async def producer_of(
    cluster: SimulatedCluster, topic: str, *, coordinator: int | None = None
) -> Transformer:
    """Begin a transaction, at one of the coordinators, with a record in the first partition."""
    for number in range(50):
        producer = Transformer(cluster, f"{topic}-{number}", (SOURCE, 0), topic, 0)
        producer.transaction_timeout_ms = 600_000
        await producer.initialise()
        if coordinator in (None, await producer.coordinator(1, producer.name)):
            break
    else:
        raise AssertionError(f"broker {coordinator} coordinates no id")
    await producer.begin()
    await producer.produce(0, [b"first"])
    return producer


async def commit(producer: Transformer) -> None:
    """Commit: the answer comes with the decision, though markers can still wait."""
    answer = await producer.ask(await producer.coordinator(1, producer.name), end(producer, commit=True), 3)
    assert answer.error_code == Error.NONE


async def next_begins(producer: Transformer) -> Error:
    """Add a partition to the next transaction, with one request; return the error."""
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.name,
        v3_and_below_producer_id=producer.producer[0],
        v3_and_below_producer_epoch=producer.producer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=producer.target, partitions=[0])],
    )
    answer = await producer.ask(await producer.coordinator(1, producer.name), request, 3)
    (found,) = answer.results_by_topic_v3_and_below[0].results_by_partition
    return Error.from_code(found.partition_error_code)


async def oldest_prepare(cluster: SimulatedCluster, producer: Transformer) -> float:
    """Return the age in seconds of the coordinator's oldest decision that still lacks markers."""
    coordinator = cluster.running()[BrokerId(await producer.coordinator(1, producer.name))]
    return float(coordinator.describe()["transactions"]["oldest_prepare_s"])


async def complete(cluster: SimulatedCluster, producer: Transformer) -> None:
    """Wait until the transaction has ended everywhere: a next one can begin, be aborted, and leaves nothing open."""
    await producer.begin()
    assert await ended(producer, commit=False) is Error.NONE
    for partition in (0, 1):
        while True:
            _, stable, stop = await producer.read_committed(producer.target, partition)
            if stable == stop:
                break
            await trio.sleep(0.1)


def test_a_partition_with_too_few_replicas_holds_up_its_transaction_and_no_other() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await create(cluster, TOPIC, BROKERS, min_isr=3)
        await create(cluster, OTHER, BROKERS)
        waiting = await producer_of(cluster, TOPIC)
        other = await producer_of(cluster, OTHER)
        away = next(
            each for each in BROKERS if each not in (waiting.leader(TOPIC, 0), controller_of(cluster))
        )
        await cluster.kill(away)
        await cluster.wait(lambda: len(isr_of(cluster, waiting.leader(TOPIC, 0))) == 2)
        await commit(waiting)
        await trio.sleep(10)
        assert await next_begins(waiting) is Error.CONCURRENT_TRANSACTIONS
        assert await oldest_prepare(cluster, waiting) >= 10
        began = trio.current_time()
        await commit(other)
        await complete(cluster, other)
        assert trio.current_time() - began < 1
        await cluster.start(away)
        await complete(cluster, waiting)
        assert (await waiting.read_committed(TOPIC, 0))[0] == [b"first"]
        assert await oldest_prepare(cluster, waiting) == 0

    run(story)


def isr_of(cluster: SimulatedCluster, leader: int) -> Sequence[int]:
    (found,) = (
        each["isr"]
        for each in cluster.running()[BrokerId(leader)].partition_descriptions()
        if (each["topic"], each["partition"]) == (TOPIC, 0)
    )
    return found  # type: ignore[no-any-return]


def test_a_dead_leader_holds_up_its_transactions_and_no_other() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        dead = next(each for each in BROKERS if each != controller_of(cluster))
        await create(cluster, TOPIC, [dead])
        await create(cluster, OTHER, [each for each in BROKERS if each != dead])
        here = next(each for each in BROKERS if each != dead)
        waiting = await producer_of(cluster, TOPIC, coordinator=here)
        other = await producer_of(cluster, OTHER, coordinator=here)
        await cluster.kill(dead)
        await cluster.wait(lambda: waiting.leader(TOPIC, 0) == -1)
        await commit(waiting)
        await trio.sleep(60)
        assert await next_begins(waiting) is Error.CONCURRENT_TRANSACTIONS
        described = cluster.running()[BrokerId(here)].describe()["transactions"]
        assert described["oldest_prepare_s"] >= 60
        assert sum(described["markers_waiting"].values()) == 2
        began = trio.current_time()
        await commit(other)
        await complete(cluster, other)
        assert trio.current_time() - began < 1
        await cluster.start(dead)
        await complete(cluster, waiting)
        assert (await waiting.read_committed(TOPIC, 0))[0] == [b"first"]

    run(story)


@pytest.mark.parametrize("restarts", [False, True], ids=["", "coordinator-restarted"])
def test_a_topic_deleted_in_mid_transaction_and_made_again(restarts: bool) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await create(cluster, TOPIC, BROKERS)
        await create(cluster, OTHER, BROKERS)
        producer = await producer_of(cluster, TOPIC)
        producer.target = OTHER
        await producer.begin()
        await producer.produce(0, [b"of the other topic"])
        producer.target = TOPIC
        await delete(cluster, TOPIC)
        await cluster.wait(lambda: producer.leader(TOPIC, 0) == -1)
        if restarts:
            coordinator = await producer.coordinator(1, producer.name)
            await commit(producer)
            await cluster.kill(coordinator)
            await cluster.start(coordinator)
            await know_each_other(cluster)
        await create(cluster, TOPIC, BROKERS)
        await cluster.wait(lambda: producer.leader(TOPIC, 0) >= 0)
        assert await ended(producer, commit=True) is Error.NONE
        await complete(cluster, producer)
        assert (await producer.read_committed(TOPIC, 0))[0] == []
        assert (await producer.read_committed(OTHER, 0))[0] == [b"of the other topic"]

    run(story)


def test_transactions_go_on_while_zookeeper_is_away() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await create(cluster, TOPIC, BROKERS)
        producer = await producer_of(cluster, TOPIC)
        sessions = [each.session for each in cluster.machines.values()]
        for session in sessions:
            session.disconnect()  # type: ignore[union-attr]
        for number in range(6):
            await commit(producer)
            await trio.sleep(10)
            await producer.begin()
            await producer.produce(0, [b"%d" % number])
        for session in sessions:
            session.reconnect()  # type: ignore[union-attr]
        await know_each_other(cluster)
        await commit(producer)
        await complete(cluster, producer)
        values, _, _ = await producer.read_committed(TOPIC, 0)
        assert values == [b"first", *(b"%d" % number for number in range(6))]

    # A ZooKeeper that is away expires no session; the simulated one does, so the timeout is long.
    run(story, **{"zookeeper.session.timeout.ms": "600000"})
