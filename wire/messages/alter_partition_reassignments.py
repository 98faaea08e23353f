"""AlterPartitionReassignments: move partitions to other replicas, or cancel a move (KIP-455).

``replicas`` is None to cancel.
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT16, INT32, STRING, Request, Response, Struct, array, field
from wire.types import BrokerId


class ReassignablePartition(Struct):
    partition_index: int = field(INT32)
    replicas: Sequence[BrokerId] | None = field(array(INT32), nullable="0+", default=None)


class ReassignableTopic(Struct):
    name: str = field(STRING)
    partitions: Sequence[ReassignablePartition] = field(array(ReassignablePartition))


class AlterPartitionReassignmentsRequest(
    Request, api=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions="0", flexible="0+"
):
    timeout_ms: int = field(INT32, default=60000)
    topics: Sequence[ReassignableTopic] = field(array(ReassignableTopic))


class ReassignablePartitionResponse(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")


class ReassignableTopicResponse(Struct):
    name: str = field(STRING)
    partitions: Sequence[ReassignablePartitionResponse] = field(array(ReassignablePartitionResponse))


class AlterPartitionReassignmentsResponse(
    Response, api=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions="0", flexible="0+"
):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    responses: Sequence[ReassignableTopicResponse] = field(array(ReassignableTopicResponse))
