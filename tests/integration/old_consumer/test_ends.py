"""Ends of a group over a fake ensemble: balancing, positions, and the effect of faults of the ensemble."""

import json
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from ottla.client import connect
from ottla.old_consumer import (
    AlreadyRegistered,
    ConsumerTimeout,
    RebalanceFailed,
    Reset,
    Storage,
    black_list,
    white_list,
)
from ottla.testing.in_process import InProcessCluster
from tests.integration.old_consumer.ends import GROUP, eventually, overlaps, take, until_owned, world
from wire.types import TopicPartition


@pytest.fixture(scope="module")
def brokers() -> Iterator[InProcessCluster]:
    with InProcessCluster.up(brokers=2) as running:
        yield running


@pytest.fixture(scope="module")
def topic(brokers: InProcessCluster) -> str:
    """A topic of four partitions with ten records each; each test has an ensemble, and so a group, of its own."""
    return make_topic(brokers, "records", 10)


def make_topic(brokers: InProcessCluster, name: str, count: int) -> str:
    brokers.create_topic(name, partitions=4)
    trio.run(fill, brokers.bootstrap_servers, name, count)
    return name


async def fill(servers: str, topic: str, count: int) -> None:
    async with connect(servers) as kafka, kafka.producer() as producer:
        for number in range(4 * count):
            await producer.post(topic, b"%d" % number, partition=number % 4)


ALL = {b"%d" % number for number in range(40)}


def test_one_end_reads_everything_and_leaves_in_order(brokers, topic) -> None:
    async def story() -> None:
        async with world(brokers.bootstrap_servers, **{topic: 4}) as here:
            async with here.connector() as end:
                streams = await end.create_message_streams({topic: 2})
                assert [len(each) for each in streams.values()] == [2]
                first, second = streams[topic]
                found = await take(first, 20) + await take(second, 20)
                assert {value for _, _, value in found} == ALL
                assert {place.partition for place, _, _ in found[:20]} == {0, 1}
                (name,) = await here.names(f"/consumers/{GROUP}/ids")
                assert name == end.consumer_id
                registered = json.loads(await here.read(f"/consumers/{GROUP}/ids/{name}"))
                assert registered.pop("timestamp").isdecimal()
                assert registered == {"version": 1, "subscription": {topic: 2}, "pattern": "static"}
                owner = await here.read(f"/consumers/{GROUP}/owners/{topic}/2")
                assert owner == f"{name}-1".encode()
                assert end.statistics().lag == {TopicPartition(topic, n): 0 for n in range(4)}
            assert await here.names(f"/consumers/{GROUP}/ids") == []
            assert await here.names(f"/consumers/{GROUP}/owners/{topic}") == []
            for number in range(4):
                assert await here.read(f"/consumers/{GROUP}/offsets/{topic}/{number}") == b"10"
            assert [each async for each in first] == []  # an end that has left ends its streams

    trio.run(story)


def test_ends_share_and_take_over(brokers, topic) -> None:
    async def story() -> None:
        async with world(brokers.bootstrap_servers, **{topic: 4}) as here:
            found: list[bytes] = []
            async with here.connector() as one:
                (first,) = (await one.create_message_streams({topic: 1}))[topic]
                found += [value for _, _, value in await take(first, 15)]
                async with here.connector() as two:
                    (second,) = (await two.create_message_streams({topic: 1}))[topic]
                    await until_owned(one, 2)
                    await until_owned(two, 2)
                    async with trio.open_nursery() as nursery:

                        async def until_all(stream) -> None:
                            async for record in stream:
                                found.append(record.value)
                                if set(found) == ALL:
                                    nursery.cancel_scope.cancel()

                        nursery.start_soon(until_all, first)
                        nursery.start_soon(until_all, second)
                    assert sorted(found, key=int) == sorted(
                        ALL, key=int
                    )  # nothing twice: positions were committed
                await until_owned(one, 4)
            assert overlaps(here.history) == []

    trio.run(story)


