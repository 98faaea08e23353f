"""StopReplica: the controller makes a broker stop replicating partitions, or delete them.

Versions:
    1: broker epoch; partitions grouped by topic.
    2: compact lengths and tagged fields (flexible).
    3: leader epoch and deletion per partition (KIP-570).
    4: whether a KRaft controller sends it (KIP-866).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import BOOL, INT16, INT32, INT64, STRING, Request, Response, Struct, array, field
from wire.types import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch


class StopReplicaPartitionV0(Struct):
    topic_name: str = field(STRING)
    partition_index: int = field(INT32)


class StopReplicaTopicV1(Struct):
    name: str = field(STRING)
    partition_indexes: Sequence[int] = field(array(INT32))


class StopReplicaPartitionState(Struct):
    partition_index: int = field(INT32)
    leader_epoch: LeaderEpoch = field(INT32, default=-1)
    delete_partition: bool = field(BOOL)


class StopReplicaTopicState(Struct):
    topic_name: str = field(STRING)
    partition_states: Sequence[StopReplicaPartitionState] = field(array(StopReplicaPartitionState))


class StopReplicaRequest(Request, api=ApiKey.STOP_REPLICA, versions="0-4", flexible="2+"):
    controller_id: BrokerId = field(INT32)
    is_kraft_controller: bool = field(BOOL, versions="4+")
    controller_epoch: ControllerEpoch = field(INT32)
    broker_epoch: BrokerEpoch = field(INT64, versions="1+", default=-1, ignorable=True)
    delete_partitions: bool = field(BOOL, versions="0-2")
    ungrouped_partitions: Sequence[StopReplicaPartitionV0] = field(
        array(StopReplicaPartitionV0), versions="0"
    )
    topics: Sequence[StopReplicaTopicV1] = field(array(StopReplicaTopicV1), versions="1-2")
    topic_states: Sequence[StopReplicaTopicState] = field(array(StopReplicaTopicState), versions="3+")


class StopReplicaPartitionError(Struct):
    topic_name: str = field(STRING)
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


class StopReplicaResponse(Response, api=ApiKey.STOP_REPLICA, versions="0-4", flexible="2+"):
    error_code: int = field(INT16)
    partition_errors: Sequence[StopReplicaPartitionError] = field(array(StopReplicaPartitionError))
