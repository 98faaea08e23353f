"""What the producer sends to brokers of both kinds arrives as it should, read by librdkafka."""

import random

import anyio
import pytest

from ottla.client import (
    DeliveryErrors,
    NoRoom,
    OutgoingRecord,
    RecordTooLarge,
    Topic,
    UnknownTopic,
    connect,
    int64,
    json_codec,
    text,
)


def test_a_record_with_everything(brokers, run) -> None:
    topic = brokers.topic()

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka, kafka.producer(linger=0) as out:
            place = await out.send(topic, b"v", key=b"k", headers=[("h", b"1"), ("n", None)], timestamp=1234)
            assert (place.topic, place.offset, place.timestamp) == (topic, 0, 1234)
            placed = await out.send(topic, None, partition=place.partition)
            assert placed.offset == 1

    run(body)
    (messages,) = [each for each in brokers.consume(topic, 2).values() if each]
    assert (messages[0].key(), messages[0].value(), messages[0].timestamp()) == (b"k", b"v", (1, 1234))
    assert messages[0].headers() == [("h", b"1"), ("n", None)]
    assert messages[1].value() is None


def test_what_is_not_bytes_is_refused_where_it_is_given(brokers, run) -> None:
    topic = brokers.topic(1)

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka, kafka.producer() as out:
            await out.send(topic, b"0", key=b"k")
            for value, key in (("text", None), (b"1", "text"), (1, b"k")):
                with pytest.raises(TypeError, match=r"bytes or None here, not (str|int)"):
                    await out.post(topic, value, key=key)
            with pytest.raises(TypeError, match="not str"):
                await out.post_batch(topic, [b"1", "text", None])
            await out.post_batch(topic, [b"1", None], keys=[b"k", None])
            await out.send(topic, bytearray(b"3"), key=memoryview(b"k"))

    run(body)
    found = brokers.consume(topic, 4)[0]
    assert [(message.key(), message.value()) for message in found] == [
        (b"k", b"0"),
        (b"k", b"1"),
        (None, None),
        (b"k", b"3"),
    ]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_in_order(brokers, run, compression: str) -> None:
    topic = brokers.topic(1)
    values = [b"%d %s" % (i, b"x" * (i % 300)) for i in range(5_000)]

    async def body() -> None:
        async with (
            connect(brokers.bootstrap_servers) as kafka,
            kafka.producer(compression=compression, batch_size=200_000) as out,
        ):
            for value in values[:2500]:
                await out.post(topic, value)
            spans = await (await out.post_batch(topic, values[2500:])).wait()
            assert sum(span.record_count for span in spans) == 2500
            assert spans[0].first_offset == 2500

    run(body)
    assert [message.value() for message in brokers.consume(topic, len(values))[0]] == values


def test_keys_go_where_java_puts_them_and_tasks_keep_their_order(brokers, run) -> None:
    topic = brokers.topic(5)
    source = random.Random(4)

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka, kafka.producer(room=100_000) as out:

            async def send_some(task: int) -> None:
                for number in range(200):
                    key = b"key-%d" % source.randrange(30)
                    await out.post(topic, b"%d %d" % (task, number), key=key)

            async with anyio.create_task_group() as nursery:
                for task in range(20):
                    nursery.start_soon(send_some, task)

    run(body)
    found = brokers.consume(topic, 4000)
    homes: dict[bytes, set[int]] = {}
    seen = set()
    for partition, messages in found.items():
        last: dict[int, int] = {}
        for message in messages:
            homes.setdefault(message.key(), set()).add(partition)
            task, number = map(int, message.value().split())
            assert last.get(task, -1) < number
            last[task] = number
            seen.add((task, number))
    assert len(seen) == 4000
    assert all(len(partitions) == 1 for partitions in homes.values())


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acks(brokers, run, acks) -> None:
    topic = brokers.topic(1)

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka, kafka.producer(acks=acks, linger=0) as out:
            for number in range(10):
                place = await out.send(topic, b"%d" % number)
                assert place.offset == (-1 if acks == 0 else number)

    run(body)
    assert [message.value() for message in brokers.consume(topic, 10)[0]] == [b"%d" % n for n in range(10)]


def test_a_batch_that_the_topic_does_not_take_is_split(brokers, run) -> None:
    topic = brokers.topic(1, max_message_bytes="2000")
    values = [b"%03d" % number + b"x" * 200 for number in range(100)]

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka, kafka.producer() as out:
            deliveries = [await out.post(topic, value) for value in values]
            large = await out.post(topic, b"y" * 5000)
            after = await out.post(topic, b"after")
            offsets = [(await delivery.wait()).offset for delivery in deliveries]
            assert offsets == list(range(100))
            with pytest.raises(RecordTooLarge):
                await large.wait()
            assert (await after.wait()).offset == 100
            await out.post(topic, b"z" * 5000)
            with pytest.raises(DeliveryErrors) as caught:
                await out.flush()
            assert [type(each) for each in caught.value.exceptions] == [RecordTooLarge]

    run(body)
    assert [message.value() for message in brokers.consume(topic, 101)[0]] == [*values, b"after"]


def test_typed_topics_and_interceptors(brokers, run) -> None:
    topic = Topic(brokers.topic(1), key=text, value=json_codec())
    numbers = Topic(topic.name, value=int64)
    outcomes = []

    def stamp(record: OutgoingRecord) -> OutgoingRecord | None:
        if record.value == "drop me":
            return None
        if record.value == "break":
            raise RuntimeError("a test's interceptor")
        return OutgoingRecord(record.topic, record.key, record.value, [("seen", b"1")])

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka, kafka.producer(on_send=[stamp]) as out:
            assert (await out.send(topic, {"a": [1, "ü"]}, key="ключ")).offset == 0
            assert (await out.send(topic, "drop me")).partition == -1
            assert (await out.send(topic, "break")).offset == 1
            outcomes.append(await out.send(numbers, 7))

    run(body)
    first, second, third = brokers.consume(topic.name, 3)[0]
    assert (first.key(), first.value()) == ("ключ".encode(), b'{"a":[1,"\\u00fc"]}')
    assert first.headers() == [("seen", b"1")]
    assert (second.value(), second.headers()) == (b'"break"', None)
    assert third.value() == b"\0\0\0\0\0\0\0\7"


def test_an_unknown_topic_and_an_unknown_partition_are_named(brokers, run) -> None:
    topic = brokers.topic(2)

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka, kafka.producer(topic_timeout=0.3) as out:
            with pytest.raises(UnknownTopic, match="the cluster has no topic 'no-such-topic'"):
                await out.send("no-such-topic", b"")
            with pytest.raises(UnknownTopic, match="has 2 partitions; there is no partition 2"):
                await out.send(topic, b"", partition=2)
            with pytest.raises(RecordTooLarge, match="max_request_size is 1048576"):
                await out.send(topic, b"x" * 1_048_577)
            with pytest.raises(NoRoom):
                out.post_nowait("another", b"")
            out.post_nowait(topic, b"there")

    run(body)
    assert sum(map(len, brokers.consume(topic, 1).values())) == 1


def test_a_cancelled_send_stays_accepted(brokers, run) -> None:
    topic = brokers.topic(1)

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka, kafka.producer() as out:
            await out.send(topic, b"known")
            with anyio.move_on_after(0.001) as scope:
                await out.send(topic, b"cancelled")
            assert scope.cancelled_caught
            await out.send(topic, b"after")

    run(body)
    found = [message.value() for message in brokers.consume(topic, 3)[0]]
    assert found == [b"known", b"cancelled", b"after"]
