"""CreatePartitions: add partitions to topics.

Versions:
    1: on a quota violation the answer comes before the throttling.
    2: compact lengths and tagged fields (flexible).
    3: the answer may be THROTTLING_QUOTA_EXCEEDED.
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import BOOL, INT16, INT32, STRING, Request, Response, Struct, array, field
from wire.types import BrokerId


class CreatePartitionsAssignment(Struct):
    broker_ids: Sequence[BrokerId] = field(array(INT32))


class CreatePartitionsTopic(Struct):
    name: str = field(STRING)
    count: int = field(INT32)
    assignments: Sequence[CreatePartitionsAssignment] | None = field(
        array(CreatePartitionsAssignment), nullable="0+"
    )


class CreatePartitionsRequest(Request, api=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+"):
    topics: Sequence[CreatePartitionsTopic] = field(array(CreatePartitionsTopic))
    timeout_ms: int = field(INT32)
    validate_only: bool = field(BOOL)


class CreatePartitionsTopicResult(Struct):
    name: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)


class CreatePartitionsResponse(Response, api=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+"):
    throttle_time_ms: int = field(INT32)
    results: Sequence[CreatePartitionsTopicResult] = field(array(CreatePartitionsTopicResult))
