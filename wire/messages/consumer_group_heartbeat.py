"""ConsumerGroupHeartbeat: the request of KIP-848 group members. KRaft clusters serve it, we refuse it."""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT16, INT32, STRING, UUID, Request, Response, Struct, array, field
from wire.types import TopicId


class TopicPartitions(Struct):
    topic_id: TopicId = field(UUID)
    partitions: Sequence[int] = field(array(INT32))


class ConsumerGroupHeartbeatRequest(
    Request, api=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions="0", flexible="0+"
):
    group_id: str = field(STRING)
    member_id: str = field(STRING)
    member_epoch: int = field(INT32)
    instance_id: str | None = field(STRING, nullable="0+", default=None)
    rack_id: str | None = field(STRING, nullable="0+", default=None)
    rebalance_timeout_ms: int = field(INT32, default=-1)
    subscribed_topic_names: Sequence[str] | None = field(array(STRING), nullable="0+", default=None)
    server_assignor: str | None = field(STRING, nullable="0+", default=None)
    topic_partitions: Sequence[TopicPartitions] | None = field(
        array(TopicPartitions), nullable="0+", default=None
    )


class Assignment(Struct):
    topic_partitions: Sequence[TopicPartitions] = field(array(TopicPartitions))


class ConsumerGroupHeartbeatResponse(
    Response, api=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions="0", flexible="0+"
):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)
    member_id: str | None = field(STRING, nullable="0+", default=None)
    member_epoch: int = field(INT32)
    heartbeat_interval_ms: int = field(INT32)
    assignment: Assignment | None = field(Assignment, nullable="0+", default=None)
