"""Decodes the controller's orders, and encodes the answers, in all versions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wire.errors import Error
from wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from wire.messages.stop_replica import StopReplicaRequest
from wire.messages.update_metadata import UpdateMetadataRequest
from wire.types import (
    LEADER_DURING_DELETE,
    NO_LEADER_EPOCH,
    NO_TOPIC_ID,
    BrokerId,
    LeaderEpoch,
    TopicId,
    TopicPartition,
)

if TYPE_CHECKING:
    from storage.log import Log

TOPIC_IDS_SINCE: Final = 5
"""The version from which LeaderAndIsr is answered by topic id."""


@dataclass(slots=True, eq=False)
class RoleOrder:
    """One partition that a LeaderAndIsr request changes."""

    topic_partition: TopicPartition
    topic_id: TopicId
    state: LeaderAndIsrPartitionState
    log: "Log | None" = None


def orders_in(request: LeaderAndIsrRequest) -> list[RoleOrder]:
    """Return the partitions that a request changes, whichever of its two forms it has."""
    orders = [
        RoleOrder(TopicPartition(topic.topic_name, state.partition_index), TopicId(topic.topic_id), state)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    orders.extend(
        RoleOrder(TopicPartition(state.topic_name, state.partition_index), NO_TOPIC_ID, state)
        for state in request.ungrouped_partition_states
    )
    return orders


def stops_in(request: StopReplicaRequest) -> Iterable[tuple[TopicPartition, LeaderEpoch, bool]]:
    """Return partition, leader epoch and whether to delete, whichever of its three forms the request has."""
    for topic in request.topic_states:
        for state in topic.partition_states:
            key = TopicPartition(topic.topic_name, state.partition_index)
            yield key, LeaderEpoch(state.leader_epoch), state.delete_partition
    for grouped in request.topics:
        for index in grouped.partition_indexes:
            yield TopicPartition(grouped.name, index), NO_LEADER_EPOCH, request.delete_partitions
    for one in request.ungrouped_partitions:
        key = TopicPartition(one.topic_name, one.partition_index)
        yield key, NO_LEADER_EPOCH, request.delete_partitions


def others_in(
    request: UpdateMetadataRequest, broker_id: BrokerId
) -> Iterable[tuple[TopicPartition, TopicId, LeaderEpoch]]:
    """Return the partitions that a request assigns to other brokers only, with their leaders' epochs."""
    for topic in request.topic_states:
        for state in topic.partition_states:
            if broker_id not in state.replicas and state.leader != LEADER_DURING_DELETE:
                key = TopicPartition(topic.topic_name, state.partition_index)
                yield key, TopicId(topic.topic_id), LeaderEpoch(state.leader_epoch)
    for state in request.ungrouped_partition_states:
        if broker_id not in state.replicas and state.leader != LEADER_DURING_DELETE:
            key = TopicPartition(state.topic_name, state.partition_index)
            yield key, NO_TOPIC_ID, LeaderEpoch(state.leader_epoch)


def answer_to(
    version: int, error: Error, errors: Mapping[TopicPartition, Error], orders: Sequence[RoleOrder]
) -> LeaderAndIsrResponse:
    """Return the response of one version: errors by topic id, or by name for older controllers."""
    if version < TOPIC_IDS_SINCE:
        return LeaderAndIsrResponse(
            error_code=int(error),
            partition_errors=[
                LeaderAndIsrPartitionError(
                    topic_name=key.topic, partition_index=key.partition, error_code=int(code)
                )
                for key, code in errors.items()
            ],
        )
    topics: dict[TopicId, list[LeaderAndIsrPartitionError]] = {}
    for order in orders:
        key = order.topic_partition
        if key in errors:
            topics.setdefault(order.topic_id, []).append(
                LeaderAndIsrPartitionError(partition_index=key.partition, error_code=int(errors[key]))
            )
    return LeaderAndIsrResponse(
        error_code=int(error),
        topics=[
            LeaderAndIsrTopicError(topic_id=topic_id, partition_errors=partition_errors)
            for topic_id, partition_errors in topics.items()
        ],
    )
