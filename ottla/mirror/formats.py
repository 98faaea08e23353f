"""The records of MirrorMaker 2's internal topics, byte for byte. No I/O.

    offset sync   key:   topic string | partition int32
                  value: upstream int64 | downstream int64
    checkpoint    key:   group string | topic string | partition int32
                  value: version int16 = 0 | upstream int64 | downstream int64 | metadata string
    heartbeat     key:   source string | target string
                  value: version int16 = 0 | milliseconds int64

A string is its length as int16, and UTF-8. The topic of a sync is called as at the source, that of a checkpoint as at
the target.
"""

import struct
from dataclasses import dataclass
from typing import Final

from wire.types import TopicPartition

CHECKPOINT_VERSION: Final = 0
HEARTBEATS: Final = "heartbeats"
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_LONGS: Final = struct.Struct(">qq")


class FormatError(ValueError):
    """The bytes are not such a record."""


def offset_syncs_topic(target_alias: str) -> str:
    """Return the topic at the source that holds the offsets of its records at a target."""
    return f"mm2-offset-syncs.{target_alias}.internal"


def checkpoints_topic(source_alias: str) -> str:
    """Return the topic at the target that holds the positions of a source's groups there."""
    return f"{source_alias}.checkpoints.internal"


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """A record's offset at the source and at the target."""

    place: TopicPartition
    upstream: int
    downstream: int

    def encode(self) -> tuple[bytes, bytes]:
        """Return key and value."""
        key = _text(self.place.topic) + _INT.pack(self.place.partition)
        return key, _LONGS.pack(self.upstream, self.downstream)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> "OffsetSync":
        """Read key and value; raises FormatError."""
        keys, values = _Reader(key), _Reader(value)
        place = TopicPartition(keys.text(), keys.number(_INT))
        return cls(place, values.number(_LONG), values.number(_LONG))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a group stands, in offsets of both clusters."""

    group: str
    place: TopicPartition
    upstream: int
    downstream: int
    metadata: str = ""

    def encode(self) -> tuple[bytes, bytes]:
        """Return key and value."""
        key = _text(self.group) + _text(self.place.topic) + _INT.pack(self.place.partition)
        numbers = _LONGS.pack(self.upstream, self.downstream)
        return key, _SHORT.pack(CHECKPOINT_VERSION) + numbers + _text(self.metadata)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> "Checkpoint":
        """Read key and value; raises FormatError."""
        keys, values = _Reader(key), _Reader(value)
        group, topic, partition = keys.text(), keys.text(), keys.number(_INT)
        values.version(CHECKPOINT_VERSION)
        upstream, downstream = values.number(_LONG), values.number(_LONG)
        return cls(group, TopicPartition(topic, partition), upstream, downstream, values.text())


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A sign that a flow runs."""

    source: str
    target: str
    timestamp_ms: int

    def encode(self) -> tuple[bytes, bytes]:
        """Return key and value."""
        return _text(self.source) + _text(self.target), _SHORT.pack(CHECKPOINT_VERSION) + _LONG.pack(
            self.timestamp_ms
        )

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> "Heartbeat":
        """Read key and value; raises FormatError."""
        keys, values = _Reader(key), _Reader(value)
        source, target = keys.text(), keys.text()
        values.version(CHECKPOINT_VERSION)
        return cls(source, target, values.number(_LONG))


def _text(text: str) -> bytes:
    data = text.encode()
    return _SHORT.pack(len(data)) + data


class _Reader:
    def __init__(self, data: bytes | None) -> None:
        if data is None:
            raise FormatError("it is null")
        self._data = data
        self._at = 0

    def number(self, layout: struct.Struct) -> int:
        try:
            value: int = layout.unpack_from(self._data, self._at)[0]
        except struct.error:
            raise FormatError("it is too short") from None
        self._at += layout.size
        return value

    def version(self, known: int) -> None:
        found = self.number(_SHORT)
        if found != known:
            raise FormatError(f"its version is {found}, and only {known} is known")

    def text(self) -> str:
        size = self.number(_SHORT)
        data = self._data[self._at : self._at + size]
        if size < 0 or len(data) < size:
            raise FormatError("a string is longer than what follows")
        self._at += size
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise FormatError("a string is no UTF-8") from None
