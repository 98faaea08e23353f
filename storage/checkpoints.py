"""Checkpoint files: offsets per partition, kept as Kafka keeps them.

    0                  version
    2                  number of entries
    orders 0 1200      topic, partition, offset
    orders 1 77

They are replaced atomically, and never trusted: an unreadable one counts as empty, so the caller recovers more than
needed, never less.
"""

import logging
import threading
from collections.abc import Mapping, Sequence

from storage.disk import Disk
from wire.types import Offset, TopicPartition

_VERSION = "0"
_log = logging.getLogger(__name__)


class MalformedCheckpointError(ValueError):
    """A checkpoint file that cannot be parsed; the text names the line."""


def encode_lines(entries: Sequence[str]) -> bytes:
    """Return a checkpoint file's bytes: version, count, one entry a line."""
    return "\n".join([_VERSION, str(len(entries)), *entries, ""]).encode()


def decode_lines(data: bytes) -> list[list[str]]:
    """Read a checkpoint file's entries, each split at white space. An empty file has none.

    Raises:
        MalformedCheckpointError: another version, a wrong count, or bytes that are no text.
    """
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise MalformedCheckpointError("not text") from error
    if not lines:
        return []
    if not data.endswith(b"\n"):
        raise MalformedCheckpointError("cut off")  # the last number might read as a smaller one
    if lines[0] != _VERSION:
        raise MalformedCheckpointError(f"version {lines[0]!r}, expected {_VERSION}")
    entries = lines[2:]
    if len(lines) > 1 and lines[1] != str(len(entries)):
        raise MalformedCheckpointError(f"{len(entries)} entries, and a count of {lines[1]!r}")
    return [entry.split() for entry in entries]


class OffsetCheckpoint:
    """One checkpoint file of a log directory."""

    __slots__ = ("_disk", "_writing", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._writing = threading.Lock()
        self.path = path

    def read(self) -> dict[TopicPartition, Offset]:
        """Read every partition's offset. Missing or unreadable content gives an empty mapping, with a
        warning for the latter.

        Raises:
            OSError: the disk failed.
        """
        try:
            data = self._disk.read(self.path)
        except FileNotFoundError:
            return {}
        try:
            return {
                TopicPartition(topic, int(partition)): Offset(int(offset))
                for topic, partition, offset in decode_lines(data)
            }
        except ValueError as error:
            _log.warning("checkpoint %s is ignored: %s", self.path, error)
            return {}

    def write(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Replace the file with these offsets, read once the lock is held; they survive power loss on return.

        Raises:
            OSError: the disk failed; the old file is intact.
        """
        with self._writing:
            # A thread's periodic checkpoint and a truncation on the loop would share the temporary file. The offsets
            # are read under the lock, so that a slow writer does not bring back an entry that a later one left out.
            lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in dict(offsets).items()]
            self._disk.replace(self.path, encode_lines(lines), sync=True)
