"""Transactional clients against the cluster: what they commit is read once, what they abort is not read at all."""

import asyncio
from contextlib import suppress

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.errors import ProducerFenced
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition
from kafka.structs import OffsetAndMetadata

from tests.compat import matrix
from tests.patience import until

PARTITIONS = matrix.PARTITIONS


@pytest.fixture
def topic(request, make_topics):
    name = f"{matrix.RUN}-{request.node.name.split('[')[0]}"
    make_topics.create([name])
    return name


def producer(cluster, transactional_id: str, **settings) -> Producer:
    made = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": f"{matrix.RUN}-{transactional_id}",
            "transaction.timeout.ms": 30_000,
            **settings,
        }
    )
    made.init_transactions(60)
    return made


def write(client: Producer, topic: str, *values: str) -> None:
    """Send each value to every partition."""
    failures: list = []
    for value in values:
        for partition in range(PARTITIONS):
            client.produce(
                topic,
                value.encode(),
                partition=partition,
                on_delivery=lambda error, _message: failures.append(error) if error else None,
            )
    assert client.flush(60) == 0
    assert failures == []


def read(cluster, topic: str, *, committed: bool = True) -> list[list[str]]:
    """Read each partition to its end, which is the last stable offset under read_committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "none",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    found: list[list[str]] = [[] for _ in range(PARTITIONS)]
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        ended: set[int] = set()
        while len(ended) < PARTITIONS:
            message = consumer.poll(60)
            assert message is not None
            if message.error():
                assert message.error().name() == "_PARTITION_EOF"
                ended.add(message.partition())
            else:
                found[message.partition()].append(message.value().decode())
    finally:
        consumer.close()
    return found


def wait_read(cluster, topic: str, wanted: list[list[str]]) -> None:
    """Wait until exactly these values are committed: the answer to a commit comes before its markers are written."""
    until(lambda: sum(map(len, read(cluster, topic))) == sum(map(len, wanted)))
    assert read(cluster, topic) == wanted


def everywhere(*values: str) -> list[list[str]]:
    return [list(values) for _ in range(PARTITIONS)]


def test_confluent_commits_and_aborts(cluster, topic) -> None:
    client = producer(cluster, "both")
    for number in range(5):
        client.begin_transaction()
        write(client, topic, f"committed {number}")
        client.commit_transaction(60)
        client.begin_transaction()
        write(client, topic, f"aborted {number}")
        client.abort_transaction(60)
    wanted = [f"committed {number}" for number in range(5)]
    assert read(cluster, topic) == everywhere(*wanted)
    both = [f"{what} {number}" for number in range(5) for what in ("committed", "aborted")]
    assert read(cluster, topic, committed=False) == everywhere(*both)


def test_an_open_transaction_is_not_read(cluster, topic) -> None:
    client = producer(cluster, "open")
    client.begin_transaction()
    write(client, topic, "first")
    client.commit_transaction(60)
    client.begin_transaction()
    write(client, topic, "second")
    assert read(cluster, topic) == everywhere("first")
    client.commit_transaction(60)
    wait_read(cluster, topic, everywhere("first", "second"))


def test_a_second_producer_of_an_id_fences_the_first(cluster, topic) -> None:
    first = producer(cluster, "twin")
    first.begin_transaction()
    write(first, topic, "of the first")
    second = producer(cluster, "twin")
    second.begin_transaction()
    write(second, topic, "of the second")
    second.commit_transaction(60)
    with pytest.raises(KafkaException) as caught:
        first.commit_transaction(60)
    assert caught.value.args[0].fatal()
    wait_read(cluster, topic, everywhere("of the second"))


def test_a_transaction_moves_a_group_and_writes_or_does_neither(cluster, topic, make_topics) -> None:
    incoming = f"{topic}-in"
    make_topics.create([incoming])
    source = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(20):
        source.produce(incoming, f"{number}".encode(), partition=0)
    assert source.flush(60) == 0
    group = f"{matrix.RUN}-transform"
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": group,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    client = producer(cluster, "transform")
    consumer = Consumer(settings)
    consumer.subscribe([incoming])
    taken: list[int] = []
    while len(taken) < 10:
        message = consumer.poll(60)
        assert message is not None
        assert not message.error()
        client.begin_transaction()
        client.produce(topic, f"seen {message.value().decode()}".encode(), partition=1)
        client.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 60
        )
        if len(taken) % 2:
            client.abort_transaction(60)
            # The program has to set a consumer's position after an abort.
            consumer.seek(TopicPartition(incoming, 0, message.offset()))
            again = consumer.poll(60)
            assert again is not None
            assert again.offset() == message.offset()
            client.begin_transaction()
            client.produce(topic, f"seen {again.value().decode()}".encode(), partition=1)
            client.send_offsets_to_transaction(
                consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 60
            )
        client.commit_transaction(60)
        taken.append(message.offset())
    assert taken == list(range(10))
    committed = consumer.committed([TopicPartition(incoming, 0)], 60)
    assert committed[0].offset == 10
    consumer.close()
    wait_read(cluster, topic, [[], [f"seen {number}" for number in range(10)], []])


def offset_of(cluster, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], 60)
        return int(found.offset)
    finally:
        consumer.close()


def test_aiokafka_commits_aborts_and_is_fenced(cluster, topic) -> None:
    name = f"{matrix.RUN}-aiokafka"

    async def producer() -> AIOKafkaProducer:
        made = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=name)
        await made.start()
        return made

    async def send(client: AIOKafkaProducer, value: str) -> None:
        for partition in range(PARTITIONS):
            await client.send_and_wait(topic, value.encode(), partition=partition)

    async def run() -> None:
        first = await producer()
        async with first.transaction():
            await send(first, "committed")
            await first.send_offsets_to_transaction({AioTopicPartition(topic, 0): 5}, name)
        with suppress(ZeroDivisionError):
            async with first.transaction():
                await send(first, "aborted")
                await first.send_offsets_to_transaction({AioTopicPartition(topic, 0): 6}, name)
                raise ZeroDivisionError
        second = await producer()
        async with second.transaction():
            await send(second, "of the second")
        with pytest.raises(ProducerFenced):
            async with first.transaction():
                await send(first, "of the first")
        await second.stop()
        await first.stop()

    asyncio.run(asyncio.wait_for(run(), 120))
    wait_read(cluster, topic, everywhere("committed", "of the second"))
    until(lambda: offset_of(cluster, name, topic) == 5)


def test_kafka_python_commits_and_aborts(cluster, topic) -> None:
    name = f"{matrix.RUN}-kafka-python"
    client = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=name)
    client.init_transactions()
    for value, offset, commit in (("committed", 5, True), ("aborted", 6, False), ("committed too", 7, True)):
        client.begin_transaction()
        for partition in range(PARTITIONS):
            client.send(topic, value.encode(), partition=partition)
        client.send_offsets_to_transaction(
            {KafkaTopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}, name
        )
        if commit:
            client.commit_transaction()
        else:
            client.abort_transaction()
    client.close()
    wait_read(cluster, topic, everywhere("committed", "committed too"))
    until(lambda: offset_of(cluster, name, topic) == 7)
    reader = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=10_000,
    )
    reader.assign([KafkaTopicPartition(topic, 1)])
    assert [next(reader).value for _ in range(2)] == [b"committed", b"committed too"]
    reader.close()


def test_a_timeout_above_the_maximum_is_refused_at_once(cluster) -> None:
    with pytest.raises(KafkaException) as caught:
        producer(cluster, "patient", **{"transaction.timeout.ms": 900_001})
    assert caught.value.args[0].name() == "INVALID_TRANSACTION_TIMEOUT"


def test_a_sleeping_producer_is_aborted_and_fenced(cluster, topic) -> None:
    client = producer(cluster, "sleeper", **{"transaction.timeout.ms": 1_000})
    client.begin_transaction()
    write(client, topic, "late")
    # It times out after a second, and is aborted at the coordinator's next check, at most ten seconds later.
    until(lambda: read_to_end(cluster, topic))
    with pytest.raises(KafkaException) as caught:
        client.commit_transaction(60)
    assert caught.value.args[0].fatal()
    assert read(cluster, topic) == everywhere()


def read_to_end(cluster, topic: str) -> bool:
    """Whether nothing is open: read_committed reaches the same end as read_uncommitted."""
    ends = []
    for level in ("read_committed", "read_uncommitted"):
        consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none", "isolation.level": level}
        )
        try:
            ends.append(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60))
        finally:
            consumer.close()
    return ends[0] == ends[1]
