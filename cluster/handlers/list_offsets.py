"""ListOffsets 0 to 9: offsets by time, and the first and last ones, of partitions that this broker leads.

Version 0 returns the starts of segments instead of records' offsets. OFFSET_NOT_AVAILABLE, which a new leader answers
until its high watermark is certain, becomes LEADER_NOT_AVAILABLE before version 5.
"""

from collections import Counter
from typing import TYPE_CHECKING, Final

from cluster.replication.leader.fetch_session import Isolation
from cluster.replication.leader.offset_lookups import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    find_offset,
    legacy_offsets,
)
from storage.errors import LogError
from timing.pacing import Pacer
from wire.apis import ApiKey
from wire.errors import ApiError, Error
from wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from wire.types import NO_LEADER_EPOCH, NO_OFFSET, NO_TIMESTAMP, TopicPartition

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasReplicas
    from cluster.handlers.registry import Registry

CONSUMER: Final = -1
DEBUGGER: Final = -2
_READ_COMMITTED: Final = 1
_LEADER_EPOCH_SINCE: Final = 4
_OFFSET_NOT_AVAILABLE_SINCE: Final = 5
_NAMED_SINCE: Final = {EARLIEST: 1, LATEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}


def register(registry: "Registry") -> None:
    """Serve ListOffsets."""
    registry.add_async(ApiKey.LIST_OFFSETS, 0, 9, handle)


async def handle(call: "ApiCall[HasReplicas]") -> ListOffsetsResponse:
    """Look up the offsets, a few in each turn of the loop: a search by time reads from the disk."""
    request: ListOffsetsRequest = call.request
    pacer = Pacer(call.broker.clock)
    asked = Counter(
        TopicPartition(topic.name, one.partition_index)
        for topic in request.topics
        for one in topic.partitions
    )
    topics = []
    for topic in request.topics:
        partitions = []
        for one in topic.partitions:
            key = TopicPartition(topic.name, one.partition_index)
            partitions.append(_answer(call, request, key, one, asked))
            await pacer.pace()
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


def _answer(
    call: "ApiCall[HasReplicas]",
    request: ListOffsetsRequest,
    key: TopicPartition,
    asked: ListOffsetsPartition,
    counts: Counter[TopicPartition],
) -> ListOffsetsPartitionResponse:
    version = call.version
    try:
        if version == 0:
            return _legacy(call, request, key, asked)
        if counts[key] > 1:
            raise ApiError(Error.INVALID_REQUEST)
        if asked.timestamp < 0 and version < _NAMED_SINCE.get(asked.timestamp, version + 1):
            raise ApiError(Error.UNSUPPORTED_VERSION)
        found = find_offset(
            call.broker.replicas.hosted.find(key),
            asked.timestamp,
            _isolation(request),
            asked.current_leader_epoch,
            require_leader=request.replica_id != DEBUGGER,
        )
    except ApiError as failure:
        error = failure.error
        if error is Error.OFFSET_NOT_AVAILABLE and version < _OFFSET_NOT_AVAILABLE_SINCE:
            error = Error.LEADER_NOT_AVAILABLE
        return _failed(key, error)
    except LogError as failure:
        return _failed(key, failure.kafka_error)
    if found is None:
        return _failed(key, Error.NONE)
    return ListOffsetsPartitionResponse(
        partition_index=key.partition,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch if version >= _LEADER_EPOCH_SINCE else NO_LEADER_EPOCH,
    )


def _legacy(
    call: "ApiCall[HasReplicas]",
    request: ListOffsetsRequest,
    key: TopicPartition,
    asked: ListOffsetsPartition,
) -> ListOffsetsPartitionResponse:
    if asked.timestamp < EARLIEST:
        raise ApiError(Error.UNSUPPORTED_VERSION)
    offsets = legacy_offsets(
        call.broker.replicas.hosted.find(key),
        asked.timestamp,
        asked.max_num_offsets,
        is_consumer=request.replica_id == CONSUMER,
        require_leader=request.replica_id != DEBUGGER,
    )
    return ListOffsetsPartitionResponse(partition_index=key.partition, old_style_offsets=offsets)


def _isolation(request: ListOffsetsRequest) -> Isolation:
    if request.replica_id != CONSUMER:
        return Isolation.LOG_END
    return Isolation.COMMITTED if request.isolation_level == _READ_COMMITTED else Isolation.HIGH_WATERMARK


def _failed(key: TopicPartition, error: Error) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=key.partition, error_code=int(error), timestamp=NO_TIMESTAMP, offset=NO_OFFSET
    )
