"""DeleteRecords: advance the log start offset of partitions.

Versions:
    1: on a quota violation the answer comes before the throttling.
    2: compact lengths and tagged fields (flexible).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT16, INT32, INT64, STRING, Request, Response, Struct, array, field
from wire.types import Offset


class DeleteRecordsPartition(Struct):
    partition_index: int = field(INT32)
    offset: Offset = field(INT64)


class DeleteRecordsTopic(Struct):
    name: str = field(STRING)
    partitions: Sequence[DeleteRecordsPartition] = field(array(DeleteRecordsPartition))


class DeleteRecordsRequest(Request, api=ApiKey.DELETE_RECORDS, versions="0-2", flexible="2+"):
    topics: Sequence[DeleteRecordsTopic] = field(array(DeleteRecordsTopic))
    timeout_ms: int = field(INT32)


class DeleteRecordsPartitionResult(Struct):
    partition_index: int = field(INT32)
    low_watermark: Offset = field(INT64)
    error_code: int = field(INT16)


class DeleteRecordsTopicResult(Struct):
    name: str = field(STRING)
    partitions: Sequence[DeleteRecordsPartitionResult] = field(array(DeleteRecordsPartitionResult))


class DeleteRecordsResponse(Response, api=ApiKey.DELETE_RECORDS, versions="0-2", flexible="2+"):
    throttle_time_ms: int = field(INT32)
    topics: Sequence[DeleteRecordsTopicResult] = field(array(DeleteRecordsTopicResult))
