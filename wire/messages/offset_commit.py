"""OffsetCommit: store how far a group has consumed. Version 0 stores it in ZooKeeper.

Versions:
    1: generation and member; a timestamp per partition.
    2: a retention time for all instead.
    3: throttle time.
    4: on a quota violation the answer comes before the throttling.
    5: no retention time: the broker's configuration applies.
    6: leader epoch.
    7: group instance id (static membership).
    8: compact lengths and tagged fields (flexible).
    9: members of KIP-848 groups; STALE_MEMBER_EPOCH, GROUP_ID_NOT_FOUND.
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT16, INT32, INT64, STRING, Request, Response, Struct, array, field
from wire.types import Generation, LeaderEpoch, Offset, WallMs


class OffsetCommitRequestPartition(Struct):
    partition_index: int = field(INT32)
    committed_offset: Offset = field(INT64)
    committed_leader_epoch: LeaderEpoch = field(INT32, versions="6+", default=-1, ignorable=True)
    commit_timestamp: WallMs = field(INT64, versions="1", default=-1)
    committed_metadata: str | None = field(STRING, nullable="0+")


class OffsetCommitRequestTopic(Struct):
    name: str = field(STRING)
    partitions: Sequence[OffsetCommitRequestPartition] = field(array(OffsetCommitRequestPartition))


class OffsetCommitRequest(Request, api=ApiKey.OFFSET_COMMIT, versions="0-9", flexible="8+"):
    group_id: str = field(STRING)
    generation_id_or_member_epoch: Generation = field(INT32, versions="1+", default=-1, ignorable=True)
    member_id: str = field(STRING, versions="1+", ignorable=True)
    group_instance_id: str | None = field(STRING, versions="7+", nullable="7+", default=None)
    retention_time_ms: int = field(INT64, versions="2-4", default=-1, ignorable=True)
    topics: Sequence[OffsetCommitRequestTopic] = field(array(OffsetCommitRequestTopic))


class OffsetCommitResponsePartition(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


class OffsetCommitResponseTopic(Struct):
    name: str = field(STRING)
    partitions: Sequence[OffsetCommitResponsePartition] = field(array(OffsetCommitResponsePartition))


class OffsetCommitResponse(Response, api=ApiKey.OFFSET_COMMIT, versions="0-9", flexible="8+"):
    throttle_time_ms: int = field(INT32, versions="3+", ignorable=True)
    topics: Sequence[OffsetCommitResponseTopic] = field(array(OffsetCommitResponseTopic))
