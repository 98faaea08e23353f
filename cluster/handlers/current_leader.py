"""The current leader of a partition, for a client that asked the wrong broker (KIP-951)."""

from typing import TYPE_CHECKING, NamedTuple, Protocol

from cluster.handlers.context import HasMetadata, HasReplicas
from wire.types import NO_LEADER, NO_LEADER_EPOCH, BrokerId, LeaderEpoch, TopicPartition

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.replication.metadata_cache import Node


class _Broker(HasMetadata, HasReplicas, Protocol):
    """The parts of a broker that this API reaches."""


class CurrentLeader(NamedTuple):
    """A leader as this broker knows it, and its endpoint on the client's listener."""

    leader_id: BrokerId
    leader_epoch: LeaderEpoch
    node: "Node | None"


def current_leader(call: "ApiCall[_Broker]", topic_partition: TopicPartition) -> CurrentLeader:
    """Return the leader from the replica here, which learns of changes first, else from the metadata."""
    broker = call.broker
    partition = broker.replicas.hosted.get(topic_partition)
    if partition is not None:
        leader_id, epoch = partition.leader_id, partition.leader_epoch
    else:
        state = broker.metadata.partition(*topic_partition)
        leader_id = NO_LEADER if state is None else state.leader
        epoch = NO_LEADER_EPOCH if state is None else state.leader_epoch
    return CurrentLeader(leader_id, epoch, broker.metadata.node(leader_id, call.listener_name))
