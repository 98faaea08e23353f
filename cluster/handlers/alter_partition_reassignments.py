"""AlterPartitionReassignments 0: begin moving partitions to other brokers, or cancel moves.

Only the active controller answers. A move that has begun answers NONE; ListPartitionReassignments shows how
far it is.
"""

from typing import TYPE_CHECKING

from cluster.handlers.failures import EXPECTED_FAILURES, failure_of
from wire.apis import ApiKey
from wire.errors import ApiError
from wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from wire.types import TopicPartition

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasController
    from cluster.handlers.registry import Registry


def register(registry: "Registry") -> None:
    """Serve AlterPartitionReassignments."""
    registry.add_async(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 0, handle)


async def handle(call: "ApiCall[HasController]") -> AlterPartitionReassignmentsResponse:
    """Have the controller begin or cancel each move; each has its own error."""
    request: AlterPartitionReassignmentsRequest = call.request
    targets = {
        TopicPartition(topic.name, partition.partition_index): partition.replicas
        for topic in request.topics
        for partition in topic.partitions
    }
    try:
        errors = await call.broker.controller.alter_partition_reassignments(targets)
    except EXPECTED_FAILURES as exception:
        failure = failure_of(exception)
        return AlterPartitionReassignmentsResponse(error_code=failure.code, error_message=failure.message)
    return AlterPartitionReassignmentsResponse(
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    _result(index, errors.get(TopicPartition(topic.name, index)))
                    for index in (partition.partition_index for partition in topic.partitions)
                ],
            )
            for topic in request.topics
        ],
    )


def _result(index: int, error: ApiError | None) -> ReassignablePartitionResponse:
    if error is None:
        return ReassignablePartitionResponse(partition_index=index, error_code=0, error_message=None)
    return ReassignablePartitionResponse(
        partition_index=index, error_code=error.error, error_message=error.message
    )
