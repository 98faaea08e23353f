"""AlterReplicaLogDirs 0 to 2: move replicas between the log directories of this broker (KIP-113).

A move has begun when it is answered; DescribeLogDirs shows how far it is. Naming the directory that a replica is
already in cancels its move. For a replica that is not here the directory is remembered, and the answer is
REPLICA_NOT_AVAILABLE.
"""

from typing import TYPE_CHECKING

from wire.apis import ApiKey
from wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from wire.types import TopicPartition

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasReplicas
    from cluster.handlers.registry import Registry


def register(registry: "Registry") -> None:
    """Serve AlterReplicaLogDirs."""
    registry.add_async(ApiKey.ALTER_REPLICA_LOG_DIRS, 0, 2, handle)


async def handle(call: "ApiCall[HasReplicas]") -> AlterReplicaLogDirsResponse:
    """Begin the moves; a partition that is named twice goes to the last directory."""
    request: AlterReplicaLogDirsRequest = call.request
    wanted = {
        TopicPartition(topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    errors = await call.broker.replicas.roles.alter_log_dirs(wanted)
    by_topic: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for partition, error in errors.items():
        by_topic.setdefault(partition.topic, []).append(
            AlterReplicaLogDirPartitionResult(partition_index=partition.partition, error_code=error)
        )
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=topic, partitions=results)
            for topic, results in by_topic.items()
        ]
    )
