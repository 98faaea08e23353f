"""What the controller knows: its copy of ZooKeeper, and the state of each partition and replica.

The controller's task owns it; no other task writes it or keeps parts of it across an ``await`` of that task. Everything
is indexed the way the events ask: by topic, by broker, and by having no leader. No query walks over all partitions,
except those that are about all partitions.
"""

from collections.abc import Iterable, Iterator, Mapping

from cluster.controller.state_changes import OnStateChange, StateChange
from cluster.statemachines.leadership import PartitionAssignment, PartitionLeadership
from cluster.statemachines.partition import PartitionState
from cluster.statemachines.replica import ReplicaState
from cluster.statemachines.topic_deletion import Replica
from cluster.zookeeper.znodes import BrokerRegistration
from wire.types import (
    NO_TOPIC_ID,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    TopicId,
    TopicPartition,
)

UNASSIGNED = PartitionAssignment(())
"""The assignment of a partition that the controller does not know."""

_LEADERLESS = (PartitionState.NEW, PartitionState.OFFLINE)


class ControllerContext:
    """The knowledge of one term of office.

    Attributes:
        epoch: This controller's epoch.
        brokers: Registered brokers, those that are shutting down included.
        shutting_down: Brokers that asked for a controlled shutdown; they may not lead.
        offline_directories: By broker, its replicas whose log directory failed.
        topics: Assignments by topic and partition number.
        topic_ids: By topic; a topic older than ids may lack one for a moment.
        leaderships: By partition, as last read or written.
        reassigning: Partitions that are being reassigned.
        deletion_queued: Topics that are to be deleted.
        deletion_halted: Queued topics whose deletion must wait.
        deletions_left: Whether a later event must go on with the deletions.
        deletion_begun: Queued topics whose partitions are no longer served.
    """

    def __init__(self, epoch: ControllerEpoch, on_state_change: OnStateChange | None = None) -> None:
        self.epoch = epoch
        self._on_state_change = on_state_change
        self.brokers: dict[BrokerId, BrokerRegistration] = {}
        self.shutting_down: set[BrokerId] = set()
        self.offline_directories: dict[BrokerId, set[TopicPartition]] = {}
        self.topics: dict[str, dict[int, PartitionAssignment]] = {}
        self.topic_ids: dict[str, TopicId] = {}
        self.leaderships: dict[TopicPartition, PartitionLeadership] = {}
        self.reassigning: set[TopicPartition] = set()
        self.deletion_queued: set[str] = set()
        self.deletion_halted: set[str] = set()
        self.deletions_left = False
        self.deletion_begun: set[str] = set()
        self._topic_names: dict[TopicId, str] = {}
        self._on_broker: dict[BrokerId, set[TopicPartition]] = {}
        self._partition_states: dict[TopicPartition, PartitionState] = {}
        self._replica_states: dict[Replica, ReplicaState] = {}
        self._leaderless: set[TopicPartition] = set()

    # Brokers

    def is_live(self, broker_id: BrokerId) -> bool:
        """Whether a broker may lead: it is registered and not shutting down."""
        return broker_id in self.brokers and broker_id not in self.shutting_down

    def live_brokers(self) -> set[BrokerId]:
        """Return the brokers that may lead."""
        return self.brokers.keys() - self.shutting_down

    def is_online(self, partition: TopicPartition, broker_id: BrokerId) -> bool:
        """Whether a replica can serve: its broker is live and its directory works."""
        return self.is_live(broker_id) and self._has_directory(partition, broker_id)

    def is_reachable(self, partition: TopicPartition, broker_id: BrokerId) -> bool:
        """Whether a replica's broker is registered, even if shutting down, and its directory works."""
        return broker_id in self.brokers and self._has_directory(partition, broker_id)

    def _has_directory(self, partition: TopicPartition, broker_id: BrokerId) -> bool:
        offline = self.offline_directories.get(broker_id)
        return offline is None or partition not in offline

    def broker_epoch(self, broker_id: BrokerId) -> BrokerEpoch | None:
        """Return the epoch of a registered broker, ``None`` if it is not registered."""
        registration = self.brokers.get(broker_id)
        return None if registration is None else registration.epoch

    def partitions_on(self, broker_id: BrokerId) -> list[TopicPartition]:
        """Return the partitions that have a replica on a broker, in a stable order."""
        return sorted(self._on_broker.get(broker_id, ()))

    def replicas_on(self, broker_ids: Iterable[BrokerId]) -> list[Replica]:
        """Return the replicas on some brokers."""
        return [
            Replica(partition, broker_id)
            for broker_id in sorted(broker_ids)
            for partition in self.partitions_on(broker_id)
        ]

    # Topics and assignments

    def assignment(self, partition: TopicPartition) -> PartitionAssignment:
        """Return a partition's replicas, ``UNASSIGNED`` if it is not known."""
        return self.topics.get(partition.topic, {}).get(partition.partition, UNASSIGNED)

    def assign(self, partition: TopicPartition, assignment: PartitionAssignment) -> None:
        """Remember a partition's replicas."""
        partitions = self.topics.setdefault(partition.topic, {})
        before = partitions.get(partition.partition, UNASSIGNED)
        partitions[partition.partition] = assignment
        if before.replicas == assignment.replicas:
            return
        for broker_id in before.replicas:
            self._on_broker[broker_id].discard(partition)
        for broker_id in assignment.replicas:
            self._on_broker.setdefault(broker_id, set()).add(partition)

    def add_topic(
        self, topic: str, topic_id: TopicId | None, partitions: Mapping[int, PartitionAssignment]
    ) -> None:
        """Remember a topic with its id and all its partitions."""
        self.topics.setdefault(topic, {})
        if topic_id is not None:
            self.topic_ids[topic] = topic_id
            self._topic_names[topic_id] = topic
        for partition, assignment in partitions.items():
            self.assign(TopicPartition(topic, partition), assignment)

    def remove_topic(self, topic: str) -> None:
        """Forget a topic and everything about its partitions."""
        for replica in self.replicas_of(topic):
            self._replica_states.pop(replica, None)
        for partition in self.partitions_of(topic):
            for broker_id in self.assignment(partition).replicas:
                self._on_broker[broker_id].discard(partition)
            self.leaderships.pop(partition, None)
            self._partition_states.pop(partition, None)
            self._leaderless.discard(partition)
            self.reassigning.discard(partition)
        self.topics.pop(topic, None)
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            self._topic_names.pop(topic_id, None)
        for topics in (self.deletion_queued, self.deletion_halted, self.deletion_begun):
            topics.discard(topic)

    def topic_id(self, topic: str) -> TopicId:
        """Return a topic's id, ``NO_TOPIC_ID`` if it has none."""
        return self.topic_ids.get(topic, NO_TOPIC_ID)

    def topic_name(self, topic_id: TopicId) -> str | None:
        """Return the name of the topic with an id."""
        return self._topic_names.get(topic_id)

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic."""
        return [TopicPartition(topic, partition) for partition in self.topics.get(topic, ())]

    def replicas_of(self, topic: str) -> list[Replica]:
        """Return the replicas of all partitions of a topic."""
        return [
            Replica(TopicPartition(topic, partition), broker_id)
            for partition, assignment in self.topics.get(topic, {}).items()
            for broker_id in assignment.replicas
        ]

    def all_partitions(self) -> Iterator[tuple[TopicPartition, PartitionAssignment]]:
        """Walk over all partitions."""
        for topic, partitions in self.topics.items():
            for partition, assignment in partitions.items():
                yield TopicPartition(topic, partition), assignment

    def replicas_for(self, partitions: Iterable[TopicPartition]) -> list[Replica]:
        """Return the replicas of some partitions."""
        return [
            Replica(partition, broker_id)
            for partition in partitions
            for broker_id in self.assignment(partition).replicas
        ]

    # States

    def partition_state(self, partition: TopicPartition) -> PartitionState:
        """Return the state of a partition."""
        return self._partition_states.get(partition, PartitionState.NON_EXISTENT)

    def put_partition_state(self, partition: TopicPartition, state: PartitionState) -> None:
        """Remember the state of a partition."""
        if self._on_state_change is not None:
            self._tell(partition, None, self.partition_state(partition), state)
        self._partition_states[partition] = state
        if state in _LEADERLESS:
            self._leaderless.add(partition)
        else:
            self._leaderless.discard(partition)

    def replica_state(self, replica: Replica) -> ReplicaState:
        """Return the state of a replica."""
        return self._replica_states.get(replica, ReplicaState.NON_EXISTENT)

    def put_replica_state(self, replica: Replica, state: ReplicaState) -> None:
        """Remember the state of a replica."""
        if self._on_state_change is not None:
            self._tell(*replica, self.replica_state(replica), state)
        if state is ReplicaState.NON_EXISTENT:
            self._replica_states.pop(replica, None)
        else:
            self._replica_states[replica] = state

    def _tell(
        self,
        partition: TopicPartition,
        broker_id: BrokerId | None,
        before: PartitionState | ReplicaState,
        after: PartitionState | ReplicaState,
    ) -> None:
        if self._on_state_change is not None:
            leadership = self.leaderships.get(partition)
            self._on_state_change(
                StateChange(self.epoch, partition, broker_id, before.value, after.value, leadership)
            )

    def leaderless_partitions(self) -> list[TopicPartition]:
        """Return the partitions that wait for a leader and are not going away."""
        return sorted(
            partition for partition in self._leaderless if partition.topic not in self.deletion_queued
        )

    def partitions_with_dead_leader(self) -> list[TopicPartition]:
        """Return the partitions whose leader cannot serve, of topics that are not going away."""
        return [
            partition
            for partition, leadership in self.leaderships.items()
            if partition.topic not in self.deletion_queued
            and not self.is_online(partition, leadership.leader)
        ]
