"""Consume, transform, produce, exactly once, while brokers are killed: check the output, and that nothing hangs."""

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from simulation.cluster import Machine, SimulatedCluster
from tests.simulation.test_broker import controller_of, know_each_other
from tests.simulation.transactional_client import Asking, Transformer
from wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from wire.types import TopicPartition

SOURCE, TARGET = "in", "out"
INPUTS = 20
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "request.timeout.ms": "5000",
    "auto.leader.rebalance.enable": "false",
    "min.insync.replicas": "2",
}
Story = Callable[[SimulatedCluster, list[Transformer]], Awaitable[None]]


def tell(seed: int, story: Story, workers: int = 2) -> None:
    """Run transformers on a cluster while a story happens to it, and check what they have done."""

    async def main() -> None:
        cluster = SimulatedCluster(seed, settings=SETTINGS)
        async with trio.open_nursery() as nursery:
            await nursery.start(cluster.run)
            await cluster.start()
            await know_each_other(cluster)
            await create(cluster)
            transformers = [
                Transformer(cluster, f"worker-{number}", (SOURCE, number), f"{TARGET}-{number}", INPUTS)
                for number in range(workers)
            ]
            with trio.fail_after(900):
                async with trio.open_nursery() as work:
                    harm = await work.start(_happen, story, cluster, transformers)
                    async with trio.open_nursery() as running:
                        for each in transformers:
                            running.start_soon(each.run)
                    harm.cancel()
                await heal(cluster)
                await check(cluster, transformers)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def _happen(story, cluster, transformers, *, task_status=trio.TASK_STATUS_IGNORED) -> None:
    with trio.CancelScope() as scope:
        task_status.started(scope)
        await story(cluster, transformers)


async def create(cluster: SimulatedCluster) -> None:
    client = cluster.client(controller_of(cluster))
    configs = [CreatableTopicConfig(name="min.insync.replicas", value="2")]
    topics = [
        CreatableTopic(name=name, num_partitions=2, replication_factor=3, configs=configs)
        for name in (SOURCE, f"{TARGET}-0", f"{TARGET}-1")
    ]
    response = await client.request(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
    assert [each.error_code for each in response.topics] == [0] * len(topics)
    client.close()


async def heal(cluster: SimulatedCluster) -> None:
    for broker_id in cluster.machines:
        cluster.restore(broker_id)
        if broker_id not in cluster.running():
            await cluster.start(broker_id)
    await know_each_other(cluster)


async def check(cluster: SimulatedCluster, transformers: list[Transformer]) -> None:
    reader = Asking(cluster)
    for each in transformers:
        for partition in (0, 1):
            # All is read, and nothing hangs: the last stable offset reaches the end.
            with trio.fail_after(60):
                while True:
                    values, stable, end = await reader.read_committed(each.target, partition)
                    if stable == end:
                        break
                    await trio.sleep(0.1)
            assert [int(value) for value in values] == list(range(each.count)), (each.name, partition)
        assert each.commits + each.failures >= each.count // 3
    for broker in cluster.running().values():
        # A verification for a client that died can still be under way; it ends by itself.
        with trio.fail_after(60):
            while True:
                described = broker.describe()["transactions"]
                if described["verifications"] == 0 and set(described["markers_waiting"].values()) <= {0}:
                    break
                await trio.sleep(0.1)
    for each in transformers:
        for partition in (0, 1):
            logs = [
                broker._components.context.replicas.hosted.get(TopicPartition(each.target, partition)).log
                for broker in cluster.running().values()
            ]
            assert {log.producer_state.first_open_offset for log in logs} == {None}


async def nothing(cluster: SimulatedCluster, transformers: list[Transformer]) -> None:
    await trio.sleep_forever()


async def kills(cluster: SimulatedCluster, transformers: list[Transformer]) -> None:
    """Kill one broker after another, at any moment, with its guardian or without."""
    chance = cluster.random
    while True:
        await trio.sleep(chance.uniform(0.05, 1.0))
        victim = chance.choice(sorted(cluster.running()))
        await cluster.kill(victim, guarded=chance.random() < 0.7)
        await trio.sleep(chance.uniform(0.1, 4.0))
        await cluster.start(victim)


async def losses(cluster: SimulatedCluster, transformers: list[Transformer]) -> None:
    """Lose one machine after another, with what was not synced."""
    chance = cluster.random
    while True:
        await trio.sleep(chance.uniform(0.05, 1.0))
        victim = chance.choice(sorted(cluster.running()))
        await cluster.lose(victim)
        await trio.sleep(chance.uniform(7.0, 9.0))
        cluster.restore(victim)
        await cluster.start(victim)
        await trio.sleep(chance.uniform(1.0, 3.0))


async def all_at_once(cluster: SimulatedCluster, transformers: list[Transformer]) -> None:
    """Kill every broker at once."""
    chance = cluster.random
    while True:
        await trio.sleep(chance.uniform(0.5, 2.0))
        for victim in sorted(cluster.running()):
            await cluster.kill(victim)
        for victim in cluster.machines:
            await cluster.start(victim)


async def restarts(cluster: SimulatedCluster, transformers: list[Transformer]) -> None:
    """Restart one broker after another by controlled shutdowns."""
    while True:
        for victim in cluster.machines:
            await trio.sleep(cluster.random.uniform(0.05, 0.5))
            await cluster.stop(victim)
            await cluster.start(victim)


async def pauses(cluster: SimulatedCluster, transformers: list[Transformer]) -> None:
    """Pause one broker after another, for less than its session or for longer."""
    chance = cluster.random
    while True:
        await trio.sleep(chance.uniform(0.05, 1.0))
        machine = cluster.machines[chance.choice(sorted(cluster.running()))]
        pause(cluster, machine)
        try:
            await trio.sleep(chance.uniform(0.5, 12.0))
        finally:
            go_on(cluster, machine)


def pause(cluster: SimulatedCluster, machine: Machine) -> None:
    """Pause a machine: what it sends does not arrive any more, and what is sent to it waits."""
    assert machine.session is not None
    cluster.network.isolate(machine.name)
    machine.session.disconnect(silently=True)


def go_on(cluster: SimulatedCluster, machine: Machine) -> None:
    """Resume a paused machine."""
    assert machine.session is not None
    cluster.network.rejoin(machine.name)
    machine.session.reconnect()


STORIES = {story.__name__: story for story in (nothing, kills, losses, all_at_once, restarts, pauses)}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("story", STORIES)
def test_each_input_is_in_the_output_once(story: str, seed: int) -> None:
    tell(seed, STORIES[story])
