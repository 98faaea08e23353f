"""The client's admin calls, with brokers of both kinds and on both event loops."""

import uuid
from collections.abc import Awaitable, Callable

import anyio
import pytest

from ottla.client import EARLIEST, ClientError, UnknownTopic, connect
from ottla.client.admin import (
    Admin,
    CommittedPosition,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    FoundOffset,
    NewTopic,
    ResourceKind,
)
from wire.errors import Error
from wire.types import Offset, TopicPartition


async def until_true(condition: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(30):
        while True:
            if await condition():
                return
            await anyio.sleep(0.02)


async def has_partitions(admin: Admin, name: str, count: int) -> bool:
    (topic,) = await admin.describe_topics([name])
    return len(topic.partitions) == count


async def is_gone(admin: Admin, name: str) -> bool:
    return name not in await admin.list_topics()


def test_the_life_of_a_topic(brokers, run) -> None:
    async def body() -> None:
        name = f"admin-{uuid.uuid4().hex[:8]}"
        async with connect(brokers.bootstrap_servers) as kafka:
            admin = kafka.admin
            assert await admin.create_topics([NewTopic(name, 2, 1)]) == {name: Error.NONE}
            assert await admin.create_topics([NewTopic(name, 2, 1)]) == {name: Error.TOPIC_ALREADY_EXISTS}
            assert name in await admin.list_topics()
            await admin.create_partitions({name: 3})
            await until_true(lambda: has_partitions(admin, name, 3))
            resource = ConfigResource(ResourceKind.TOPIC, name)
            await admin.alter_configs(
                {resource: [ConfigChange("retention.ms", ConfigOperation.SET, "3600000")]}
            )
            described = await admin.describe_configs([resource], synonyms=True)
            (value,) = [each for each in described[resource] if each.name == "retention.ms"]
            assert (value.value, value.source) == ("3600000", ConfigSource.DYNAMIC_TOPIC_CONFIG)
            await admin.delete_topics([name])
            await until_true(lambda: is_gone(admin, name))
            with pytest.raises(UnknownTopic):
                await admin.delete_topics([name])

    run(body)


def test_offsets_records_and_groups_on_the_connections_of_a_producer(brokers, run) -> None:
    topic, group = brokers.topic(2), f"admin-{uuid.uuid4().hex[:8]}"
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka, kafka.producer() as out:
            for number in range(5):
                await out.send(topic, b"%d" % number, partition=0)
            ends = await kafka.admin.list_offsets({zero: -1, one: -1})
            assert [ends[each].offset for each in (zero, one)] == [5, 0]
            assert await kafka.admin.delete_records({zero: Offset(2)}) == {zero: 2}
            starts = await kafka.admin.list_offsets({zero: -2})
            assert isinstance(starts[zero], FoundOffset)
            assert starts[zero].offset == 2
            committed = await kafka.admin.commit_offsets(group, {zero: CommittedPosition(Offset(3))})
            assert committed == {zero: Error.NONE}
            assert await kafka.admin.lag(group) == {zero: 2}
            described = await kafka.admin.describe_group(group)
            assert described.state == "Empty"
            assert group in {each.group_id for each in await kafka.admin.list_groups()}
            assert await kafka.admin.delete_groups([group]) == {group: Error.NONE}
            async with kafka.reader(topic, start=EARLIEST) as reader:
                assert (await anext(reader)).values() == [b"2", b"3", b"4"]

    run(body)


def test_refusals_carry_the_brokers_error(brokers, run) -> None:
    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka:
            with pytest.raises(ClientError, match="INVALID_REPLICATION_FACTOR") as refused:
                await kafka.admin.create_topics([NewTopic("too-many-replicas", 1, 100)])
            assert refused.value.error is Error.INVALID_REPLICATION_FACTOR
            missing = TopicPartition("there-is-no-such-topic", 0)
            found = await kafka.admin.list_offsets({missing: -1})
            assert isinstance(found[missing], UnknownTopic)

    run(body)
