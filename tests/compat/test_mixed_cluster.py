"""Brokers of Ottla and of Apache Kafka 3.9 as members of one cluster: each kind as controller, leader and follower."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing import Cluster, History, Mark
from ottla.testing.ports import free_port_block
from ottla.testing.replica_files import replica_directory, replica_records
from tests.compat.apache_kafka import KafkaBroker
from tests.compat.znodes import Znodes
from tests.patience import until
from tests.raw_client import RawClient
from wire.errors import Error
from wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from wire.messages.init_producer_id import InitProducerIdRequest
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from wire.types import TopicPartition as Place

OTTLA = (0, 1)
KAFKA = (10, 11)
PLACEMENT = ([0, 10, 1], [10, 0, 11], [1, 11, 10], [11, 1, 0])
"""The replicas of each partition: every kind leads, and follows a leader of either kind."""
RECORDS = 2_000
"""How many records one step of a story sends."""
SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "2",
    # Replicas on brokers of both kinds, so that both of one kind can leave at once, and the leaders move to the others.
    "offsets.topic.replication.factor": "4",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "4",
}
KINDS = ("ottla", "kafka")


class MixedCluster:
    """Two brokers of each kind on one ZooKeeper."""

    def __init__(self, ottla: Cluster, kafka: dict[int, KafkaBroker], znodes: Znodes) -> None:
        self.znodes = znodes
        self._ottla = ottla
        self._kafka = kafka
        self.addresses = {b["id"]: f"{b['host']}:{b['port']}" for b in ottla.describe_file()["brokers"]}
        self.addresses |= {broker.id: broker.address for broker in kafka.values()}
        self.bootstrap_servers = ",".join(self.addresses.values())

    def admin(self) -> AdminClient:
        """Return a new client: an older one can still send to a former controller."""
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    def start(self, *brokers: int) -> None:
        """Start brokers, and wait until all four are registered and list each other in their metadata.

        For minutes librdkafka believes the empty cluster that a broker reports when it has just come up.
        """
        for broker in brokers:
            if broker in self._kafka:
                self._kafka[broker].start()
        ottla = [broker for broker in brokers if broker in OTTLA]
        if ottla:
            self._ottla.start(*ottla)
        self.znodes.wait_brokers([*OTTLA, *KAFKA])
        for address in self.addresses.values():
            until(lambda address=address: brokers_known_by(address) == self.addresses.keys())

    def stop(self, *brokers: int) -> None:
        """Stop brokers by controlled shutdowns, and wait until their registrations are gone."""
        self._end("stop", brokers)

    def kill(self, broker: int) -> None:
        """End a broker as a crash would, and wait until its registration is gone."""
        self._end("kill", [broker])

    def _end(self, how: str, brokers) -> None:
        left = self.znodes.children("/brokers/ids") - {str(broker) for broker in brokers}
        for broker in brokers:
            if broker in self._kafka:
                getattr(self._kafka[broker], how)()
        ottla = [broker for broker in brokers if broker in OTTLA]
        if ottla:
            getattr(self._ottla, how)(*ottla)
        self.znodes.wait_brokers(int(each) for each in left)

    def give_controller_to(self, kind: str) -> None:
        """Make a broker of this kind the controller: the others leave, and come back."""
        wanted, others = (OTTLA, KAFKA) if kind == "ottla" else (KAFKA, OTTLA)
        if self.znodes.controller() not in wanted:
            self.stop(*others)
            self.znodes.wait(lambda: self.znodes.controller() in wanted)
            self.start(*others)
        controller = self.znodes.controller()
        assert controller in wanted
        for address in self.addresses.values():
            until(lambda address=address: controller_known_by(address) == controller)

    def other_than_controller(self, kind: str) -> int:
        """Return a broker of a kind that is not the controller."""
        controller = self.znodes.controller()
        return next(broker for broker in (OTTLA if kind == "ottla" else KAFKA) if broker != controller)

    def log_directory(self, broker: int) -> Path:
        """Return a broker's log directory."""
        if broker in self._kafka:
            return self._kafka[broker].log_directory
        return Path(self._ottla.broker(broker)["directory"]) / "logs"

    def wait_partitions(self, topic: str, condition) -> None:
        """Wait until a condition on (partition, state) holds for all partitions of a topic."""
        states = [lambda p=p: self.znodes.partition_state(topic, p) for p in range(len(PLACEMENT))]
        self.znodes.wait(
            lambda: all(condition(p, state()) for p, state in enumerate(states)),
            lambda: [state() for state in states],
        )

    def wait_known(self, topic: str) -> None:
        """Wait until every broker's metadata has every leader of a topic."""
        for address in self.addresses.values():
            until(lambda address=address: -1 not in leaders_known_by(address, topic))

    def wait_in_sync(self, topic: str) -> None:
        """Wait until every replica is in the ISR of its partition."""
        self.wait_partitions(topic, lambda p, state: sorted(state["isr"]) == sorted(PLACEMENT[p]))


