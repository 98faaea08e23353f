"""The pieces of a snapshot of ``__consumer_offsets``.

    [KEPT, group_id, value or nil, [place, ...], [value, ...], [offset, ...]]     a group, in as many pieces as it takes
    [HELD, group_id, producer_id, [place, ...], [value, ...], [offset, ...]]      what an open transaction will commit

The groups go on changing while it is made: each group is copied at one moment, one group after the other, so a group
copied late may include records after the snapshot's `next_offset`. That does no harm if the log still has those
records: reading it from `next_offset` on leads to the same state, because each record replaces the whole value of its
key, and a marker ends only what precedes it.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgpack

from cluster.coordinator.committed_offsets import Kept
from cluster.coordinator.offset_bytes import Place
from cluster.coordinator.snapshot_bytes import PIECE, SnapshotError, SnapshotPlace
from cluster.coordinator.snapshots import SnapshotKind
from cluster.coordinator.stored_partition import StoredPartition
from wire.types import NO_OFFSET, ProducerId

_KEPT: Final = 1
_HELD: Final = 2


def encode_pieces(stored: StoredPartition) -> Iterator[bytes]:
    """Write the groups of a partition piece by piece; between two pieces they may change."""
    pack = msgpack.Packer().pack
    for group_id in tuple(stored.groups):
        group = stored.groups.get(group_id)
        if group is None:
            continue
        # Copy the whole group at one moment: a transaction that ends between two pieces moves offsets from one to the
        # other.
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
    """Leave out offsets that are still being written: those that succeed are in the log."""
    return [(place, kept) for place, kept in held.items() if kept[1] != NO_OFFSET]


def _columns(
    some: "tuple[tuple[Place, Kept], ...] | list[tuple[Place, Kept]]",
) -> tuple[list[bytes], list[bytes], list[int]]:
    return (
        [place for place, _ in some],
        [value for _, (value, _) in some],
        [offset for _, (_, offset) in some],
    )


def read_pieces(stored: StoredPartition, pieces: msgpack.Unpacker) -> Iterator[int]:
    """Read the groups of a snapshot.

    Yields:
        After each piece how many offsets it had, so that the caller can let other tasks run.

    Raises:
        SnapshotError: a piece is malformed.
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


def _start(place: SnapshotPlace) -> StoredPartition:
    return StoredPartition(
        place.next_offset,
        place.epoch,
        through=place.through,
        through_epoch=place.through_epoch,
        snapshot_at=place.written_at,
    )


def _count(stored: StoredPartition) -> int:
    return sum(len(group.offsets) for group in stored.groups.values())


GROUPS: Final = SnapshotKind("ottla-groups.msgpack", _start, encode_pieces, read_pieces, _count)
