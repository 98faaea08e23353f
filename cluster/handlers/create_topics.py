"""CreateTopics 0 to 7: create topics, and answer when they can be used.

Only the active controller answers; the others say NOT_CONTROLLER for each topic. The answer waits until this broker's
metadata has a leader for every partition, or the request times out; after REQUEST_TIMED_OUT the topic is created all
the same. It also waits briefly for the other live brokers to know the topics.
"""

from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol

from cluster.handlers.bounded_concurrency import each_of
from cluster.handlers.context import HasConfig, HasController, HasMetadata, HasTopicAdmin
from cluster.handlers.describe_configs import topic_configs
from cluster.handlers.failures import EXPECTED_FAILURES, Failure, failure_of
from cluster.handlers.metadata_waits import wait_all_told
from cluster.handlers.mutation_quota import MutationAllowance
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from wire.types import NO_LEADER, NO_TOPIC_ID

if TYPE_CHECKING:
    from cluster.controller.topic_admin import CreatedTopic
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry
    from cluster.replication.metadata_cache import ClusterSnapshot

_STRICT_SINCE: Final = 6
"""The first version whose clients know THROTTLING_QUOTA_EXCEEDED."""


class _Broker(HasConfig, HasController, HasMetadata, HasTopicAdmin, Protocol):
    """The parts of a broker that this API reaches."""


def register(registry: "Registry") -> None:
    """Serve CreateTopics."""
    registry.add_async(ApiKey.CREATE_TOPICS, 0, 7, handle)


async def handle(call: "ApiCall[_Broker]") -> CreateTopicsResponse:
    """Create or check each topic by itself, wait for their leaders, and answer."""
    request: CreateTopicsRequest = call.request
    broker = call.broker
    if not broker.controller.is_active:
        failure = Failure(Error.NOT_CONTROLLER, "this broker is not the controller")
        return CreateTopicsResponse(topics=[_failed(topic.name, failure) for topic in request.topics])
    counts = Counter(topic.name for topic in request.topics)
    failures = {
        name: Failure(Error.INVALID_REQUEST, "the topic stands in the request more than once")
        for name, count in counts.items()
        if count > 1
    }
    created: dict[str, CreatedTopic] = {}
    allowance = MutationAllowance(call, strict=call.version >= _STRICT_SINCE)

    async def create(topic: CreatableTopic) -> None:
        charged = 0
        try:
            if not request.validate_only:
                allowance.take(charge := _partition_count(broker, topic))
                charged = charge
            created[topic.name] = await broker.topic_admin.create_topic(
                topic, validate_only=request.validate_only
            )
        except EXPECTED_FAILURES as exception:
            allowance.give_back(charged)
            failures[topic.name] = failure_of(exception)

    await each_of([topic for topic in request.topics if topic.name not in failures], create)
    if not request.validate_only:
        await wait_all_told(
            broker,
            lambda snapshot: all(
                _is_led(snapshot, name, len(made.replicas)) for name, made in created.items()
            ),
            request.timeout_ms,
        )
        for name, made in created.items():
            in_time = request.timeout_ms > 0 and _is_led(broker.metadata.snapshot, name, len(made.replicas))
            if not in_time:
                failures[name] = Failure(Error.REQUEST_TIMED_OUT, None)
    allowance.settle()
    return CreateTopicsResponse(
        topics=[
            _failed(name, failures[name])
            if name in failures
            else _created(broker, name, created[name], validate_only=request.validate_only)
            for name in counts
        ]
    )


def _partition_count(broker: "_Broker", topic: CreatableTopic) -> int:
    """Return how many partitions a topic will have: the charge for its creation."""
    if topic.assignments:
        return len(topic.assignments)
    return topic.num_partitions if topic.num_partitions > 0 else broker.config.num_partitions


def _is_led(snapshot: "ClusterSnapshot", name: str, partition_count: int) -> bool:
    partitions = snapshot.topics.get(name, {})
    led = sum(1 for state in partitions.values() if state.leader > NO_LEADER)
    return led >= partition_count


def _created(
    broker: "_Broker", name: str, made: "CreatedTopic", *, validate_only: bool
) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        topic_id=NO_TOPIC_ID if validate_only else made.topic_id,
        error_message=None,
        num_partitions=len(made.replicas),
        replication_factor=made.replication_factor,
        configs=[
            CreatableTopicConfigs(
                name=config.name,
                value=config.value,
                read_only=config.read_only,
                config_source=config.config_source,
                is_sensitive=config.is_sensitive,
            )
            for config in topic_configs(broker, dict(made.configs))
        ],
    )


def _failed(name: str, failure: Failure) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=failure.code, error_message=failure.message, configs=[])
