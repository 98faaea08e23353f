"""Evening out leaders by the order of replicas, without copying any."""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping

from wire.types import BrokerId, TopicPartition

Orders = Mapping[TopicPartition, list[BrokerId]]
_Led = dict[BrokerId, dict[TopicPartition, None]]
_Step = tuple[TopicPartition, BrokerId, BrokerId]


def even_leaders(orders: Orders, brokers: Collection[BrokerId], movable: Iterable[TopicPartition]) -> None:
    """Reorder replicas until no broker leads two more than another that could lead one: in each topic, then overall.

    Topics come first, because load differs between topics: even sums can hide that one broker leads all of a busy
    topic. A topic stays even when the sums are evened, since a partition is then taken only from a broker that leads
    more of its topic than the broker that gets it. So a second run changes nothing.

    Args:
        orders: The replicas of every partition, the leader first; reordered in place.
        brokers: Those that can lead.
        movable: The partitions that may be reordered; the others count.
    """
    chosen = set(movable)
    topics: dict[str, list[TopicPartition]] = {}
    for partition in sorted(orders):
        topics.setdefault(partition.topic, []).append(partition)
    for partitions in topics.values():
        if not chosen.isdisjoint(partitions):
            _Leaders(orders, brokers, partitions, chosen).even_out()
    _Leaders(orders, brokers, sorted(orders), chosen, topics_stay=True).even_out()


class _Leaders:
    def __init__(
        self,
        orders: Orders,
        brokers: Collection[BrokerId],
        counted: Iterable[TopicPartition],
        movable: Collection[TopicPartition],
        *,
        topics_stay: bool = False,
    ) -> None:
        self._orders = orders
        self._topics_stay = topics_stay
        self._by_topic: dict[str, Counter[BrokerId]] = {}
        self._brokers = frozenset(brokers)
        self._leads: Counter[BrokerId] = Counter(dict.fromkeys(sorted(brokers), 0))
        self._led: _Led = {broker: {} for broker in sorted(brokers)}
        for partition in counted:
            replicas = orders[partition]
            if replicas:
                self._leads[replicas[0]] += 1
                self._by_topic.setdefault(partition.topic, Counter())[replicas[0]] += 1
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
        of_topic = self._by_topic[partition.topic]
        for leads in (self._leads, of_topic):
            leads[old] -= 1
            leads[new] += 1

    def _chain(self, giver: BrokerId) -> list[_Step] | None:
        """Find the shortest chain of reorderings from a broker to one that leads at least two fewer."""
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
                    of_topic = self._by_topic[partition.topic]
                    if self._topics_stay and of_topic[broker] <= of_topic[other]:
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
