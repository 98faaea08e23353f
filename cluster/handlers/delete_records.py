"""DeleteRecords 0 to 2: advance the start of logs, and answer when every live replica's log has followed.

A partition's answer is its low watermark, below which no live replica has records. Offset -1 deletes
everything up to the high watermark. Topics with compaction only are refused with POLICY_VIOLATION.
"""

from typing import TYPE_CHECKING

from wire.apis import ApiKey
from wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from wire.types import TopicPartition

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasReplicas
    from cluster.handlers.registry import Registry
    from cluster.replication.leader.record_deletions import DeletionResult


def register(registry: "Registry") -> None:
    """Serve DeleteRecords."""
    registry.add(ApiKey.DELETE_RECORDS, 0, 2, begin)


def begin(call: "ApiCall[HasReplicas]") -> None:
    """Begin the deletions; the answer waits for the other replicas, up to the request's timeout."""
    request: DeleteRecordsRequest = call.request
    offsets = {
        TopicPartition(topic.name, partition.partition_index): partition.offset
        for topic in request.topics
        for partition in topic.partitions
    }

    def answer(results: "dict[TopicPartition, DeletionResult]") -> None:
        by_topic: dict[str, list[DeleteRecordsPartitionResult]] = {}
        for partition, result in results.items():
            by_topic.setdefault(partition.topic, []).append(
                DeleteRecordsPartitionResult(
                    partition_index=partition.partition,
                    low_watermark=result.low_watermark,
                    error_code=result.error,
                )
            )
        call.respond(
            DeleteRecordsResponse(
                topics=[
                    DeleteRecordsTopicResult(name=topic, partitions=partitions)
                    for topic, partitions in by_topic.items()
                ]
            )
        )

    call.broker.replicas.delete_records(offsets, request.timeout_ms, answer)
