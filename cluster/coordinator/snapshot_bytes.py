"""A snapshot of the state in a coordinator's partition, so that a restarted broker reads only the log's tail.

    a stream of msgpack values | crc:uint32, CRC-32C of the stream

    [version, topic_id, partition, next_offset, epoch, through, through_epoch, written_at]
    pieces, by the kind of coordinator: `group_pieces`, `transaction_pieces`

It may include records after `next_offset`, up to `through`, if the coordinator went on while it was made. A log that
was truncated before `through`, or that has another leader's record there, makes the snapshot invalid.

It is stored in the partition's own directory, under a name that Kafka ignores, and is deleted with it.
"""

import struct
from dataclasses import dataclass
from typing import Final

import msgpack
from crc32c import crc32c

from wire.types import LeaderEpoch, Offset, TopicId, WallMs

PIECE: Final = 4_000
"""Entries written or read between two turns of the loop."""
_VERSION: Final = 1
_CRC: Final = struct.Struct(">I")


class SnapshotError(Exception):
    """The bytes are not a whole snapshot in our format: the log is read instead."""


@dataclass(frozen=True, slots=True)
class SnapshotPlace:
    """The partition of a snapshot, and what its log must have for the snapshot to be valid.

    Attributes:
        next_offset: Where to start reading the log.
        epoch: The leader epoch of the record before it.
        through: No entry includes records from this offset on.
        through_epoch: The leader epoch of the record before `through`.
        written_at: When writing it began.
    """

    topic_id: TopicId
    partition: int
    next_offset: Offset
    epoch: LeaderEpoch
    through: Offset
    through_epoch: LeaderEpoch
    written_at: WallMs


def seal(place: SnapshotPlace, pieces: list[bytes]) -> bytes:
    """Encode a snapshot: its place, its pieces, and their checksum."""
    head = msgpack.packb(
        [
            _VERSION,
            bytes(place.topic_id),
            place.partition,
            place.next_offset,
            place.epoch,
            place.through,
            place.through_epoch,
            place.written_at,
        ]
    )
    checksum = crc32c(head)
    for piece in pieces:
        checksum = crc32c(piece, checksum)
    return b"".join([head, *pieces, _CRC.pack(checksum)])


def open_snapshot(data: bytes) -> tuple[SnapshotPlace, msgpack.Unpacker]:
    """Check a snapshot, and read its place.

    Returns:
        The place, and the reader of its pieces for `read_pieces`.

    Raises:
        SnapshotError: it is damaged, or of another version.
    """
    body = memoryview(data)[: -_CRC.size]
    if len(data) <= _CRC.size or crc32c(body) != _CRC.unpack_from(data, len(body))[0]:
        raise SnapshotError("its checksum is wrong")
    pieces = msgpack.Unpacker(use_list=True, max_buffer_size=0)
    pieces.feed(body)
    try:
        version, *head = next(pieces)
        if version != _VERSION:
            raise SnapshotError(f"it has version {version}")
        topic_id, partition, next_offset, epoch, through, through_epoch, written_at = head
    except (ValueError, TypeError, StopIteration) as error:
        raise SnapshotError(f"it does not begin as one: {error}") from error
    place = SnapshotPlace(
        TopicId(topic_id),
        partition,
        Offset(next_offset),
        LeaderEpoch(epoch),
        Offset(through),
        LeaderEpoch(through_epoch),
        WallMs(written_at),
    )
    return place, pieces
