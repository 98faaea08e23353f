"""Requests for topics: what is written, and what is refused with which error code."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import pytest

from cluster.controller.topic_admin import TopicAdmin, check_topic_name
from cluster.statemachines.leadership import PartitionAssignment
from cluster.zookeeper.client import OversizedWriteError
from cluster.zookeeper.znodes import TopicAssignment
from wire.errors import ApiError, Error
from wire.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsTopic
from wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig
from wire.types import BrokerId, TopicPartition

Tell = Callable[..., None]


def check_config(values: Mapping[str, str]) -> None:
    if "wrong" in values:
        raise ApiError(Error.INVALID_CONFIG, "wrong")


def admin_of(cluster: Any) -> TopicAdmin:
    return TopicAdmin(cluster.store, cluster.settings, check_config, Random(1))


def wanted(
    name: str,
    partitions: int = -1,
    factor: int = -1,
    assignments: Sequence[tuple[int, list[int]]] = (),
    **configs: str | None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=[BrokerId(b) for b in ids])
            for index, ids in assignments
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )


def more(name: str, count: int, assignments: list[list[int]] | None = None) -> CreatePartitionsTopic:
    named = (
        None
        if assignments is None
        else [CreatePartitionsAssignment(broker_ids=[BrokerId(b) for b in ids]) for ids in assignments]
    )
    return CreatePartitionsTopic(name=name, count=count, assignments=named)


def test_created_with_leaders(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        created = await admin_of(cluster).create_topic(wanted("t", 6, 2, retention="1"))
        await cluster.settle()
        assert created.replication_factor == 2
        found, _ = await cluster.store.read_topic("t")
        assert found.topic_id == created.topic_id
        assert {p: a.replicas for p, a in found.partitions.items()} == created.replicas
        assert (await cluster.store.read_config("topics", "t"))[0] == {"retention": "1"}
        leaders = [(await cluster.lead("t", partition))[0] for partition in range(6)]
        assert sorted(leaders) == [0, 0, 1, 1, 2, 2]

    tell(story)


def test_defaults_and_named_assignments(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        cluster.settings.num_partitions = 4
        cluster.settings.default_replication_factor = 3
        admin = admin_of(cluster)
        created = await admin.create_topic(wanted("t"), validate_only=True)
        assert (len(created.replicas), created.replication_factor) == (4, 3)
        assert await cluster.store.read_topics() == []
        named = await admin.create_topic(wanted("t", assignments=[(1, [2, 0]), (0, [1, 2])]))
        assert dict(named.replicas) == {1: (2, 0), 0: (1, 2)}

    tell(story)


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (wanted("there", 1, 1), Error.TOPIC_ALREADY_EXISTS),
        (wanted("go.ing", 1, 1), Error.TOPIC_ALREADY_EXISTS),
        (wanted("go_ing", 1, 1), Error.INVALID_TOPIC_EXCEPTION),
        (wanted("", 1, 1), Error.INVALID_TOPIC_EXCEPTION),
        (wanted("t", 0, 1), Error.INVALID_PARTITIONS),
        (wanted("t", 1, 0), Error.INVALID_REPLICATION_FACTOR),
        (wanted("t", 1, 4), Error.INVALID_REPLICATION_FACTOR),
        (wanted("t", 1, -1, [(0, [0])]), Error.INVALID_REQUEST),
        (wanted("t", assignments=[(0, [0]), (2, [0])]), Error.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", assignments=[(0, [0]), (1, [0, 1])]), Error.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", assignments=[(0, [0, 0])]), Error.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", assignments=[(0, [])]), Error.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", assignments=[(0, [0]), (0, [1])]), Error.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", 1, 1, key=None), Error.INVALID_CONFIG),
        (wanted("t", 1, 1, wrong="1"), Error.INVALID_CONFIG),
    ],
)
def test_refused(tell: Tell, topic: CreatableTopic, error: Error) -> None:
    async def story(cluster: Any) -> None:
        admin = admin_of(cluster)
        await admin.create_topic(wanted("there", 1, 1))
        await cluster.create_topic("go.ing", [[2]])
        cluster.brokers[2].is_deaf = True
        await cluster.store.mark_topic_for_deletion("go.ing")
        await cluster.settle()
        with pytest.raises(ApiError) as caught:
            await admin.create_topic(topic)
        assert caught.value.error is error
        assert await cluster.store.read_topics() == ["go.ing", "there"]

    tell(story)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "é", "x" * 250])
def test_bad_names(name: str) -> None:
    with pytest.raises(ApiError) as caught:
        check_topic_name(name)
    assert caught.value.error is Error.INVALID_TOPIC_EXCEPTION
    check_topic_name("x" * 249)


def test_deleting(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        admin = admin_of(cluster)
        await admin.create_topic(wanted("t", 1, 1))
        await cluster.settle()
        await admin.delete_topic("t")
        await cluster.settle()
        assert await cluster.store.read_topics() == []
        with pytest.raises(ApiError) as caught:
            await admin.delete_topic("t")
        assert caught.value.error is Error.UNKNOWN_TOPIC_OR_PARTITION

    tell(story)


def test_more_partitions(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        admin = admin_of(cluster)
        await cluster.create_topic("t", [[1, 2]])
        assert dict(await admin.create_partitions(more("t", 2), validate_only=True)).keys() == {1}
        added = await admin.create_partitions(more("t", 3))
        await cluster.settle()
        # It goes on where partition 0 began: broker 1, then 2, then 0.
        assert [replicas[0] for replicas in added.values()] == [2, 0]
        assert (await cluster.lead("t", 2))[0] == 0
        named = await admin.create_partitions(more("t", 5, [[0, 2], [2, 1]]))
        assert dict(named) == {3: (0, 2), 4: (2, 1)}
        assert len((await cluster.store.read_topic("t"))[0].partitions) == 5

    tell(story)


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (more("u", 2), Error.UNKNOWN_TOPIC_OR_PARTITION),
        (more("t", 1), Error.INVALID_PARTITIONS),
        (more("t", 2), Error.INVALID_PARTITIONS),
        (more("t", 3, [[0, 9]]), Error.INVALID_REPLICA_ASSIGNMENT),
        (more("t", 3, [[0, 1], [0, 1]]), Error.INVALID_REPLICA_ASSIGNMENT),
        (more("t", 3, [[0]]), Error.INVALID_REPLICA_ASSIGNMENT),
        (more("t", 3, [[0, 0]]), Error.INVALID_REPLICA_ASSIGNMENT),
        (more("t", 3, [[]]), Error.INVALID_REPLICA_ASSIGNMENT),
        (more("moving", 3), Error.REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_refused_partitions(tell: Tell, topic: CreatePartitionsTopic, error: Error) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2], [2, 0]])
        await cluster.create_topic("moving", [[1, 2]])
        await cluster.controllers[0].alter_partition_reassignments({TopicPartition("moving", 0): [0, 2]})
        with pytest.raises(ApiError) as caught:
            await admin_of(cluster).create_partitions(topic)
        assert caught.value.error is error

    tell(story)


def test_two_that_add_at_once(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1]])
        store = cluster.store
        read_topic = store.read_topic

        async def read_and_be_overtaken(name: str) -> Any:
            found = await read_topic(name)
            store.read_topic = read_topic
            assignment, version = found
            grown = {**assignment.partitions, 1: PartitionAssignment((BrokerId(2),))}
            await store.set_topic_assignment(name, TopicAssignment(assignment.topic_id, grown), version)
            return found

        store.read_topic = read_and_be_overtaken
        added = await admin_of(cluster).create_partitions(more("t", 3))
        assert list(added) == [2]

    tell(story)


@pytest.mark.parametrize("count", [100_000, 2_000_000_000, 2**31 - 1])
def test_more_partitions_than_a_znode_holds(tell: Tell, count: int) -> None:
    async def story(cluster: Any) -> None:
        admin = admin_of(cluster)
        with pytest.raises(ApiError) as refused:
            await admin.create_topic(wanted("t", count, 1))
        assert refused.value.error is Error.INVALID_PARTITIONS
        await admin.create_topic(wanted("t", 1, 1))
        with pytest.raises(ApiError) as refused:
            await admin.create_partitions(more("t", count))
        assert refused.value.error is Error.INVALID_PARTITIONS

    tell(story)


def test_what_a_znode_does_not_hold_is_not_written(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        admin = admin_of(cluster)
        cluster.ensemble.write_bytes_max = 60_000
        for config in ({}, {"comment": "x" * 60_000}):
            with pytest.raises(OversizedWriteError):
                await admin.create_topic(wanted("t", 1 if config else 4_500, 3, **config))
        await admin.create_topic(wanted("t", 3_000, 3))
        await cluster.settle()
        # A move takes more room in the znode than the topic; the controller survives, and so do other topics' moves.
        await admin.create_topic(wanted("u", assignments=[(0, [0])]))
        await cluster.settle()
        moves = {TopicPartition("t", p): [BrokerId(3)] for p in range(3_000)}
        moves[TopicPartition("u", 0)] = [BrokerId(3)]
        outcomes = await cluster.controllers[0].alter_partition_reassignments(moves)
        assert {str(error and error.error.name) for error in outcomes.values()} == {"INVALID_REQUEST", "None"}
        assert outcomes[TopicPartition("u", 0)] is None
        await cluster.settle()
        assert cluster.controllers[0].is_active
        assert set(await cluster.controllers[0].list_partition_reassignments(None)) == {
            TopicPartition("u", 0)
        }

    tell(story, 4)
