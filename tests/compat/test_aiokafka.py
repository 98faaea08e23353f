"""aiokafka against the cluster: create, produce in every way, read back from assigned partitions."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from confluent_kafka import TopicPartition as Served

from tests.compat import matrix
from tests.compat.matrix import COMBINATIONS, PARTITIONS, Combination, Read


@pytest.fixture(scope="module")
def topics(cluster, make_topics):
    names = {c: f"aiokafka-{c.topic}" for c in COMBINATIONS}

    async def create() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
        await admin.start()
        try:
            answer = await admin.create_topics([NewTopic(n, PARTITIONS, 3) for n in names.values()], 30_000)
            assert [error for _topic, error, *_rest in answer.topic_errors if error] == []
        finally:
            await admin.close()

    asyncio.run(create())
    make_topics.wait_served([Served(n, p) for n in names.values() for p in range(PARTITIONS)])
    return names


async def produce(cluster, topic: str, combination: Combination, sent) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        acks="all" if combination.acks == "all" else int(combination.acks),
        compression_type=None if combination.codec == "none" else combination.codec,
        enable_idempotence=combination.idempotent,
        linger_ms=5,
    )
    await producer.start()
    try:
        futures = [
            await producer.send(
                topic,
                partition=r.partition,
                key=r.key,
                value=r.value,
                timestamp_ms=r.timestamp_ms,
                headers=list(r.headers),
            )
            for r in sent
        ]
        await asyncio.wait_for(producer.flush(), 30)
        await asyncio.gather(*futures)
    finally:
        await producer.stop()


async def consume(consumer: AIOKafkaConsumer, count: int) -> list[Read]:
    out: list[Read] = []
    while len(out) < count:
        polled = await consumer.getmany(timeout_ms=60_000)
        assert polled, f"only {len(out)} of {count} records came"
        for records in polled.values():
            out.extend(
                Read(r.partition, r.offset, r.key, r.value, r.timestamp, tuple(r.headers)) for r in records
            )
    return out


@pytest.mark.parametrize("combination", COMBINATIONS, ids=lambda c: c.topic)
def test_produce_and_read_back(cluster, topics, combination: Combination) -> None:
    async def scenario() -> None:
        topic = topics[combination]
        sent = matrix.records()
        await produce(cluster, topic, combination, sent)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=None,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            partitions = [TopicPartition(topic, p) for p in range(PARTITIONS)]
            consumer.assign(partitions)
            await consumer.seek_to_beginning(*partitions)
            matrix.check_all(sent, await consume(consumer, len(sent)))
            for timestamp, offset in matrix.time_searches().items():
                found = await consumer.offsets_for_times(dict.fromkeys(partitions, timestamp))
                for partition in partitions:
                    answer = found[partition]
                    assert (None if answer is None else answer.offset) == offset
            half = matrix.RECORDS_PER_PARTITION // 2
            consumer.assign(partitions[1:2])
            consumer.seek(partitions[1], half)
            rest = await consume(consumer, matrix.RECORDS_PER_PARTITION - half)
            assert [r.offset for r in rest] == list(range(half, matrix.RECORDS_PER_PARTITION))
        finally:
            await consumer.stop()

    asyncio.run(scenario())