def test_an_expired_session_registers_again_and_commits_nothing(brokers, topic) -> None:
    async def story() -> None:
        async with world(brokers.bootstrap_servers, **{topic: 4}) as here, here.connector() as end:
            (stream,) = (await end.create_message_streams({topic: 1}))[topic]
            before = await take(stream, 13)
            (session,) = here.sessions
            here.ensemble.expire(session.session_id)
            assert await here.names(f"/consumers/{GROUP}/ids") == []
            assert end.statistics().owned == {}
            session.reconnect()
            after = await take(stream, 40)  # all of it again
            assert {value for _, _, value in after} == ALL
            assert set(before) <= set(after)
            assert await here.names(f"/consumers/{GROUP}/ids") == [end.consumer_id]
            assert end.statistics().rebalances == 2

    trio.run(story)


def test_nothing_is_handed_out_while_the_session_may_be_over(brokers, topic) -> None:
    async def story() -> None:
        settings = {"zookeeper_session_timeout": 0.2, "consumer_timeout": 0.3}
        async with (
            world(brokers.bootstrap_servers, **{topic: 4}) as here,
            here.connector(**settings) as end,
        ):
            (stream,) = (await end.create_message_streams({topic: 1}))[topic]
            await take(stream, 1)
            here.sessions[0].disconnect(silently=True)  # it notices nothing; its session expires
            await eventually(lambda: not here.has(f"/consumers/{GROUP}/ids/{end.consumer_id}"))
            with pytest.raises(ConsumerTimeout):
                await anext(stream)
            here.sessions[0].reconnect()
            assert {value for _, _, value in await take(stream, 40)} == ALL

    trio.run(story)


def test_a_lost_watch_is_made_up_for(brokers, topic) -> None:
    """What changed while an end was disconnected is found when it is back, although no watch fired."""

    async def story() -> None:
        async with world(brokers.bootstrap_servers, **{topic: 2}) as here, here.connector() as end:
            (stream,) = (await end.create_message_streams({topic: 1}))[topic]
            await until_owned(end, 2)
            here.sessions[0].disconnect(silently=True)
            await here.put_topic(topic, 4)
            assert len(end.statistics().owned) == 2
            here.sessions[0].reconnect()
            await until_owned(end, 4)
            assert {value for _, _, value in await take(stream, 40)} == ALL

    trio.run(story)


def test_a_disconnection_alone_rebalances_nothing(brokers, topic) -> None:
    async def story() -> None:
        async with world(brokers.bootstrap_servers, **{topic: 4}) as here, here.connector() as end:
            (stream,) = (await end.create_message_streams({topic: 1}))[topic]
            await take(stream, 5)
            here.sessions[0].disconnect()
            here.sessions[0].reconnect()
            assert len(await take(stream, 35)) == 35
            assert end.statistics().rebalances == 1
            await here.put_topic("unrelated", 1)
            await here.put_topic(topic, 4)
            await trio.testing.wait_all_tasks_blocked()
            assert end.statistics().rebalances == 1

    trio.run(story)


def test_a_partition_whose_owner_has_not_gone_is_waited_for(brokers, topic) -> None:
    async def story() -> None:
        async with world(brokers.bootstrap_servers, **{topic: 4}) as here:
            await here.put(f"/consumers/{GROUP}/owners/{topic}/3", b"gone-0")
            async with here.connector(rebalance_max_retries=1000, rebalance_backoff=0.01) as end:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(end.create_message_streams, {topic: 1})
                    released = (f"/consumers/{GROUP}/owners/{topic}/2", False)
                    # All or nothing: what was claimed is released again.
                    await eventually(lambda: released in here.history)
                    assert end.statistics().owned == {}
                    await here.remove(f"/consumers/{GROUP}/owners/{topic}/3")
                await until_owned(end, 4)

    trio.run(story)


