"""Topics are deleted and created again under the same name: nothing of the old one is seen again."""

from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.testing import Cluster
from tests.integration.operations.operating import BROKERS, Operator
from tests.patience import until

ROUNDS = 4


def produce(cluster: Cluster, topic: str, count: int, mark: str) -> None:
    errors: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "message.timeout.ms": 30_000,
            "retry.backoff.ms": 20,
            "topic.metadata.refresh.fast.interval.ms": 20,
            # A client that asks before every broker knows a topic must not get the answer that there is none.
            "topic.metadata.propagation.max.ms": 30_000,
            "log_level": 0,
        }
    )
    for number in range(count):
        producer.produce(
            topic,
            f"{mark}-{number}".encode(),
            partition=number % 3,
            on_delivery=lambda error, _: errors.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert errors == []


def read(cluster: Cluster, topic: str) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader", "enable.auto.commit": False}
    )
    places = [TopicPartition(topic, p, 0) for p in range(3)]
    consumer.assign(places)
    left = sum(consumer.get_watermark_offsets(place, timeout=60)[1] for place in places)
    values: list[bytes] = []
    while len(values) < left:
        for message in consumer.consume(left - len(values), timeout=60):
            assert message.error() is None, message.error()
            values.append(message.value())
    consumer.close()
    return values


def directories(cluster: Cluster, topic: str) -> list[Path]:
    """Return what the brokers' disks still hold under a topic's name."""
    logs = [Path(cluster.broker(broker)["directory"]) / "logs" for broker in BROKERS]
    return [path for each in logs for path in each.glob(f"{topic}-*") if not path.name.endswith("-delete")]


def create(operator: Operator, topic: str) -> bool:
    """Create a topic; return False if a topic of that name is still being deleted."""
    options = ("--topic", topic, "--replica-assignment", "0:1:2,1:2:0,2:0:1", "--if-not-exists")
    created: bool = operator.run("topics", "--create", *options)["created"]
    return created


def test_a_recreated_topic_is_a_new_one(operator: Operator) -> None:
    cluster = operator.cluster
    ids = set()
    for turn in range(ROUNDS):
        until(lambda: create(operator, "phoenix"))
        cluster.wait_in_sync("phoenix", 3)
        (described,) = operator.run("topics", "--describe", "--topic", "phoenix")
        ids.add(described["topic_id"])
        produce(cluster, "phoenix", 30, f"life {turn}")
        assert {value.split(b"-")[0] for value in read(cluster, "phoenix")} == {b"life %d" % turn}
        operator.run("topics", "--delete", "--topic", "phoenix")
    assert len(ids) == ROUNDS
    until(lambda: directories(cluster, "phoenix") == [])


def test_a_deletion_waits_for_a_dead_replica(operator: Operator) -> None:
    cluster = operator.cluster
    operator.place("lingering", (0, 1, 2), (1, 2, 0), (2, 0, 1))
    produce(cluster, "lingering", 30, "old")
    cluster.kill(2)
    cluster.wait(lambda seen: all(seen.isr("lingering", p) == {0, 1} for p in range(3)))
    operator.run("topics", "--delete", "--topic", "lingering")
    # Its name is taken until broker 2 has deleted its replicas, too.
    assert not create(operator, "lingering")
    assert directories(cluster, "lingering")
    cluster.start(2)
    until(lambda: directories(cluster, "lingering") == [])
    until(lambda: create(operator, "lingering"))
    cluster.wait_in_sync("lingering", 3)
    produce(cluster, "lingering", 3, "new")
    assert {value.split(b"-")[0] for value in read(cluster, "lingering")} == {b"new"}
