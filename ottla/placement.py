"""Where replicas should be: plans that move as few of them as possible.

Rules of this file:

- It is pure: assignments in, a plan out; the same input gives the same plan.
- The counts are made even with the fewest moves: a broker gives only what it has above its share. If it cannot give to
  one that has too few, because that broker or its rack holds the partition already, the shortest chain of moves over
  other brokers is used.
- No move puts replicas of a partition into fewer racks. If they are in fewer than they could be, `rebalanced` spreads
  them first.
- The preferred leader is the first replica: leaders are evened by reordering, which copies nothing.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.leader_order import even_leaders
from wire.types import BrokerId, TopicPartition

Replicas = tuple[BrokerId, ...]
Racks = Mapping[BrokerId, str | None]
"""The brokers that may hold replicas, with their racks."""

_NO_RACK: Final = ""


class PlacementError(ValueError):
    """The plan is impossible; the text says why."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be moved.

    Attributes:
        before: The replicas of every partition, as they are.
        after: The replicas of those partitions that change, in the new order.
    """

    before: Mapping[TopicPartition, Replicas]
    after: Mapping[TopicPartition, Replicas]

    def added(self, partition: TopicPartition) -> Replicas:
        """Return the brokers that a partition must be copied to."""
        return tuple(broker for broker in self.after[partition] if broker not in self.before[partition])

    @property
    def copies(self) -> int:
        """How many replicas must be copied."""
        return sum(len(self.added(partition)) for partition in self.after)

    def copied_bytes(self, sizes: Mapping[TopicPartition, int]) -> int:
        """Return how many bytes must be copied; a partition of unknown size counts as empty."""
        return sum(len(self.added(partition)) * sizes.get(partition, 0) for partition in self.after)

    @property
    def result(self) -> dict[TopicPartition, Replicas]:
        """The replicas of every partition once the plan is carried out."""
        return {**self.before, **self.after}


def without_brokers(
    assignment: Mapping[TopicPartition, Replicas], racks: Racks, leaving: Collection[BrokerId]
) -> Plan:
    """Plan to empty brokers: only their replicas move.

    Args:
        assignment: The replicas of every partition.
        racks: The live brokers, with or without those that leave.
        leaving: The brokers to empty.

    Raises:
        PlacementError: a partition has more replicas than there are brokers left, or only some brokers have racks.
    """
    staying = {broker: rack for broker, rack in racks.items() if broker not in leaving}
    _require_room(assignment, staying)
    board = _Board(assignment, staying)
    for partition, replicas in sorted(assignment.items()):
        for broker in replicas:
            if broker in leaving:
                board.replace(partition, broker, board.best_place(partition, broker))
    board.even_leaders(board.changed())
    return board.plan()


def with_brokers(
    assignment: Mapping[TopicPartition, Replicas], racks: Racks, joining: Collection[BrokerId]
) -> Plan:
    """Plan to fill brokers that hold too little: replicas move to them only, until they have their share.

    Args:
        assignment: The replicas of every partition.
        racks: The live brokers, those that join included.
        joining: The brokers to fill.

    Raises:
        PlacementError: a broker to fill is not live, or only some brokers have racks.
    """
    missing = sorted(set(joining) - racks.keys())
    if missing:
        raise PlacementError(f"not alive: broker {', '.join(map(str, missing))}")
    board = _Board(assignment, racks)
    share = board.total // len(racks)
    while True:
        hungry = sorted((b for b in joining if board.count(b) < share), key=lambda b: (board.count(b), b))
        givers = sorted((b for b in racks if board.count(b) > share), key=lambda b: (-board.count(b), b))
        if not any(
            board.move_one(giver, taker) for taker in hungry for giver in givers if giver not in joining
        ):
            break
    board.even_leaders(board.changed())
    return board.plan()


def rebalanced(assignment: Mapping[TopicPartition, Replicas], racks: Racks) -> Plan:
    """Plan to have every broker hold as many replicas, and lead as many partitions, as any other.

    Args:
        assignment: The replicas of every partition.
        racks: The live brokers; replicas on others are moved to them.

    Raises:
        PlacementError: a partition has more replicas than there are brokers, or only some brokers have racks.
    """
    _require_room(assignment, racks)
    board = _Board(assignment, racks)
    for partition, replicas in sorted(assignment.items()):
        for broker in replicas:
            if broker not in racks:
                board.replace(partition, broker, board.best_place(partition, broker))
    board.part_racks()
    board.even_replicas()
    board.even_leaders(assignment.keys())
    return board.plan()


def _require_room(assignment: Mapping[TopicPartition, Replicas], racks: Racks) -> None:
    most, partition = max(((len(replicas), each) for each, replicas in assignment.items()), default=(0, None))
    if most > len(racks):
        raise PlacementError(
            f"{partition} has {most} replicas, but there would be {len(racks)} brokers to hold them"
        )


@dataclass(slots=True)
class _Board:
    """Replicas on brokers, and the moves made so far."""

    original: Mapping[TopicPartition, Replicas]
    racks: Racks
    now: dict[TopicPartition, list[BrokerId]] = field(init=False)
    _held: dict[BrokerId, dict[str, set[int]]] = field(init=False)
    _counts: Counter[BrokerId] = field(init=False)
    _rack_count: int = field(init=False)

    def __post_init__(self) -> None:
        given = {rack for rack in self.racks.values() if rack}
        if given and not all(self.racks.values()):
            bare = ", ".join(str(broker) for broker, rack in sorted(self.racks.items()) if not rack)
            raise PlacementError(f"some brokers have racks, but not broker {bare}")
        self._rack_count = len(given)
        self.now = {partition: list(replicas) for partition, replicas in self.original.items()}
        self._held = {broker: {} for broker in self.racks}
        self._counts = Counter()
        for partition, replicas in self.original.items():
            for broker in replicas:
                self._put(partition, broker)

    def _put(self, partition: TopicPartition, broker: BrokerId) -> None:
        topics = self._held.setdefault(broker, {})
        topics.setdefault(partition.topic, set()).add(partition.partition)
        self._counts[broker] += 1

    def _of_topic(self, topic: str, broker: BrokerId) -> int:
        return len(self._held[broker].get(topic, ()))

    @property
    def total(self) -> int:
        """How many replicas there are."""
        return sum(len(replicas) for replicas in self.now.values())

    def count(self, broker: BrokerId) -> int:
        """Return how many replicas a broker holds."""
        return self._counts[broker]

    def changed(self) -> set[TopicPartition]:
        """Return the partitions whose replicas differ from the original."""
        return {each for each, replicas in self.now.items() if tuple(replicas) != self.original[each]}

    def plan(self) -> Plan:
        """Return the plan that leads here."""
        return Plan(dict(self.original), {each: tuple(self.now[each]) for each in sorted(self.changed())})

    def replace(self, partition: TopicPartition, old: BrokerId, new: BrokerId) -> None:
        """Move a replica; the new one takes the old one's place in the order."""
        replicas = self.now[partition]
        replicas[replicas.index(old)] = new
        self._held[old][partition.topic].discard(partition.partition)
        self._counts[old] -= 1
        self._put(partition, new)

    def best_place(self, partition: TopicPartition, old: BrokerId) -> BrokerId:
        """Return the best broker for a replica: in a rack without one, and with the fewest replicas."""
        free = [broker for broker in self.racks if broker not in self.now[partition]]
        return min(
            free,
            key=lambda broker: (
                self._closeness(partition, old, broker),
                self._counts[broker],
                self._of_topic(partition.topic, broker),
                broker,
            ),
        )

    def part_racks(self) -> None:
        """Move replicas that share a rack while another rack has none."""
        if not self._rack_count:
            return
        for partition in sorted(self.now):
            for _ in range(len(self.now[partition])):
                close = self._closeness(partition)
                if close == 0:
                    break
                seen: set[str] = set()
                for broker in tuple(self.now[partition]):
                    rack = self.racks.get(broker) or _NO_RACK
                    if rack in seen:
                        place = self.best_place(partition, broker)
                        if self._closeness(partition, broker, place) < close:
                            self.replace(partition, broker, place)
                            break
                    seen.add(rack)

    def even_replicas(self) -> None:
        """Move replicas until no broker holds two more than another, as far as racks allow."""
        stuck: set[BrokerId] = set()
        while True:
            givers = sorted(
                (broker for broker in self.racks if broker not in stuck),
                key=lambda broker: (-self.count(broker), broker),
            )
            if not givers:
                return
            path = self._chain(givers[0])
            if path is None:
                stuck.add(givers[0])
                continue
            for giver, taker in path:
                self.move_one(giver, taker)
            stuck.clear()

    def _chain(self, giver: BrokerId) -> list[tuple[BrokerId, BrokerId]] | None:
        """Find the shortest chain of moves from a broker to one that holds at least two fewer."""
        limit = self.count(giver) - 2
        if limit < min(self.count(broker) for broker in self.racks):
            return None
        came_from: dict[BrokerId, BrokerId] = {giver: giver}
        queue = deque([giver])
        while queue:
            broker = queue.popleft()
            for taker in sorted(self.racks, key=lambda each: (self.count(each), each)):
                if taker in came_from or self._candidate(broker, taker) is None:
                    continue
                came_from[taker] = broker
                if self.count(taker) <= limit:
                    path = []
                    while taker != giver:
                        path.append((came_from[taker], taker))
                        taker = came_from[taker]
                    # From the far end: each move leaves room for the one before it.
                    return path
                queue.append(taker)
        return None

    def move_one(self, giver: BrokerId, taker: BrokerId) -> bool:
        """Move the most suitable replica from one broker to another; return False if none can move."""
        partition = self._candidate(giver, taker)
        if partition is None:
            return False
        self.replace(partition, giver, taker)
        return True

    def _candidate(self, giver: BrokerId, taker: BrokerId) -> TopicPartition | None:
        """Choose a partition to move: of the topic that is the least even between the two."""
        topics = sorted(
            self._held[giver],
            key=lambda topic: (self._of_topic(topic, taker) - self._of_topic(topic, giver), topic),
        )
        for topic in topics:
            for number in sorted(self._held[giver][topic] - self._held[taker].get(topic, set())):
                partition = TopicPartition(topic, number)
                if self._closeness(partition, giver, taker) <= self._closeness(partition):
                    return partition
        return None

    def _closeness(
        self, partition: TopicPartition, old: BrokerId | None = None, new: BrokerId | None = None
    ) -> int:
        """Return how many more racks could hold a replica of a partition, now or after a move."""
        if not self._rack_count:
            return 0
        replicas = self.now[partition]
        racks = {self.racks.get(new if broker == old and new is not None else broker) for broker in replicas}
        return min(len(replicas), self._rack_count) - len(racks - {None})

    def even_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        """Reorder replicas of some partitions, so that brokers lead equally many."""
        even_leaders(self.now, self.racks.keys(), partitions)
