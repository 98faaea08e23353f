"""The JSON of kafka-reassign-partitions: where replicas are, and where they shall be."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ottla.commands.failure import CommandError
from ottla.commands.json_input import read_list, read_partitions
from ottla.placement import Replicas
from wire.types import BrokerId, TopicPartition

_ANY_DIRECTORY = "any"


def read_targets(path: Path) -> dict[TopicPartition, Replicas]:
    """Read where the replicas of partitions shall be.

    Raises:
        CommandError: the file is not of this form, names a broker twice for a partition, or asks for log
            directories, which replicas here are not moved between.
    """
    targets = {}
    for partition, entry in read_partitions(path, "replicas"):
        replicas = entry["replicas"]
        if (
            not isinstance(replicas, list)
            or not replicas
            or not all(isinstance(each, int) and not isinstance(each, bool) for each in replicas)
        ):
            raise CommandError(f"{path}: the replicas of {partition} are no list of broker ids")
        if len(set(replicas)) < len(replicas):
            raise CommandError(f"{path}: a broker stands twice in the replicas of {partition}: {replicas}")
        directories = entry.get("log_dirs")
        if directories is not None and any(each != _ANY_DIRECTORY for each in directories):
            raise CommandError(
                f"{path}: {partition} names log directories; replicas cannot be moved between them"
            )
        targets[partition] = tuple(map(BrokerId, replicas))
    return targets


def read_topics_to_move(path: Path) -> list[str]:
    """Read ``{"topics": [{"topic": "a"}], "version": 1}``.

    Raises:
        CommandError: the file is not of this form, or a topic stands twice.
    """
    topics = [entry.get("topic") for entry in read_list(path, "topics")]
    if not all(isinstance(topic, str) for topic in topics):
        raise CommandError(f"{path} has an entry without a topic")
    if len(set(topics)) < len(topics):
        raise CommandError(f"{path} names a topic twice")
    return [str(topic) for topic in topics]


def as_object(assignment: Mapping[TopicPartition, Sequence[int]]) -> dict[str, Any]:
    """Give an assignment in the form of the file."""
    return {
        "version": 1,
        "partitions": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "replicas": list(replicas),
                "log_dirs": [_ANY_DIRECTORY] * len(replicas),
            }
            for partition, replicas in sorted(assignment.items())
        ],
    }


def as_text(assignment: Mapping[TopicPartition, Sequence[int]]) -> str:
    """Write an assignment in the form of the file, on one line as Kafka's tool does."""
    return json.dumps(as_object(assignment), separators=(",", ":"))