def metadata_of(address: str, *topics: str) -> MetadataResponse | None:
    """Return a broker's metadata for clients; None while it does not listen."""
    wanted = [MetadataRequestTopic(name=topic) for topic in topics]
    try:
        with RawClient(address) as client:
            found: MetadataResponse = client.ask(
                MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 12
            )
            return found
    except ConnectionRefusedError:
        return None  # Apache Kafka registers before it listens


def controller_known_by(address: str) -> int | None:
    """Return the controller in a broker's metadata; None while it does not listen."""
    found = metadata_of(address)
    return None if found is None else found.controller_id


def brokers_known_by(address: str) -> set[int]:
    """Return the brokers in a broker's metadata."""
    found = metadata_of(address)
    return set() if found is None else {broker.node_id for broker in found.brokers}


def leaders_known_by(address: str, topic: str) -> set[int]:
    """Return the leaders of a topic in a broker's metadata; -1 stands for an unknown one."""
    found = metadata_of(address, topic)
    if found is None or len(found.topics[0].partitions) != len(PLACEMENT):
        return {-1}
    return {int(partition.leader_id) for partition in found.topics[0].partitions}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory, kafka_java: list[str]) -> Iterator[MixedCluster]:
    directory = tmp_path_factory.mktemp("mixed")
    with Cluster.up(directory / "ottla", brokers=len(OTTLA), overrides=SETTINGS) as ottla:
        first_port = free_port_block(len(KAFKA))
        kafka = {
            broker: KafkaBroker(
                kafka_java, directory / f"kafka-{broker}", broker, port, ottla.zookeeper, SETTINGS
            )
            for port, broker in enumerate(KAFKA, first_port)
        }
        with Znodes(ottla.zookeeper) as znodes:
            cluster = MixedCluster(ottla, kafka, znodes)
            try:
                cluster.start(*KAFKA)
                yield cluster
            finally:
                for broker in kafka.values():
                    broker.stop()


class Story:
    """One topic, one idempotent producer for all of its life, and the records that were acknowledged."""

    def __init__(self, mixed: MixedCluster, topic: str) -> None:
        self.topic = topic
        self._mixed = mixed
        self._history = History()
        self._count = 0
        self._errors: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": mixed.bootstrap_servers,
                "log_level": 0,
                "enable.idempotence": True,
                "acks": "all",
                "compression.type": "zstd",
                "linger.ms": 5,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
            }
        )

    def produce(self) -> None:
        """Hand over `RECORDS` records, without waiting for their acknowledgement."""
        for number in range(self._count, self._count + RECORDS):
            place, mark = Place(self.topic, number % len(PLACEMENT)), Mark("p", number)
            self._history.sent(mark, place)
            self._producer.produce(
                self.topic,
                b"%d" % number,
                partition=place.partition,
                on_delivery=lambda e, m, place=place, mark=mark: self._told(e, m, place, mark),
            )
        self._count += RECORDS

    def flush(self) -> None:
        """Wait until everything is acknowledged."""
        assert self._producer.flush(60) == 0
        assert self._errors == []

    def check(self) -> None:
        """Read everything back, from the leaders and from each replica's files."""
        consumer = Consumer(
            {"bootstrap.servers": self._mixed.bootstrap_servers, "group.id": "none", "log_level": 0}
        )
        consumer.assign([TopicPartition(self.topic, p, 0) for p in range(len(PLACEMENT))])
        read: dict[int, list[tuple[int, Mark]]] = {p: [] for p in range(len(PLACEMENT))}
        while sum(map(len, read.values())) < self._count:
            message = consumer.poll(60)
            assert message is not None, {p: len(records) for p, records in read.items()}
            assert message.error() is None, message.error()
            read[message.partition()].append((message.offset(), Mark("p", int(message.value()))))
        consumer.close()
        for partition, replicas in enumerate(PLACEMENT):
            place = Place(self.topic, partition)
            self._history.read("consumer", place, read[partition])
            for broker in replicas:
                records = replica_records(self._mixed.log_directory(broker), place)
                marks = [(record.offset, Mark("p", int(record.value or b""))) for record in records]
                self._history.read(f"replica {broker}", place, marks)
        assert self._history.acknowledged_count == self._count
        self._history.check()

    def _told(self, error, message, place: Place, mark: Mark) -> None:
        if error is None:
            self._history.acknowledged(mark, place, message.offset())
        else:
            self._errors.append(f"{mark}: {error}")


