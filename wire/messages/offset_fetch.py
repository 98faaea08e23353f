"""OffsetFetch: read what a group has committed. Version 0 reads it from ZooKeeper.

Versions:
    1: from ``__consumer_offsets``.
    2: None for all topics; one error for the group.
    3: throttle time.
    4: on a quota violation the answer comes before the throttling.
    5: leader epoch.
    6: compact lengths and tagged fields (flexible).
    7: require_stable: wait out open transactions (KIP-447).
    8: several groups at once.
    9: member id and epoch of KIP-848 groups.
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import BOOL, INT16, INT32, INT64, STRING, Request, Response, Struct, array, field
from wire.types import LeaderEpoch, Offset


class OffsetFetchRequestTopic(Struct):
    name: str = field(STRING)
    partition_indexes: Sequence[int] = field(array(INT32))


class OffsetFetchRequestTopics(Struct):
    name: str = field(STRING)
    partition_indexes: Sequence[int] = field(array(INT32))


class OffsetFetchRequestGroup(Struct):
    group_id: str = field(STRING)
    member_id: str | None = field(STRING, versions="9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int = field(INT32, versions="9+", default=-1, ignorable=True)
    topics: Sequence[OffsetFetchRequestTopics] | None = field(array(OffsetFetchRequestTopics), nullable="0+")


class OffsetFetchRequest(Request, api=ApiKey.OFFSET_FETCH, versions="0-9", flexible="6+"):
    group_id: str = field(STRING, versions="0-7")
    topics: Sequence[OffsetFetchRequestTopic] | None = field(
        array(OffsetFetchRequestTopic), versions="0-7", nullable="2-7"
    )
    groups: Sequence[OffsetFetchRequestGroup] = field(array(OffsetFetchRequestGroup), versions="8+")
    require_stable: bool = field(BOOL, versions="7+")


class OffsetFetchResponsePartition(Struct):
    partition_index: int = field(INT32)
    committed_offset: Offset = field(INT64)
    committed_leader_epoch: LeaderEpoch = field(INT32, versions="5-7", default=-1, ignorable=True)
    metadata: str | None = field(STRING, nullable="0+")
    error_code: int = field(INT16)


class OffsetFetchResponseTopic(Struct):
    name: str = field(STRING)
    partitions: Sequence[OffsetFetchResponsePartition] = field(array(OffsetFetchResponsePartition))


class OffsetFetchResponsePartitions(Struct):
    partition_index: int = field(INT32)
    committed_offset: Offset = field(INT64)
    committed_leader_epoch: LeaderEpoch = field(INT32, default=-1, ignorable=True)
    metadata: str | None = field(STRING, nullable="0+")
    error_code: int = field(INT16)


class OffsetFetchResponseTopics(Struct):
    name: str = field(STRING)
    partitions: Sequence[OffsetFetchResponsePartitions] = field(array(OffsetFetchResponsePartitions))


class OffsetFetchResponseGroup(Struct):
    group_id: str = field(STRING)
    topics: Sequence[OffsetFetchResponseTopics] = field(array(OffsetFetchResponseTopics))
    error_code: int = field(INT16)


class OffsetFetchResponse(Response, api=ApiKey.OFFSET_FETCH, versions="0-9", flexible="6+"):
    throttle_time_ms: int = field(INT32, versions="3+", ignorable=True)
    topics: Sequence[OffsetFetchResponseTopic] = field(array(OffsetFetchResponseTopic), versions="0-7")
    error_code: int = field(INT16, versions="2-7", ignorable=True)
    groups: Sequence[OffsetFetchResponseGroup] = field(array(OffsetFetchResponseGroup), versions="8+")
