"""ElectLeaders 0 to 2: elect preferred leaders, or any replica that is left (unclean).

Only the active controller answers. The answer waits until UpdateMetadata has brought this broker the new leaders, or
the request times out: REQUEST_TIMED_OUT for those still missing. If no partitions were named, those that needed no
election are left out.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from cluster.controller.leader_elections import ElectionKind
from cluster.handlers.context import HasController, HasMetadata
from cluster.handlers.failures import EXPECTED_FAILURES, failure_of
from cluster.handlers.metadata_waits import wait_told
from wire.apis import ApiKey
from wire.errors import ApiError, Error
from wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from wire.types import BrokerId, TopicPartition

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry
    from cluster.replication.metadata_cache import ClusterSnapshot

_KINDS: Final = {kind.value: kind for kind in ElectionKind}


class _Broker(HasController, HasMetadata, Protocol):
    """The parts of a broker that this API reaches."""


def register(registry: "Registry") -> None:
    """Serve ElectLeaders."""
    registry.add_async(ApiKey.ELECT_LEADERS, 0, 2, handle)


async def handle(call: "ApiCall[_Broker]") -> ElectLeadersResponse:
    """Have the controller elect, wait for the metadata, and answer for each partition."""
    request: ElectLeadersRequest = call.request
    kind = _KINDS.get(request.election_type)
    named = request.topic_partitions
    partitions = None
    if named is not None:
        partitions = [TopicPartition(topic.topic, index) for topic in named for index in topic.partitions]
    try:
        if kind is None:
            raise ApiError(
                Error.INVALID_REQUEST, f"there are no elections of the type {request.election_type}"
            )
        results = await call.broker.controller.elect_leaders(partitions, kind)
    except EXPECTED_FAILURES as exception:
        failure = failure_of(exception)
        errors: dict[TopicPartition, ApiError | None] = {
            partition: ApiError(failure.error, failure.message) for partition in partitions or ()
        }
        return _response(errors, failure.code)
    elected = {key: result for key, result in results.items() if not isinstance(result, ApiError)}
    errors = {key: result if isinstance(result, ApiError) else None for key, result in results.items()}
    if partitions is None:
        errors = {key: error for key, error in errors.items() if not _needless(error)}
    metadata = call.broker.metadata
    if not await wait_told(metadata, lambda snapshot: not _untold(snapshot, elected), request.timeout_ms):
        for partition in _untold(metadata.snapshot, elected):
            errors[partition] = ApiError(Error.REQUEST_TIMED_OUT)
    return _response(errors, 0)


def _needless(error: ApiError | None) -> bool:
    return error is not None and error.error is Error.ELECTION_NOT_NEEDED


def _untold(snapshot: "ClusterSnapshot", elected: Mapping[TopicPartition, BrokerId]) -> list[TopicPartition]:
    """Return the partitions whose new leader is not in this broker's metadata yet."""
    untold = []
    for partition, leader in elected.items():
        state = snapshot.topics.get(partition.topic, {}).get(partition.partition)
        if state is None or state.leader != leader:
            untold.append(partition)
    return untold


def _response(errors: Mapping[TopicPartition, ApiError | None], error_code: int) -> ElectLeadersResponse:
    by_topic: dict[str, list[PartitionResult]] = {}
    for partition, error in errors.items():
        by_topic.setdefault(partition.topic, []).append(
            PartitionResult(
                partition_id=partition.partition,
                error_code=0 if error is None else error.error,
                error_message=None if error is None else error.message,
            )
        )
    return ElectLeadersResponse(
        error_code=error_code,
        replica_election_results=[
            ReplicaElectionResult(topic=topic, partition_result=results)
            for topic, results in by_topic.items()
        ],
    )
