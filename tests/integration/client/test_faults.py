"""The client while brokers die, pause, are cut off and move their leaders: the history that it sees is right."""

from collections.abc import Callable, Iterator

import anyio
import pytest

from ottla.client import EARLIEST, LATEST, DeliveryError, connect
from ottla.testing.history import History, Mark
from ottla.testing.in_process.cluster import InProcessCluster
from tests.compat.client.eventually import eventually
from wire.types import TopicPartition

PARTITIONS = 3
TASKS = 6
TOPIC = "t"
MORE = 60
"""Acknowledgements that must come during a fault, and again after it."""


@pytest.fixture(scope="module")
def shared() -> Iterator[InProcessCluster]:
    with InProcessCluster.up(brokers=3) as running:
        yield running


@pytest.fixture
def cluster(shared: InProcessCluster) -> InProcessCluster:
    shared.reset()
    shared.create_topic(TOPIC, partitions=PARTITIONS, configs={"min.insync.replicas": "2"})
    shared.wait_in_sync(TOPIC, PARTITIONS)
    return shared


def leader(cluster: InProcessCluster) -> int:
    return cluster.view().leader(TOPIC, 0)


def kill(cluster: InProcessCluster, broker_id: int) -> None:
    cluster.kill(broker_id)


def stand_still(cluster: InProcessCluster, broker_id: int) -> None:
    cluster.pause(broker_id)


def cut_off(cluster: InProcessCluster, broker_id: int) -> None:
    cluster.cut(broker_id, zookeeper=True, clients=True)


def cut_off_from_the_others(cluster: InProcessCluster, broker_id: int) -> None:
    cluster.cut(broker_id, zookeeper=True)


def shut_down(cluster: InProcessCluster, broker_id: int) -> None:
    cluster.stop(broker_id)


def expire(cluster: InProcessCluster, broker_id: int) -> None:
    cluster.expire_session(broker_id)


def mend(cluster: InProcessCluster) -> None:
    cluster.heal()
    down = [number for number in cluster.broker_ids if number not in cluster.view().descriptions]
    if down:
        cluster.start(*down)
    cluster.wait_in_sync(TOPIC, PARTITIONS)


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
@pytest.mark.parametrize(
    "fault",
    [kill, stand_still, cut_off, cut_off_from_the_others, shut_down, expire],
    ids=lambda each: each.__name__,
)
def test_the_history_is_right(
    cluster: InProcessCluster, fault: Callable[[InProcessCluster, int], None], backend: str
) -> None:
    history = History()
    group_read: set[Mark] = set()
    sent_marks: set[Mark] = set()

    async def send(out, task: int, stop: anyio.Event) -> None:
        place = TopicPartition(TOPIC, task % PARTITIONS)
        number = 0
        while not stop.is_set():
            mark = Mark(str(task), number)
            history.sent(mark, place)
            try:
                at = await out.send(TOPIC, f"{task} {number}".encode(), partition=place.partition)
            except DeliveryError:
                pass  # it may have been written
            else:
                history.acknowledged(mark, place, at.offset)
                sent_marks.add(mark)
            number += 1

    async def consume(kafka, ended: anyio.Event) -> None:
        options = {"start": EARLIEST, "heartbeat_interval": 0.1, "commit_interval": 0.2}
        async with kafka.group(f"group-{fault.__name__}-{backend}", TOPIC, **options) as group:
            async for batch in group:
                group_read.update(parsed(value) for value in batch.values())
                if ended.is_set() and sent_marks <= group_read:
                    return

    async def body() -> None:
        quick = {"request_timeout": 1.5, "metadata_max_age": 2.0, "connection_setup_timeout": 1.0}
        with anyio.fail_after(100):
            async with connect(cluster.bootstrap_servers, **quick) as kafka:
                stop, ended = anyio.Event(), anyio.Event()
                async with anyio.create_task_group() as readers:
                    readers.start_soon(consume, kafka, ended)
                    async with kafka.producer(linger=0, delivery_timeout=60) as out:
                        async with anyio.create_task_group() as senders:
                            for task in range(TASKS):
                                senders.start_soon(send, out, task, stop)
                            await more()
                            victim = await anyio.to_thread.run_sync(leader, cluster)
                            await anyio.to_thread.run_sync(fault, cluster, victim)
                            await more()
                            await anyio.to_thread.run_sync(mend, cluster)
                            await more()
                            stop.set()
                        ended.set()
                        # A record that wakes the group's loop, in case it has read everything already.
                        for number in range(PARTITIONS):
                            mark = Mark("end", 0)
                            history.sent(mark, TopicPartition(TOPIC, number))
                            await out.send(TOPIC, b"end 0", partition=number)
                async with kafka.reader(TOPIC, start=EARLIEST, stop=LATEST) as reader:
                    async for batch in reader:
                        found = zip(batch.offsets(), map(parsed, batch.values()), strict=True)
                        history.read("reader", TopicPartition(TOPIC, batch.partition), found)

    async def more() -> None:
        enough = history.acknowledged_count + MORE
        await eventually(lambda: history.acknowledged_count >= enough)

    anyio.run(body, backend=backend)
    history.check()
    assert history.acknowledged_count >= 3 * MORE
    assert sent_marks <= group_read


