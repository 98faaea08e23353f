"""The client's contract suite: the same tests against Ottla and Apache Kafka 3.9.1, on trio and on asyncio."""

import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.testing.ports import free_port_block
from tests.compat.apache_kafka import KafkaBroker
from tests.conftest import GivenCluster, Topics
from tests.patience import until

SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture(scope="session")
def apache_kafka(
    cluster: object, kafka_java: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GivenCluster]:
    """One broker of Apache Kafka 3.9.1, in a chroot of the shared cluster's ZooKeeper."""
    from ottla.testing import Cluster

    assert isinstance(cluster, Cluster), "the contract suite starts both kinds of brokers itself"
    zookeeper = f"{cluster.zookeeper}/apache-{uuid.uuid4().hex[:8]}"
    directory = tmp_path_factory.mktemp("apache") / "broker"
    broker = KafkaBroker(kafka_java, directory, 0, free_port_block(1), zookeeper, SETTINGS)
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0, "logger": _silent()})
        until(lambda: _answers(admin))
        yield GivenCluster(broker.address)
    finally:
        broker.kill()


def _silent():
    import logging

    logger = logging.getLogger("librdkafka of the contract suite")
    logger.propagate = False
    logger.addHandler(logging.NullHandler())
    return logger


def _answers(admin: AdminClient) -> bool:
    from confluent_kafka import KafkaException

    try:
        return bool(admin.list_topics(timeout=1).brokers)
    except KafkaException:
        return False


class Brokers:
    """The brokers of one kind, and what tests do with them through librdkafka."""

    def __init__(self, kind: str, bootstrap_servers: str, replication_factor: int) -> None:
        self.kind = kind
        self.bootstrap_servers = bootstrap_servers
        self._replication_factor = replication_factor
        self._topics = Topics(bootstrap_servers)

    def topic(self, partitions: int = 3, **configs: str) -> str:
        """Create a topic with a new name, and return the name."""
        name = f"client-{uuid.uuid4().hex[:10]}"
        self._topics.create([name], partitions, self._replication_factor, **configs)
        return name

    def consume(self, topic: str, count: int, **settings: object) -> dict[int, list]:
        """Return what librdkafka reads from a topic, by partition, once it has ``count`` records."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": uuid.uuid4().hex,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **settings,
            }
        )
        try:
            partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
            found: dict[int, list] = {number: [] for number in partitions}

            def all_there() -> bool:
                for message in consumer.consume(10_000, timeout=0.2):
                    assert message.error() is None, message.error()
                    found[message.partition()].append(message)
                return sum(map(len, found.values())) >= count

            until(all_there)
            return found
        finally:
            consumer.close()


@pytest.fixture(params=["ottla", "apache"])
def brokers(request: pytest.FixtureRequest) -> Brokers:
    """The brokers of each kind in turn."""
    given = request.getfixturevalue("cluster" if request.param == "ottla" else "apache_kafka")
    admin = AdminClient({"bootstrap.servers": given.bootstrap_servers})
    replication_factor = min(3, len(admin.list_topics(timeout=30).brokers))
    return Brokers(request.param, given.bootstrap_servers, replication_factor)


@pytest.fixture(params=["trio", "asyncio"])
def run(request: pytest.FixtureRequest) -> Callable[..., object]:
    """Run a test's body on each kind of event loop in turn, for at most a minute."""
    import anyio

    def run_body(body: Callable[..., object]) -> object:
        async def bounded() -> object:
            with anyio.fail_after(60):
                return await body()  # type: ignore[misc]

        return anyio.run(bounded, backend=request.param)

    return run_body
