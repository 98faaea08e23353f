"""The lines of kafka-topics and of kafka-get-offsets, kafka-delete-records."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.client.errors import ClientError
from wire.types import NO_TOPIC_ID, Offset, TopicId, TopicPartition, topic_id_text

if TYPE_CHECKING:
    from ottla.commands.topics.reported_partition import ReportedPartition


def collision_warning() -> str:
    """Return what is printed where a topic is created whose name has a period or an underscore."""
    return (
        "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
        "To avoid issues it is best to use either, but not both."
    )


def topic_line(
    name: str, topic_id: TopicId, partitions: Sequence["ReportedPartition"], configs: Mapping[str, str | None]
) -> str:
    """Return the line that precedes a topic's partitions.

    Args:
        name: The topic.
        topic_id: Its id.
        partitions: All of its partitions.
        configs: Its settings that are not defaults of the software.
    """
    parts = [f"Topic: {name}"]
    if topic_id != NO_TOPIC_ID:
        parts.append(f"TopicId: {topic_id_text(topic_id)}")
    parts.append(f"PartitionCount: {len(partitions)}")
    # Kafka's tool reports the first partition's, whatever the others have.
    parts.append(f"ReplicationFactor: {partitions[0].replication_factor if partitions else 0}")
    listed = ",".join(f"{key}={_java_text(value)}" for key, value in sorted(configs.items()))
    parts.append(f"Configs: {listed}")
    return "\t".join(parts)


def partition_line(partition: "ReportedPartition") -> str:
    """Return the line of one partition."""
    described = partition.described
    parts = [
        f"\tTopic: {partition.topic}",
        f"Partition: {described.partition}",
        f"Leader: {described.leader if described.leader >= 0 else 'none'}",
        f"Replicas: {_ids(described.replicas)}",
        f"Isr: {_ids(described.isr)}",
    ]
    if partition.reassignment is not None:
        parts.append(f"Adding Replicas: {_ids(partition.reassignment.adding)}")
        parts.append(f"Removing Replicas: {_ids(partition.reassignment.removing)}")
    return "\t".join([*parts, "Elr: N/A", "LastKnownElr: N/A"])


def offset_lines(offsets: Mapping[TopicPartition, Offset]) -> list[str]:
    """Return ``topic:partition:offset`` of each partition that an offset was found in."""
    found = sorted((each for each in offsets if offsets[each] >= 0), key=str)
    return [f"{each.topic}:{each.partition}:{offsets[each]}" for each in found]


def skipped_offset_line(partition: TopicPartition, error: object) -> str:
    """Return what is printed, on stderr, for a partition whose offset is not known."""
    return f"Skip getting offsets for topic-partition {partition} due to error: {error}"


def deletion_lines(results: Mapping[TopicPartition, Offset | ClientError]) -> Iterator[str]:
    """Yield what became of each partition whose records were to be deleted."""
    yield "Executing records delete operation"
    yield "Records delete operation completed:"
    for partition, result in sorted(results.items()):
        if isinstance(result, ClientError):
            yield f"partition: {partition}\terror: {result}"
        else:
            yield f"partition: {partition}\tlow_watermark: {result}"


def _ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))


def _java_text(value: str | None) -> str:
    return "null" if value is None else value
