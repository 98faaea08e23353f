"""UpdateMetadata: who is alive and who leads, from the controller, for brokers' metadata caches.

Versions:
    1: several endpoints a broker.
    2: rack.
    3: listener names.
    4: offline replicas.
    5: broker epoch; partitions grouped by topic.
    6: compact lengths and tagged fields (flexible).
    7: topic ids.
    8: whether a KRaft controller sends it, and full or incremental (KIP-866).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import BOOL, INT8, INT16, INT32, INT64, STRING, UUID, Request, Response, Struct, array, field
from wire.types import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicId, ZkVersion


class UpdateMetadataPartitionState(Struct):
    topic_name: str = field(STRING, versions="0-4", ignorable=True)
    partition_index: int = field(INT32)
    controller_epoch: ControllerEpoch = field(INT32)
    leader: BrokerId = field(INT32)
    leader_epoch: LeaderEpoch = field(INT32)
    isr: Sequence[BrokerId] = field(array(INT32))
    zk_version: ZkVersion = field(INT32)
    replicas: Sequence[BrokerId] = field(array(INT32))
    offline_replicas: Sequence[BrokerId] = field(array(INT32), versions="4+", ignorable=True)


class UpdateMetadataTopicState(Struct):
    topic_name: str = field(STRING)
    topic_id: TopicId = field(UUID, versions="7+", ignorable=True)
    partition_states: Sequence[UpdateMetadataPartitionState] = field(array(UpdateMetadataPartitionState))


class UpdateMetadataEndpoint(Struct):
    port: int = field(INT32)
    host: str = field(STRING)
    listener: str = field(STRING, versions="3+", ignorable=True)
    security_protocol: int = field(INT16)


class UpdateMetadataBroker(Struct):
    id: BrokerId = field(INT32)
    v0_host: str = field(STRING, versions="0", ignorable=True)
    v0_port: int = field(INT32, versions="0", ignorable=True)
    endpoints: Sequence[UpdateMetadataEndpoint] = field(
        array(UpdateMetadataEndpoint), versions="1+", ignorable=True
    )
    rack: str | None = field(STRING, versions="2+", nullable="0+", ignorable=True)


class UpdateMetadataRequest(Request, api=ApiKey.UPDATE_METADATA, versions="0-8", flexible="6+"):
    controller_id: BrokerId = field(INT32)
    is_kraft_controller: bool = field(BOOL, versions="8+")
    type: int = field(INT8, versions="8+", tag=0)
    controller_epoch: ControllerEpoch = field(INT32)
    broker_epoch: BrokerEpoch = field(INT64, versions="5+", default=-1, ignorable=True)
    ungrouped_partition_states: Sequence[UpdateMetadataPartitionState] = field(
        array(UpdateMetadataPartitionState), versions="0-4"
    )
    topic_states: Sequence[UpdateMetadataTopicState] = field(array(UpdateMetadataTopicState), versions="5+")
    live_brokers: Sequence[UpdateMetadataBroker] = field(array(UpdateMetadataBroker))


class UpdateMetadataResponse(Response, api=ApiKey.UPDATE_METADATA, versions="0-8", flexible="6+"):
    error_code: int = field(INT16)