def test_attempts_end(brokers, topic) -> None:
    async def story() -> None:
        async with world(brokers.bootstrap_servers, **{topic: 4}) as here:
            path = f"/consumers/{GROUP}/owners/{topic}/0"
            await here.put(path, b"other-0")
            async with here.connector(rebalance_max_retries=2) as end:
                with pytest.raises(RebalanceFailed, match=r"can't rebalance after 2 attempts.*still owned"):
                    await end.create_message_streams({topic: 1})
            assert await here.names(f"/consumers/{GROUP}/ids") == []

    trio.run(story)


def test_later_attempts_end_in_the_streams_and_a_change_begins_others(brokers, topic) -> None:
    async def story() -> None:
        async with (
            world(brokers.bootstrap_servers, **{topic: 3}) as here,
            here.connector(rebalance_max_retries=2) as end,
        ):
            (stream,) = (await end.create_message_streams({topic: 1}))[topic]
            path = f"/consumers/{GROUP}/owners/{topic}/3"
            await here.put(path, b"other-0")
            await here.put_topic(topic, 4)
            with pytest.raises(RebalanceFailed):
                await take(stream, 100)
            await here.remove(path)
            await here.put_topic("another", 1)
            await until_owned(end, 4)

    trio.run(story)


def test_an_ownership_that_was_deleted_is_claimed_again(brokers, topic) -> None:
    async def story() -> None:
        async with world(brokers.bootstrap_servers, **{topic: 4}) as here, here.connector() as end:
            await end.create_message_streams({topic: 1})
            await here.remove(f"/consumers/{GROUP}/owners/{topic}/1")
            await here.put_topic("another", 1)  # triggers a new look
            await eventually(lambda: end.statistics().rebalances == 2)
            assert len(await here.names(f"/consumers/{GROUP}/owners/{topic}")) == 4

    trio.run(story)


@pytest.mark.parametrize("done", [True, False])
def test_writes_whose_outcome_is_unknown(brokers, topic, done: bool) -> None:
    async def story() -> None:
        async with world(brokers.bootstrap_servers, **{topic: 4}) as here:
            async with here.connector() as end:
                here.sessions[0].lose_next_write(done=done)  # the registration's
                (stream,) = (await end.create_message_streams({topic: 1}))[topic]
                await take(stream, 40)
                here.sessions[0].lose_next_write(done=done)  # the first offset's
                await end.commit_offsets()
            for number in range(4):
                assert await here.read(f"/consumers/{GROUP}/offsets/{topic}/{number}") == b"10"
            assert await here.names(f"/consumers/{GROUP}/owners/{topic}") == []

    trio.run(story)


def test_two_ends_of_one_name(brokers, topic) -> None:
    async def story() -> None:
        async with (
            world(brokers.bootstrap_servers, **{topic: 4}) as here,
            here.connector(consumer_id="me") as one,
            here.connector(consumer_id="me") as two,
        ):
            await one.create_message_streams({topic: 1})
            assert one.consumer_id == f"{GROUP}_me"
            with pytest.raises(AlreadyRegistered, match=f"consumer {GROUP}_me is registered already"):
                await two.create_message_streams({topic: 1})
            with pytest.raises(ValueError, match="once"):
                await one.create_message_streams({topic: 1})

    trio.run(story)


def test_no_broker_is_waited_for(brokers, topic) -> None:
    async def story() -> None:
        async with world(brokers.bootstrap_servers, **{topic: 4}) as here:
            for name in await here.names("/brokers/ids"):
                await here.remove(f"/brokers/ids/{name}")
            async with here.connector() as end:
                (stream,) = (await end.create_message_streams({topic: 1}))[topic]
                assert end.statistics().state.value == "waiting for brokers"
                await here.register_brokers()
                assert len(await take(stream, 40)) == 40

    trio.run(story)