@pytest.mark.parametrize("controller", KINDS)
def test_each_kind_leads_follows_dies_leaves_and_returns(mixed: MixedCluster, controller: str) -> None:
    mixed.give_controller_to(controller)
    story = Story(mixed, f"under-{controller}")
    create(mixed, story.topic)
    get_producer_ids(mixed)
    story.produce()
    story.flush()
    for kind in KINDS:
        victim = mixed.other_than_controller(kind)
        story.produce()
        mixed.kill(victim)
        mixed.wait_partitions(story.topic, lambda _, state, dead=victim: dead not in state["isr"])
        story.flush()
        story.produce()
        mixed.start(victim)
        mixed.wait_in_sync(story.topic)
        story.flush()
        elect_preferred(mixed, story.topic)
    # When one of Kafka's brokers leaves Kafka's controller, no code of ours runs.
    for kind in KINDS if controller == "ottla" else ["ottla"]:
        leaving = mixed.other_than_controller(kind)
        story.produce()
        mixed.stop(leaving)
        # It had its leaders moved before it left: no partition is without a leader.
        mixed.wait_partitions(
            story.topic,
            lambda _, state, gone=leaving: state["leader"] not in (-1, gone) and gone not in state["isr"],
        )
        story.flush()
        mixed.start(leaving)
        mixed.wait_in_sync(story.topic)
    elect_preferred(mixed, story.topic)
    story.produce()
    story.flush()
    story.check()
    delete(mixed, story.topic)
    assert mixed.znodes.controller() in (OTTLA if controller == "ottla" else KAFKA)


def get_producer_ids(mixed: MixedCluster) -> None:
    """Check that every broker hands out ids, which Kafka's brokers get from the controller and ours from ZooKeeper."""
    given: set[int] = set()

    def get_one(client: RawClient) -> bool:
        answer = client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4)
        if answer.error_code == Error.COORDINATOR_LOAD_IN_PROGRESS:
            return False  # Kafka's answer while its own request to the controller is under way
        assert answer.error_code == Error.NONE
        given.add(answer.producer_id)
        return True

    for address in mixed.addresses.values():
        with RawClient(address) as client:
            until(lambda client=client: get_one(client))
    assert len(given) == len(mixed.addresses)


def create(mixed: MixedCluster, topic: str) -> None:
    new = NewTopic(
        topic,
        num_partitions=len(PLACEMENT),
        replica_assignment=list(PLACEMENT),
        config={"min.insync.replicas": "2"},
    )
    admin = mixed.admin()
    admin.create_topics([new])[topic].result(timeout=60)
    mixed.wait_in_sync(topic)
    leaders = [mixed.znodes.partition_state(topic, p)["leader"] for p in range(len(PLACEMENT))]
    assert leaders == [replicas[0] for replicas in PLACEMENT]
    mixed.wait_known(topic)


def elect_preferred(mixed: MixedCluster, topic: str) -> None:
    """Elect the preferred leader of each partition, as an operator would."""
    asked = TopicPartitions(topic=topic, partitions=list(range(len(PLACEMENT))))
    with RawClient(mixed.addresses[mixed.znodes.controller()]) as client:
        answer = client.ask(ElectLeadersRequest(topic_partitions=[asked], timeout_ms=30_000), 2)
    errors = {
        Error.from_code(p.error_code) for t in answer.replica_election_results for p in t.partition_result
    }
    assert errors <= {Error.NONE, Error.ELECTION_NOT_NEEDED}
    mixed.wait_partitions(topic, lambda p, state: state["leader"] == PLACEMENT[p][0])


def delete(mixed: MixedCluster, topic: str) -> None:
    admin = mixed.admin()
    admin.delete_topics([topic])[topic].result(timeout=60)
    mixed.znodes.wait(lambda: topic not in mixed.znodes.children("/brokers/topics"))
    for partition, replicas in enumerate(PLACEMENT):
        for broker in replicas:
            assert not replica_directory(mixed.log_directory(broker), Place(topic, partition)).exists()
