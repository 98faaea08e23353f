"""Assembles the transactions of one broker: settings in; coordinator, markers and verification out."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import trio

from cluster.coordinator.coordinator_topic import CoordinatorTopic
from cluster.coordinator.java_hash import partition_for
from cluster.coordinator.partition_loader import PartitionLoader
from cluster.coordinator.transactions.hosted_transactions import HostedPartition, HostedTransactions
from cluster.coordinator.transactions.marker_sender import MarkerSender
from cluster.coordinator.transactions.marker_writes import MarkerWrites
from cluster.coordinator.transactions.peer_channel import PeerChannel
from cluster.coordinator.transactions.state_log import StateLog
from cluster.coordinator.transactions.state_records import updated_at
from cluster.coordinator.transactions.transaction_coordinator import TransactionCoordinator
from cluster.coordinator.transactions.transaction_pieces import TRANSACTIONS
from cluster.coordinator.transactions.transaction_settings import TransactionSettings
from cluster.coordinator.transactions.transaction_takeover import TransactionTakeover
from cluster.coordinator.transactions.verifier import Verifier
from wire.internal_topics import TRANSACTION_STATE
from wire.types import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, TopicPartition

if TYPE_CHECKING:
    from cluster.configuration.broker_config import BrokerConfig
    from cluster.coordinator.groups import Groups
    from cluster.coordinator.producer_ids import ProducerIds
    from cluster.metrics.catalogue import BrokerMetrics
    from cluster.network.broker_client import BrokerChannel
    from cluster.replication.metadata_cache import MetadataCache, Node
    from cluster.replication.replicas import Replicas
    from timing.clock import Clock
    from timing.timing_wheel import Timer

_LOOKED_AT: Final = 1_000
"""Ids checked between two turns of the loop."""
_CHANGES_AT_STOP_MIN: Final = 500


class Transactions:
    """Everything about transactions that requests and the broker's tasks reach.

    Args:
        config: The broker's settings.
        replicas: Its partitions, whose transactional appends are verified from here, and whose callbacks are set here.
        metadata: Has the brokers' addresses, and the number of partitions of ``__transaction_state``.
        groups: Its groups, whose offsets transactions hold.
        producer_ids: Hands out producer ids.
        partition_exists: Asks ZooKeeper whether a partition exists.
        timer: Ends pauses.
        clock: Both clocks.
        nursery: Where loads and requests to other brokers run; ends with the broker.
        connect: Makes a channel to another broker.
        metrics: The broker's metrics.
        offload: Runs reads of files outside the loop.

    Attributes:
        coordinator: The transactions that are coordinated here.
        marker_writes: Writes markers to the partitions led here.
        markers: Sends markers to other leaders.
        verifier: Asks coordinators about transactions.
    """

    def __init__(
        self,
        config: "BrokerConfig",
        replicas: "Replicas",
        metadata: "MetadataCache",
        groups: "Groups",
        producer_ids: "ProducerIds",
        partition_exists: Callable[[TopicPartition], Awaitable[bool]],
        timer: "Timer",
        clock: "Clock",
        nursery: trio.Nursery,
        connect: "Callable[[Node], BrokerChannel]",
        metrics: "BrokerMetrics",
        offload: Callable[[Callable[[], object]], Awaitable[object]] = trio.to_thread.run_sync,
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._clock = clock
        self._listener = config.inter_broker_listener
        self._connect = connect
        self._topic = CoordinatorTopic(
            TRANSACTION_STATE, config.transaction_state_log_num_partitions, metadata, replicas
        )
        settings = transaction_settings(config)
        self.coordinator = TransactionCoordinator(
            settings,
            HostedTransactions(lambda: self._topic.partition_count, self._topic.leads),
            StateLog(replicas, clock),
            producer_ids.take,
            timer,
            clock,
        )
        self.marker_writes = MarkerWrites(replicas, groups.offsets, clock, settings.request_timeout_ms)
        self.markers = self.coordinator.markers = MarkerSender(
            config.broker_id,
            metadata,
            self._listener,
            self.marker_writes,
            self._channel_to,
            partition_exists,
            self._leader_epoch,
            self.coordinator.marked,
            timer,
            nursery,
        )
        self.verifier = Verifier(
            config.broker_id,
            self.coordinator_of,
            self.coordinator.verify,
            self._channel_to,
            nursery,
            clock,
            metrics,
        )
        replicas.verified_appends.ask = self.verifier.ask
        self._loader = PartitionLoader(
            TRANSACTION_STATE,
            replicas,
            self.coordinator.hosted.led,
            TransactionTakeover(replicas, self.coordinator),
            TRANSACTIONS,
            clock,
            nursery,
            settings.load_buffer_size,
            offload,
        )
        replicas.roles.on_leadership_change.append(self._loader.leadership_changed)
        replicas.roles.on_stopped.append(self._loader.stopped)
        replicas.roles.on_deleted.append(self._topics_deleted)

    @property
    def partition_count(self) -> int:
        """How many partitions ``__transaction_state`` has."""
        return self._topic.partition_count

    def found(self, partition_count: int | None) -> None:
        """Note the partition count of ``__transaction_state`` at the broker's start; None if the topic is absent."""
        self._topic.found(partition_count)

    def coordinator_of(self, transactional_id: str) -> BrokerId | None:
        """Return the live broker that coordinates an id, according to this broker's metadata."""
        number = partition_for(transactional_id, self.partition_count)
        state = self._metadata.partition(TRANSACTION_STATE, number)
        if state is None or not self._metadata.is_alive(state.leader):
            return None
        return state.leader

    async def run(self) -> None:
        """Follow partitions, abort transactions that time out, and forget expired ids, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._loader.follow, name="followed transactions")
            nursery.start_soon(self._abort_timed_out, name="timeouts of transactions")
            nursery.start_soon(self._expire, name="expiry of transactional ids")

    async def stop(self) -> None:
        """Write snapshots, so that the next start need not read whole logs. Cancelled, it has written some of them."""
        await self._loader.write_snapshots(least=_CHANGES_AT_STOP_MIN, rest_s=0.0)

    async def _abort_timed_out(self) -> None:
        while True:
            await trio.sleep(self.coordinator.settings.timeout_check_ms / 1000)
            for partition in self.coordinator.hosted.led.owned():
                transactions = tuple(partition.transactions.values())
                for start in range(0, len(transactions), _LOOKED_AT):
                    self.coordinator.abort_timed_out(partition, transactions[start : start + _LOOKED_AT])
                    await trio.lowlevel.checkpoint()

    async def _expire(self) -> None:
        while True:
            await trio.sleep(self.coordinator.settings.expiration_check_ms / 1000)
            for partition in self.coordinator.hosted.led.owned():
                ids = tuple(partition.ids())
                for start in range(0, len(ids), _LOOKED_AT):
                    old = [each for each in ids[start : start + _LOOKED_AT] if self._is_old(partition, each)]
                    self.coordinator.expire(partition, old)
                    await trio.lowlevel.checkpoint()

    def _is_old(self, partition: HostedPartition, transactional_id: str) -> bool:
        """Whether an id may have expired; it is not decoded for this."""
        known = partition.transactions.get(transactional_id)
        if known is not None:
            since = known.record.updated_at
        else:
            value = partition.stored.values.get(transactional_id)
            if value is None:
                return False
            since = updated_at(value)
        return since + self.coordinator.settings.id_expiration_ms <= self._clock.wall_ms()

    # Describing

    def count_by_state(self) -> Counter[str]:
        """Count the ids looked up or changed since their partition's load, by the names of their states."""
        counts: Counter[str] = Counter()
        for partition in self.coordinator.hosted.led.owned():
            counts.update(each.state.kafka_name for each in tuple(partition.transactions.values()))
        return counts

    def oldest_prepare_s(self) -> float:
        """Return how long the longest wait for markers has lasted, in seconds."""
        return self.coordinator.oldest_prepare(self._clock.wall_ms())

    @property
    def longest_load_s(self) -> float:
        """How long the longest load of a partition took, in seconds."""
        return self._loader.longest_load_s

    def describe(self) -> dict[str, Any]:
        """Describe the transactions that are coordinated here, as plain values."""
        partitions = tuple(self.coordinator.hosted.led)
        return {
            "ids": sum(len(each.stored.values) for each in partitions),
            "states": dict(self.count_by_state()),
            "oldest_prepare_s": self.oldest_prepare_s(),
            "partitions": sorted(each.number for each in partitions),
            "loading": sorted(each.number for each in partitions if each.is_loading),
            "markers_waiting": {str(key): value for key, value in self.markers.waiting_by_broker().items()},
            "verifications": self.verifier.waiting + self._replicas.verified_appends.waiting,
        }

    # Callbacks of the components

    def _leader_epoch(self, number: int) -> LeaderEpoch:
        partition = self._replicas.hosted.online.get(TopicPartition(TRANSACTION_STATE, number))
        return NO_LEADER_EPOCH if partition is None else partition.leader_epoch

    def _channel_to(self, broker_id: BrokerId) -> PeerChannel:
        return PeerChannel(lambda: self._metadata.node(broker_id, self._listener), self._connect)

    def _topics_deleted(self, partitions: Sequence[TopicPartition]) -> None:
        if any(partition.topic == TRANSACTION_STATE for partition in partitions):
            self._topic.deleted()


def transaction_settings(config: "BrokerConfig") -> TransactionSettings:
    """Return the coordinator's settings from a broker's."""
    return TransactionSettings(
        max_timeout_ms=config.transaction_max_timeout_ms,
        id_expiration_ms=config.transactional_id_expiration_ms,
        timeout_check_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
        expiration_check_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
        request_timeout_ms=config.request_timeout_ms,
        load_buffer_size=config.transaction_state_log_load_buffer_size,
    )
