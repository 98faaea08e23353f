"""The JSON of kafka-reassign-partitions: where replicas are, and where they shall be."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ottla.commands.reassignment.directory_moves import Replica
from ottla.commands.terminal.failure import CommandError
from ottla.commands.terminal.json_input import read_list, read_partitions
from ottla.placement import Replicas
from wire.types import BrokerId, TopicPartition

_ANY_DIRECTORY = "any"


def read_targets(path: Path) -> dict[TopicPartition, Replicas]:
    """Read where the replicas of partitions shall be.

    Raises:
        CommandError: the file is not of this form, or names a broker twice for a partition.
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
        targets[partition] = tuple(map(BrokerId, replicas))
    return targets


def read_directories(path: Path) -> dict[Replica, str]:
    """Read which log directories replicas shall be in; those that may be in any are left out.

    Raises:
        CommandError: the file is not of this form, or the directories of a partition are not one for each replica.
    """
    targets = read_targets(path)
    wanted: dict[Replica, str] = {}
    for partition, entry in read_partitions(path, "replicas"):
        directories = entry.get("log_dirs")
        if directories is None:
            continue
        replicas = targets[partition]
        if (
            not isinstance(directories, list)
            or len(directories) != len(replicas)
            or not all(isinstance(each, str) for each in directories)
        ):
            raise CommandError(
                f"{path}: the log directories of {partition} are not one for each of its {len(replicas)} replicas"
            )
        for broker, directory in zip(replicas, directories, strict=True):
            if directory == _ANY_DIRECTORY:
                continue
            if not directory.startswith("/"):
                raise CommandError(f"{path}: {partition} names {directory!r}, which is no absolute path")
            wanted[Replica(partition, broker)] = directory
    return wanted


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
    """Return an assignment in the form of the file."""
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
