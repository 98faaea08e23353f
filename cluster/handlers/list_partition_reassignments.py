"""ListPartitionReassignments 0: the partitions that are being moved, and where to. Only the controller answers."""

from typing import TYPE_CHECKING

from cluster.handlers.failures import EXPECTED_FAILURES, failure_of
from wire.apis import ApiKey
from wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from wire.types import TopicPartition

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasController
    from cluster.handlers.registry import Registry


def register(registry: "Registry") -> None:
    """Serve ListPartitionReassignments."""
    registry.add_async(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, handle)


async def handle(call: "ApiCall[HasController]") -> ListPartitionReassignmentsResponse:
    """Answer with the moves of the requested partitions, or all of them."""
    request: ListPartitionReassignmentsRequest = call.request
    partitions = None
    if request.topics is not None:
        partitions = [
            TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes
        ]
    try:
        moves = await call.broker.controller.list_partition_reassignments(partitions)
    except EXPECTED_FAILURES as exception:
        failure = failure_of(exception)
        return ListPartitionReassignmentsResponse(error_code=failure.code, error_message=failure.message)
    by_topic: dict[str, list[OngoingPartitionReassignment]] = {}
    for partition, assignment in sorted(moves.items()):
        by_topic.setdefault(partition.topic, []).append(
            OngoingPartitionReassignment(
                partition_index=partition.partition,
                replicas=assignment.replicas,
                adding_replicas=assignment.adding,
                removing_replicas=assignment.removing,
            )
        )
    return ListPartitionReassignmentsResponse(
        error_message=None,
        topics=[OngoingTopicReassignment(name=topic, partitions=found) for topic, found in by_topic.items()],
    )
