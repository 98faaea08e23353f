"""JSON files that operators hand to commands, in the forms of Kafka's tools."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ottla.commands.terminal.failure import CommandError
from wire.types import TopicPartition


def read_object(path: Path) -> dict[str, Any]:
    """Read a file that holds one JSON object.

    Raises:
        CommandError: it cannot be read, holds something else, or is of a version other than 1.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise CommandError(f"{path} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise CommandError(f"{path} holds no JSON object")
    if found.get("version", 1) != 1:
        raise CommandError(f"{path}: version {found['version']} is not known, only 1 is")
    return found


def read_list(path: Path, key: str) -> list[Mapping[str, Any]]:
    """Read the list of objects that stands under a key of a file's object.

    Raises:
        CommandError: there is none, or it is empty.
    """
    found = read_object(path).get(key)
    if not isinstance(found, list) or not found or not all(isinstance(entry, dict) for entry in found):
        raise CommandError(f"{path} has no list of objects under {key!r}")
    return found


def read_partitions(path: Path, *extra: str) -> list[tuple[TopicPartition, Mapping[str, Any]]]:
    """Read ``{"partitions": [{"topic": ..., "partition": ..., ...}]}``: each partition with its entry.

    Args:
        path: The file.
        extra: What each entry has to have besides.

    Raises:
        CommandError: an entry is incomplete, or a partition stands twice.
    """
    read = []
    for entry in read_list(path, "partitions"):
        topic, partition = entry.get("topic"), entry.get("partition")
        if not isinstance(topic, str) or not isinstance(partition, int) or isinstance(partition, bool):
            raise CommandError(f"{path}: {json.dumps(entry)} names no topic and partition")
        for name in extra:
            if name not in entry:
                raise CommandError(f"{path}: {topic}-{partition} has no {name!r}")
        read.append((TopicPartition(topic, partition), entry))
    twice = repeated([partition for partition, _ in read])
    if twice:
        raise CommandError(f"{path} names more than once: {', '.join(map(str, twice))}")
    return read


def repeated(values: Collection[TopicPartition]) -> list[TopicPartition]:
    """Return the values that stand more than once, sorted."""
    seen: set[TopicPartition] = set()
    twice: set[TopicPartition] = set()
    for value in values:
        (twice if value in seen else seen).add(value)
    return sorted(twice)
