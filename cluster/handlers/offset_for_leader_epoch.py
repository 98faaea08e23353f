"""OffsetForLeaderEpoch 0 to 4: where a leader epoch ended, to find where records diverge from the leader's.

Followers and consumers ask; only the leader answers.
"""

from typing import TYPE_CHECKING

from cluster.replication.leader.offset_lookups import find_epoch_end
from wire.apis import ApiKey
from wire.errors import ApiError
from wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from wire.types import TopicPartition

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasReplicas
    from cluster.handlers.registry import Registry


def register(registry: "Registry") -> None:
    """Serve OffsetForLeaderEpoch."""
    registry.add(ApiKey.OFFSET_FOR_LEADER_EPOCH, 0, 4, begin)


def begin(call: "ApiCall[HasReplicas]") -> None:
    """Look the epochs up and answer."""
    request: OffsetForLeaderEpochRequest = call.request
    call.respond(
        OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[_answer(call, topic.topic, one) for one in topic.partitions],
                )
                for topic in request.topics
            ]
        )
    )


def _answer(call: "ApiCall[HasReplicas]", topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = call.broker.replicas.hosted.find(TopicPartition(topic, asked.partition))
        epoch, end = find_epoch_end(partition, asked.leader_epoch, asked.current_leader_epoch)
    except ApiError as failure:
        return EpochEndOffset(partition=asked.partition, error_code=int(failure.error))
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end)
