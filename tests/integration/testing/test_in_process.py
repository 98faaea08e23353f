"""A cluster in the test's own process: foreign clients use it like any other, and notice what is done to it."""

import asyncio
import socket
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from ottla.testing import ClusterError
from ottla.testing.in_process import InProcessCluster

QUIET = {"log_level": 0}


@pytest.fixture(scope="module")
def shared() -> Iterator[InProcessCluster]:
    with InProcessCluster.up() as running:
        yield running


@pytest.fixture
def cluster(shared: InProcessCluster) -> InProcessCluster:
    shared.reset()
    return shared


def produce(
    cluster: InProcessCluster, topic: str, values: list[bytes], **settings: object
) -> list[KafkaError | None]:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **QUIET, **settings})
    outcomes: list[KafkaError | None] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(30)
    return outcomes


def consume(cluster: InProcessCluster, topic: str, wanted: int, group: str = "readers") -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            **QUIET,
        }
    )
    consumer.subscribe([topic])
    found: list[bytes] = []
    try:
        for _ in range(wanted + 300):
            if len(found) == wanted:
                break
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                found.append(message.value())
    finally:
        consumer.close()
    return sorted(found)


def values(number: int) -> list[bytes]:
    return [b"%05d" % each for each in range(number)]


def test_a_group_reads_what_was_produced(cluster: InProcessCluster) -> None:
    cluster.create_topic("orders", partitions=3)
    assert produce(cluster, "orders", values(500)) == [None] * 500
    assert consume(cluster, "orders", 500) == values(500)


def test_a_transaction_is_committed(cluster: InProcessCluster) -> None:
    cluster.create_topic("orders")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "till", **QUIET})
    producer.init_transactions(30)
    for ending in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.produce("orders", ending.__name__.encode())
        ending(30)
    assert consume(cluster, "orders", 1) == [b"commit_transaction"]


def test_aiokafka_is_served_in_the_same_process(cluster: InProcessCluster) -> None:
    cluster.create_topic("orders")

    async def main() -> list[bytes]:
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for value in values(10):
                await producer.send_and_wait("orders", value)
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", group_id="a"
        )
        async with consumer:
            return [(await consumer.getone()).value for _ in range(10)]

    assert asyncio.run(main()) == values(10)


def test_nothing_acknowledged_is_lost_with_a_killed_leader(cluster: InProcessCluster) -> None:
    cluster.create_topic("orders")
    leader = cluster.view().leader("orders", 0)
    assert produce(cluster, "orders", values(100), acks="all") == [None] * 100
    cluster.kill(leader)
    cluster.wait(lambda seen: seen.leader("orders", 0) not in (-1, leader))
    assert consume(cluster, "orders", 100) == values(100)
    cluster.start(leader)
    cluster.wait_in_sync("orders")


def test_a_dead_broker_refuses_connections_and_comes_back_on_its_port(cluster: InProcessCluster) -> None:
    host, port = cluster.bootstrap_servers.split(",")[1].split(":")
    cluster.kill(1)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), 5)
    cluster.start()
    socket.create_connection((host, int(port)), 5).close()


def test_a_paused_leader_is_replaced_and_falls_in_again(cluster: InProcessCluster) -> None:
    cluster.create_topic("orders")
    leader = cluster.view().leader("orders", 0)
    cluster.pause(leader)
    assert leader not in cluster.view().descriptions
    cluster.wait(lambda seen: seen.leader("orders", 0) not in (-1, leader))
    assert produce(cluster, "orders", values(10)) == [None] * 10
    cluster.resume(leader)
    cluster.wait_in_sync("orders")


def test_a_follower_that_is_cut_off_leaves_the_isr_until_it_is_healed(cluster: InProcessCluster) -> None:
    # Broker 0 came first and is the controller, so it is not the one that is cut off.
    cluster.create_topic("orders")
    leader = cluster.view().leader("orders", 0)
    controller = cluster.view().controller_id
    follower = next(each for each in cluster.broker_ids if each not in (leader, controller))
    cluster.cut(follower, zookeeper=True)
    cluster.wait(lambda seen: follower not in seen.isr("orders", 0) and seen.leader("orders", 0) == leader)
    assert produce(cluster, "orders", values(10), acks="all") == [None] * 10
    cluster.heal()
    cluster.wait_in_sync("orders")


