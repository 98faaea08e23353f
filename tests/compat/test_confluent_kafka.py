"""confluent-kafka (librdkafka) against the cluster: create, produce in every way, read assigned partitions."""

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.compat import matrix
from tests.compat.matrix import COMBINATIONS, PARTITIONS, Combination, Read


@pytest.fixture(scope="module")
def topics(cluster, make_topics):
    names = {c: f"confluent-{c.topic}" for c in COMBINATIONS}
    make_topics.create(list(names.values()))
    return names


def produce(cluster, topic: str, combination: Combination, sent) -> None:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "acks": combination.acks,
            "compression.type": combination.codec,
            "enable.idempotence": combination.idempotent,
            "linger.ms": 5,
        }
    )
    failures: list[KafkaError] = []
    for record in sent:
        producer.produce(
            topic,
            partition=record.partition,
            key=record.key,
            value=record.value,
            timestamp=record.timestamp_ms,
            headers=list(record.headers),
            on_delivery=lambda error, _message: failures.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert failures == []


def consume(consumer: Consumer, count: int) -> list[Read]:
    out: list[Read] = []
    while len(out) < count:
        messages = consumer.consume(num_messages=count - len(out), timeout=60)
        assert messages, f"only {len(out)} of {count} records came"
        for message in messages:
            assert message.error() is None, message.error()
            out.append(
                Read(
                    message.partition(),
                    message.offset(),
                    message.key(),
                    message.value(),
                    message.timestamp()[1],
                    tuple(message.headers() or ()),
                )
            )
    return out


def assigned(cluster, positions) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "by-hand",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
        }
    )
    consumer.assign(positions)
    return consumer


@pytest.mark.parametrize("combination", COMBINATIONS, ids=lambda c: c.topic)
def test_produce_and_read_back(cluster, topics, combination: Combination) -> None:
    topic = topics[combination]
    sent = matrix.records()
    produce(cluster, topic, combination, sent)
    consumer = assigned(cluster, [TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    try:
        matrix.check_all(sent, consume(consumer, len(sent)))
        for timestamp, offset in matrix.time_searches().items():
            found = consumer.offsets_for_times(
                [TopicPartition(topic, p, timestamp) for p in range(PARTITIONS)], timeout=60
            )
            for position in found:
                assert position.error is None
                assert position.offset == (-1 if offset is None else offset)
        half = matrix.RECORDS_PER_PARTITION // 2
        consumer.assign([TopicPartition(topic, 1, half)])
        rest = consume(consumer, matrix.RECORDS_PER_PARTITION - half)
        assert [r.offset for r in rest] == list(range(half, matrix.RECORDS_PER_PARTITION))
    finally:
        consumer.close()


def test_watermarks(cluster, make_topics) -> None:
    topic = f"confluent-{matrix.RUN}-watermarks"
    make_topics.create([topic], partitions=1)
    consumer = assigned(cluster, [TopicPartition(topic, 0, 0)])
    try:
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60) == (0, 0)
        produce(cluster, topic, Combination("all", "none"), [r for r in matrix.records() if r.partition == 0])
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60) == (
            0,
            matrix.RECORDS_PER_PARTITION,
        )
    finally:
        consumer.close()
