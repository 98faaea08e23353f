"""The Metadata answer for a topic, cached for as long as the topic and the brokers stay as they are."""

from typing import TYPE_CHECKING, NamedTuple

from wire.errors import Error
from wire.internal_topics import INTERNAL_TOPICS
from wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from wire.types import NO_LEADER, NO_TOPIC_ID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cluster.replication.metadata_cache import ClusterSnapshot, LiveBroker, Partitions
    from wire.messages.update_metadata import UpdateMetadataPartitionState
    from wire.types import BrokerId


class View(NamedTuple):
    """Everything that an answer depends on besides the cluster itself.

    Attributes:
        listener: The client's listener: brokers are reachable for it if they have it too.
        hides_dead: Whether replicas on dead brokers are left out and cause an error, as in version 0.
        names_listener: Whether a leader without the listener is LISTENER_NOT_FOUND, as from version 6 on.
    """

    listener: str
    hides_dead: bool
    names_listener: bool


class TopicMetadata:
    """Caches the topic answers of one broker; an entry is valid while topic and brokers are the same objects."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: dict[tuple[str, View], tuple[object, object, MetadataResponseTopic]] = {}

    def topic(self, snapshot: "ClusterSnapshot", name: str, view: View) -> MetadataResponseTopic | None:
        """Return the answer for a topic; None if it does not exist."""
        partitions = snapshot.topics.get(name)
        if partitions is None:
            self._made.pop((name, view), None)
            return None
        made = self._made.get((name, view))
        if made is not None and made[0] is partitions and made[1] is snapshot.brokers:
            return made[2]
        topic = MetadataResponseTopic(
            name=name,
            topic_id=snapshot.topic_ids.get(name, NO_TOPIC_ID),
            is_internal=name in INTERNAL_TOPICS,
            partitions=_partitions(partitions, snapshot.brokers, view),
        )
        self._made[name, view] = (partitions, snapshot.brokers, topic)
        return topic


def _partitions(
    partitions: "Partitions", brokers: "Mapping[BrokerId, LiveBroker]", view: View
) -> list[MetadataResponsePartition]:
    reachable = {broker.broker_id for broker in brokers.values() if view.listener in broker.nodes}
    return [_partition(partitions[index], brokers, reachable, view) for index in sorted(partitions)]


def _partition(
    state: "UpdateMetadataPartitionState",
    brokers: "Mapping[BrokerId, LiveBroker]",
    reachable: "set[BrokerId]",
    view: View,
) -> MetadataResponsePartition:
    leader, error = state.leader, Error.NONE
    replicas: Sequence[BrokerId] = state.replicas
    isr: Sequence[BrokerId] = state.isr
    if view.hides_dead:
        replicas = [replica for replica in replicas if replica in reachable]
        isr = [replica for replica in isr if replica in reachable]
    if leader not in reachable:
        named = leader in brokers and view.names_listener
        leader, error = NO_LEADER, Error.LISTENER_NOT_FOUND if named else Error.LEADER_NOT_AVAILABLE
    elif len(replicas) < len(state.replicas) or len(isr) < len(state.isr):
        error = Error.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=state.partition_index,
        leader_id=leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=state.offline_replicas,
    )
