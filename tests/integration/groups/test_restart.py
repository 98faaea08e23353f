"""A coordinator that leaves and comes back takes over from the snapshot beside its log."""

from pathlib import Path
from uuid import uuid4

from confluent_kafka import Consumer, ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.testing import Cluster
from tests.conftest import Topics
from tests.patience import until

OFFSETS_TOPIC = "__consumer_offsets"
PARTITIONS = 6
COMMITS = 120
SNAPSHOT = "ottla-groups.msgpack"


class Coordinators:
    """Looks up a group's coordinator, and elects the preferred leaders."""

    def __init__(self, bootstrap: str) -> None:
        self._settings = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._admin = AdminClient(self._settings)

    def of(self, group: str) -> int:
        """Return the broker that coordinates a group, -1 while that changes."""
        described = self._admin.describe_consumer_groups([group], request_timeout=20)
        try:
            return int(described[group].result(timeout=60).coordinator.id)
        except KafkaException:
            return -1

    def elect_preferred(self) -> bool:
        """Elect the preferred leader of every partition; return whether all are led by it."""
        # librdkafka keeps asking the former controller.
        self._admin = AdminClient(self._settings)
        try:
            self._admin.elect_leaders(ElectionType.PREFERRED, None).result(timeout=60)
        except KafkaException:
            return False  # the controller is moving
        partitions = self._admin.list_topics(OFFSETS_TOPIC, timeout=20).topics[OFFSETS_TOPIC].partitions
        return all(each.leader == each.replicas[0] for each in partitions.values())


def test_a_coordinator_that_was_restarted_knows_what_was_committed(
    quick_cluster: Cluster, make_topics: Topics
) -> None:
    topic, group = f"restart-{uuid4().hex[:8]}", f"restart-{uuid4().hex[:8]}"
    make_topics.create([topic], PARTITIONS)
    bootstrap = quick_cluster.bootstrap_servers
    coordinators = Coordinators(bootstrap)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        until(lambda: commit(consumer, topic, 1))
        until(coordinators.elect_preferred)
        until(lambda: coordinators.of(group) >= 0)
        coordinator = coordinators.of(group)
        for offset in range(1, COMMITS + 1):
            until(lambda offset=offset: commit(consumer, topic, offset))

        quick_cluster.stop(coordinator)
        logs = Path(quick_cluster.data) / f"broker-{coordinator}"
        assert list(logs.rglob(SNAPSHOT)), "nothing was written down"
        until(lambda: commit(consumer, topic, COMMITS + 1))

        quick_cluster.start(coordinator)
        until(coordinators.elect_preferred)
        until(lambda: coordinators.of(group) == coordinator)
        found: list[int] = []
        until(lambda: found.extend(positions(consumer, topic)) or found)
        assert found == [COMMITS + 1] * PARTITIONS
    finally:
        consumer.close()


def commit(consumer: Consumer, topic: str, offset: int) -> bool:
    """Commit the same offset in every partition; return False if the coordinator is away."""
    offsets = [TopicPartition(topic, partition, offset) for partition in range(PARTITIONS)]
    try:
        done = consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException:
        return False
    return all(each.error is None for each in done)


def positions(consumer: Consumer, topic: str) -> list[int]:
    """Return the committed offset of every partition; an empty list if the coordinator is away."""
    asked = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    try:
        return [each.offset for each in consumer.committed(asked, timeout=20)]
    except KafkaException:
        return []
