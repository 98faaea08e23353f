"""Who leads what: the order of replicas, evened out. It copies nothing."""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping

from wire.types import BrokerId, TopicPartition

Orders = Mapping[TopicPartition, list[BrokerId]]
_Led = dict[BrokerId, dict[TopicPartition, None]]
_Step = tuple[TopicPartition, BrokerId, BrokerId]


def even_leaders(orders: Orders, brokers: Collection[BrokerId], movable: Iterable[TopicPartition]) -> None:
    """Reorder replicas until no broker leads two more than another that could: in each topic, and then of all.

    Topics come first, because the load of a topic is its own: even sums over topics may hide that one broker leads
    all of the busy one.

    Args:
        orders: The replicas of every partition, the leader first; reordered in place.
        brokers: Those that can lead.
        movable: The partitions that may be reordered; the others count.
    """
    chosen = set(movable)
    topics: dict[str, list[TopicPartition]] = {}
    for partition in sorted(orders):
        topics.setdefault(partition.topic, []).append(partition)
    for partitions in (*topics.values(), sorted(orders)):
        if not chosen.isdisjoint(partitions):
            _Leaders(orders, brokers, partitions, chosen).even_out()


class _Leaders:
    def __init__(
        self,
        orders: Orders,
        brokers: Collection[BrokerId],
        counted: Iterable[TopicPartition],
        movable: Collection[TopicPartition],
    ) -> None:
        self._orders = orders
        self._brokers = frozenset(brokers)
        self._leads: Counter[BrokerId] = Counter(dict.fromkeys(sorted(brokers), 0))
        self._led: _Led = {broker: {} for broker in sorted(brokers)}
        for partition in counted:
            replicas = orders[partition]
            if replicas:
                self._leads[replicas[0]] += 1
                if partition in movable:
                    self._led.setdefault(replicas[0], {})[partition] = None

    def even_out(self) -> None:
        while True:
            for giver in sorted(self._led, key=lambda broker: (-self._leads[broker], broker)):
                chain = self._chain(giver)
                if chain is not None:
                    for partition, old, new in chain:
                        self._give(partition, old, new)
                    break
            else:
                return

    def _give(self, partition: TopicPartition, old: BrokerId, new: BrokerId) -> None:
        replicas = self._orders[partition]
        place = replicas.index(new)
        replicas[0], replicas[place] = replicas[place], replicas[0]
        del self._led[old][partition]
        self._led[new][partition] = None
        self._leads[old] -= 1
        self._leads[new] += 1

    def _chain(self, giver: BrokerId) -> list[_Step] | None:
        """Find the shortest chain of reorderings from a broker to one that leads two less or fewer."""
        limit = self._leads[giver] - 2
        if limit < min(self._leads[broker] for broker in self._brokers):
            return None
        came_by: dict[BrokerId, tuple[TopicPartition, BrokerId]] = {}
        queue = deque([giver])
        while queue:
            broker = queue.popleft()
            for partition in self._led[broker]:
                for other in self._orders[partition][1:]:
                    if other == giver or other in came_by or other not in self._brokers:
                        continue
                    came_by[other] = (partition, broker)
                    if self._leads[other] <= limit:
                        chain = []
                        while other != giver:
                            partition, before = came_by[other]
                            chain.append((partition, before, other))
                            other = before
                        return chain
                    queue.append(other)
        return None
