"""Transactions in a cluster of Ottla and Kafka 3.9: coordinators of one kind, leaders and groups of the other."""

import itertools

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from cluster.coordinator.java_hash import partition_for
from ottla.testing.replica_files import replica_directory
from tests.compat.test_mixed_cluster import KAFKA, KINDS, OTTLA, PLACEMENT, MixedCluster, create, mixed
from tests.patience import until
from tests.raw_client import RawClient
from wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from wire.types import TopicPartition as Place

__all__ = ["mixed"]  # the fixture: this module gets its own cluster

STATE, OFFSETS = "__transaction_state", "__consumer_offsets"
STATE_PARTITIONS, OFFSETS_PARTITIONS = 4, 2
INTERNAL = {
    STATE: ([0, 10, 1, 11], [10, 0, 11, 1], [1, 11, 0, 10], [11, 1, 10, 0]),
    OFFSETS: ([0, 10, 1, 11], [10, 0, 11, 1]),
}
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def placed(mixed: MixedCluster) -> MixedCluster:
    """The cluster, with the internal topics led by brokers of both kinds."""
    configs = {"cleanup.policy": "compact", "min.insync.replicas": "2"}
    admin = mixed.admin()
    topics = [
        NewTopic(name, num_partitions=len(placement), replica_assignment=list(placement), config=configs)
        for name, placement in INTERNAL.items()
    ]
    for future in admin.create_topics(topics).values():
        future.result(timeout=60)
    # A broker learns the number of partitions from the controller's first update; before that it would guess.
    mixed.znodes.wait(
        lambda: all(
            mixed.znodes.partition_state(name, number)["leader"] == replicas[0]
            for name, placement in INTERNAL.items()
            for number, replicas in enumerate(placement)
        )
    )
    return mixed


def name_led_by(mixed: MixedCluster, topic: str, kind: str) -> str:
    """Return a new transactional id or group whose coordinator is of this kind."""
    brokers = OTTLA if kind == "ottla" else KAFKA
    while True:
        name = f"{kind}-{next(NUMBERS)}"
        number = partition_for(name, len(INTERNAL[topic]))
        if mixed.znodes.partition_state(topic, number)["leader"] in brokers:
            return name


def producer(mixed: MixedCluster, transactional_id: str) -> Producer:
    made = Producer(
        {
            "bootstrap.servers": mixed.bootstrap_servers,
            "transactional.id": transactional_id,
            "log_level": 0,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 200,
        }
    )
    made.init_transactions(60)
    return made


def write(client: Producer, topic: str, value: str) -> None:
    for partition in range(len(PLACEMENT)):
        client.produce(topic, value.encode(), partition=partition)
    assert client.flush(60) == 0


def committed(mixed: MixedCluster, topic: str) -> list[list[str]]:
    consumer = Consumer(
        {
            "bootstrap.servers": mixed.bootstrap_servers,
            "group.id": "none",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    found: list[list[str]] = [[] for _ in PLACEMENT]
    ended: set[int] = set()
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(len(PLACEMENT))])
    while len(ended) < len(PLACEMENT):
        message = consumer.poll(60)
        assert message is not None
        if message.error():
            ended.add(message.partition())
        else:
            found[message.partition()].append(message.value().decode())
    consumer.close()
    return found


def wait_committed(mixed: MixedCluster, topic: str, *values: str) -> None:
    until(lambda: all(len(each) >= len(values) for each in committed(mixed, topic)))
    assert committed(mixed, topic) == [list(values) for _ in PLACEMENT]


def offset_of(mixed: MixedCluster, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": mixed.bootstrap_servers, "group.id": group, "log_level": 0})
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], 60)
        return int(found.offset)
    finally:
        consumer.close()


