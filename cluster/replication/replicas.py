"""All replicas of one broker: the facade of the data path for handlers and coordinators.

The parts have files of their own; this one puts them together and adds the reads of coordinators.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, NamedTuple, Protocol

import trio

from cluster.network.endpoints import Endpoint
from cluster.network.offloads import Offloads
from cluster.replication.compaction import Compaction
from cluster.replication.follower.fetcher import Fetcher
from cluster.replication.follower.fetcher_pool import FetcherPool
from cluster.replication.leader.appends import NO_TOKENS, Appends, Tokens
from cluster.replication.leader.cold_fetches import ColdFetches
from cluster.replication.leader.fetch_service import FetchService
from cluster.replication.leader.fetch_session_cache import FetchSessionCache
from cluster.replication.leader.group_flush import GroupFlush
from cluster.replication.leader.record_deletions import OnDeleted, delete_records
from cluster.replication.leader.replica_selector import replica_selector
from cluster.replication.leader.verified_appends import VerifiedAppends
from cluster.replication.moves.replica_moves import ReplicaMoves
from cluster.replication.partition.isr_changes import IsrChanges, IsrStore
from cluster.replication.partition.leader import LeaderRules
from cluster.replication.partition.partition import Partition
from cluster.replication.periodic_tasks import LogDirStore, PeriodicTasks
from cluster.replication.roles.controller_requests import ControllerRequests
from cluster.replication.roles.hosted_partitions import HostedPartitions
from cluster.replication.roles.protocol_versions import inter_broker_versions
from cluster.replication.throttle import Throttle
from cluster.zookeeper.config_znodes import TOPICS
from storage.compaction.cleaning_worker import CleaningWorker
from storage.log import AppendOrigin
from storage.log_config import InvalidLogConfigError, LogConfig
from wire.errors import ApiError, Error
from wire.types import BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition

if TYPE_CHECKING:
    from cluster.configuration.broker_config import BrokerConfig
    from cluster.metrics.catalogue import BrokerMetrics
    from cluster.network.broker_client import BrokerChannel
    from cluster.replication.leader.delayed_produce import OnProduced
    from cluster.replication.metadata_cache import MetadataCache
    from storage.log import Log
    from storage.store import LogStore
    from timing.clock import Clock
    from timing.timing_wheel import Timer

logger = logging.getLogger(__name__)


class ReplicaStore(IsrStore, LogDirStore, Protocol):
    """What replicas read and write in ZooKeeper; `BrokerStore` implements it."""

    async def read_configs(self, entity_type: str, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Read the settings of topics; one without any has an empty mapping."""
        ...

    async def read_state_births(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the transaction in which each partition first got a leader."""
        ...


class ReplicaEnvironment(Protocol):
    """The part of the broker's `Environment` that replicas need."""

    @property
    def clock(self) -> "Clock":
        """Both clocks."""
        ...

    @property
    def offloads(self) -> Offloads:
        """Run slow operations beside the loop; in a simulation, at once."""
        ...

    @property
    def random(self) -> Random:
        """Source of the random ids of fetch sessions."""
        ...

    @property
    def cleaning_worker(self) -> Callable[[], CleaningWorker]:
        """Makes the worker that compacts one log."""
        ...


class ReplicaSize(NamedTuple):
    """A replica in a log directory: its bytes, and how far its log's end lags its high watermark.

    The lag of a future copy (`is_future`) is that to its log's end; -1 if there is no log.
    """

    topic_partition: TopicPartition
    size_bytes: int
    lag: int
    is_future: bool


class DirectoryContent(NamedTuple):
    """A log directory and the replicas in it; these are unknown if it is offline."""

    path: str
    error: Error
    replicas: Sequence[ReplicaSize]


class Replicas:
    """The replicas of one broker.

    Args:
        config: The broker's settings.
        environment: Clocks, threads and randomness.
        store: The logs.
        metadata: The cluster as the controller describes it.
        zookeeper: Where ISRs are written, and topics' settings read.
        timer: Ends waits; the broker runs it.
        metrics: The counters.
        make_client: Makes a channel to another broker's endpoint, under a client id.

    Attributes:
        hosted: The partitions.
        fetch_service: Serves fetches.
        sessions: The fetch sessions.
        fetcher_pool: Follows other brokers.
        moves: Move replicas between the directories of this broker.
        roles: Carries out the controller's orders; has the callbacks on leadership changes.
        isr_changes: Writes ISRs.
        compaction: Cleans compacted logs.
        upkeep: The periodic tasks.
        replication_bytes_out: Counts the bytes sent to followers.
        verified_appends: Appends transactional batches; its `ask` is set by the component that reaches coordinators.
    """

    def __init__(
        self,
        config: "BrokerConfig",
        environment: ReplicaEnvironment,
        store: "LogStore",
        metadata: "MetadataCache",
        zookeeper: ReplicaStore,
        timer: "Timer",
        metrics: "BrokerMetrics",
        make_client: "Callable[[Endpoint, str], BrokerChannel]",
    ) -> None:
        clock, offloads, random = environment.clock, environment.offloads, environment.random
        broker_id = self._broker_id = config.broker_id
        self._config = config
        self._store = store
        self._metadata = metadata
        self._zookeeper = zookeeper
        self._clock = clock
        self._timer = timer
        self._make_client = make_client
        self._versions = inter_broker_versions(config.inter_broker_protocol_version)
        self._inter_broker_listener = config.inter_broker_listener
        self._metrics = metrics
        self._bytes_in = metrics.replication_bytes_in.only
        self.replication_bytes_out = metrics.replication_bytes_out.only
        self.hosted = HostedPartitions(metadata)
        self._group_flush = GroupFlush(clock, offloads.syncs)
        self.isr_changes = IsrChanges(zookeeper, clock, metrics)
        self._fetch_throttle = self._throttle(
            lambda: config.follower_replication_throttled_rate,
            lambda settings: settings.follower_replication_throttled_replicas,
            config.replication_quota_window_size_seconds,
        )
        self.fetch_service = self._make_fetch_service()
        self.cold_fetches = ColdFetches(self.hosted, metadata, clock, offloads.reads)
        self.sessions = FetchSessionCache(
            config.max_incremental_fetch_session_cache_slots, lambda: random.randint(1, 2**31 - 1)
        )
        self._appends = Appends(
            self.hosted, clock, timer, lambda: config.transaction_partition_verification_enable
        )
        self.verified_appends = VerifiedAppends(self.hosted, self._appends, clock)
        self.fetcher_pool = FetcherPool(config, self._make_fetcher)
        self.moves = self._make_moves(offloads)
        self.roles = ControllerRequests(
            broker_id,
            self.hosted,
            self._partition_maker(),
            store,
            metadata,
            self.fetcher_pool,
            self.fetch_service,
            self.moves,
            clock,
            self._log_configs,
            zookeeper.read_state_births,
            offloads.control,
        )
        self.compaction = Compaction(store, clock, config, offloads.tidying, environment.cleaning_worker)
        self.upkeep = PeriodicTasks(
            broker_id,
            self.hosted,
            self.fetcher_pool,
            self.moves,
            store,
            zookeeper,
            clock,
            config,
            offloads.syncs,
            self.compaction.is_cleaning,
            lambda: self.roles.checkpointed_watermarks,
        )
        self.roles.on_stopped.append(self._forget_metrics)
        config.on_change(self._settings_changed)

    def _make_fetch_service(self) -> FetchService:
        config = self._config
        return FetchService(
            self.hosted.find,
            self._metadata,
            self._clock,
            self._timer,
            replica_selector(config.replica_selector_class, self._broker_id, self._metadata),
            self._throttle(
                lambda: config.leader_replication_throttled_rate,
                lambda settings: settings.leader_replication_throttled_replicas,
                config.replication_quota_window_size_seconds,
            ),
        )

    def _make_moves(self, offloads: Offloads) -> ReplicaMoves:
        config = self._config
        return ReplicaMoves(
            self.hosted,
            self._store,
            self._clock,
            offloads.reads,
            offloads.control,
            self._throttle(
                lambda: config.replica_alter_log_dirs_rate,
                lambda _: (),
                config.alter_log_dirs_replication_quota_window_size_seconds,
            ),
            config.replica_fetch_max_bytes,
            self._log_moved,
            config.num_replica_alter_log_dirs_threads or len(self._store.directories),
        )

    def _partition_maker(self) -> Callable[[TopicPartition], Partition]:
        config = self._config
        return partial(
            Partition,
            rules=LeaderRules(
                self._broker_id,
                self._metadata.is_alive,
                config.replica_lag_time_max_ms / 1000,
                self.fetch_service.wake_follower,
                config.log_flush_on_ack,
            ),
            metrics=self._metrics,
            submit_isr_change=self.isr_changes.submit,
            group_flush=self._group_flush.submit,
        )

    def _settings_changed(self, names: frozenset[str]) -> None:
        if "num.replica.fetchers" in names:
            self.fetcher_pool.resize()

    def _forget_metrics(self, stopped: "Sequence[tuple[TopicPartition, LeaderEpoch | None]]") -> None:
        """Drop the counters of topics that have no partition left here."""
        hosted = {key.topic for key in (*self.hosted.online, *self.hosted.offline)}
        for topic in {key.topic for key, _ in stopped} - hosted:
            self._metrics.forget_topic(topic)

    def _log_moved(self, partition: Partition) -> None:
        self.fetcher_pool.log_starts_moved([partition.topic_partition])

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """The epoch of this broker's current registration; set by the registration."""
        return self.roles.broker_epoch

    @broker_epoch.setter
    def broker_epoch(self, epoch: BrokerEpoch) -> None:
        self.roles.broker_epoch = epoch

    async def run(self) -> None:
        """Follow, write ISRs and run the periodic tasks until cancelled, then checkpoint the high watermarks once more.

        Raises:
            AllDirectoriesFailedError: every log directory is offline.
        """
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.fetcher_pool.run, name="fetchers")
                nursery.start_soon(self.moves.run, name="moves between directories")
                nursery.start_soon(self.isr_changes.run, name="ISR changes")
                nursery.start_soon(self._group_flush.run, name="flushing before acknowledging")
                nursery.start_soon(self.upkeep.run, self.roles.populated, name="replica upkeep")
                nursery.start_soon(self.compaction.run, name="compaction")
        finally:
            if self.roles.populated.is_set():
                self.upkeep.write_last_checkpoint()

    # Data path

    def append(
        self,
        batches: "Iterable[tuple[TopicPartition, memoryview | bytearray | None]]",
        required_acks: int,
        timeout_ms: int,
        on_done: "OnProduced",
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        internal_topics_allowed: bool = False,
        tokens: Tokens = NO_TOKENS,
    ) -> None:
        """Append records to partitions that this broker leads: see `Appends.append`."""
        self._appends.append(
            batches,
            required_acks,
            timeout_ms,
            on_done,
            origin=origin,
            internal_topics_allowed=internal_topics_allowed,
            tokens=tokens,
        )

    def delete_records(
        self, offsets: Mapping[TopicPartition, int], timeout_ms: int, on_done: OnDeleted
    ) -> None:
        """Move log starts forward, and wait for the other replicas: see `record_deletions`."""
        delete_records(self.hosted, self._timer, offsets, timeout_ms, on_done)

    def partition_or_error(self, topic_partition: TopicPartition) -> Partition:
        """Return a hosted partition.

        Raises:
            ApiError: its disk has failed, it is hosted elsewhere, or it does not exist.
        """
        return self.hosted.find(topic_partition)

    def leader_log(self, topic_partition: TopicPartition) -> "Log":
        """Return the log of a partition that this broker leads.

        Raises:
            ApiError: it does not.
        """
        log = self.hosted.find(topic_partition).leader_log
        if log is None:
            raise ApiError(Error.NOT_LEADER_OR_FOLLOWER)
        return log

    # What others want to know

    def log_directories(self) -> list[DirectoryContent]:
        """Return the content of each log directory, for DescribeLogDirs."""
        store = self._store
        content = []
        for log_directory in store.directories:
            if log_directory.is_offline:
                content.append(DirectoryContent(log_directory.path, Error.KAFKA_STORAGE_ERROR, ()))
                continue
            replicas = [
                ReplicaSize(
                    log.topic_partition,
                    log.size_bytes,
                    max(0, log.high_watermark - log.log_end_offset),
                    False,
                )
                for log in store.logs_in(log_directory)
            ]
            replicas.extend(
                ReplicaSize(
                    future.topic_partition,
                    future.size_bytes,
                    self._lag_of_copy(future),
                    True,
                )
                for future in store.future_logs()
                if future.log_directory is log_directory
            )
            content.append(DirectoryContent(log_directory.path, Error.NONE, replicas))
        return content

    def _lag_of_copy(self, future: "Log") -> int:
        log = self._store.get(future.topic_partition)
        return -1 if log is None else max(0, log.log_end_offset - future.log_end_offset)

    # Ways to others

    def _throttle(
        self,
        rate: Callable[[], int],
        throttled_replicas: Callable[[LogConfig], tuple[str, ...]],
        window_s: float,
    ) -> Throttle:
        """Make a throttle of one direction: a rate, and which replicas it applies to by a topic's settings."""
        return Throttle(self._broker_id, self._clock, rate, throttled_replicas, window_s)

    def _make_fetcher(
        self, leader_id: BrokerId, fetcher_id: int, on_failed: Callable[[TopicPartition, str], None]
    ) -> Fetcher:
        config = self._config
        return Fetcher(
            leader_id,
            fetcher_id,
            broker_id=self._broker_id,
            broker_epoch=lambda: self.roles.broker_epoch,
            config=config,
            versions=self._versions,
            clock=self._clock,
            connect=self._connect,
            on_failed=on_failed,
            bytes_in=self._bytes_in,
            settle=self._group_flush.settle,
            flush=self._group_flush.flush,
            flush_on_ack=config.log_flush_on_ack,
            throttle=self._fetch_throttle,
        )

    def _connect(self, leader_id: BrokerId, fetcher_id: int) -> "BrokerChannel | None":
        node = self._metadata.node(leader_id, self._inter_broker_listener)
        if node is None:
            return None
        endpoint = Endpoint(self._inter_broker_listener, node.host, node.port, node.security_protocol)
        return self._make_client(endpoint, f"broker-{self._broker_id}-fetcher-{fetcher_id}")

    async def _log_configs(self, topics: Iterable[str]) -> dict[str, LogConfig]:
        """Read topics' settings; the broker's apply to a topic without its own."""
        base = self._config.log_config_defaults()
        configs: dict[str, LogConfig] = {}

        for topic, values in (await self._zookeeper.read_configs(TOPICS, topics)).items():
            try:
                configs[topic] = LogConfig.from_strings(values, base)
            except InvalidLogConfigError as error:
                logger.error("the settings of topic %s are not usable, the defaults hold: %s", topic, error)
                configs[topic] = base
        return configs
