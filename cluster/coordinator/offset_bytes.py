"""A committed offset as the bytes of its record: what is kept in memory, and decoded only on demand.

A coordinator may hold a million offsets. As the bytes that were read they take a third of the memory of objects,
and taking over a partition decodes none of them.

    key      version:int16 = 1 | group:string | place
    place    topic:string | partition:int32
    value 3  version:int16 | offset:int64 | leader_epoch:int32 | metadata:string | commit_timestamp:int64
    value 1  version:int16 | offset:int64 | metadata:string | commit_timestamp:int64 | expire_timestamp:int64

    string   length:int16 | UTF-8

Values 0 and 2, of old brokers, are 1 and 3 without the expiry or the leader epoch.
"""

import struct
from dataclasses import dataclass
from typing import Final, NewType

from wire.types import NO_LEADER_EPOCH, NO_TIMESTAMP, LeaderEpoch, Offset, TopicPartition, WallMs

Place = NewType("Place", bytes)
"""The part of an offset's key that follows the group."""

NO_EXPIRY: Final = WallMs(-1)

_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_TWO_LONGS: Final = struct.Struct(">qq")
_HEAD_3: Final = struct.Struct(">hqih")
_HEAD_1: Final = struct.Struct(">hqh")
_OFFSET_KEY_VERSION: Final = b"\0\1"
_VALUE_HEADS: Final = {0: (_HEAD_1, 8), 1: (_HEAD_1, 16), 2: (_HEAD_1, 8), 3: (_HEAD_3, 8)}
"""By version: the fields before the metadata, and the bytes of the timestamps after it."""


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """One committed position.

    Attributes:
        expire_timestamp: When it expires, as old clients can ask for; -1 if the group's retention decides.
    """

    offset: Offset
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    metadata: str = ""
    commit_timestamp: WallMs = NO_TIMESTAMP
    expire_timestamp: WallMs = NO_EXPIRY


def place_of(partition: TopicPartition) -> Place:
    """Return the bytes that name a partition in a key."""
    topic = partition.topic.encode()
    return Place(_SHORT.pack(len(topic)) + topic + _INT.pack(partition.partition))


def partition_at(place: Place) -> TopicPartition:
    """Read the partition that a key names."""
    (number,) = _INT.unpack_from(place, len(place) - 4)
    return TopicPartition(place[2:-4].decode(errors="replace"), number)


def topic_at(place: Place) -> str:
    """Read the topic that a key names."""
    return place[2:-4].decode(errors="replace")


def group_prefix(group_id: str) -> bytes:
    """Return the bytes that precede the place in all of a group's keys."""
    name = group_id.encode()
    return _OFFSET_KEY_VERSION + _SHORT.pack(len(name)) + name


def split_offset_key(key: bytes) -> tuple[str, Place] | None:
    """Read an offset's key: the group and the place; None where the bytes are not one."""
    try:
        (group_size,) = _SHORT.unpack_from(key, 2)
        group_end = 4 + group_size
        (topic_size,) = _SHORT.unpack_from(key, group_end)
        if group_size < 0 or topic_size < 0 or group_end + topic_size + 6 != len(key):
            return None
        return key[4:group_end].decode(), Place(key[group_end:])
    except (struct.error, UnicodeDecodeError):
        return None


def value_of(committed: CommittedOffset) -> bytes:
    """Encode a value: in version 3, or in 1 if there is an expiry, which only 1 can carry."""
    metadata = committed.metadata.encode()
    if committed.expire_timestamp == NO_EXPIRY:
        return (
            _HEAD_3.pack(3, committed.offset, committed.leader_epoch, len(metadata))
            + metadata
            + _LONG.pack(committed.commit_timestamp)
        )
    times = _TWO_LONGS.pack(committed.commit_timestamp, committed.expire_timestamp)
    return _HEAD_1.pack(1, committed.offset, len(metadata)) + metadata + times


def is_value(value: bytes) -> bool:
    """Whether the bytes are a value that `committed_in` reads."""
    try:
        layout = _VALUE_HEADS.get(_SHORT.unpack_from(value)[0])
        if layout is None:
            return False
        head, tail_size = layout
        metadata_size: int = head.unpack_from(value)[-1]
    except struct.error:
        return False
    return metadata_size >= 0 and head.size + metadata_size + tail_size == len(value)


def committed_in(value: bytes) -> CommittedOffset:
    """Read a value for which `is_value` holds."""
    version, offset, *epoch, metadata_size = _VALUE_HEADS[value[1]][0].unpack_from(value)
    start = _VALUE_HEADS[version][0].size
    metadata = value[start : start + metadata_size].decode(errors="replace")
    committed_at, expires_at = times_in(value)
    return CommittedOffset(
        offset, LeaderEpoch(epoch[0]) if epoch else NO_LEADER_EPOCH, metadata, committed_at, expires_at
    )


def times_in(value: bytes) -> tuple[WallMs, WallMs]:
    """Read when a value was committed, and the expiry that an old client asked for (-1: none)."""
    if value[1] == 1:
        committed_at, expires_at = _TWO_LONGS.unpack_from(value, len(value) - 16)
        return committed_at, expires_at
    return _LONG.unpack_from(value, len(value) - 8)[0], NO_EXPIRY
