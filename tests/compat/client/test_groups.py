"""Groups against brokers of both kinds: alone, together, and with members of librdkafka."""

import re
import uuid
from collections import Counter

import anyio
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewPartitions

from ottla.client import EARLIEST, EXPLICIT, LATEST, FencedInstance, GroupMismatch, connect
from ottla.client.membership import MemberState
from tests.compat.client.eventually import eventually
from tests.patience import until

QUICK = {"start": EARLIEST, "heartbeat_interval": 0.1, "session_timeout": 10.0, "commit_interval": 0.2}


def fill(brokers, topic: str, partitions: int, count: int, begin: int = 0) -> None:
    producer = Producer({"bootstrap.servers": brokers.bootstrap_servers})
    for partition in range(partitions):
        for number in range(begin, begin + count):
            producer.produce(topic, b"%d-%d" % (partition, number), partition=partition)
    assert producer.flush(60) == 0


def committed(brokers, group: str, topic: str, partitions: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": brokers.bootstrap_servers, "group.id": group})
    try:
        return [each.offset for each in consumer.committed([Place(topic, n) for n in range(partitions)], 30)]
    finally:
        consumer.close()


@pytest.fixture
def name() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("assignor", ["cooperative-sticky", "sticky", "range", "roundrobin"])
def test_one_member_reads_everything_and_goes_on_where_it_was(brokers, run, name: str, assignor: str) -> None:
    topic = brokers.topic(3)
    fill(brokers, topic, 3, 100)

    async def read(kafka, count: int) -> list[bytes]:
        found: list[bytes] = []
        async with kafka.group(name, topic, assignors=[assignor], max_records=10, **QUICK) as group:
            async for batch in group:
                found += batch.values()
                if len(found) >= count:
                    batch.done()
                    break
        return found

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka:
            first = await read(kafka, 150)
            second = await read(kafka, 300 - len(first))
            assert Counter(first + second) == Counter(b"%d-%d" % (p, n) for p in range(3) for n in range(100))

    run(body)
    assert committed(brokers, name, topic, 3) == [100, 100, 100]


def test_a_member_that_stands_still_gives_its_partitions_to_the_others(brokers, run, name: str) -> None:
    topic = brokers.topic(2)
    fill(brokers, topic, 2, 10)

    async def body() -> None:
        async with (
            connect(brokers.bootstrap_servers) as kafka,
            connect(brokers.bootstrap_servers) as other,
            kafka.group(name, topic, stall_timeout=0.3, **QUICK) as stalled,
        ):
            held = await anext(stalled)
            found: list[bytes] = []
            async with other.group(name, topic, **QUICK) as working:
                while len(found) < 20:
                    batch = await anext(working)
                    found += batch.values()
                    batch.done()
            assert held.lost
            assert Counter(found) == Counter(b"%d-%d" % (p, n) for p in range(2) for n in range(10))
            async with other.producer() as out:
                await out.send(topic, b"more", partition=1)
            back = await anext(stalled)
            assert (back.partition, back.first_offset, back.lost) == (1, 10, False)

    run(body)
    assert committed(brokers, name, topic, 2)[0] == 10


def test_a_batch_whose_loop_broke_comes_again(brokers, run, name: str) -> None:
    topic = brokers.topic(1)
    fill(brokers, topic, 1, 10)

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka:
            for _ in range(2):
                async with kafka.group(name, topic, max_records=3, **QUICK) as group:
                    async for batch in group:
                        assert batch.first_offset == 0
                        break
            async with kafka.group(name, topic, max_records=4, done=EXPLICIT, **QUICK) as group:
                first, second = await anext(group), await anext(group)
                second.done()
                first[1].done()
                await group.commit()
                assert group.assignment
                first[0].done()
                await group.commit()

    run(body)
    assert committed(brokers, name, topic, 1) == [2]


def test_members_come_and_go_and_every_record_is_read_once(brokers, run, name: str) -> None:
    topic = brokers.topic(6)
    found: Counter[bytes] = Counter()
    owners: list[int] = []

    async def member(kafka, stop: anyio.Event, number: int) -> None:
        async with kafka.group(name, topic, max_records=10, **QUICK) as group:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as nursery:

                    async def until_stopped() -> None:
                        await stop.wait()
                        scope.cancel()

                    nursery.start_soon(until_stopped)
                    async for batch in group:
                        with anyio.CancelScope(shield=True):
                            await anyio.sleep(0.002)
                            found.update(batch.values())
                            owners.append(number)
                            batch.done()

    sent: Counter[bytes] = Counter()
    fed = anyio.Event()

    async def feed(out, enough: anyio.Event) -> None:
        number = 0
        while not enough.is_set():
            for partition in range(6):
                value = b"%d-%d" % (partition, number)
                await out.send(topic, value, partition=partition)
                sent[value] += 1
            number += 1
        fed.set()

    async def body() -> None:
        async with (
            connect(brokers.bootstrap_servers) as kafka,
            kafka.producer(linger=0) as out,
            anyio.create_task_group() as nursery,
        ):
            stops = [anyio.Event() for _ in range(3)]
            enough = anyio.Event()
            nursery.start_soon(feed, out, enough)
            for number, stop in enumerate(stops):
                nursery.start_soon(member, kafka, stop, number)
                await eventually(lambda number=number: number in owners)
            stops[0].set()
            reached = len(owners)
            await eventually(lambda: len(owners) > reached + 50)
            enough.set()
            await fed.wait()
            await eventually(lambda: len(found) == len(sent))
            for stop in stops:
                stop.set()

    run(body)
    assert found == sent
    assert sum(committed(brokers, name, topic, 6)) == len(sent)


def test_who_leaves_while_the_others_join_commits_what_is_done(brokers, run, name: str) -> None:
    topic = brokers.topic(2)
    fill(brokers, topic, 2, 10)

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka, anyio.create_task_group() as nursery:
            stop = anyio.Event()

            async def stay(**settings: object) -> None:
                async with kafka.group(name, topic, **{**QUICK, **settings}) as group:
                    await group.wait_assigned()
                    joined.set()
                    await stop.wait()

            async with kafka.group(name, topic, **{**QUICK, "commit_interval": None}) as leaving:
                await leaving.wait_assigned()
                joined = anyio.Event()
                # It hears of the next join only after seconds: until then that is not complete.
                nursery.start_soon(lambda: stay(heartbeat_interval=9.0))
                await joined.wait()
                await eventually(
                    lambda: leaving.membership.state is MemberState.STABLE and len(leaving.assignment) == 1
                )
                (await anext(leaving)).done()
                joined = anyio.Event()
                nursery.start_soon(stay)
                await eventually(lambda: leaving.membership.state is MemberState.OUTSIDE)
                left = anyio.current_time()
            assert anyio.current_time() - left < 4, "neither the commit nor the leave stands behind the join"
            stop.set()
            nursery.cancel_scope.cancel()

    run(body)
    assert sum(offset for offset in committed(brokers, name, topic, 2) if offset > 0) == 10


def test_a_task_per_partition_ends_before_the_partition_goes(brokers, run, name: str) -> None:
    topic = brokers.topic(4)
    fill(brokers, topic, 4, 100)
    working: Counter[int] = Counter()
    most: Counter[int] = Counter()
    found: Counter[bytes] = Counter()

    async def work(part) -> None:
        working[part.partition] += 1
        most[part.partition] = max(most[part.partition], working[part.partition])
        async for batch in part:
            await anyio.sleep(0.002)
            found.update(batch.values())
        working[part.partition] -= 1

    async def member(kafka) -> None:
        async with kafka.group(name, topic, max_records=5, **QUICK) as group:
            await group.run(work, limit=2)

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka, anyio.create_task_group() as nursery:
            nursery.start_soon(member, kafka)
            await eventually(lambda: sum(found.values()) >= 100)
            nursery.start_soon(member, kafka)
            await eventually(lambda: sum(found.values()) >= 400)
            nursery.cancel_scope.cancel()

    run(body)
    assert set(found) == {b"%d-%d" % (p, n) for p in range(4) for n in range(100)}
    assert max(found.values()) == 1
    assert most == Counter(dict.fromkeys(range(4), 1))


@pytest.mark.parametrize("theirs", ["cooperative-sticky", "range"])
def test_a_group_with_librdkafka(brokers, run, name: str, theirs: str) -> None:
    topic = brokers.topic(4)
    fill(brokers, topic, 4, 50)
    other = Consumer(
        {
            "bootstrap.servers": brokers.bootstrap_servers,
            "group.id": name,
            "partition.assignment.strategy": theirs,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 100,
            "session.timeout.ms": 10000,
        }
    )
    other.subscribe([topic])
    until(lambda: other.poll(0.1) is not None or len(other.assignment()) == 4)

    async def poll_other(stop: anyio.Event) -> None:
        while not stop.is_set():
            await anyio.to_thread.run_sync(other.poll, 0.05)

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka, anyio.create_task_group() as nursery:
            stop = anyio.Event()
            nursery.start_soon(poll_other, stop)
            async with kafka.group(name, topic, assignors=[theirs], **QUICK) as group:
                await eventually(lambda: len(group.assignment) == 2 and len(other.assignment()) == 2)
                ours = {each.partition for each in group.assignment}
                assert ours | {each.partition for each in other.assignment()} == {0, 1, 2, 3}
                batch = await anext(group)
                assert batch.partition in ours
            await eventually(lambda: len(other.assignment()) == 4)
            stop.set()

    try:
        run(body)
    finally:
        other.close()


def test_a_static_member_comes_back_to_its_partitions_and_a_twin_fences_it(brokers, run, name: str) -> None:
    topic = brokers.topic(2)
    fill(brokers, topic, 2, 5)

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka:
            generations = []
            for _ in range(2):
                async with kafka.group(name, topic, instance_id="one", **QUICK) as group:
                    await anext(group)
                    generations.append(group.generation)
            assert generations[0] == generations[1], "no rebalance"
            async with kafka.group(name, topic, instance_id="one", **QUICK) as older:
                await anext(older)
                async with kafka.group(name, topic, instance_id="one", **QUICK) as newer:
                    await anext(newer)
                    with pytest.raises(FencedInstance, match="has joined with the instance id 'one'"):
                        await _read_on(older)

    run(body)


async def _read_on(group) -> None:
    async for _ in group:
        pass


def test_other_assignors_are_a_mismatch(brokers, run, name: str) -> None:
    topic = brokers.topic(1)
    fill(brokers, topic, 1, 5)

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka:
            async with kafka.group(name, topic, assignors=["range"], **QUICK) as group:
                await anext(group)
                async with kafka.group(name, topic, assignors=["roundrobin"], **QUICK) as other:
                    with pytest.raises(GroupMismatch):
                        await anext(other)
            with pytest.raises(ValueError, match="no assignor rnage: there are"):
                kafka.group(name, topic, assignors=["rnage"], start=EARLIEST)

    run(body)


def test_topics_by_pattern_and_partitions_that_are_added(brokers, run, name: str) -> None:
    topic = brokers.topic(1)
    pattern = re.compile(topic + ".*")
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap_servers})

    async def body() -> None:
        async with (
            connect(brokers.bootstrap_servers, metadata_max_age=0.3) as kafka,
            kafka.group(name, pattern, **{**QUICK, "start": LATEST}) as group,
        ):
            await eventually(lambda: group.assignment)
            admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
            await anyio.to_thread.run_sync(fill, brokers, topic, 2, 3)
            seen: dict[int, list[bytes]] = {0: [], 1: []}
            while not seen[1]:
                batch = await anext(group)
                seen[batch.partition] += batch.values()
            assert seen[1][0] == b"1-0", "the first record of an added partition is read in spite of LATEST"

    run(body)
