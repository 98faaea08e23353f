"""Where a partition is read: its position, and what must be settled before the next fetch. No I/O.

WAITING   --Placed-->      FETCHING    the start was looked up, or given
FETCHING  --Diverged-->    LOST        the log is not what was read (KIP-320), or the offset is out of its range
LOST      --Reset-->       WAITING     the policy says where to go on
any       --Placed-->      FETCHING    a seek
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final

from ottla.client.fetch_sessions import FetchPlace
from wire.types import NO_BROKER, NO_LEADER_EPOCH, BrokerId, LeaderEpoch, TopicPartition


class Endpoint(Enum):
    """An end of a log; the values are ListOffsets' timestamps for them."""

    EARLIEST = -2
    LATEST = -1


EARLIEST: Final = Endpoint.EARLIEST
LATEST: Final = Endpoint.LATEST


@dataclass(frozen=True, slots=True)
class Tail:
    """A number of offsets before the end."""

    count: int


Start = Endpoint | Tail | int | datetime
"""Where to begin: an end of the log, an offset, or the first record at a time or after it."""
Starts = Start | Mapping[int, Start] | Mapping[TopicPartition, Start]
"""One for all partitions, or each with its own, by number or by topic and number."""


def start_for(starts: Starts, partition: TopicPartition) -> Start | None:
    """Return the start of one partition, None where the mapping lacks it."""
    if isinstance(starts, Mapping):
        by_place: Mapping[object, Start] = starts  # type: ignore[assignment]  # the keys are of either kind
        found = by_place.get(partition)
        return by_place.get(partition.partition) if found is None else found
    return starts


def check_starts(starts: Starts) -> None:
    """Check starts that a user gave.

    Raises:
        ValueError: A time has no time zone, so that it names no moment; or an offset is negative.
    """
    for start in starts.values() if isinstance(starts, Mapping) else [starts]:
        if isinstance(start, datetime) and start.tzinfo is None:
            raise ValueError(f"the time {start} has no time zone, so it does not say which moment is meant")
        if isinstance(start, int) and start < 0:
            raise ValueError(f"{start} is no offset: use EARLIEST, LATEST or Tail({-start})")


class PositionState(Enum):
    """What a partition waits for."""

    WAITING = "waiting"  # for an offset to be looked up
    FETCHING = "fetching"  # for nothing: it is in the fetches while there is room
    LOST = "lost"  # for the user, who gets an error


class Event(Enum):
    """What happens to a position."""

    PLACED = "placed"
    DIVERGED = "diverged"
    RESET = "reset"


TRANSITIONS: Final[Mapping[tuple[PositionState, Event], PositionState]] = {
    (PositionState.WAITING, Event.PLACED): PositionState.FETCHING,
    (PositionState.FETCHING, Event.PLACED): PositionState.FETCHING,
    (PositionState.LOST, Event.PLACED): PositionState.FETCHING,
    (PositionState.FETCHING, Event.DIVERGED): PositionState.LOST,
    (PositionState.FETCHING, Event.RESET): PositionState.WAITING,
    (PositionState.LOST, Event.RESET): PositionState.WAITING,
}


class IllegalTransition(Exception):
    """A position cannot do this in its state: a defect of the client."""

    def __init__(self, state: PositionState, event: Event) -> None:
        super().__init__(f"{event.value} in state {state.value}")


class Position:
    """Where one partition is read.

    Attributes:
        partition: Which one.
        number: Counts seeks and resets: an answer for an older number is dropped.
        state: What it waits for.
        offset: The next offset to fetch.
        last_epoch: The leader epoch of the batch before it, -1 for none.
        start: Where to begin, once it is looked up.
        high_watermark: As the last answer said, -1 before.
        last_stable_offset: Likewise.
        log_start_offset: Likewise.
        validated_in: The leader epoch in which the log was found to be what was read before the position.
    """

    __slots__ = (
        "_replica",
        "_replica_until",
        "high_watermark",
        "last_epoch",
        "last_stable_offset",
        "log_start_offset",
        "number",
        "offset",
        "partition",
        "start",
        "state",
        "validated_in",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.number = 0
        self.state = PositionState.WAITING
        self.offset = -1
        self.last_epoch = NO_LEADER_EPOCH
        self.start: Start | None = None
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.validated_in = NO_LEADER_EPOCH
        self._replica = NO_BROKER
        self._replica_until = 0.0

    def __repr__(self) -> str:
        return f"<Position {self.partition}@{self.offset} {self.state.value}>"

    def _move(self, event: Event) -> None:
        following = TRANSITIONS.get((self.state, event))
        if following is None:
            raise IllegalTransition(self.state, event)
        self.state = following

    def place(self, offset: int, last_epoch: LeaderEpoch = NO_LEADER_EPOCH) -> None:
        """Read on from an offset: a seek, or a start that was looked up."""
        self._move(Event.PLACED)
        self.number += 1
        self.offset = offset
        self.last_epoch = last_epoch
        self.validated_in = NO_LEADER_EPOCH

    def advance(self, offset: int, last_epoch: LeaderEpoch) -> None:
        """Move past what was fetched."""
        self.offset = offset
        if last_epoch != NO_LEADER_EPOCH:
            self.last_epoch = last_epoch

    def reset(self, start: Start) -> None:
        """Look up anew where to read on."""
        self._move(Event.RESET)
        self.number += 1
        self.start = start

    def lose(self) -> None:
        """Stop: the log is not what was read."""
        self._move(Event.DIVERGED)
        self.number += 1

    def prefer(self, replica: BrokerId, until: float) -> None:
        """Read from a follower that stands closer (KIP-392) until a time on the loop's clock, then from the leader."""
        self._replica = replica
        self._replica_until = until

    def read_from(self, leader: BrokerId, live: Mapping[BrokerId, object], now: float) -> BrokerId:
        """Return the broker to fetch from: the preferred replica while it counts, else the leader."""
        if self._replica >= 0 and (now >= self._replica_until or self._replica not in live):
            self._replica = NO_BROKER
        return leader if self._replica < 0 else self._replica

    @property
    def reads_from_follower(self) -> bool:
        """Whether a follower is read."""
        return self._replica >= 0

    def leave_follower(self) -> None:
        """Read from the leader again."""
        self._replica = NO_BROKER

    def fetch_place(self, leader_epoch: LeaderEpoch, size_max: int) -> FetchPlace:
        """Return what a Fetch says of the partition."""
        return FetchPlace(self.offset, leader_epoch, self.last_epoch, size_max)