def test_clients_that_are_cut_off_wait_and_go_on(cluster: InProcessCluster) -> None:
    cluster.create_topic("orders")
    leader = cluster.view().leader("orders", 0)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
    outcomes: list[KafkaError | None] = []
    producer.produce("orders", b"before", on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(30)
    cluster.cut(leader, others=(), clients=True)
    producer.produce("orders", b"meanwhile", on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(0.2) == 1
    assert cluster.view().leader("orders", 0) == leader
    cluster.heal(leader)
    producer.flush(30)
    assert outcomes == [None, None]


def test_a_full_disk_takes_a_broker_down_and_it_comes_back(cluster: InProcessCluster) -> None:
    cluster.create_topic("orders")
    leader = cluster.view().leader("orders", 0)
    cluster.full_disk(leader)
    assert produce(cluster, "orders", values(10), acks="all") == [None] * 10
    cluster.wait(lambda seen: leader not in seen.descriptions)
    cluster.heal(leader)
    cluster.start(leader)
    cluster.wait_in_sync("orders")
    assert consume(cluster, "orders", 10) == values(10)


def test_an_expired_session_is_replaced(cluster: InProcessCluster) -> None:
    cluster.create_topic("orders")
    controller = cluster.view().controller_id
    cluster.expire_session(controller)
    cluster.wait(lambda seen: seen.controller_id != -1 and len(seen.isr("orders", 0)) == 3)
    assert produce(cluster, "orders", values(10), acks="all") == [None] * 10


def test_a_reset_leaves_nothing_behind(cluster: InProcessCluster) -> None:
    cluster.create_topic("orders")
    produce(cluster, "orders", values(10))
    consume(cluster, "orders", 10, "readers")
    cluster.kill(2)
    before = cluster.bootstrap_servers
    cluster.reset()
    assert cluster.bootstrap_servers == before
    admin = AdminClient({"bootstrap.servers": before, **QUIET})
    assert set(admin.list_topics(timeout=10).topics) == {"__consumer_offsets", "__transaction_state"}
    assert len(admin.list_topics(timeout=10).brokers) == 3
    assert admin.list_consumer_groups().result(10).valid == []


def test_a_reset_forgets_settings_of_brokers(cluster: InProcessCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
    entry = ConfigEntry("log.cleaner.threads", "2", incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin.incremental_alter_configs([changed])[changed].result(10)
    cluster.reset()
    asked = ConfigResource(ResourceType.BROKER, "1")
    again = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
    described = again.describe_configs([asked])
    assert described[asked].result(10)["log.cleaner.threads"].value == "1"


def test_what_cannot_be_done_is_said(cluster: InProcessCluster) -> None:
    with pytest.raises(ClusterError, match="no broker 7; it has 0, 1, 2"):
        cluster.kill(7)
    with pytest.raises(
        ClusterError, match=r"topic orders is not created: .*larger than available brokers: 3"
    ):
        cluster.create_topic("orders", replicas=4)
    with pytest.raises(ClusterError, match="listeners is the in-process cluster's own to set"):
        InProcessCluster.up(settings={"listeners": "PLAINTEXT://:9092"})
    with pytest.raises(ClusterError, match=r"log\.retention\.ms"):
        InProcessCluster.up(settings={"log.retention.ms": "soon"})
    taken = int(cluster.bootstrap_servers.rpartition(":")[2])
    with pytest.raises(ClusterError, match=f"does not start: 127.0.0.1:{taken}: address already in use"):
        InProcessCluster.up(brokers=1, ports=[taken])
    gone = InProcessCluster.up(brokers=1)
    gone.down()
    gone.down()
    with pytest.raises(ClusterError, match="the cluster is down"):
        gone.view()
