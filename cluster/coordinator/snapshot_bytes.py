"""A snapshot of what a partition of ``__consumer_offsets`` says, so that a restarted broker reads only the log's tail.

    a stream of msgpack values | crc:uint32, CRC-32C of the stream

    [version, topic_id, partition, next_offset, epoch, through, through_epoch, written_at]
    [KEPT, group_id, value or nil, [place, ...], [value, ...], [offset, ...]]     a group, in as many pieces as it takes
    [HELD, group_id, producer_id, [place, ...], [value, ...], [offset, ...]]      what an open transaction will commit

The groups go on while it is made: each group is taken as it is at one moment, one group after the other, so that a
group taken late may know of records after `next_offset`. That does no harm if the log still has all that it knows
of: reading it from `next_offset` on leads to the same end, as each record says all of what it is about, and a marker
ends only what stands before it. `through` is where the partition stood when the last group had been taken; a log that
was cut before it, or that has another leader's record there, makes the snapshot worthless.

It lies in the partition's own directory, under a name that Kafka passes over, and is deleted with it.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgpack
from crc32c import crc32c

from cluster.coordinator.committed_offsets import Kept
from cluster.coordinator.offset_bytes import Place
from cluster.coordinator.stored_partition import StoredPartition
from wire.types import NO_OFFSET, LeaderEpoch, Offset, ProducerId, TopicId, WallMs

FILE_NAME: Final = "ottla-groups.msgpack"
PIECE: Final = 4_000
"""Offsets written or read between two turns of the loop."""
_VERSION: Final = 1
_KEPT: Final = 1
_HELD: Final = 2
_CRC: Final = struct.Struct(">I")


class SnapshotError(Exception):
    """The bytes are not a snapshot of ours, or not a whole one: what they tell is read from the log instead."""


@dataclass(frozen=True, slots=True)
class SnapshotPlace:
    """Which partition a snapshot is of, and what the log must have for it to be good.

    Attributes:
        next_offset: The log is to be read from here.
        epoch: The leader epoch of the record before it.
        through: No group knows of records from here on.
        through_epoch: The leader epoch of the record before that.
        written_at: When it was begun.
    """

    topic_id: TopicId
    partition: int
    next_offset: Offset
    epoch: LeaderEpoch
    through: Offset
    through_epoch: LeaderEpoch
    written_at: WallMs


def encode_pieces(stored: StoredPartition) -> Iterator[bytes]:
    """Write the groups of a partition piece by piece; between two pieces they may change."""
    pack = msgpack.Packer().pack
    for group_id in tuple(stored.groups):
        group = stored.groups.get(group_id)
        if group is None:
            continue
        # All of a group at one moment: a transaction that ends between two pieces moves offsets from one to the other.
        kept = tuple(group.offsets.kept.items())
        held = {producer: _written(each) for producer, each in group.offsets.held.items()}
        value = group.value
        for start in range(0, len(kept) or 1, PIECE):
            some = kept[start : start + PIECE]
            if some or value is not None:
                yield pack([_KEPT, group_id, value, *_columns(some)])
            value = None
        for producer, each in held.items():
            if each:
                yield pack([_HELD, group_id, producer, *_columns(each)])


def _written(held: Mapping[Place, Kept]) -> list[tuple[Place, Kept]]:
    """Leave out what is on its way to the log still: it will be found there, if it arrives."""
    return [(place, kept) for place, kept in held.items() if kept[1] != NO_OFFSET]


def _columns(
    some: "tuple[tuple[Place, Kept], ...] | list[tuple[Place, Kept]]",
) -> tuple[list[bytes], list[bytes], list[int]]:
    return (
        [place for place, _ in some],
        [value for _, (value, _) in some],
        [offset for _, (_, offset) in some],
    )


def seal(place: SnapshotPlace, pieces: list[bytes]) -> bytes:
    """Put a snapshot together: what it is of, its pieces, and their checksum."""
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
    """Check a snapshot, and read what it is of.

    Returns:
        That, and the reader of its pieces for `read_pieces`.

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


def read_pieces(stored: StoredPartition, pieces: msgpack.Unpacker) -> Iterator[int]:
    """Take the groups of a snapshot in.

    Yields:
        After each piece how many offsets it had, so that the caller can let others have their turn.

    Raises:
        SnapshotError: a piece is not one.
    """
    for piece in pieces:
        try:
            kind, group_id, about, places, values, offsets = piece
            found: dict[Place, Kept] = dict(zip(places, zip(values, offsets, strict=True), strict=True))
        except (ValueError, TypeError) as error:
            raise SnapshotError(f"a piece cannot be read: {error}") from error
        group = stored.group(group_id)
        if kind == _KEPT:
            if about is not None:
                group.value = about
            group.offsets.kept.update(found)
        elif kind == _HELD:
            producer = ProducerId(about)
            group.offsets.held[producer] = found
            stored.hold(producer, group_id)
        else:
            raise SnapshotError(f"a piece is of kind {kind}")
        yield len(found)
