"""LeaderAndIsr: which partitions a broker leads and follows, from the controller.

Versions:
    1: is_new.
    2: broker epoch; partitions grouped by topic.
    3: adding and removing replicas.
    4: compact lengths and tagged fields (flexible).
    5: topic ids; full and incremental requests (KIP-516).
    6: leader recovery state (KIP-704).
    7: whether a KRaft controller sends it (KIP-866).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import BOOL, INT8, INT16, INT32, INT64, STRING, UUID, Request, Response, Struct, array, field
from wire.types import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicId, ZkVersion


class LeaderAndIsrPartitionState(Struct):
    topic_name: str = field(STRING, versions="0-1", ignorable=True)
    partition_index: int = field(INT32)
    controller_epoch: ControllerEpoch = field(INT32)
    leader: BrokerId = field(INT32)
    leader_epoch: LeaderEpoch = field(INT32)
    isr: Sequence[BrokerId] = field(array(INT32))
    partition_epoch: ZkVersion = field(INT32)
    replicas: Sequence[BrokerId] = field(array(INT32))
    adding_replicas: Sequence[BrokerId] = field(array(INT32), versions="3+", ignorable=True)
    removing_replicas: Sequence[BrokerId] = field(array(INT32), versions="3+", ignorable=True)
    is_new: bool = field(BOOL, versions="1+", ignorable=True)
    leader_recovery_state: int = field(INT8, versions="6+")


class LeaderAndIsrTopicState(Struct):
    topic_name: str = field(STRING)
    topic_id: TopicId = field(UUID, versions="5+", ignorable=True)
    partition_states: Sequence[LeaderAndIsrPartitionState] = field(array(LeaderAndIsrPartitionState))


class LeaderAndIsrLiveLeader(Struct):
    broker_id: BrokerId = field(INT32)
    host_name: str = field(STRING)
    port: int = field(INT32)


class LeaderAndIsrRequest(Request, api=ApiKey.LEADER_AND_ISR, versions="0-7", flexible="4+"):
    controller_id: BrokerId = field(INT32)
    is_kraft_controller: bool = field(BOOL, versions="7+")
    controller_epoch: ControllerEpoch = field(INT32)
    broker_epoch: BrokerEpoch = field(INT64, versions="2+", default=-1, ignorable=True)
    type: int = field(INT8, versions="5+")
    ungrouped_partition_states: Sequence[LeaderAndIsrPartitionState] = field(
        array(LeaderAndIsrPartitionState), versions="0-1"
    )
    topic_states: Sequence[LeaderAndIsrTopicState] = field(array(LeaderAndIsrTopicState), versions="2+")
    live_leaders: Sequence[LeaderAndIsrLiveLeader] = field(array(LeaderAndIsrLiveLeader))


class LeaderAndIsrPartitionError(Struct):
    topic_name: str = field(STRING, versions="0-4", ignorable=True)
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


class LeaderAndIsrTopicError(Struct):
    topic_id: TopicId = field(UUID)
    partition_errors: Sequence[LeaderAndIsrPartitionError] = field(array(LeaderAndIsrPartitionError))


class LeaderAndIsrResponse(Response, api=ApiKey.LEADER_AND_ISR, versions="0-7", flexible="4+"):
    error_code: int = field(INT16)
    partition_errors: Sequence[LeaderAndIsrPartitionError] = field(
        array(LeaderAndIsrPartitionError), versions="0-4"
    )
    topics: Sequence[LeaderAndIsrTopicError] = field(array(LeaderAndIsrTopicError), versions="5+")
