"""DescribeLogDirs 0 to 4: the replicas in each log directory of this broker, and how full its volume is."""

from typing import TYPE_CHECKING, Protocol

from cluster.handlers.context import HasDisk, HasReplicas
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from wire.types import TopicPartition

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry
    from cluster.replication.replicas import DirectoryContent

_UNKNOWN = -1


class _Broker(HasDisk, HasReplicas, Protocol):
    """The parts of a broker that this API reaches."""


def register(registry: "Registry") -> None:
    """Serve DescribeLogDirs."""
    registry.add(ApiKey.DESCRIBE_LOG_DIRS, 0, 4, begin)


def begin(call: "ApiCall[_Broker]") -> None:
    """Answer with the requested replicas, or all of them, by directory."""
    request: DescribeLogDirsRequest = call.request
    wanted = None
    if request.topics is not None:
        wanted = {
            TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions
        }
    results = [_result(call, content, wanted) for content in call.broker.replicas.log_directories()]
    call.respond(DescribeLogDirsResponse(results=results))


def _result(
    call: "ApiCall[_Broker]", content: "DirectoryContent", wanted: set[TopicPartition] | None
) -> DescribeLogDirsResult:
    by_topic: dict[str, list[DescribeLogDirsPartition]] = {}
    for replica in content.replicas:
        topic, index = replica.topic_partition
        if wanted is None or replica.topic_partition in wanted:
            by_topic.setdefault(topic, []).append(
                DescribeLogDirsPartition(
                    partition_index=index,
                    partition_size=replica.size_bytes,
                    offset_lag=replica.lag,
                    is_future_key=replica.is_future,
                )
            )
    total, usable = _UNKNOWN, _UNKNOWN
    if content.error is Error.NONE:
        try:
            total, usable = call.broker.disk.space(content.path)
        except OSError:
            pass  # the size of a volume that cannot be read is unknown
    return DescribeLogDirsResult(
        error_code=content.error,
        log_dir=content.path,
        topics=[DescribeLogDirsTopic(name=topic, partitions=found) for topic, found in by_topic.items()],
        total_bytes=total,
        usable_bytes=usable,
    )
