"""DescribeProducers 0: the idempotent and transactional producers that a replica of a partition knows of.

Any replica answers, leader or follower: a tool compares them if a transaction hangs (KIP-664).
"""

from typing import TYPE_CHECKING

from cluster.handlers.failures import EXPECTED_FAILURES, failure_of
from wire.apis import ApiKey
from wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from wire.types import NO_LEADER_EPOCH, NO_OFFSET, TopicPartition

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasReplicas
    from cluster.handlers.registry import Registry


def register(registry: "Registry") -> None:
    """Serve DescribeProducers."""
    registry.add(ApiKey.DESCRIBE_PRODUCERS, 0, 0, begin)


def begin(call: "ApiCall[HasReplicas]") -> None:
    """Describe the producers of each partition hosted here; each other one has its own error."""
    request: DescribeProducersRequest = call.request
    call.respond(
        DescribeProducersResponse(
            topics=[
                TopicResponse(
                    name=topic.name,
                    partitions=[
                        _partition(call, TopicPartition(topic.name, index))
                        for index in topic.partition_indexes
                    ],
                )
                for topic in request.topics
            ]
        )
    )


def _partition(call: "ApiCall[HasReplicas]", partition: TopicPartition) -> PartitionResponse:
    try:
        log = call.broker.replicas.partition_or_error(partition).local_log(
            NO_LEADER_EPOCH, require_leader=False
        )
    except EXPECTED_FAILURES as exception:
        failure = failure_of(exception)
        return PartitionResponse(
            partition_index=partition.partition,
            error_code=failure.code,
            error_message=failure.message or failure.error.text,
        )
    producers = [
        ProducerState(
            producer_id=entry.producer_id,
            producer_epoch=entry.epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=NO_OFFSET
            if entry.transaction_first_offset is None
            else entry.transaction_first_offset,
        )
        for entry in log.producer_state.active().values()
    ]
    return PartitionResponse(partition_index=partition.partition, active_producers=producers)