def parsed(value: bytes) -> Mark:
    producer, number = value.decode().split()
    return Mark(producer, int(number))


def test_a_rolling_restart_loses_nothing(cluster: InProcessCluster) -> None:
    history = History()
    place = TopicPartition(TOPIC, 0)

    async def body() -> None:
        with anyio.fail_after(120):
            async with connect(cluster.bootstrap_servers, request_timeout=5.0) as kafka:
                async with kafka.producer(linger=0) as out:
                    number = 0

                    async def send_some() -> None:
                        nonlocal number
                        for _ in range(30):
                            mark = Mark("p", number)
                            history.sent(mark, place)
                            at = await out.send(TOPIC, b"p %d" % number, partition=0)
                            history.acknowledged(mark, place, at.offset)
                            number += 1

                    for broker_id in cluster.broker_ids:
                        await send_some()
                        await anyio.to_thread.run_sync(cluster.stop, broker_id)
                        await send_some()
                        await anyio.to_thread.run_sync(cluster.start, broker_id)
                        await anyio.to_thread.run_sync(cluster.wait_in_sync, TOPIC, PARTITIONS)
                async with kafka.reader(TOPIC, start=EARLIEST, stop=LATEST) as reader:
                    async for batch in reader:
                        found = zip(batch.offsets(), map(parsed, batch.values()), strict=True)
                        history.read("reader", TopicPartition(TOPIC, batch.partition), found)

    anyio.run(body, backend="trio")
    history.check()
    assert history.acknowledged_count == 180


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_leaving_while_all_brokers_are_away(cluster: InProcessCluster, backend: str) -> None:
    took = 0.0

    async def body() -> None:
        nonlocal took
        options = {"start": EARLIEST, "heartbeat_interval": 0.1}
        async with connect(cluster.bootstrap_servers, close_timeout=1.0) as kafka:
            try:
                async with (
                    kafka.producer(linger=0) as out,
                    kafka.reader(TOPIC, start=EARLIEST) as reader,
                    kafka.group(f"leaving-{backend}", TOPIC, **options) as group,
                ):
                    await out.send(TOPIC, b"there 0")
                    await anext(reader)
                    (await anext(group)).done()
                    await anyio.to_thread.run_sync(cluster.pause, *cluster.broker_ids)
                    await out.post(TOPIC, b"on its way")
                    left = anyio.current_time()
                    raise KeyError("the user's own")
            except KeyError:
                took = anyio.current_time() - left

    try:
        anyio.run(body, backend=backend)
    finally:
        cluster.heal()
    # The group and the producer need their time one after the other.
    assert 1.0 <= took <= 2 * 1.0 + 0.5
