"""OffsetForLeaderEpoch: where a leader epoch ends in the leader's log, so that others know where to truncate (KIP-101).

Versions:
    1: the epoch that the offset belongs to.
    2: current leader epoch; throttle time.
    3: replica id.
    4: compact lengths and tagged fields (flexible).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT16, INT32, INT64, STRING, Request, Response, Struct, array, field
from wire.types import BrokerId, LeaderEpoch, Offset


class OffsetForLeaderPartition(Struct):
    partition: int = field(INT32)
    current_leader_epoch: LeaderEpoch = field(INT32, versions="2+", default=-1, ignorable=True)
    leader_epoch: LeaderEpoch = field(INT32)


class OffsetForLeaderTopic(Struct):
    topic: str = field(STRING)
    partitions: Sequence[OffsetForLeaderPartition] = field(array(OffsetForLeaderPartition))


class OffsetForLeaderEpochRequest(Request, api=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions="0-4", flexible="4+"):
    replica_id: BrokerId = field(INT32, versions="3+", default=-2, ignorable=True)
    topics: Sequence[OffsetForLeaderTopic] = field(array(OffsetForLeaderTopic))


class EpochEndOffset(Struct):
    error_code: int = field(INT16)
    partition: int = field(INT32)
    leader_epoch: LeaderEpoch = field(INT32, versions="1+", default=-1, ignorable=True)
    end_offset: Offset = field(INT64, default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: str = field(STRING)
    partitions: Sequence[EpochEndOffset] = field(array(EpochEndOffset))


class OffsetForLeaderEpochResponse(
    Response, api=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions="0-4", flexible="4+"
):
    throttle_time_ms: int = field(INT32, versions="2+", ignorable=True)
    topics: Sequence[OffsetForLeaderTopicResult] = field(array(OffsetForLeaderTopicResult))
