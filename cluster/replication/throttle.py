"""Throttles of replication (KIP-73): how fast a leader sends, and a follower fetches, replicas that catch up.

A throttle is a bucket that holds a window's worth of bytes at the current rate. Bytes that pass fill it, time drains
it, and nothing passes while it is full. So the average is the rate, whatever the size of single answers, and a pause of
up to half a window between two requests costs nothing.

Only replicas that a topic's settings name are throttled, and of those only the ones out of sync: a replica that keeps
up must not be made to fall behind.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from wire.types import BrokerId, MonotonicSeconds, TopicPartition

if TYPE_CHECKING:
    from cluster.replication.follower.fetch_state import FetchState
    from cluster.replication.leader.fetch_session import FetchItem
    from cluster.replication.partition.partition import Partition
    from storage.log import Log
    from storage.log_config import LogConfig
    from timing.clock import Clock
    from wire.messages.fetch import PartitionData

UNLIMITED: Final = (1 << 63) - 1
_ALL: Final = "*"


class Throttle:
    """One direction's throttle of one broker.

    Args:
        broker_id: This broker.
        clock: Drains the bucket.
        rate: Returns the current rate in bytes a second; `UNLIMITED` for no throttle.
        entries: Returns the throttled replicas of a topic, ``partition:broker`` or ``*``, from its settings.
        window_s: The longest pause, in seconds, that can be made up for.
    """

    __slots__ = (
        "_broker_id",
        "_clock",
        "_emptied_at",
        "_entries",
        "_filled_s",
        "_parsed",
        "_rate",
        "_rate_seen",
        "_window_s",
    )

    def __init__(
        self,
        broker_id: BrokerId,
        clock: "Clock",
        rate: Callable[[], int],
        entries: "Callable[[LogConfig], tuple[str, ...]]",
        window_s: float = 1.0,
    ) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._rate = rate
        self._entries = entries
        self._window_s = window_s
        self._rate_seen = UNLIMITED
        self._filled_s = 0.0
        self._emptied_at = MonotonicSeconds(0.0)
        self._parsed: dict[str, tuple[tuple[str, ...], Collection[int] | None]] = {}

    @property
    def is_on(self) -> bool:
        """Whether there is a rate at all; checked first, because usually there is none."""
        return self._rate() < UNLIMITED

    def applies_to(self, log: "Log") -> bool:
        """Whether a replica on this broker is named by its topic's settings."""
        entries = self._entries(log.config)
        if not entries:
            return False
        topic, number = log.topic_partition
        known = self._parsed.get(topic)
        if known is None or known[0] is not entries:
            # Parsed once for each change of the settings: a list may name thousands of replicas.
            known = self._parsed[topic] = (entries, self._parse(entries))
        return known[1] is None or number in known[1]

    def room(self) -> int:
        """Return how many bytes may pass now; 0 or less for none."""
        rate = self._settle()
        if rate <= 0:
            return 0
        return int((self._window_s - self._filled_s) * rate)

    def record(self, size: int) -> None:
        """Count bytes that have passed."""
        rate = self._settle()
        self._filled_s += size / rate if rate > 0 else self._window_s

    def wait_s(self) -> float:
        """Return the seconds until there is room for half a window's bytes, between a quarter of a window and one."""
        self._settle()
        return min(max(self._filled_s - self._window_s / 2, self._window_s / 4), self._window_s)

    # For leaders

    def room_for(self, replica_id: BrokerId, partition: "Partition", log: "Log") -> int:
        """Return how many bytes of a partition may be sent to a follower now; 0 for none."""
        if not self.is_on or replica_id in partition.isr.isr or not self.applies_to(log):
            return UNLIMITED
        return max(0, self.room())

    def note_sent(
        self,
        answers: "Iterable[tuple[FetchItem, PartitionData]]",
        find: "Callable[[TopicPartition], Partition]",
    ) -> None:
        """Count bytes sent to a follower, in sync or not."""
        for item, data in answers:
            if data.records and item.topic_partition is not None:
                log = find(item.topic_partition).log
                if log is not None and self.applies_to(log):
                    self.record(len(data.records))

    # For followers

    def hold_back(self, states: "Mapping[TopicPartition, FetchState]") -> "dict[TopicPartition, FetchState]":
        """If there is no room, delay the partitions that are behind; return those delayed."""
        held: dict[TopicPartition, FetchState] = {}
        if self.room() > 0:
            return held
        until = MonotonicSeconds(self._clock.monotonic() + self.wait_s())
        for topic_partition, state in states.items():
            log = state.partition.log
            if state.resume_at is None and state.lag != 0 and log is not None and self.applies_to(log):
                state.resume_at = until
                state.asked = False
                held[topic_partition] = state
        return held

    def _settle(self) -> int:
        now = self._clock.monotonic()
        rate = self._rate()
        if rate != self._rate_seen:
            # Bytes that passed at another rate must not be paid for in hours of this one.
            self._filled_s = min(self._filled_s, self._window_s / 2)
            self._rate_seen = rate
        self._filled_s = max(0.0, self._filled_s - (now - self._emptied_at))
        self._emptied_at = now
        return rate

    def _parse(self, entries: tuple[str, ...]) -> Collection[int] | None:
        """Return the partitions whose replica here is named; None for all."""
        numbers = set()
        for entry in entries:
            if entry == _ALL:
                return None
            number, _, broker = entry.partition(":")
            if broker == str(self._broker_id) and number.isdigit():
                numbers.add(int(number))
        return numbers