def test_filters_follow_topics(brokers, topic) -> None:
    make_topic(brokers, f"{topic}-late", 1)

    async def story() -> None:
        async with world(brokers.bootstrap_servers, **{topic: 4, "zzz": 1}) as here:
            async with here.connector() as end:
                (stream,) = await end.create_message_streams_by_filter(white_list(f"{topic}.*"))
                assert len(await take(stream, 40)) == 40
                await here.put_topic(f"{topic}-late", 4)
                late = await take(stream, 4)
                assert {place.topic for place, _, _ in late} == {f"{topic}-late"}
                await here.remove(f"/brokers/topics/{topic}-late")
                await until_owned(end, 4)
            async with here.connector(group_id="others", consumer_timeout=0.2) as end:
                chosen = black_list(f"zzz,{topic}-late")
                (stream,) = await end.create_message_streams_by_filter(chosen)
                assert len(await take(stream, 40)) == 40
                with pytest.raises(ConsumerTimeout):
                    await anext(stream)
                with pytest.raises(ConsumerTimeout):
                    await anext(stream)

    trio.run(story)


def test_largest_begins_at_the_end(brokers) -> None:
    topic = make_topic(brokers, "growing", 10)

    async def story() -> None:
        async with (
            world(brokers.bootstrap_servers, **{topic: 4}) as here,
            here.connector(auto_offset_reset=Reset.LARGEST) as end,
        ):
            (stream,) = (await end.create_message_streams({topic: 1}))[topic]
            await eventually(lambda: len(end.statistics().positions) == 4)
            await fill(brokers.bootstrap_servers, topic, 1)
            assert {offset for _, offset, _ in await take(stream, 4)} == {10}

    trio.run(story)


def test_an_offset_out_of_range_is_reset(brokers, topic) -> None:
    async def story() -> None:
        async with world(brokers.bootstrap_servers, **{topic: 4}) as here:
            await here.put(f"/consumers/{GROUP}/offsets/{topic}/0", b"9999")
            async with here.connector() as end:
                (stream,) = (await end.create_message_streams({topic: 1}))[topic]
                assert {value for _, _, value in await take(stream, 40)} == ALL

    trio.run(story)


@pytest.mark.parametrize(("dual", "in_zookeeper"), [(True, b"10"), (False, None)])
def test_offsets_in_kafka(brokers, topic, dual: bool, in_zookeeper: bytes | None) -> None:
    async def story() -> None:
        group = f"kafka-{dual}"
        async with world(brokers.bootstrap_servers, **{topic: 4}) as here:
            settings = {"group_id": group, "offsets_storage": Storage.KAFKA, "dual_commit": dual}
            async with here.connector(**settings) as end:
                (stream,) = (await end.create_message_streams({topic: 1}))[topic]
                await take(stream, 40)
            async with connect(brokers.bootstrap_servers) as kafka:
                committed = await kafka.admin.committed_offsets(group)
            assert {place.partition: each.offset for place, each in committed.items()} == dict.fromkeys(
                range(4), 10
            )
            if in_zookeeper is None:
                assert "offsets" not in await here.names(f"/consumers/{group}")
            else:
                assert await here.read(f"/consumers/{group}/offsets/{topic}/3") == in_zookeeper

    trio.run(story)


def test_a_group_moves_to_kafka_and_loses_no_position(brokers, topic) -> None:
    """Ends that commit to ZooKeeper alone, then to both, then to Kafka alone: each begins where the last one ended."""

    async def story() -> None:
        group = "moving"
        steps = [
            {"offsets_storage": Storage.ZOOKEEPER},
            {"offsets_storage": Storage.KAFKA, "dual_commit": True},
            {"offsets_storage": Storage.KAFKA, "dual_commit": False},
        ]
        found: list[bytes] = []
        async with world(brokers.bootstrap_servers, **{topic: 4}) as here:
            for step, count in zip(steps, (11, 14, 15), strict=True):
                async with here.connector(group_id=group, **step) as end:
                    (stream,) = (await end.create_message_streams({topic: 1}))[topic]
                    found += [value for _, _, value in await take(stream, count)]
        assert sorted(found, key=int) == sorted(ALL, key=int)

    trio.run(story)
