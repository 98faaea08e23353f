"""The `partition.metadata` file: which topic, by id, a log's directory is of.

version: 0
topic_id: 22 characters of URL-safe base64
"""

from typing import Final

from storage import names
from storage.disk import Disk
from wire.types import NO_TOPIC_ID, TopicId, parse_topic_id, topic_id_text

_VERSION: Final = "0"


class MalformedPartitionMetadataError(ValueError):
    """A file that does not read as partition metadata."""


def read_topic_id(disk: Disk, directory: str) -> TopicId:
    """Read a log's topic id, `NO_TOPIC_ID` where it has none.

    Raises:
        MalformedPartitionMetadataError: the file makes no sense.
        OSError: the disk failed.
    """
    path = f"{directory}/{names.PARTITION_METADATA}"
    try:
        text = disk.read(path).decode(errors="replace")
    except FileNotFoundError:
        return NO_TOPIC_ID
    fields = dict(line.partition(": ")[::2] for line in text.splitlines())
    if fields.get("version") != _VERSION:
        raise MalformedPartitionMetadataError(
            f"{path}: version {fields.get('version')!r}, expected {_VERSION}"
        )
    try:
        topic_id = parse_topic_id(fields.get("topic_id", "").strip())
    except ValueError as error:
        raise MalformedPartitionMetadataError(f"{path}: {error}") from error
    if topic_id == NO_TOPIC_ID:
        raise MalformedPartitionMetadataError(f"{path}: the topic id is all zeroes")
    return topic_id


def write_topic_id(disk: Disk, directory: str, topic_id: TopicId) -> None:
    """Write a log's topic id; it survives power loss on return.

    Raises:
        OSError: the disk failed.
    """
    text = f"version: {_VERSION}\ntopic_id: {topic_id_text(topic_id)}"
    disk.replace(f"{directory}/{names.PARTITION_METADATA}", text.encode(), sync=True)
