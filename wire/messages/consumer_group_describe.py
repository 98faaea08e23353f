"""ConsumerGroupDescribe: KIP-848 groups. KRaft clusters serve it, we refuse it."""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import BOOL, INT16, INT32, STRING, UUID, Request, Response, Struct, array, field
from wire.types import TopicId


class ConsumerGroupDescribeRequest(Request, api=ApiKey.CONSUMER_GROUP_DESCRIBE, versions="0", flexible="0+"):
    group_ids: Sequence[str] = field(array(STRING))
    include_authorized_operations: bool = field(BOOL)


class TopicPartitions(Struct):
    topic_id: TopicId = field(UUID)
    topic_name: str = field(STRING)
    partitions: Sequence[int] = field(array(INT32))


class Assignment(Struct):
    topic_partitions: Sequence[TopicPartitions] = field(array(TopicPartitions))


class Member(Struct):
    member_id: str = field(STRING)
    instance_id: str | None = field(STRING, nullable="0+", default=None)
    rack_id: str | None = field(STRING, nullable="0+", default=None)
    member_epoch: int = field(INT32)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    subscribed_topic_names: Sequence[str] = field(array(STRING))
    subscribed_topic_regex: str | None = field(STRING, nullable="0+", default=None)
    assignment: Assignment = field(Assignment)
    target_assignment: Assignment = field(Assignment)


class DescribedGroup(Struct):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)
    group_id: str = field(STRING)
    group_state: str = field(STRING)
    group_epoch: int = field(INT32)
    assignment_epoch: int = field(INT32)
    assignor_name: str = field(STRING)
    members: Sequence[Member] = field(array(Member))
    authorized_operations: int = field(INT32, default=-2147483648)


class ConsumerGroupDescribeResponse(
    Response, api=ApiKey.CONSUMER_GROUP_DESCRIBE, versions="0", flexible="0+"
):
    throttle_time_ms: int = field(INT32)
    groups: Sequence[DescribedGroup] = field(array(DescribedGroup))