def send_offset(mixed: MixedCluster, client: Producer, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": mixed.bootstrap_servers, "group.id": group, "log_level": 0})
    try:
        client.send_offsets_to_transaction(
            [TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), 60
        )
    finally:
        consumer.close()


@pytest.mark.parametrize("of_group", KINDS)
@pytest.mark.parametrize("of_transaction", KINDS)
def test_coordinators_of_either_kind(placed: MixedCluster, of_transaction: str, of_group: str) -> None:
    name = name_led_by(placed, STATE, of_transaction)
    group = name_led_by(placed, OFFSETS, of_group)
    topic = f"tx-{of_transaction}-{of_group}"
    create(placed, topic)
    client = producer(placed, name)
    client.begin_transaction()
    write(client, topic, "committed")
    send_offset(placed, client, group, topic, 7)
    client.commit_transaction(60)
    client.begin_transaction()
    write(client, topic, "aborted")
    send_offset(placed, client, group, topic, 9)
    client.abort_transaction(60)
    client.begin_transaction()
    write(client, topic, "of the older one")
    newer = producer(placed, name)
    newer.begin_transaction()
    write(newer, topic, "of the newer one")
    newer.commit_transaction(60)
    with pytest.raises(KafkaException) as caught:
        client.commit_transaction(60)
    assert caught.value.args[0].fatal()
    wait_committed(placed, topic, "committed", "of the newer one")
    until(lambda: offset_of(placed, group, topic) == 7)
    check_indexes(placed, topic)


def check_indexes(placed: MixedCluster, topic: str) -> None:
    """Check that all replicas have written the same list of aborted transactions."""
    for number, replicas in enumerate(PLACEMENT):
        directories = [
            replica_directory(placed.log_directory(each), Place(topic, number)) for each in replicas
        ]

        def contents(directories=directories) -> list[bytes]:
            return [
                b"".join(file.read_bytes() for file in sorted(directory.glob("*.txnindex")))
                for directory in directories
            ]

        # Two aborted transactions of 34 bytes each; a follower has them a moment after its leader.
        until(lambda contents=contents: {len(each) for each in contents()} == {68})
        assert len(set(contents())) == 1


@pytest.mark.parametrize("begun_at", KINDS)
@pytest.mark.parametrize("step", ["ongoing", "prepared"])
def test_a_transaction_goes_on_at_a_coordinator_of_the_other_kind(
    placed: MixedCluster, begun_at: str, step: str
) -> None:
    name = name_led_by(placed, STATE, begun_at)
    number = partition_for(name, STATE_PARTITIONS)
    topic = f"moved-{begun_at}-{step}"
    create(placed, topic)
    client = producer(placed, name)
    client.begin_transaction()
    write(client, topic, "first")
    leaving = placed.znodes.partition_state(STATE, number)["leader"]
    if step == "prepared":
        # Kill it right after its answer, so that the next coordinator finds the decision or its completion.
        client.commit_transaction(60)
    placed.kill(leaving)
    others = KAFKA if begun_at == "ottla" else OTTLA
    placed.znodes.wait(lambda: placed.znodes.partition_state(STATE, number)["leader"] in others)
    if step == "ongoing":
        client.commit_transaction(60)
    client.begin_transaction()
    write(client, topic, "second")
    client.abort_transaction(60)
    client.begin_transaction()
    write(client, topic, "third")
    client.commit_transaction(60)
    wait_committed(placed, topic, "first", "third")
    placed.start(leaving)
    placed.wait_in_sync(topic)
    elect(placed)


def elect(placed: MixedCluster) -> None:
    """Elect the preferred leader of each partition of the transaction state again."""
    asked = TopicPartitions(topic=STATE, partitions=list(range(STATE_PARTITIONS)))

    def led() -> bool:
        with RawClient(placed.addresses[placed.znodes.controller()]) as client:
            client.ask(ElectLeadersRequest(topic_partitions=[asked], timeout_ms=30_000), 2)
        return all(
            placed.znodes.partition_state(STATE, number)["leader"] == replicas[0]
            for number, replicas in enumerate(INTERNAL[STATE])
        )

    until(led)
