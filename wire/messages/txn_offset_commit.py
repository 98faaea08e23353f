"""TxnOffsetCommit: commit a group's offsets as part of a transaction.

Versions:
    1: on a quota violation the answer comes before the throttling.
    2: leader epoch.
    3: flexible; member, group instance and generation, for fencing (KIP-447).
    4: the answer may be TRANSACTION_ABORTABLE (KIP-890).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT16, INT32, INT64, STRING, Request, Response, Struct, array, field
from wire.types import Generation, LeaderEpoch, Offset, ProducerEpoch, ProducerId


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = field(INT32)
    committed_offset: Offset = field(INT64)
    committed_leader_epoch: LeaderEpoch = field(INT32, versions="2+", default=-1, ignorable=True)
    committed_metadata: str | None = field(STRING, nullable="0+")


class TxnOffsetCommitRequestTopic(Struct):
    name: str = field(STRING)
    partitions: Sequence[TxnOffsetCommitRequestPartition] = field(array(TxnOffsetCommitRequestPartition))


class TxnOffsetCommitRequest(Request, api=ApiKey.TXN_OFFSET_COMMIT, versions="0-4", flexible="3+"):
    transactional_id: str = field(STRING)
    group_id: str = field(STRING)
    producer_id: ProducerId = field(INT64)
    producer_epoch: ProducerEpoch = field(INT16)
    generation_id: Generation = field(INT32, versions="3+", default=-1)
    member_id: str = field(STRING, versions="3+")
    group_instance_id: str | None = field(STRING, versions="3+", nullable="3+", default=None)
    topics: Sequence[TxnOffsetCommitRequestTopic] = field(array(TxnOffsetCommitRequestTopic))


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


class TxnOffsetCommitResponseTopic(Struct):
    name: str = field(STRING)
    partitions: Sequence[TxnOffsetCommitResponsePartition] = field(array(TxnOffsetCommitResponsePartition))


class TxnOffsetCommitResponse(Response, api=ApiKey.TXN_OFFSET_COMMIT, versions="0-4", flexible="3+"):
    throttle_time_ms: int = field(INT32)
    topics: Sequence[TxnOffsetCommitResponseTopic] = field(array(TxnOffsetCommitResponseTopic))
