"""The whole cluster at a moment: brokers, topics, and what is wrong with them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ottla.client.admin import ClusterDescription, PartitionDescription, TopicDescription
from wire.types import BrokerId, TopicPartition, WallMs


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """A topic in a list.

    Attributes:
        name: Its name.
        internal: Whether it is one of the cluster's own.
        partitions: How many it has.
        replicas: The fewest and the most replicas of a partition.
        under_replicated: Partitions with replicas that are not in sync.
        offline: Partitions without a leader.
        not_preferred: Partitions whose leader is not the first replica.
    """

    name: str
    internal: bool
    partitions: int
    replicas: tuple[int, int]
    under_replicated: int
    offline: int
    not_preferred: int

    @property
    def health(self) -> str:
        """Its worst state: offline, behind or ok."""
        return "offline" if self.offline else "behind" if self.under_replicated else "ok"


@dataclass(frozen=True, slots=True)
class BrokerSummary:
    """A broker in a list: a live one, or a dead one that still has replicas.

    Attributes:
        broker_id: Its id.
        address: Where clients reach it; None if it is not live.
        rack: Its rack.
        is_controller: Whether it is the controller.
        leads: Partitions that it leads.
        replicas: Replicas that it should have.
        out_of_sync: Those of its replicas that are not in the ISR.
        preferred: Partitions whose first replica it is.
    """

    broker_id: BrokerId
    address: str | None
    rack: str | None
    is_controller: bool
    leads: int
    replicas: int
    out_of_sync: int
    preferred: int

    @property
    def is_alive(self) -> bool:
        """Whether it is live."""
        return self.address is not None


@dataclass(frozen=True)
class Overview:
    """A cluster at a moment.

    Attributes:
        cluster: Its brokers and its controller.
        topics: Its topics by name, in the order of their names.
        wall_ms: When it was so.
    """

    cluster: ClusterDescription
    topics: Mapping[str, TopicDescription]
    wall_ms: WallMs
    summaries: Sequence[TopicSummary] = field(default=())

    @cached_property
    def brokers(self) -> list[BrokerSummary]:
        """The brokers by id."""
        return broker_summaries(self.cluster, self.topics.values())

    @cached_property
    def partition_count(self) -> int:
        """How many partitions there are."""
        return sum(each.partitions for each in self.summaries)

    @cached_property
    def under_replicated(self) -> int:
        """How many partitions have replicas that are not in sync."""
        return sum(each.under_replicated for each in self.summaries)

    @cached_property
    def offline(self) -> int:
        """How many partitions have no leader."""
        return sum(each.offline for each in self.summaries)

    @cached_property
    def not_preferred(self) -> int:
        """How many partitions have a leader that is not their first replica."""
        return sum(each.not_preferred for each in self.summaries)

    @property
    def health(self) -> str:
        """Its worst state."""
        if self.offline or self.cluster.controller_id not in self.cluster.brokers:
            return "offline"
        return "behind" if self.under_replicated or any(not each.is_alive for each in self.brokers) else "ok"

    def partition(self, at: TopicPartition) -> PartitionDescription | None:
        """Return a partition; None where there is none."""
        topic = self.topics.get(at.topic)
        if topic is None:
            return None
        return next((each for each in topic.partitions if each.partition == at.partition), None)


def overview(cluster: ClusterDescription, topics: Sequence[TopicDescription], wall_ms: WallMs) -> Overview:
    """Build the overview from the cluster's answers."""
    return Overview(
        cluster, {topic.name: topic for topic in topics}, wall_ms, tuple(map(topic_summary, topics))
    )


def topic_summary(topic: TopicDescription) -> TopicSummary:
    """Sum up a topic."""
    factors = [len(each.replicas) for each in topic.partitions] or [0]
    return TopicSummary(
        topic.name,
        topic.internal,
        len(topic.partitions),
        (min(factors), max(factors)),
        sum(len(each.isr) < len(each.replicas) for each in topic.partitions),
        sum(each.leader < 0 for each in topic.partitions),
        sum(not leads_as_preferred(each) for each in topic.partitions),
    )


def leads_as_preferred(partition: PartitionDescription) -> bool:
    """Whether a partition has no leader, or its first replica leads it."""
    return partition.leader < 0 or not partition.replicas or partition.leader == partition.replicas[0]


def broker_summaries(cluster: ClusterDescription, topics: Iterable[TopicDescription]) -> list[BrokerSummary]:
    """Sum up brokers, including dead ones that should have replicas."""
    leads: Counter[BrokerId] = Counter()
    replicas: Counter[BrokerId] = Counter()
    in_sync: Counter[BrokerId] = Counter()
    preferred: Counter[BrokerId] = Counter()
    for topic in topics:
        for each in topic.partitions:
            leads[each.leader] += 1
            replicas.update(each.replicas)
            in_sync.update(each.isr)
            if each.replicas:
                preferred[each.replicas[0]] += 1
    found = []
    for broker_id in sorted({*cluster.brokers, *replicas}):
        broker = cluster.brokers.get(broker_id)
        found.append(
            BrokerSummary(
                broker_id,
                None if broker is None else f"{broker.host}:{broker.port}",
                None if broker is None else broker.rack,
                broker_id == cluster.controller_id and broker is not None,
                leads[broker_id],
                replicas[broker_id],
                replicas[broker_id] - in_sync[broker_id],
                preferred[broker_id],
            )
        )
    return found
