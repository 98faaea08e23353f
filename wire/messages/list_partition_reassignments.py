"""ListPartitionReassignments: the moves in progress (KIP-455). ``topics`` is None for all."""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT16, INT32, STRING, Request, Response, Struct, array, field
from wire.types import BrokerId


class ListPartitionReassignmentsTopics(Struct):
    name: str = field(STRING)
    partition_indexes: Sequence[int] = field(array(INT32))


class ListPartitionReassignmentsRequest(
    Request, api=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions="0", flexible="0+"
):
    timeout_ms: int = field(INT32, default=60000)
    topics: Sequence[ListPartitionReassignmentsTopics] | None = field(
        array(ListPartitionReassignmentsTopics), nullable="0+", default=None
    )


class OngoingPartitionReassignment(Struct):
    partition_index: int = field(INT32)
    replicas: Sequence[BrokerId] = field(array(INT32))
    adding_replicas: Sequence[BrokerId] = field(array(INT32))
    removing_replicas: Sequence[BrokerId] = field(array(INT32))


class OngoingTopicReassignment(Struct):
    name: str = field(STRING)
    partitions: Sequence[OngoingPartitionReassignment] = field(array(OngoingPartitionReassignment))


class ListPartitionReassignmentsResponse(
    Response, api=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions="0", flexible="0+"
):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    topics: Sequence[OngoingTopicReassignment] = field(array(OngoingTopicReassignment))
