"""The offsets that one group has committed, those on their way, and those that wait for a transaction.

A commit is written to the log first and becomes visible when the log has it on every in-sync replica. Commits
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
"""A value's bytes, and the offset of the batch that it stands in."""


class CommittedOffsets:
    """The offsets of one group.

    Attributes:
        kept: What is committed, by place.
        held: What open transactions will commit, by producer; the offset of the batch is -1 until it is written.
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
        """Whether the group has no offsets, committed or on their way."""
        return not (self.kept or self._in_flight or self.held)

    def begin_commit(self, places: Iterable[Place]) -> None:
        """Commits at these places are on their way: they do not expire now."""
        for place in places:
            self._in_flight[place] = self._in_flight.get(place, 0) + 1

    def end_commit(self, values: Mapping[Place, bytes], record_offset: Offset | None) -> None:
        """Commits begun before are done; where the place was discarded meanwhile, they have no effect.

        Args:
            values: What was committed.
            record_offset: Where their batch stands; None if it could not be written.
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
        """Return where something is committed, or about to be."""
        return [*self.kept, *(place for place in self._in_flight if place not in self.kept)]

    def discard(self, place: Place) -> bool:
        """Forget a place: what is committed, on its way and held; return whether it needs a tombstone.

        What has only expired is `drop_expired`: a transaction that is open then commits an offset all the same.
        """
        was_in_flight = self._in_flight.pop(place, None) is not None
        for producer in tuple(self.held):
            self._release(producer, (place,))
        return self.kept.pop(place, None) is not None or was_in_flight

    def drop_expired(self, place: Place) -> bool:
        """Forget what is committed at a place; return whether it needs a tombstone."""
        return self.kept.pop(place, None) is not None

    def hold(self, producer: ProducerId, values: Mapping[Place, bytes], record_offset: Offset) -> None:
        """Note offsets that take effect when the producer's transaction commits (KIP-98).

        Args:
            producer: Whose transaction.
            values: Its offsets.
            record_offset: Where their batch stands; -1 while it is on its way.
        """
        held = self.held.setdefault(producer, {})
        for place, value in values.items():
            held[place] = (value, record_offset)

    def end_hold(
        self, producer: ProducerId, values: Mapping[Place, bytes], record_offset: Offset | None
    ) -> None:
        """Offsets held while on their way are written, or (with None) could not be; other ones stay as they are."""
        held = self.held.get(producer, {})
        for place, value in values.items():
            if held.get(place) != (value, NO_OFFSET):
                continue
            if record_offset is None:
                self._release(producer, (place,))
            else:
                held[place] = (value, record_offset)

    def discard_held(self, producer: ProducerId, place: Place) -> None:
        """A transaction takes back an offset that it holds."""
        self._release(producer, (place,))

    def end_transaction(self, producer: ProducerId, *, commit: bool, marker: Offset | None = None) -> bool:
        """A transaction that may hold offsets of this group has ended.

        Args:
            producer: Whose transaction.
            commit: How it ended.
            marker: Where the log says so; None where that is its end.

        Returns:
            Whether offsets are held on that stand behind the marker.
        """
        later: dict[Place, Kept] = {}
        for place, (value, record_offset) in self.held.pop(producer, {}).items():
            if marker is not None and (record_offset > marker or record_offset == NO_OFFSET):
                # What is on its way now was appended behind the marker: outcomes come in the order of appends.
                later[place] = (value, record_offset)
            elif commit and record_offset != NO_OFFSET:
                self.put(place, value, record_offset)
        if later:
            self.held[producer] = later
        return bool(later)

    @property
    def is_moving(self) -> bool:
        """Whether any offset may change without another request."""
        return bool(self.held or self._in_flight)

    def is_unstable(self, place: Place) -> bool:
        """Whether an open transaction, or a commit on its way, will change this offset.

        A stable fetch has to wait for either (KIP-447).
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
            group: Decides from when on the time counts: since it is empty, or since the commit.
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
