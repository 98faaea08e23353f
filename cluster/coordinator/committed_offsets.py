"""The offsets of one group: committed, being written, and held by open transactions.

A commit is written to the log first and becomes visible when every in-sync replica has it. Commits
are numbered by the offset of their batch in ``__consumer_offsets``: a later one is never overwritten by an
earlier one that was answered later.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Final

from cluster.coordinator.offset_bytes import (
    NO_EXPIRY,
    CommittedOffset,
    Place,
    committed_in,
    partition_at,
    place_of,
    times_in,
    topic_at,
)
from cluster.statemachines.group import CONSUMER_PROTOCOL_TYPE, Group, GroupState
from wire.types import NO_OFFSET, Offset, ProducerId, TopicPartition, WallMs

Kept = tuple[bytes, Offset]
"""A value's bytes, and the base offset of its batch."""


class CommittedOffsets:
    """The offsets of one group.

    Attributes:
        kept: Committed offsets, by place.
        held: Offsets that open transactions will commit, by producer; the offset of the batch is -1 until it is
            written.
    """

    __slots__ = ("_in_flight", "held", "kept")

    def __init__(self) -> None:
        self.kept: dict[Place, Kept] = {}
        self.held: dict[ProducerId, dict[Place, Kept]] = {}
        self._in_flight: dict[Place, int] = {}

    def __len__(self) -> int:
        return len(self.kept)

    def __iter__(self) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
        for place, (value, _) in self.kept.items():
            yield partition_at(place), committed_in(value)

    def get(self, partition: TopicPartition) -> CommittedOffset | None:
        """Return the committed offset of a partition, None where there is none."""
        kept = self.kept.get(place_of(partition))
        return None if kept is None else committed_in(kept[0])

    @property
    def is_empty(self) -> bool:
        """Whether the group has no offsets, either committed or being written."""
        return not (self.kept or self._in_flight or self.held)

    def begin_commit(self, places: Iterable[Place]) -> None:
        """Note that commits at these places are being written: they do not expire now."""
        for place in places:
            self._in_flight[place] = self._in_flight.get(place, 0) + 1

    def end_commit(self, values: Mapping[Place, bytes], record_offset: Offset | None) -> None:
        """Finish commits begun earlier; they have no effect at places discarded meanwhile.

        Args:
            values: What was committed.
            record_offset: The base offset of their batch; None if it could not be written.
        """
        for place, value in values.items():
            left = self._in_flight.get(place)
            if left is None:
                continue
            if left > 1:
                self._in_flight[place] = left - 1
            else:
                del self._in_flight[place]
            if record_offset is not None:
                self.put(place, value, record_offset)

    def put(self, place: Place, value: bytes, record_offset: Offset) -> None:
        """Note a commit, unless a later one is known."""
        kept = self.kept.get(place)
        if kept is None or kept[1] <= record_offset:
            self.kept[place] = (value, record_offset)

    def places(self) -> list[Place]:
        """Return the places with a committed offset, or one being written."""
        return [*self.kept, *(place for place in self._in_flight if place not in self.kept)]

    def discard(self, place: Place) -> bool:
        """Forget every offset at a place: committed, being written or held; return whether it needs a tombstone.

        For an offset that has only expired use `drop_expired`: an open transaction can still commit one there.
        """
        was_in_flight = self._in_flight.pop(place, None) is not None
        for producer in tuple(self.held):
            self._release(producer, (place,))
        return self.kept.pop(place, None) is not None or was_in_flight

    def drop_expired(self, place: Place) -> bool:
        """Forget the committed offset at a place; return whether it needs a tombstone."""
        return self.kept.pop(place, None) is not None

    def hold(self, producer: ProducerId, values: Mapping[Place, bytes], record_offset: Offset) -> None:
        """Note offsets that take effect when the producer's transaction commits (KIP-98).

        Args:
            producer: Whose transaction.
            values: Its offsets.
            record_offset: The base offset of their batch; -1 while it is being written.
        """
        held = self.held.setdefault(producer, {})
        for place, value in values.items():
            held[place] = (value, record_offset)

    def end_hold(
        self, producer: ProducerId, values: Mapping[Place, bytes], record_offset: Offset | None
    ) -> None:
        """Note that held offsets were written or, with None, could not be; others stay as they are."""
        held = self.held.get(producer, {})
        for place, value in values.items():
            if held.get(place) != (value, NO_OFFSET):
                continue
            if record_offset is None:
                self._release(producer, (place,))
            else:
                held[place] = (value, record_offset)

    def discard_held(self, producer: ProducerId, place: Place) -> None:
        """Drop an offset that a transaction holds, because it wrote a tombstone for it."""
        self._release(producer, (place,))

    def end_transaction(self, producer: ProducerId, *, commit: bool, marker: Offset | None = None) -> bool:
        """End a transaction that may hold offsets of this group.

        Args:
            producer: Whose transaction.
            commit: How it ended.
            marker: The offset of its marker in the log; None if that is at the log's end.

        Returns:
            Whether the producer still holds offsets written after the marker.
        """
        later: dict[Place, Kept] = {}
        for place, (value, record_offset) in self.held.pop(producer, {}).items():
            if marker is not None and (record_offset > marker or record_offset == NO_OFFSET):
                # Offsets still being written were appended after the marker: outcomes come in the order of appends.
                later[place] = (value, record_offset)
            elif commit and record_offset != NO_OFFSET:
                self.put(place, value, record_offset)
        if later:
            self.held[producer] = later
        return bool(later)

    @property
    def is_moving(self) -> bool:
        """Whether any offset can change without another request."""
        return bool(self.held or self._in_flight)

    def is_unstable(self, place: Place) -> bool:
        """Whether an open transaction, or a commit being written, will change this offset.

        A fetch that requires stable offsets has to wait for both (KIP-447).
        """
        return place in self._in_flight or any(place in held for held in self.held.values())

    def _release(self, producer: ProducerId, places: Iterable[Place]) -> None:
        held = self.held.get(producer)
        if held is None:
            return
        for place in places:
            held.pop(place, None)
        if not held:
            del self.held[producer]

    def expired(
        self, group: Group, subscribed: Set[str] | None, now: WallMs, retention_ms: int
    ) -> list[Place]:
        """Return the places whose offsets have outlived the retention (KIP-211).

        Args:
            group: Decides when the retention begins: when the group became empty, or at the commit.
            subscribed: The topics that its members subscribe to; None if that is not known.
            now: Wall time.
            retention_ms: ``offsets.retention.minutes``, in milliseconds.
        """
        if group.protocol_type is None:
            since = None
            spared: Set[str] = _NO_TOPICS
        elif group.state is GroupState.EMPTY:
            since = group.state_since
            spared = _NO_TOPICS
        elif (
            group.protocol_type == CONSUMER_PROTOCOL_TYPE
            and group.state is GroupState.STABLE
            and subscribed is not None
        ):
            since = None
            spared = subscribed
        else:
            return []
        return [
            place
            for place, (value, _) in self.kept.items()
            if _is_over(value, since, now, retention_ms)
            and place not in self._in_flight
            and not (spared and topic_at(place) in spared)
        ]


_NO_TOPICS: Final[Set[str]] = frozenset()


def _is_over(value: bytes, since: WallMs | None, now: WallMs, retention_ms: int) -> bool:
    committed_at, expires_at = times_in(value)
    if expires_at != NO_EXPIRY:
        return now >= expires_at
    return now - (committed_at if since is None else since) >= retention_ms
