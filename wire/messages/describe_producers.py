"""DescribeProducers: the producers that a partition remembers, and their open transactions (KIP-664)."""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT16, INT32, INT64, STRING, Request, Response, Struct, array, field
from wire.types import Offset, ProducerEpoch, ProducerId, WallMs


class TopicRequest(Struct):
    name: str = field(STRING)
    partition_indexes: Sequence[int] = field(array(INT32))


class DescribeProducersRequest(Request, api=ApiKey.DESCRIBE_PRODUCERS, versions="0", flexible="0+"):
    topics: Sequence[TopicRequest] = field(array(TopicRequest))


class ProducerState(Struct):
    producer_id: ProducerId = field(INT64)
    producer_epoch: ProducerEpoch = field(INT32)
    last_sequence: int = field(INT32, default=-1)
    last_timestamp: WallMs = field(INT64, default=-1)
    coordinator_epoch: int = field(INT32)
    current_txn_start_offset: Offset = field(INT64, default=-1)


class PartitionResponse(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)
    active_producers: Sequence[ProducerState] = field(array(ProducerState))


class TopicResponse(Struct):
    name: str = field(STRING)
    partitions: Sequence[PartitionResponse] = field(array(PartitionResponse))


class DescribeProducersResponse(Response, api=ApiKey.DESCRIBE_PRODUCERS, versions="0", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    topics: Sequence[TopicResponse] = field(array(TopicResponse))
