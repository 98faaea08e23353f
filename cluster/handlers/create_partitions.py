"""CreatePartitions 0 to 3: add partitions to topics, and answer when they can be used.

Only the active controller answers; the others say NOT_CONTROLLER for each topic. The answer waits until this broker's
metadata has a leader for every partition, or the request times out; after REQUEST_TIMED_OUT the partitions are added
all the same.
"""

from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol

from cluster.handlers.bounded_concurrency import each_of
from cluster.handlers.context import HasController, HasMetadata, HasTopicAdmin
from cluster.handlers.failures import EXPECTED_FAILURES, Failure, failure_of
from cluster.handlers.metadata_waits import wait_all_told
from cluster.handlers.mutation_quota import MutationAllowance
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from wire.types import NO_LEADER

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry
    from cluster.replication.metadata_cache import ClusterSnapshot

_STRICT_SINCE: Final = 3
"""The first version whose clients know THROTTLING_QUOTA_EXCEEDED."""


class _Broker(HasController, HasMetadata, HasTopicAdmin, Protocol):
    """The parts of a broker that this API reaches."""


def register(registry: "Registry") -> None:
    """Serve CreatePartitions."""
    registry.add_async(ApiKey.CREATE_PARTITIONS, 0, 3, handle)


async def handle(call: "ApiCall[_Broker]") -> CreatePartitionsResponse:
    """Extend or check each topic by itself, wait for the new leaders, and answer."""
    request: CreatePartitionsRequest = call.request
    broker = call.broker
    counts = Counter(topic.name for topic in request.topics)
    failures: dict[str, Failure | None] = dict.fromkeys(counts)
    if not broker.controller.is_active:
        failures = dict.fromkeys(counts, Failure(Error.NOT_CONTROLLER, "this broker is not the controller"))
    for name, count in counts.items():
        if count > 1:
            failures[name] = Failure(Error.INVALID_REQUEST, "the topic stands in the request more than once")

    allowance = MutationAllowance(call, strict=call.version >= _STRICT_SINCE)

    async def extend(topic: CreatePartitionsTopic) -> None:
        charged = 0
        try:
            if not request.validate_only:
                present = len(broker.metadata.snapshot.topics.get(topic.name, ()))
                allowance.take(added := max(topic.count - present, 0))
                charged = added
            await broker.topic_admin.create_partitions(topic, validate_only=request.validate_only)
        except EXPECTED_FAILURES as exception:
            allowance.give_back(charged)
            failures[topic.name] = failure_of(exception)

    await each_of([topic for topic in request.topics if failures[topic.name] is None], extend)
    extended = [topic for topic in request.topics if failures[topic.name] is None]
    if not request.validate_only:
        await wait_all_told(
            broker,
            lambda snapshot: all(_is_led(snapshot, topic) for topic in extended),
            request.timeout_ms,
        )
        for topic in extended:
            if request.timeout_ms <= 0 or not _is_led(broker.metadata.snapshot, topic):
                failures[topic.name] = Failure(Error.REQUEST_TIMED_OUT, None)
    allowance.settle()
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=name,
                error_code=0 if failure is None else failure.code,
                error_message=None if failure is None else failure.message,
            )
            for name, failure in failures.items()
        ]
    )


def _is_led(snapshot: "ClusterSnapshot", topic: CreatePartitionsTopic) -> bool:
    partitions = snapshot.topics.get(topic.name, {})
    return all(index in partitions and partitions[index].leader > NO_LEADER for index in range(topic.count))
