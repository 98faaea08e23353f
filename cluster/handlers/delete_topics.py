"""DeleteTopics 0 to 6: delete topics by name or, in version 6, by id, and answer when they are gone.

Only the active controller answers; the others say NOT_CONTROLLER for each topic. The answer waits until this broker's
metadata no longer has the topics, or the request times out; after REQUEST_TIMED_OUT they are deleted all the same.
"""

from collections.abc import Container
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from cluster.handlers.bounded_concurrency import each_of
from cluster.handlers.context import HasConfig, HasController, HasMetadata, HasTopicAdmin
from cluster.handlers.failures import EXPECTED_FAILURES, Failure, failure_of
from cluster.handlers.metadata_waits import wait_told
from cluster.handlers.mutation_quota import MutationAllowance
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from wire.types import NO_TOPIC_ID, TopicId

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry

_STRICT_SINCE: Final = 5
"""The first version whose clients know THROTTLING_QUOTA_EXCEEDED."""


class _Broker(HasConfig, HasController, HasMetadata, HasTopicAdmin, Protocol):
    """The parts of a broker that this API reaches."""


class _Target(NamedTuple):
    """A topic to be deleted; the name is None if its id is unknown."""

    name: str | None
    topic_id: TopicId


def register(registry: "Registry") -> None:
    """Serve DeleteTopics."""
    registry.add_async(ApiKey.DELETE_TOPICS, 0, 6, handle)


async def handle(call: "ApiCall[_Broker]") -> DeleteTopicsResponse:
    """Delete each topic, wait until they are gone, and answer."""
    request: DeleteTopicsRequest = call.request
    broker = call.broker
    targets = _targets(call)
    refusal = _refusal(call)
    if refusal is not None:
        return DeleteTopicsResponse(responses=[_result(target, refusal) for target in targets])
    known = broker.metadata.snapshot.topics
    failures = {target: _wrong(target, targets, known) for target in targets}

    allowance = MutationAllowance(call, strict=call.version >= _STRICT_SINCE)

    async def delete(target: _Target) -> None:
        charged = 0
        try:
            allowance.take(removed := len(known.get(target.name or "", ())))
            charged = removed
            await broker.topic_admin.delete_topic(target.name or "")
        except EXPECTED_FAILURES as exception:
            allowance.give_back(charged)
            failures[target] = failure_of(exception)

    await each_of([target for target, failure in failures.items() if failure is None], delete)
    going = [target for target, failure in failures.items() if failure is None]
    await wait_told(
        broker.metadata,
        lambda snapshot: all(target.name not in snapshot.topics for target in going),
        request.timeout_ms,
    )
    for target in going:
        if request.timeout_ms <= 0 or target.name in broker.metadata.snapshot.topics:
            failures[target] = Failure(Error.REQUEST_TIMED_OUT, None)
    allowance.settle()
    return DeleteTopicsResponse(responses=[_result(target, failure) for target, failure in failures.items()])


def _targets(call: "ApiCall[_Broker]") -> list[_Target]:
    request: DeleteTopicsRequest = call.request
    snapshot = call.broker.metadata.snapshot
    if call.version < 6:
        return [_Target(name, snapshot.topic_ids.get(name, NO_TOPIC_ID)) for name in request.topic_names]
    targets = []
    for topic in request.topics:
        if topic.name is None:
            targets.append(_Target(snapshot.topic_names.get(topic.topic_id), topic.topic_id))
        else:
            known = snapshot.topic_ids.get(topic.name, NO_TOPIC_ID)
            targets.append(_Target(topic.name, topic.topic_id if any(topic.topic_id) else known))
    return targets


def _refusal(call: "ApiCall[_Broker]") -> Failure | None:
    """Return why no topic at all can be deleted."""
    broker: _Broker = call.broker
    if not broker.controller.is_active:
        return Failure(Error.NOT_CONTROLLER, "this broker is not the controller")
    if not broker.config.delete_topic_enable:
        error = Error.INVALID_REQUEST if call.version < 3 else Error.TOPIC_DELETION_DISABLED
        return Failure(error, "delete.topic.enable is false")
    request: DeleteTopicsRequest = call.request
    if any(topic.name is not None and any(topic.topic_id) for topic in request.topics):
        return Failure(Error.INVALID_REQUEST, "a topic is named by its name or by its id, not by both")
    return None


def _wrong(target: _Target, targets: list[_Target], known: Container[str]) -> Failure | None:
    if target.name is None:
        return Failure(Error.UNKNOWN_TOPIC_ID, "no topic has this id")
    if sum(1 for other in targets if other.name == target.name) > 1:
        return Failure(Error.INVALID_REQUEST, "the topic stands in the request more than once")
    if target.name not in known:
        # What is left of it in ZooKeeper belongs to a topic that is being deleted.
        return Failure(Error.UNKNOWN_TOPIC_OR_PARTITION, f"the topic {target.name} does not exist")
    return None


def _result(target: _Target, failure: Failure | None) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=target.name,
        topic_id=target.topic_id,
        error_code=0 if failure is None else failure.code,
        error_message=None if failure is None else failure.message,
    )
