"""Chooses the best replica for a consumer (KIP-392): one in its own rack, if there is one."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from cluster.replication.partition.partition import Partition
from wire.types import NO_BROKER, BrokerId

if TYPE_CHECKING:
    from cluster.replication.leader.fetch_service import SelectReplica
    from cluster.replication.leader.fetch_session import FetchItem, FetchParams
    from cluster.replication.metadata_cache import MetadataCache

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_ONLY: Final = "org.apache.kafka.common.replica.LeaderSelector"


def replica_selector(
    class_name: str | None, broker_id: BrokerId, metadata: "MetadataCache"
) -> "SelectReplica | None":
    """Return the selector that Kafka's ``replica.selector.class`` names; None if the leader serves all consumers.

    Raises:
        ValueError: there is none of this name.
    """
    if class_name is None or class_name == LEADER_ONLY:
        return None
    if class_name == RACK_AWARE:
        return _rack_aware(broker_id, metadata)
    raise ValueError(f"there is no replica selector {class_name}")


def _rack_aware(
    broker_id: BrokerId, metadata: "MetadataCache"
) -> Callable[[Partition, "FetchItem", "FetchParams"], BrokerId]:
    def select(partition: Partition, item: "FetchItem", params: "FetchParams") -> BrokerId:
        client = params.client
        leader = partition.leader
        if leader is None or client is None or not client.rack_id:
            return NO_BROKER
        own = metadata.node(broker_id, client.listener_name)
        if own is not None and own.rack == client.rack_id:
            return NO_BROKER
        # Only in-sync replicas that hold the offset: a consumer sent to one that lags would fall behind for good.
        near = [
            remote
            for remote in leader.remotes.values()
            if remote.broker_id in partition.isr.isr
            and remote.log_start_offset <= item.fetch_offset <= remote.log_end_offset
            and (node := metadata.node(remote.broker_id, client.listener_name)) is not None
            and node.rack == client.rack_id
        ]
        if not near:
            return NO_BROKER
        return max(near, key=lambda remote: (remote.log_end_offset, remote.last_caught_up)).broker_id

    return select
