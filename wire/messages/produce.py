"""Produce: append record batches to partitions that the receiver leads.

There is no answer where ``acks`` is 0. ``topic_data`` holds at most one batch per partition from version
3 on.

Versions:
    1: throttle time.
    2: log append time; record format 1.
    3: transactional id; record format 2.
    4: the answer may be KAFKA_STORAGE_ERROR.
    5: log start offset, so that a client can tell an expired producer id from a lost batch.
    7: zstd.
    8: which records were refused, and why (KIP-467).
    9: compact lengths and tagged fields (flexible).
    10: the current leader and its endpoint beside NOT_LEADER_OR_FOLLOWER (KIP-951).
    11: the answer may be TRANSACTION_ABORTABLE (KIP-890).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT16, INT32, INT64, RECORDS, STRING, Records, Request, Response, Struct, array, field
from wire.types import BrokerId, LeaderEpoch, Offset, WallMs


class PartitionProduceData(Struct):
    index: int = field(INT32)
    records: Records = field(RECORDS, nullable="0+")


class TopicProduceData(Struct):
    name: str = field(STRING)
    partition_data: Sequence[PartitionProduceData] = field(array(PartitionProduceData))


class ProduceRequest(Request, api=ApiKey.PRODUCE, versions="0-11", flexible="9+"):
    transactional_id: str | None = field(STRING, versions="3+", nullable="3+", default=None)
    acks: int = field(INT16)
    timeout_ms: int = field(INT32)
    topic_data: Sequence[TopicProduceData] = field(array(TopicProduceData))


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = field(INT32)
    batch_index_error_message: str | None = field(STRING, nullable="0+", default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: BrokerId = field(INT32, default=-1)
    leader_epoch: LeaderEpoch = field(INT32, default=-1)


class PartitionProduceResponse(Struct):
    index: int = field(INT32)
    error_code: int = field(INT16)
    base_offset: Offset = field(INT64)
    log_append_time_ms: WallMs = field(INT64, versions="2+", default=-1, ignorable=True)
    log_start_offset: Offset = field(INT64, versions="5+", default=-1, ignorable=True)
    record_errors: Sequence[BatchIndexAndErrorMessage] = field(
        array(BatchIndexAndErrorMessage), versions="8+", ignorable=True
    )
    error_message: str | None = field(STRING, versions="8+", nullable="8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, versions="10+", tag=0)


class TopicProduceResponse(Struct):
    name: str = field(STRING)
    partition_responses: Sequence[PartitionProduceResponse] = field(array(PartitionProduceResponse))


class NodeEndpoint(Struct):
    node_id: BrokerId = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable="0+", default=None)


class ProduceResponse(Response, api=ApiKey.PRODUCE, versions="0-11", flexible="9+"):
    responses: Sequence[TopicProduceResponse] = field(array(TopicProduceResponse))
    throttle_time_ms: int = field(INT32, versions="1+", ignorable=True)
    node_endpoints: Sequence[NodeEndpoint] = field(array(NodeEndpoint), versions="10+", tag=0)
