"""ListOffsets: find an offset by timestamp, or the first, last or largest-timestamp one.

Negative timestamps ask for special offsets: -1 latest, -2 earliest, -3 largest timestamp, -4 earliest local, -5
last tiered.

Versions:
    0: several offsets by segment.
    1: one offset, with its timestamp.
    2: isolation level; throttle time.
    3: on a quota violation the answer comes before the throttling.
    4: leader epoch, both ways.
    5: the answer may be OFFSET_NOT_AVAILABLE.
    6: compact lengths and tagged fields (flexible).
    7: largest timestamp (KIP-734).
    8: earliest local offset (KIP-405).
    9: last tiered offset (KIP-1005).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT8, INT16, INT32, INT64, STRING, Request, Response, Struct, array, field
from wire.types import BrokerId, LeaderEpoch, Offset, WallMs


class ListOffsetsPartition(Struct):
    partition_index: int = field(INT32)
    current_leader_epoch: LeaderEpoch = field(INT32, versions="4+", default=-1, ignorable=True)
    timestamp: WallMs = field(INT64)
    max_num_offsets: int = field(INT32, versions="0", default=1)


class ListOffsetsTopic(Struct):
    name: str = field(STRING)
    partitions: Sequence[ListOffsetsPartition] = field(array(ListOffsetsPartition))


class ListOffsetsRequest(Request, api=ApiKey.LIST_OFFSETS, versions="0-9", flexible="6+"):
    replica_id: BrokerId = field(INT32)
    isolation_level: int = field(INT8, versions="2+")
    topics: Sequence[ListOffsetsTopic] = field(array(ListOffsetsTopic))


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    old_style_offsets: Sequence[Offset] = field(array(INT64), versions="0")
    timestamp: WallMs = field(INT64, versions="1+", default=-1)
    offset: Offset = field(INT64, versions="1+", default=-1)
    leader_epoch: LeaderEpoch = field(INT32, versions="4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = field(STRING)
    partitions: Sequence[ListOffsetsPartitionResponse] = field(array(ListOffsetsPartitionResponse))


class ListOffsetsResponse(Response, api=ApiKey.LIST_OFFSETS, versions="0-9", flexible="6+"):
    throttle_time_ms: int = field(INT32, versions="2+", ignorable=True)
    topics: Sequence[ListOffsetsTopicResponse] = field(array(ListOffsetsTopicResponse))
