"""Fetch: read record batches, as a consumer or as a follower.

Partitions are served in the order of the request. A session (KIP-227) names only what changed.

Versions:
    1: throttle time.
    2: record format 1.
    3: a size limit for the whole answer.
    4: isolation level, last stable offset, aborted transactions; record format 2.
    5: log start offset, both ways.
    6: the answer may be KAFKA_STORAGE_ERROR.
    7: fetch sessions.
    8: on a quota violation the answer comes before the throttling.
    9: current leader epoch, for fencing (KIP-320).
    10: zstd.
    11: rack, preferred read replica (KIP-392).
    12: flexible; last fetched epoch, diverging epoch, current leader; the cluster id as a tag.
    13: topic ids instead of names (KIP-516).
    14: the answer may be OFFSET_MOVED_TO_TIERED_STORAGE.
    15: the replica id moves into a tagged struct, with the broker epoch (KIP-903).
    16: endpoints of new leaders (KIP-951).
    17: the follower's directory id (KRaft only).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UUID,
    Records,
    Request,
    Response,
    Struct,
    array,
    field,
)
from wire.types import BrokerEpoch, BrokerId, LeaderEpoch, Offset, ProducerId, TopicId


class ReplicaState(Struct):
    replica_id: BrokerId = field(INT32, default=-1)
    replica_epoch: BrokerEpoch = field(INT64, default=-1)


class FetchPartition(Struct):
    partition: int = field(INT32)
    current_leader_epoch: LeaderEpoch = field(INT32, versions="9+", default=-1, ignorable=True)
    fetch_offset: Offset = field(INT64)
    last_fetched_epoch: LeaderEpoch = field(INT32, versions="12+", default=-1)
    log_start_offset: Offset = field(INT64, versions="5+", default=-1, ignorable=True)
    partition_max_bytes: int = field(INT32)
    replica_directory_id: bytes = field(UUID, versions="17+", tag=0, ignorable=True)


class FetchTopic(Struct):
    topic: str = field(STRING, versions="0-12", ignorable=True)
    topic_id: TopicId = field(UUID, versions="13+", ignorable=True)
    partitions: Sequence[FetchPartition] = field(array(FetchPartition))


class ForgottenTopic(Struct):
    topic: str = field(STRING, versions="7-12", ignorable=True)
    topic_id: TopicId = field(UUID, versions="13+", ignorable=True)
    partitions: Sequence[int] = field(array(INT32))


class FetchRequest(Request, api=ApiKey.FETCH, versions="0-17", flexible="12+"):
    cluster_id: str | None = field(
        STRING, versions="12+", nullable="12+", default=None, tag=0, ignorable=True
    )
    replica_id: BrokerId = field(INT32, versions="0-14", default=-1)
    replica_state: ReplicaState = field(ReplicaState, versions="15+", tag=1)
    max_wait_ms: int = field(INT32)
    min_bytes: int = field(INT32)
    max_bytes: int = field(INT32, versions="3+", default=0x7FFFFFFF, ignorable=True)
    isolation_level: int = field(INT8, versions="4+", ignorable=True)
    session_id: int = field(INT32, versions="7+", ignorable=True)
    session_epoch: int = field(INT32, versions="7+", default=-1, ignorable=True)
    topics: Sequence[FetchTopic] = field(array(FetchTopic))
    forgotten_topics_data: Sequence[ForgottenTopic] = field(array(ForgottenTopic), versions="7+")
    rack_id: str = field(STRING, versions="11+", ignorable=True)


class EpochEndOffset(Struct):
    epoch: LeaderEpoch = field(INT32, default=-1)
    end_offset: Offset = field(INT64, default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: BrokerId = field(INT32, default=-1)
    leader_epoch: LeaderEpoch = field(INT32, default=-1)


class SnapshotId(Struct):
    end_offset: Offset = field(INT64, default=-1)
    epoch: LeaderEpoch = field(INT32, default=-1)


class AbortedTransaction(Struct):
    producer_id: ProducerId = field(INT64)
    first_offset: Offset = field(INT64)


class PartitionData(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    high_watermark: Offset = field(INT64)
    last_stable_offset: Offset = field(INT64, versions="4+", default=-1, ignorable=True)
    log_start_offset: Offset = field(INT64, versions="5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = field(EpochEndOffset, versions="12+", tag=0)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, versions="12+", tag=1)
    snapshot_id: SnapshotId = field(SnapshotId, versions="12+", tag=2)
    aborted_transactions: Sequence[AbortedTransaction] | None = field(
        array(AbortedTransaction), versions="4+", nullable="4+", ignorable=True
    )
    preferred_read_replica: BrokerId = field(INT32, versions="11+", default=-1)
    records: Records = field(RECORDS, nullable="0+")


class FetchableTopicResponse(Struct):
    topic: str = field(STRING, versions="0-12", ignorable=True)
    topic_id: TopicId = field(UUID, versions="13+", ignorable=True)
    partitions: Sequence[PartitionData] = field(array(PartitionData))


class NodeEndpoint(Struct):
    node_id: BrokerId = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable="0+", default=None)


class FetchResponse(Response, api=ApiKey.FETCH, versions="0-17", flexible="12+"):
    throttle_time_ms: int = field(INT32, versions="1+", ignorable=True)
    error_code: int = field(INT16, versions="7+", ignorable=True)
    session_id: int = field(INT32, versions="7+")
    responses: Sequence[FetchableTopicResponse] = field(array(FetchableTopicResponse))
    node_endpoints: Sequence[NodeEndpoint] = field(array(NodeEndpoint), versions="16+", tag=0)
