"""The fetchers of a broker: ``num.replica.fetchers`` tasks per leader, each with a share of its partitions."""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import trio

from cluster.replication.follower.fetch_state import FetchState
from cluster.replication.follower.fetcher import Fetcher
from cluster.replication.partition.partition import Partition
from wire.types import NO_LEADER, BrokerId, TopicPartition

if TYPE_CHECKING:
    from cluster.configuration.broker_config import BrokerConfig

logger = logging.getLogger(__name__)


def fetcher_for(topic_partition: TopicPartition, count: int) -> int:
    """Return the number of a partition's fetcher, as in Kafka: by a hash of topic and partition."""
    topic_hash = 0
    for unit in topic_partition.topic.encode("utf-16-be").hex(" ", 2).split():
        topic_hash = (31 * topic_hash + int(unit, 16)) & 0xFFFFFFFF
    mixed = (31 * topic_hash + topic_partition.partition) & 0xFFFFFFFF
    signed = mixed - (1 << 32) if mixed & 0x80000000 else mixed
    return 0 if signed == -(1 << 31) else abs(signed) % count


OnFailed = Callable[[TopicPartition, str], None]
MakeFetcher = Callable[[BrokerId, int, OnFailed], Fetcher]


class FetcherPool:
    """Starts and stops fetchers as partitions come and go.

    Args:
        config: The broker's settings, for ``num.replica.fetchers``.
        make_fetcher: Makes the fetcher with a number for a leader; it reports partitions that it cannot fetch.

    Attributes:
        failed: Partitions that are not fetched any more, and the reasons.
    """

    def __init__(self, config: "BrokerConfig", make_fetcher: MakeFetcher) -> None:
        self._config = config
        self._make_fetcher = make_fetcher
        self.failed: dict[TopicPartition, str] = {}
        self._nursery: trio.Nursery | None = None
        self._fetchers: dict[tuple[BrokerId, int], Fetcher] = {}
        self._scopes: dict[tuple[BrokerId, int], trio.CancelScope] = {}
        self._places: dict[TopicPartition, Fetcher] = {}

    def __iter__(self) -> Iterator[Fetcher]:
        return iter(tuple(self._fetchers.values()))

    def lag_max(self) -> int:
        """Return by how many offsets the slowest partition is behind its leader's high watermark."""
        return max(
            (state.lag or 0 for fetcher in self._fetchers.values() for state in fetcher.states.values()),
            default=0,
        )

    def state_of(self, topic_partition: TopicPartition) -> FetchState | None:
        """Return the progress of fetching a partition; None if it is not fetched."""
        fetcher = self._places.get(topic_partition)
        return None if fetcher is None else fetcher.states.get(topic_partition)

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its leader, from where its log ends.

        A log without leader epochs, which only old formats leave, cannot show where it diverges from the leader's: it
        is truncated to its high watermark first.

        Raises:
            StorageError: the disk failed.
        """
        topic_partition = partition.topic_partition
        self.leave(topic_partition)
        log = partition.log
        if log is None or partition.leader_id == NO_LEADER:
            return
        if not log.leader_epochs and log.log_end_offset > log.high_watermark:
            log.truncate_suffix(log.high_watermark)
        key = (partition.leader_id, fetcher_for(topic_partition, self._config.num_replica_fetchers))
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            fetcher = self._fetchers[key] = self._make_fetcher(*key, self.failed.__setitem__)
            if self._nursery is not None:
                self._start(key, fetcher)
        fetcher.add(FetchState(partition, log))
        self._places[topic_partition] = fetcher

    def leave(self, topic_partition: TopicPartition) -> None:
        """Stop fetching a partition."""
        self.failed.pop(topic_partition, None)
        fetcher = self._places.pop(topic_partition, None)
        if fetcher is not None:
            fetcher.remove(topic_partition)

    def log_starts_moved(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Tell the leaders where these logs start now."""
        for topic_partition in topic_partitions:
            fetcher = self._places.get(topic_partition)
            if fetcher is not None:
                fetcher.log_start_moved(topic_partition)

    def reconnect(self, broker_ids: Iterable[BrokerId]) -> None:
        """Reconnect to brokers whose addresses have changed."""
        changed = set(broker_ids)
        for (leader_id, _), fetcher in self._fetchers.items():
            if leader_id in changed:
                fetcher.reconnect()

    def stop_idle(self) -> None:
        """End the fetchers that have nothing to fetch."""
        for key, fetcher in tuple(self._fetchers.items()):
            if not fetcher.states:
                del self._fetchers[key]
                scope = self._scopes.pop(key, None)
                if scope is not None:
                    scope.cancel()

    def resize(self) -> None:
        """Redistribute all partitions after ``num.replica.fetchers`` has changed."""
        for partition in [state.partition for fetcher in self for state in fetcher.states.values()]:
            self.follow(partition)
        self.stop_idle()

    async def run(self) -> None:
        """Run the fetchers until cancelled; then nothing is appended any more."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                for key, fetcher in self._fetchers.items():
                    self._start(key, fetcher)
                await trio.sleep_forever()
            finally:
                self._nursery = None

    def _start(self, key: tuple[BrokerId, int], fetcher: Fetcher) -> None:
        scope = self._scopes[key] = trio.CancelScope()
        if self._nursery is not None:
            self._nursery.start_soon(_run_in, scope, fetcher, name=f"fetcher {key[1]} of broker {key[0]}")


async def _run_in(scope: trio.CancelScope, fetcher: Fetcher) -> None:
    with scope:
        await fetcher.run()
