"""What the client knows of the cluster: brokers, topics, leaders and their epochs. No I/O.

Rules of this file:

- A partition's leader epoch never goes back, unless the topic was made anew (its id changed): a broker that lags
  behind answers old leaders.
- Hints in answers of Produce 10 and Fetch 16 (KIP-951) count like metadata, where their epoch is newer.
- What an answer does not mention stays, so that a topic asked for alone does not forget the others.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ottla.addresses import Address
from wire.errors import Error
from wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from wire.types import NO_BROKER, NO_LEADER_EPOCH, NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """A broker as the cluster advertises it."""

    id: BrokerId
    address: Address
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """A partition's leader and replicas; the leader is -1 while there is none."""

    partition: TopicPartition
    leader: BrokerId
    leader_epoch: LeaderEpoch
    replicas: Sequence[BrokerId] = ()
    isr: Sequence[BrokerId] = ()
    offline: Sequence[BrokerId] = ()


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic, with its partitions in order of their numbers."""

    name: str
    topic_id: TopicId
    is_internal: bool
    partitions: Sequence[PartitionMetadata]


class ClusterMetadata:
    """The client's picture of the cluster, made of answers and hints.

    Attributes:
        cluster_id: The cluster's id, None before the first answer.
        controller_id: The controller, -1 while unknown.
        brokers: The live brokers by id.
        topics: The topics known, by name.
        topic_errors: What the last answer said of topics that it could not describe.
        version: Counts the changes, so that others notice them.
    """

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id = NO_BROKER
        self.brokers: dict[BrokerId, BrokerNode] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self.topic_errors: dict[str, Error] = {}
        self.names_by_id: dict[TopicId, str] = {}
        self.version = 0

    def update(self, answer: MetadataResponse, *, all_topics: bool) -> None:
        """Take over an answer.

        Args:
            answer: What a broker said.
            all_topics: Whether every topic was asked for: those that are missing then are gone.
        """
        self.update_brokers(answer)
        if all_topics:
            named = {topic.name for topic in answer.topics}
            for gone in [name for name in self.topics if name not in named]:
                self.forget(gone)
        for topic in answer.topics:
            self._update_topic(topic)

    def update_brokers(self, answer: MetadataResponse) -> None:
        """Take over the live brokers and the controller, and leave topics as they are."""
        self.version += 1
        if answer.cluster_id is not None:
            self.cluster_id = answer.cluster_id
        self.controller_id = answer.controller_id
        if answer.brokers:
            self.brokers = {
                broker.node_id: BrokerNode(broker.node_id, Address(broker.host, broker.port), broker.rack)
                for broker in answer.brokers
            }

    def _update_topic(self, topic: MetadataResponseTopic) -> None:
        name = topic.name or ""
        error = Error.from_code(topic.error_code)
        if error is not Error.NONE:
            self.topic_errors[name] = error
            if error in (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.INVALID_TOPIC_EXCEPTION):
                self.forget(name)
            return
        self.topic_errors.pop(name, None)
        known = self.topics.get(name)
        is_same = known is not None and topic.topic_id in (known.topic_id, NO_TOPIC_ID)
        earlier = {p.partition.partition: p for p in known.partitions} if known and is_same else {}
        partitions = [
            _newer(earlier.get(each.partition_index), _partition(name, each))
            for each in sorted(topic.partitions, key=_index)
        ]
        if known is not None and not is_same:
            self.names_by_id.pop(known.topic_id, None)
        self.topics[name] = TopicMetadata(name, topic.topic_id, topic.is_internal, partitions)
        if topic.topic_id != NO_TOPIC_ID:
            self.names_by_id[topic.topic_id] = name

    def forget(self, name: str) -> None:
        """Drop a topic that is gone or not used any more."""
        topic = self.topics.pop(name, None)
        if topic is not None:
            self.names_by_id.pop(topic.topic_id, None)

    def apply_leader_hint(
        self, partition: TopicPartition, leader: BrokerId, epoch: LeaderEpoch, nodes: Iterable[BrokerNode]
    ) -> bool:
        """Take a new leader from another answer (KIP-951); return False where it is not newer than known."""
        known = self.partition(partition)
        if known is None or leader < 0 or epoch <= known.leader_epoch:
            return False
        for node in nodes:
            self.brokers.setdefault(node.id, node)
        if leader not in self.brokers:
            return False
        topic = self.topics[partition.topic]
        changed = [
            replace(each, leader=leader, leader_epoch=epoch) if each.partition == partition else each
            for each in topic.partitions
        ]
        self.topics[partition.topic] = replace(topic, partitions=changed)
        self.version += 1
        return True

    def partition(self, partition: TopicPartition) -> PartitionMetadata | None:
        """Return a partition, None while unknown."""
        topic = self.topics.get(partition[0])
        if topic is None or not 0 <= partition[1] < len(topic.partitions):
            return None
        return topic.partitions[partition[1]]

    def leader(self, partition: TopicPartition) -> BrokerNode | None:
        """Return a partition's leader, None while there is none or it is unknown."""
        known = self.partition(partition)
        return None if known is None else self.brokers.get(known.leader)

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has, 0 while it is unknown."""
        known = self.topics.get(topic)
        return 0 if known is None else len(known.partitions)

    def partitions(self, topics: Iterable[str]) -> Iterator[PartitionMetadata]:
        """Yield the partitions of those topics that are known."""
        for name in topics:
            topic = self.topics.get(name)
            if topic is not None:
                yield from topic.partitions

    def counts(self, topics: Iterable[str]) -> Mapping[str, int]:
        """Return the partition counts of those topics that are known."""
        return {name: len(self.topics[name].partitions) for name in topics if name in self.topics}


def _index(partition: MetadataResponsePartition) -> int:
    return partition.partition_index


def _partition(topic: str, answered: MetadataResponsePartition) -> PartitionMetadata:
    return PartitionMetadata(
        TopicPartition(topic, answered.partition_index),
        answered.leader_id,
        answered.leader_epoch,
        tuple(answered.replica_nodes),
        tuple(answered.isr_nodes),
        tuple(answered.offline_replicas),
    )


def _newer(known: PartitionMetadata | None, answered: PartitionMetadata) -> PartitionMetadata:
    if known is None or answered.leader_epoch == NO_LEADER_EPOCH:
        return answered
    return known if known.leader_epoch > answered.leader_epoch else answered


LEADER_ERRORS: Final = frozenset(error for error in Error if error.refresh_metadata)
"""Error codes after which metadata are asked for at once."""
