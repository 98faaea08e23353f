"""kafka-python 3 against the cluster: create, produce in every way, read back from assigned partitions."""

import pytest
from confluent_kafka import TopicPartition as Served
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from tests.compat import matrix
from tests.compat.matrix import COMBINATIONS, PARTITIONS, Combination, Read


@pytest.fixture(scope="module")
def topics(cluster, make_topics):
    names = {c: f"kafka-python-{c.topic}" for c in COMBINATIONS}
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    try:
        admin.create_topics([NewTopic(n, PARTITIONS, 3) for n in names.values()], timeout_ms=60_000)
    finally:
        admin.close()
    make_topics.wait_served([Served(n, p) for n in names.values() for p in range(PARTITIONS)])
    return names


def produce(cluster, topic: str, combination: Combination, sent) -> None:
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        acks="all" if combination.acks == "all" else int(combination.acks),
        compression_type=None if combination.codec == "none" else combination.codec,
        enable_idempotence=combination.idempotent,
        linger_ms=5,
    )
    try:
        futures = [
            producer.send(
                topic,
                partition=r.partition,
                key=r.key,
                value=r.value,
                timestamp_ms=r.timestamp_ms,
                headers=list(r.headers),
            )
            for r in sent
        ]
        producer.flush(timeout=60)
        for future in futures:
            future.get(timeout=60)
    finally:
        producer.close()


def consume(consumer: KafkaConsumer, count: int) -> list[Read]:
    out: list[Read] = []
    while len(out) < count:
        polled = consumer.poll(timeout_ms=60_000)
        assert polled, f"only {len(out)} of {count} records came"
        for records in polled.values():
            out.extend(
                Read(r.partition, r.offset, r.key, r.value, r.timestamp, tuple(r.headers)) for r in records
            )
    return out


@pytest.mark.parametrize("combination", COMBINATIONS, ids=lambda c: c.topic)
def test_produce_and_read_back(cluster, topics, combination: Combination) -> None:
    topic = topics[combination]
    sent = matrix.records()
    produce(cluster, topic, combination, sent)
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=None,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        check_crcs=True,
    )
    try:
        partitions = [TopicPartition(topic, p) for p in range(PARTITIONS)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        matrix.check_all(sent, consume(consumer, len(sent)))
        for timestamp, offset in matrix.time_searches().items():
            found = consumer.offsets_for_times(dict.fromkeys(partitions, timestamp))
            for partition in partitions:
                answer = found[partition]
                assert (None if answer is None else answer.offset) == offset
        half = matrix.RECORDS_PER_PARTITION // 2
        consumer.assign(partitions[1:2])
        consumer.seek(partitions[1], half)
        rest = consume(consumer, matrix.RECORDS_PER_PARTITION - half)
        assert [r.offset for r in rest] == list(range(half, matrix.RECORDS_PER_PARTITION))
    finally:
        consumer.close()
