"""OffsetDelete: forget a group's offsets in some partitions (KIP-496)."""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT16, INT32, STRING, Request, Response, Struct, array, field


class OffsetDeleteRequestPartition(Struct):
    partition_index: int = field(INT32)


class OffsetDeleteRequestTopic(Struct):
    name: str = field(STRING)
    partitions: Sequence[OffsetDeleteRequestPartition] = field(array(OffsetDeleteRequestPartition))


class OffsetDeleteRequest(Request, api=ApiKey.OFFSET_DELETE, versions="0"):
    group_id: str = field(STRING)
    topics: Sequence[OffsetDeleteRequestTopic] = field(array(OffsetDeleteRequestTopic))


class OffsetDeleteResponsePartition(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


class OffsetDeleteResponseTopic(Struct):
    name: str = field(STRING)
    partitions: Sequence[OffsetDeleteResponsePartition] = field(array(OffsetDeleteResponsePartition))


class OffsetDeleteResponse(Response, api=ApiKey.OFFSET_DELETE, versions="0"):
    error_code: int = field(INT16)
    throttle_time_ms: int = field(INT32, ignorable=True)
    topics: Sequence[OffsetDeleteResponseTopic] = field(array(OffsetDeleteResponseTopic))
