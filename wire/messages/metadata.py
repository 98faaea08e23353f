"""Metadata: the brokers, the controller, and the leaders of some or all topics.

``topics`` is None for all of them from version 1 on; in version 0 an empty list means all.

Versions:
    1: rack, controller id, internal topics.
    2: cluster id.
    3: throttle time.
    4: the client says whether a missing topic may be created.
    5: offline replicas.
    6: on a quota violation the answer comes before the throttling.
    7: leader epoch.
    8: authorised operations.
    9: compact lengths and tagged fields (flexible).
    10: topic ids in the answer.
    11: the cluster's authorised operations move to DescribeCluster.
    12: topics may be asked for by id.
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import BOOL, INT16, INT32, STRING, UUID, Request, Response, Struct, array, field
from wire.types import BrokerId, LeaderEpoch, TopicId


class MetadataRequestTopic(Struct):
    topic_id: TopicId = field(UUID, versions="10+", ignorable=True)
    name: str | None = field(STRING, nullable="10+")


class MetadataRequest(Request, api=ApiKey.METADATA, versions="0-12", flexible="9+"):
    topics: Sequence[MetadataRequestTopic] | None = field(array(MetadataRequestTopic), nullable="1+")
    allow_auto_topic_creation: bool = field(BOOL, versions="4+", default=True)
    include_cluster_authorized_operations: bool = field(BOOL, versions="8-10")
    include_topic_authorized_operations: bool = field(BOOL, versions="8+")


class MetadataResponseBroker(Struct):
    node_id: BrokerId = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, versions="1+", nullable="1+", default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    error_code: int = field(INT16)
    partition_index: int = field(INT32)
    leader_id: BrokerId = field(INT32)
    leader_epoch: LeaderEpoch = field(INT32, versions="7+", default=-1, ignorable=True)
    replica_nodes: Sequence[BrokerId] = field(array(INT32))
    isr_nodes: Sequence[BrokerId] = field(array(INT32))
    offline_replicas: Sequence[BrokerId] = field(array(INT32), versions="5+", ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: int = field(INT16)
    name: str | None = field(STRING, nullable="12+")
    topic_id: TopicId = field(UUID, versions="10+", ignorable=True)
    is_internal: bool = field(BOOL, versions="1+", ignorable=True)
    partitions: Sequence[MetadataResponsePartition] = field(array(MetadataResponsePartition))
    topic_authorized_operations: int = field(INT32, versions="8+", default=-2147483648)


class MetadataResponse(Response, api=ApiKey.METADATA, versions="0-12", flexible="9+"):
    throttle_time_ms: int = field(INT32, versions="3+", ignorable=True)
    brokers: Sequence[MetadataResponseBroker] = field(array(MetadataResponseBroker))
    cluster_id: str | None = field(STRING, versions="2+", nullable="2+", default=None, ignorable=True)
    controller_id: BrokerId = field(INT32, versions="1+", default=-1, ignorable=True)
    topics: Sequence[MetadataResponseTopic] = field(array(MetadataResponseTopic))
    cluster_authorized_operations: int = field(INT32, versions="8-10", default=-2147483648)
