"""How far a reassignment is: what has been copied, how fast, and how long it will take."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from ottla.commands.inspection.log_dirs import size_text
from wire.types import BrokerId, TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin, Reassignment

LOOK_AGAIN_S: Final = 0.5
WINDOW_S: Final = 10.0
"""What the rate is an average over."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A reassignment at a moment.

    Attributes:
        partitions: How many partitions it moves.
        moving: Those that still move.
        total_bytes: What there is to copy, as far as it is known; it grows where producers write.
        left_bytes: What is left of it.
        rate: Bytes a second, over the last seconds; None while that is not known.
    """

    partitions: int
    moving: frozenset[TopicPartition]
    total_bytes: int
    left_bytes: int
    rate: float | None

    @property
    def done(self) -> int:
        """The number of partitions that have reached their target or whose move was cancelled."""
        return self.partitions - len(self.moving)

    @property
    def seconds_left(self) -> float | None:
        """How long it takes at this rate; None where that cannot be said."""
        return self.left_bytes / self.rate if self.rate and self.rate > 0 else None

    def text(self) -> str:
        """Say it on one line."""
        parts = [f"{self.done} of {self.partitions} partitions"]
        if self.total_bytes and self.moving:
            copied = self.total_bytes - self.left_bytes
            parts.append(f"{size_text(copied)} of {size_text(self.total_bytes)}")
            if self.rate is not None:
                parts.append(f"{size_text(int(max(0.0, self.rate)))}/s")
            seconds = self.seconds_left
            if seconds is not None:
                parts.append(f"{duration_text(seconds)} left")
        return ", ".join(parts)


class RateMeter:
    """How fast what is left grows less."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def observe(self, now: float, copied: int) -> float | None:
        """Note how much has been copied, and return the bytes a second over the window.

        Args:
            now: Monotonic seconds.
            copied: Bytes, since any beginning.
        """
        self._seen.append((now, copied))
        while len(self._seen) > 2 and self._seen[1][0] <= now - WINDOW_S:
            self._seen.popleft()
        first_at, first = self._seen[0]
        return (copied - first) / (now - first_at) if now > first_at else None


def duration_text(seconds: float) -> str:
    """Write a duration the way people say it."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, whole = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {whole} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


async def replica_sizes(
    admin: "Admin", brokers: Mapping[BrokerId, Mapping[str, list[int]]]
) -> dict[tuple[TopicPartition, BrokerId], int]:
    """Return how many bytes replicas hold; brokers that do not answer are left out.

    Args:
        admin: The cluster.
        brokers: Which partitions of which topics at which brokers.
    """
    from ottla.client.errors import ClientError

    sizes: dict[tuple[TopicPartition, BrokerId], int] = {}
    for broker_id, topics in brokers.items():
        try:
            directories = await admin.describe_log_dirs(broker_id, topics)
        except ClientError:
            continue
        for directory in directories:
            for replica in directory.replicas:
                if not replica.is_future:
                    key = (TopicPartition(replica.topic, replica.partition), broker_id)
                    sizes[key] = replica.size_bytes
    return sizes


async def follow(
    admin: "Admin",
    partitions: frozenset[TopicPartition],
    on_progress: Callable[[Progress], None],
    look_again_s: float = LOOK_AGAIN_S,
) -> None:
    """Look at a reassignment until none of its partitions moves any more.

    Cancelled, it leaves the reassignment going on.

    Raises:
        ClientError: the cluster refuses.
        BrokerUnreachable: it cannot be reached.
    """
    meter = MoveMeter(partitions)
    while True:
        progress = await meter.look(admin, trio.current_time())
        on_progress(progress)
        if not progress.moving:
            return
        await trio.sleep(look_again_s)


class MoveMeter:
    """Measures how far a reassignment is, from look to look.

    Args:
        partitions: What it moves.

    Attributes:
        partitions: The same.
    """

    def __init__(self, partitions: frozenset[TopicPartition]) -> None:
        self.partitions = partitions
        self._rate = RateMeter()
        self._known: dict[TopicPartition, int] = {}

    async def look(self, admin: "Admin", now: float) -> Progress:
        """Return how far it is now; raises as `follow`.

        Args:
            admin: The cluster.
            now: Monotonic seconds.
        """
        ongoing = await admin.list_reassignments()
        moving = {partition: ongoing[partition] for partition in self.partitions & ongoing.keys()}
        sizes = await replica_sizes(admin, _places(moving))
        left = 0
        for partition, move in moving.items():
            whole = max((sizes.get((partition, broker), 0) for broker in move.replicas), default=0)
            left += sum(whole - sizes.get((partition, broker), 0) for broker in move.adding)
            self._known[partition] = whole * len(move.adding)
        total = sum(self._known.values())
        rate = self._rate.observe(now, total - left)
        return Progress(len(self.partitions), frozenset(moving), total, left, rate)


def _places(
    moving: Mapping[TopicPartition, "Reassignment"],
) -> dict[BrokerId, dict[str, list[int]]]:
    places: dict[BrokerId, dict[str, list[int]]] = {}
    for partition, move in moving.items():
        for broker in move.replicas:
            places.setdefault(broker, {}).setdefault(partition.topic, []).append(partition.partition)
    return places
