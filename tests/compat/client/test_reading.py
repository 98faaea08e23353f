"""Readers against brokers of both kinds, over what librdkafka and our producer wrote."""

import time
from datetime import UTC, datetime

import anyio
import pytest
from confluent_kafka import Producer

from ottla.client import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    OffsetLost,
    Tail,
    Topic,
    UnknownTopic,
    connect,
    json_codec,
)


def produce(brokers, topic: str, values, partition: int = 0, **settings) -> None:
    producer = Producer({"bootstrap.servers": brokers.bootstrap_servers, "linger.ms": 20, **settings})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(60) == 0


async def read_all(kafka, topic, **options) -> list[bytes]:
    found = []
    async with kafka.reader(topic, **{"start": EARLIEST, "stop": LATEST, **options}) as reader:
        async for batch in reader:
            found += batch.values()
    return found


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_librdkafka_wrote(brokers, run, compression: str) -> None:
    topic = brokers.topic(1)
    values = [b"%d" % i * (i % 50 + 1) for i in range(3_000)]
    produce(brokers, topic, values, **{"compression.type": compression})

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka:
            assert await read_all(kafka, topic) == values
            assert await read_all(kafka, topic, max_records=7) == values
            assert await read_all(kafka, topic, start=1234, stop=2345) == values[1234:2345]
            assert await read_all(kafka, topic, start=Tail(5)) == values[-5:]
            assert await read_all(kafka, topic, partition_bytes=1) == values
            assert await read_all(kafka, topic, start=LATEST) == []
            assert await read_all(kafka, topic, start={0: 2990}) == values[2990:]

    run(body)


def test_starts_at_a_time(brokers, run) -> None:
    topic = brokers.topic(2)

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka:
            async with kafka.producer() as out:
                for number in range(10):
                    await out.post(topic, b"%d" % number, partition=0, timestamp=1_000_000 + number * 1000)
            at = datetime.fromtimestamp(1004.5, UTC)
            assert await read_all(kafka, topic, start=at) == [b"%d" % number for number in range(5, 10)]
            assert await read_all(kafka, topic, start=datetime.fromtimestamp(5000, UTC)) == []
            with pytest.raises(ValueError, match="has no time zone"):
                await read_all(kafka, topic, start=datetime(2026, 1, 1))

    run(body)


def test_new_records_come_as_they_are_written(brokers, run) -> None:
    topic = brokers.topic(3)
    latencies = []

    async def body() -> None:
        async with (
            connect(brokers.bootstrap_servers) as kafka,
            kafka.producer(linger=0) as out,
            kafka.reader(topic, start=EARLIEST) as reader,
        ):
            await out.send(topic, b"first")
            assert (await anext(reader)).values() == [b"first"]
            for number in range(100):
                began = time.perf_counter()
                await out.send(topic, b"%d" % number)
                batch = await anext(reader)
                latencies.append(time.perf_counter() - began)
                assert batch.values() == [b"%d" % number]
            for _ in range(50):
                with anyio.move_on_after(0):
                    await anext(reader)
            await out.send(topic, b"after 50 cancellations")
            assert (await anext(reader)).values() == [b"after 50 cancellations"]

    run(body)
    assert sorted(latencies)[50] < 0.25


def test_many_partitions_take_turns_and_a_small_room_loses_nothing(brokers, run) -> None:
    topic = brokers.topic(12)
    for partition in range(12):
        produce(brokers, topic, [b"%d %d" % (partition, i) + b"x" * 500 for i in range(300)], partition)

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka:
            order = []
            found: dict[int, list[int]] = {}
            options = {"start": EARLIEST, "stop": LATEST, "room": 30_000, "partition_bytes": 5_000}
            async with kafka.reader(topic, **options) as reader:
                async for batch in reader:
                    order.append(batch.partition)
                    for record in batch:
                        number = int(record.value[: record.value.index(b"x")].split()[1])
                        found.setdefault(record.partition, []).append(number)
            assert found == {partition: list(range(300)) for partition in range(12)}
            assert len(set(order[:40])) > 4, "one partition does not hold up the others"

    run(body)


def test_an_offset_that_is_gone(brokers, run) -> None:
    topic = brokers.topic(1)
    produce(brokers, topic, [b"a", b"b", b"c"])

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka:
            async with kafka.reader(topic, start=77) as reader:
                with pytest.raises(OffsetLost) as caught:
                    await anext(reader)
                assert (caught.value.position, caught.value.truncated_to) == (77, None)
                reader.seek(topic, 0, 1)
                assert (await anext(reader)).values() == [b"b", b"c"]
            async with kafka.reader(topic, start=77, on_offset_lost=EARLIEST) as reader:
                assert (await anext(reader)).values() == [b"a", b"b", b"c"]

    run(body)


def test_aborted_transactions_are_hidden(brokers, run) -> None:
    topic = brokers.topic(1)
    expected = []
    for name in ("one", "two"):
        producer = Producer(
            {"bootstrap.servers": brokers.bootstrap_servers, "transactional.id": f"{topic}-{name}"}
        )
        producer.init_transactions(30)
        for number in range(5):
            producer.begin_transaction()
            value = b"%s %d" % (name.encode(), number)
            producer.produce(topic, value, partition=0)
            producer.flush(30)
            if number % 2:
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)
                expected.append(value)

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka:
            # Markers are written after the answer to a commit.
            while (found := await read_all(kafka, topic, isolation=READ_COMMITTED)) != expected:
                assert found == expected[: len(found)]
            assert len(await read_all(kafka, topic)) >= len(expected)

    run(body)


def test_typed_records(brokers, run) -> None:
    topic = Topic(brokers.topic(1), value=json_codec())
    produce(brokers, topic.name, [b"1", b"{", b"[2]"])

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka:
            async with kafka.reader(topic, start=EARLIEST, stop=LATEST, on_bad="skip") as reader:
                values = [record.value async for batch in reader for record in batch]
            assert values == [1, [2]]

    run(body)


def test_what_does_not_exist_is_named(brokers, run) -> None:
    topic = brokers.topic(1)

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka:
            with pytest.raises(UnknownTopic, match="there is no partition 4"):
                await read_all(kafka, topic, partitions=[4])
            with pytest.raises(UnknownTopic, match="no topic 'nothing'"):
                await read_all(kafka, "nothing", topic_timeout=0.2)
            with pytest.raises(TypeError, match="start= must be given"):
                kafka.reader(topic)
            with pytest.raises(TypeError, match="unknown options: strat"):
                kafka.reader(topic, start=EARLIEST, strat=1)

    run(body)
