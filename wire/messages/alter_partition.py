"""AlterPartition: a leader asks the controller to change the ISR (KIP-497).

Ottla's own leaders write the partition's znode instead; this is served for Kafka's leaders.

Versions:
    1: leader recovery state (KIP-704).
    2: topic ids instead of names; INELIGIBLE_REPLICA, NEW_LEADER_ELECTED.
    3: the broker epoch of each ISR member (KIP-903).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT8, INT16, INT32, INT64, STRING, UUID, Request, Response, Struct, array, field
from wire.types import BrokerEpoch, BrokerId, LeaderEpoch, TopicId, ZkVersion


class BrokerState(Struct):
    broker_id: BrokerId = field(INT32)
    broker_epoch: BrokerEpoch = field(INT64, default=-1)


class PartitionData(Struct):
    partition_index: int = field(INT32)
    leader_epoch: LeaderEpoch = field(INT32)
    new_isr: Sequence[BrokerId] = field(array(INT32), versions="0-2")
    new_isr_with_epochs: Sequence[BrokerState] = field(array(BrokerState), versions="3+")
    leader_recovery_state: int = field(INT8, versions="1+")
    partition_epoch: ZkVersion = field(INT32)


class TopicData(Struct):
    topic_name: str = field(STRING, versions="0-1", ignorable=True)
    topic_id: TopicId = field(UUID, versions="2+", ignorable=True)
    partitions: Sequence[PartitionData] = field(array(PartitionData))


class AlterPartitionRequest(Request, api=ApiKey.ALTER_PARTITION, versions="0-3", flexible="0+"):
    broker_id: BrokerId = field(INT32)
    broker_epoch: BrokerEpoch = field(INT64, default=-1)
    topics: Sequence[TopicData] = field(array(TopicData))


class PartitionDataResponse(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    leader_id: BrokerId = field(INT32)
    leader_epoch: LeaderEpoch = field(INT32)
    isr: Sequence[BrokerId] = field(array(INT32))
    leader_recovery_state: int = field(INT8, versions="1+", ignorable=True)
    partition_epoch: ZkVersion = field(INT32)


class TopicDataResponse(Struct):
    topic_name: str = field(STRING, versions="0-1", ignorable=True)
    topic_id: TopicId = field(UUID, versions="2+", ignorable=True)
    partitions: Sequence[PartitionDataResponse] = field(array(PartitionDataResponse))


class AlterPartitionResponse(Response, api=ApiKey.ALTER_PARTITION, versions="0-3", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    topics: Sequence[TopicDataResponse] = field(array(TopicDataResponse))
