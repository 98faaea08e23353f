"""The offsets that one group has committed, those on their way, and those that wait for a transaction.

A commit is written to the log first and becomes visible when the log has it on every in-sync replica. Commits
are numbered by the offset of their record in ``__consumer_offsets``: a later one is never overwritten by an
earlier one that was answered later.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from cluster.statemachines.group import CONSUMER_PROTOCOL_TYPE, Group, GroupState
from wire.types import NO_LEADER_EPOCH, NO_TIMESTAMP, LeaderEpoch, Offset, ProducerId, TopicPartition, WallMs

NO_EXPIRY = WallMs(-1)


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """One committed position.

    Attributes:
        expire_timestamp: When it ends by the rule of old clients; -1 where the group's retention decides.
    """

    offset: Offset
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    metadata: str = ""
    commit_timestamp: WallMs = NO_TIMESTAMP
    expire_timestamp: WallMs = NO_EXPIRY


@dataclass(slots=True)
class _Entry:
    committed: CommittedOffset
    record_offset: Offset


class CommittedOffsets:
    """The offsets of one group."""

    __slots__ = ("_entries", "_in_flight", "_transactional")

    def __init__(self) -> None:
        self._entries: dict[TopicPartition, _Entry] = {}
        self._in_flight: dict[TopicPartition, int] = {}
        self._transactional: dict[ProducerId, dict[TopicPartition, _Entry]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
        for partition, entry in self._entries.items():
            yield partition, entry.committed

    def get(self, partition: TopicPartition) -> CommittedOffset | None:
        """Give the committed offset of a partition, None where there is none."""
        entry = self._entries.get(partition)
        return None if entry is None else entry.committed

    def record_offset(self, partition: TopicPartition) -> Offset:
        """Give where in ``__consumer_offsets`` a commit stands, for the snapshot."""
        return self._entries[partition].record_offset

    @property
    def is_empty(self) -> bool:
        """Whether the group has no offsets, committed or on their way."""
        return not (self._entries or self._in_flight or self._transactional)

    def begin_commit(self, partitions: Iterable[TopicPartition]) -> None:
        """Commits of these partitions are on their way: they do not expire now."""
        for partition in partitions:
            self._in_flight[partition] = self._in_flight.get(partition, 0) + 1

    def end_commit(
        self, offsets: Mapping[TopicPartition, CommittedOffset], record_offset: Offset | None
    ) -> None:
        """Commits begun before are done.

        Args:
            offsets: What was committed.
            record_offset: Where their records stand; None if they could not be written.
        """
        for partition, committed in offsets.items():
            left = self._in_flight.get(partition, 0) - 1
            if left > 0:
                self._in_flight[partition] = left
            else:
                self._in_flight.pop(partition, None)
            if record_offset is not None:
                self.put(partition, committed, record_offset)

    def put(self, partition: TopicPartition, committed: CommittedOffset, record_offset: Offset) -> None:
        """Note a commit, unless a later one is known."""
        entry = self._entries.get(partition)
        if entry is None or entry.record_offset <= record_offset:
            self._entries[partition] = _Entry(committed, record_offset)

    def discard(self, partition: TopicPartition) -> CommittedOffset | None:
        """Forget a partition's offset, and what transactions hold for it."""
        for held in self._transactional.values():
            held.pop(partition, None)
        entry = self._entries.pop(partition, None)
        return None if entry is None else entry.committed

    def hold(
        self,
        producer: ProducerId,
        partition: TopicPartition,
        committed: CommittedOffset,
        record_offset: Offset,
    ) -> None:
        """Note an offset that takes effect when the producer's transaction commits (KIP-98)."""
        self._transactional.setdefault(producer, {})[partition] = _Entry(committed, record_offset)

    def end_transaction(self, producer: ProducerId, *, commit: bool) -> None:
        """A transaction that may hold offsets of this group has ended."""
        for partition, entry in self._transactional.pop(producer, {}).items():
            if commit:
                self.put(partition, entry.committed, entry.record_offset)

    def has_transaction_on(self, partition: TopicPartition) -> bool:
        """Whether an open transaction will change this partition's offset: a stable fetch has to wait (KIP-447)."""
        return any(partition in held for held in self._transactional.values())

    @property
    def held(self) -> Mapping[ProducerId, Mapping[TopicPartition, tuple[CommittedOffset, Offset]]]:
        """What open transactions hold, with where the records stand."""
        return {
            producer: {p: (entry.committed, entry.record_offset) for p, entry in entries.items()}
            for producer, entries in self._transactional.items()
        }

    def expired(
        self, group: Group, subscribed: Set[str] | None, now: WallMs, retention_ms: int
    ) -> list[TopicPartition]:
        """Give the partitions whose offsets have outlived the retention (KIP-211).

        Args:
            group: Decides from when on the time counts: since it is empty, or since the commit.
            subscribed: The topics that its members subscribe to; None if that is not known.
            now: Wall time.
            retention_ms: ``offsets.retention.minutes``, in milliseconds.
        """
        if group.protocol_type is None:
            since = None
            spared: Set[str] = frozenset()
        elif group.state is GroupState.EMPTY:
            since = group.state_since
            spared = frozenset()
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
            partition
            for partition, entry in self._entries.items()
            if partition.topic not in spared
            and partition not in self._in_flight
            and _is_over(entry.committed, since, now, retention_ms)
        ]


def _is_over(committed: CommittedOffset, since: WallMs | None, now: WallMs, retention_ms: int) -> bool:
    if committed.expire_timestamp != NO_EXPIRY:
        return now >= committed.expire_timestamp
    return now - (committed.commit_timestamp if since is None else since) >= retention_ms
