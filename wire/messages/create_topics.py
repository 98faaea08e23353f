"""CreateTopics: create topics, with replicas placed by the controller or by the caller.

Versions:
    1: validate_only; error messages.
    2: throttle time.
    3: on a quota violation the answer comes before the throttling.
    4: partitions and replication factor may be left to the defaults (KIP-464).
    5: flexible; the answer has the topic's configuration (KIP-525).
    6: the answer may be THROTTLING_QUOTA_EXCEEDED.
    7: topic id.
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import BOOL, INT8, INT16, INT32, STRING, UUID, Request, Response, Struct, array, field
from wire.types import BrokerId, TopicId


class CreatableReplicaAssignment(Struct):
    partition_index: int = field(INT32)
    broker_ids: Sequence[BrokerId] = field(array(INT32))


class CreatableTopicConfig(Struct):
    name: str = field(STRING)
    value: str | None = field(STRING, nullable="0+")


class CreatableTopic(Struct):
    name: str = field(STRING)
    num_partitions: int = field(INT32)
    replication_factor: int = field(INT16)
    assignments: Sequence[CreatableReplicaAssignment] = field(array(CreatableReplicaAssignment))
    configs: Sequence[CreatableTopicConfig] = field(array(CreatableTopicConfig))


class CreateTopicsRequest(Request, api=ApiKey.CREATE_TOPICS, versions="0-7", flexible="5+"):
    topics: Sequence[CreatableTopic] = field(array(CreatableTopic))
    timeout_ms: int = field(INT32, default=60000)
    validate_only: bool = field(BOOL, versions="1+")


class CreatableTopicConfigs(Struct):
    name: str = field(STRING)
    value: str | None = field(STRING, nullable="0+")
    read_only: bool = field(BOOL)
    config_source: int = field(INT8, default=-1, ignorable=True)
    is_sensitive: bool = field(BOOL)


class CreatableTopicResult(Struct):
    name: str = field(STRING)
    topic_id: TopicId = field(UUID, versions="7+", ignorable=True)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, versions="1+", nullable="0+", ignorable=True)
    topic_config_error_code: int = field(INT16, versions="5+", tag=0, ignorable=True)
    num_partitions: int = field(INT32, versions="5+", default=-1, ignorable=True)
    replication_factor: int = field(INT16, versions="5+", default=-1, ignorable=True)
    configs: Sequence[CreatableTopicConfigs] | None = field(
        array(CreatableTopicConfigs), versions="5+", nullable="5+", ignorable=True
    )


class CreateTopicsResponse(Response, api=ApiKey.CREATE_TOPICS, versions="0-7", flexible="5+"):
    throttle_time_ms: int = field(INT32, versions="2+", ignorable=True)
    topics: Sequence[CreatableTopicResult] = field(array(CreatableTopicResult))
