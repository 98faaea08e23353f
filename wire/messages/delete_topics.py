"""DeleteTopics: delete topics by name or id.

Versions:
    1: throttle time.
    2: on a quota violation the answer comes before the throttling.
    3: the answer may be TOPIC_DELETION_DISABLED.
    4: compact lengths and tagged fields (flexible).
    5: error message; the answer may be THROTTLING_QUOTA_EXCEEDED.
    6: by topic id.
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT16, INT32, STRING, UUID, Request, Response, Struct, array, field
from wire.types import TopicId


class DeleteTopicState(Struct):
    name: str | None = field(STRING, nullable="0+", default=None)
    topic_id: TopicId = field(UUID)


class DeleteTopicsRequest(Request, api=ApiKey.DELETE_TOPICS, versions="0-6", flexible="4+"):
    topics: Sequence[DeleteTopicState] = field(array(DeleteTopicState), versions="6+")
    topic_names: Sequence[str] = field(array(STRING), versions="0-5", ignorable=True)
    timeout_ms: int = field(INT32)


class DeletableTopicResult(Struct):
    name: str | None = field(STRING, nullable="6+")
    topic_id: TopicId = field(UUID, versions="6+", ignorable=True)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, versions="5+", nullable="5+", default=None, ignorable=True)


class DeleteTopicsResponse(Response, api=ApiKey.DELETE_TOPICS, versions="0-6", flexible="4+"):
    throttle_time_ms: int = field(INT32, versions="1+", ignorable=True)
    responses: Sequence[DeletableTopicResult] = field(array(DeletableTopicResult))
