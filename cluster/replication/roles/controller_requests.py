"""Carries out the controller's requests: LeaderAndIsr, StopReplica, UpdateMetadata.

Rules of this file:

- One such request is handled at a time, in the order of arrival. A request of an older controller, or one meant for an
  earlier registration of this broker, changes nothing.
- For each partition, only a higher leader epoch is acted upon. With an equal one, a missing topic id is filled in;
  otherwise the order is answered as stale. Another topic's id is refused, and deletes nothing.
- Logs are created first, in threads and in slices; then each partition changes its role in one synchronous step, and
  the loop turns between slices, so that a request for thousands of partitions stalls nothing else.
- A role ends if the replicas of a newer leader epoch are elsewhere: the controller that moved the replica away may have
  died before it could send StopReplica, and no later one knows of us. The log stays; only StopReplica deletes it.
- A log that should exist and does not (we are in the ISR, and the partition is older than our directories) means an
  emptied disk: we answer KAFKA_STORAGE_ERROR and take no role, so that the empty log never leads. Kafka would lead, and
  lose records.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import trio

from cluster.replication.follower.fetcher_pool import FetcherPool
from cluster.replication.leader.fetch_service import FetchService
from cluster.replication.moves.replica_moves import ReplicaMoves
from cluster.replication.partition.partition import Partition
from cluster.replication.roles.controller_orders import RoleOrder, answer_to, orders_in, others_in, stops_in
from cluster.replication.roles.hosted_partitions import HostedPartitions
from cluster.replication.roles.replica_logs import ReplicaLogs
from storage.errors import LogError, StorageError
from timing.pacing import Pacer
from wire.errors import Error
from wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from wire.types import (
    EPOCH_DURING_DELETE,
    NO_BROKER_EPOCH,
    NO_CONTROLLER_EPOCH,
    NO_LEADER_EPOCH,
    NO_TOPIC_ID,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
    TopicPartition,
)

if TYPE_CHECKING:
    from cluster.replication.metadata_cache import MetadataCache
    from storage.log import Log
    from storage.log_config import LogConfig
    from storage.store import LogStore
    from timing.clock import Clock

logger = logging.getLogger(__name__)

SLICE: Final = 64
"""How many logs are removed at a time."""
Changed = Sequence[tuple[TopicPartition, LeaderEpoch]]
OnLeadershipChange = Callable[[Changed, Changed], None]
OnStopped = Callable[[Sequence[tuple[TopicPartition, LeaderEpoch | None]]], None]
OnDeleted = Callable[[Sequence[TopicPartition]], None]


@dataclass(slots=True, eq=False)
class _Outcome:
    """The outcome of a LeaderAndIsr request so far."""

    errors: dict[TopicPartition, Error] = field(default_factory=dict)
    leading: list[tuple[TopicPartition, LeaderEpoch]] = field(default_factory=list)
    following: list[tuple[TopicPartition, LeaderEpoch]] = field(default_factory=list)


class ControllerRequests:
    """Carries out the controller's requests.

    Args:
        broker_id: This broker.
        hosted: The partitions.
        make_partition: Makes the object of a partition that is new here.
        store: The logs.
        metadata: The cluster, which UpdateMetadata changes.
        fetcher_pool: Follows the leaders.
        fetch_service: Answers parked fetches of followers that have new partitions to fetch.
        moves: Replicas on their way to another directory.
        clock: Timestamps changes.
        log_configs: Returns topics' settings.
        state_births: Returns the ZooKeeper transaction in which each partition first got a leader.
        offload: Runs slow file operations beside the loop.

    Attributes:
        controller_epoch: The highest that a controller has sent us.
        broker_epoch: The epoch of this broker's current registration; set by the registration.
        checkpointed_watermarks: Those of the last checkpoint, of partitions that no LeaderAndIsr has named yet.
        populated: Set by the first LeaderAndIsr: high watermarks must not be checkpointed before it, because those of
            partitions that are not there yet would be missing.
        on_leadership_change: Called with the partitions that this broker begins to lead, and to follow.
        on_stopped: Called with the partitions that were deleted here or left, with the leader epoch if known.
        on_deleted: Called with the partitions that no longer exist in the cluster.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        hosted: HostedPartitions,
        make_partition: Callable[[TopicPartition], Partition],
        store: "LogStore",
        metadata: "MetadataCache",
        fetcher_pool: FetcherPool,
        fetch_service: FetchService,
        moves: ReplicaMoves,
        clock: "Clock",
        log_configs: "Callable[[Iterable[str]], Awaitable[Mapping[str, LogConfig]]]",
        state_births: Callable[[Sequence[TopicPartition]], Awaitable[Mapping[TopicPartition, int]]],
        offload: Callable[[Callable[[], object]], Awaitable[object]],
    ) -> None:
        self._broker_id = broker_id
        self._hosted = hosted
        self._make_partition = make_partition
        self._store = store
        self._metadata = metadata
        self._fetcher_pool = fetcher_pool
        self._fetch_service = fetch_service
        self._moves = moves
        self._clock = clock
        self._offload = offload
        # As checkpointed at the last stop; each is used once.
        self.checkpointed_watermarks = store.checkpoints.read_high_watermarks()
        self._logs = ReplicaLogs(
            broker_id, store, hosted, self.checkpointed_watermarks, log_configs, state_births, offload
        )
        self._lock = trio.Lock()
        self.controller_epoch: ControllerEpoch = NO_CONTROLLER_EPOCH
        self.broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
        self.populated = trio.Event()
        self.on_leadership_change: list[OnLeadershipChange] = []
        self.on_stopped: list[OnStopped] = []
        self.on_deleted: list[OnDeleted] = []

    # LeaderAndIsr

    async def become_leader_or_follower(
        self, request: LeaderAndIsrRequest, version: int
    ) -> LeaderAndIsrResponse:
        """Take the roles that a request assigns.

        If cancelled, some partitions have changed and others have not; the controller repeats its request.

        Raises:
            ZooKeeperError: topics' settings, or the age of partitions, cannot be read; no partition has changed.
        """
        async with self._lock:
            orders = orders_in(request)
            error = self._check_sender(
                request.is_kraft_controller, request.broker_epoch, request.controller_epoch
            )
            if error is not Error.NONE:
                errors = {order.topic_partition: error for order in orders}
                return answer_to(version, error, errors, orders)
            logger.info(
                "LeaderAndIsr of controller %d, epoch %d, for %d partitions",
                request.controller_id,
                request.controller_epoch,
                len(orders),
            )
            outcome = _Outcome()
            accepted = [order for order in orders if self._accepts(order, outcome)]
            await self._logs.refuse_lost(accepted, outcome.errors)
            await self._logs.provide(accepted, outcome.errors)
            pacer = Pacer(self._clock)
            for order in accepted:
                if order.log is not None:
                    self._change_role(order, outcome)
                    await pacer.pace()
            self.populated.set()
            self._fetcher_pool.stop_idle()
            self._wake_followers(outcome)
            if outcome.leading or outcome.following:
                for callback in self.on_leadership_change:
                    callback(outcome.leading, outcome.following)
            return answer_to(version, Error.NONE, outcome.errors, orders)

    def _check_sender(self, is_kraft: bool, broker_epoch: BrokerEpoch, epoch: ControllerEpoch) -> Error:
        if broker_epoch != NO_BROKER_EPOCH and broker_epoch < self.broker_epoch:
            logger.info("a controller's request is meant for broker epoch %d, not ours", broker_epoch)
            return Error.STALE_BROKER_EPOCH
        if epoch < self.controller_epoch:
            logger.warning("a request of controller epoch %d comes after %d", epoch, self.controller_epoch)
            return Error.STALE_CONTROLLER_EPOCH
        if is_kraft:
            # Whether a KRaft controller has taken over is read from /controller, which every broker watches: a frame
            # can come from anyone.
            logger.error(
                "a request says that a KRaft controller sends it: migration to KRaft is not supported"
            )
            return Error.INVALID_REQUEST
        self.controller_epoch = epoch
        return Error.NONE

    def _accepts(self, order: RoleOrder, outcome: _Outcome) -> bool:
        """Return whether an order changes its partition; if not, record its answer in the outcome."""
        state, topic_partition = order.state, order.topic_partition
        errors = outcome.errors
        if topic_partition in self._hosted.offline:
            errors[topic_partition] = Error.KAFKA_STORAGE_ERROR
            return False
        partition = self._hosted.get(topic_partition)
        log = self._store.get(topic_partition) if partition is None else partition.log
        known_id = NO_TOPIC_ID if log is None else log.topic_id
        if NO_TOPIC_ID not in (known_id, order.topic_id) and known_id != order.topic_id:
            logger.error("%s is here with another topic id; nothing is changed", topic_partition)
            errors[topic_partition] = Error.INCONSISTENT_TOPIC_ID
            return False
        epoch = NO_LEADER_EPOCH if partition is None else partition.leader_epoch
        if partition is not None and state.leader_epoch <= epoch:
            errors[topic_partition] = Error.STALE_CONTROLLER_EPOCH
            if state.leader_epoch == epoch and known_id != order.topic_id and log is not None:
                errors[topic_partition] = self._fill_in_topic_id(partition, log, order.topic_id)
            return False
        if self._broker_id not in state.replicas:
            logger.warning("%s is ordered here, but assigned to %s", topic_partition, state.replicas)
            errors[topic_partition] = Error.UNKNOWN_TOPIC_OR_PARTITION
            return False
        errors[topic_partition] = Error.NONE
        return True

    def _fill_in_topic_id(self, partition: Partition, log: "Log", topic_id: TopicId) -> Error:
        try:
            if topic_id != NO_TOPIC_ID:
                log.assign_topic_id(topic_id)
            if not partition.is_leader:
                self._fetcher_pool.follow(partition)
        except LogError as failure:
            return failure.kafka_error
        return Error.NONE

    def _change_role(self, order: RoleOrder, outcome: _Outcome) -> None:
        topic_partition, state = order.topic_partition, order.state
        # Look it up again: since the order got its log, the replica may have moved to another directory, so that this
        # log is being deleted, and the disk of either may have failed.
        log = self._store.get(topic_partition)
        partition = self._hosted.get(topic_partition)
        if partition is None:
            partition = self._make_partition(topic_partition)
            self._hosted.online[topic_partition] = partition
        if log is None or log.log_directory.is_offline:
            self._take_offline(partition, outcome)
            return
        changed = (topic_partition, LeaderEpoch(state.leader_epoch))
        try:
            self._fetcher_pool.leave(topic_partition)
            if state.leader == self._broker_id:
                if partition.become_leader(state, log, self._clock.monotonic()):
                    outcome.leading.append(changed)
            else:
                if partition.become_follower(state, log):
                    outcome.following.append(changed)
                self._fetcher_pool.follow(partition)
            self._moves.resume(partition)
        except (LogError, OSError) as failure:
            logger.error("%s takes no role: %s", topic_partition, failure)
            if isinstance(failure, OSError):
                log.log_directory.fail(failure, f"giving {topic_partition} a role")
            self._take_offline(partition, outcome)

    def _take_offline(self, partition: Partition, outcome: _Outcome) -> None:
        outcome.errors[partition.topic_partition] = Error.KAFKA_STORAGE_ERROR
        self._fetcher_pool.leave(partition.topic_partition)
        self._hosted.take_offline(partition)

    def _wake_followers(self, outcome: _Outcome) -> None:
        """Answer the parked fetches of followers that have new partitions to fetch."""
        followers: set[BrokerId] = set()
        for topic_partition, _ in outcome.leading:
            partition = self._hosted.get(topic_partition)
            if partition is not None and partition.leader is not None:
                followers.update(partition.leader.remotes)
        for follower in followers:
            self._fetch_service.wake_follower(follower)

    # StopReplica

    async def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Stop partitions, and delete their logs if ordered, also of partitions unknown here."""
        async with self._lock:
            error = self._check_sender(
                request.is_kraft_controller, request.broker_epoch, request.controller_epoch
            )
            if error is not Error.NONE:
                return StopReplicaResponse(error_code=int(error))
            errors: dict[TopicPartition, Error] = {}
            deleted: list[tuple[TopicPartition, LeaderEpoch | None]] = []
            for topic_partition, epoch, delete in stops_in(request):
                errors[topic_partition] = self._stop(topic_partition, epoch, delete, deleted)
            for start in range(0, len(deleted), SLICE):
                some = [topic_partition for topic_partition, _ in deleted[start : start + SLICE]]
                failed = await self._offload(lambda some=some: self._remove_logs(some))  # type: ignore[misc]
                if failed:
                    errors.update(dict.fromkeys(some, Error.KAFKA_STORAGE_ERROR))
            self._fetcher_pool.stop_idle()
            if deleted:
                for callback in self.on_stopped:
                    callback(deleted)
            return StopReplicaResponse(
                partition_errors=[
                    StopReplicaPartitionError(
                        topic_name=topic_partition.topic,
                        partition_index=topic_partition.partition,
                        error_code=int(error),
                    )
                    for topic_partition, error in errors.items()
                ]
            )

    def _stop(
        self,
        topic_partition: TopicPartition,
        epoch: LeaderEpoch,
        delete: bool,
        deleted: list[tuple[TopicPartition, LeaderEpoch | None]],
    ) -> Error:
        if topic_partition in self._hosted.offline:
            return Error.KAFKA_STORAGE_ERROR
        partition = self._hosted.get(topic_partition)
        if partition is not None:
            if epoch not in (EPOCH_DURING_DELETE, NO_LEADER_EPOCH) and epoch < partition.leader_epoch:
                return Error.FENCED_LEADER_EPOCH
            if delete:
                self._end_role(partition)
            else:
                self._fetcher_pool.leave(topic_partition)
                if not partition.is_leader:
                    partition.truncated()
        if delete:
            self.checkpointed_watermarks.pop(topic_partition, None)
            deleted.append((topic_partition, epoch if epoch >= 0 else None))
        return Error.NONE

    def _remove_logs(self, topic_partitions: list[TopicPartition]) -> bool:
        """Remove logs, in a thread; return whether a disk failed."""
        try:
            self._store.remove_many(topic_partitions)
        except StorageError as failure:
            logger.error("logs are not removed: %s", failure)
            return True
        return False

    # AlterReplicaLogDirs

    async def alter_log_dirs(self, wanted: Mapping[TopicPartition, str]) -> dict[TopicPartition, Error]:
        """Move replicas between the directories of this broker; see `ReplicaMoves.alter`."""
        async with self._lock:
            return await self._moves.alter(wanted)

    # UpdateMetadata

    async def update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        """Apply an UpdateMetadata.

        Raises:
            RemoteProtocolError: it names an unknown security protocol.
        """
        async with self._lock:
            error = self._check_sender(
                request.is_kraft_controller, request.broker_epoch, request.controller_epoch
            )
            if error is not Error.NONE:
                return UpdateMetadataResponse(error_code=int(error))
            before = self._metadata.snapshot
            deleted = self._metadata.update(request)
            after = self._metadata.snapshot
            if after.brokers is not before.brokers:
                self._fetcher_pool.reconnect(
                    broker_id
                    for broker_id, broker in after.brokers.items()
                    if broker_id in before.brokers and before.brokers[broker_id].nodes != broker.nodes
                )
                now = self._clock.monotonic()
                for partition in self._hosted:
                    leader = partition.leader
                    if leader and (partition.is_under_replicated or partition.waiters.parked_acks):
                        leader.reconsider(now)
            self._leave_reassigned(request)
            if deleted:
                for callback in self.on_deleted:
                    callback(deleted)
            return UpdateMetadataResponse()

    def _leave_reassigned(self, request: UpdateMetadataRequest) -> None:
        """End the roles in partitions whose replicas, in a newer epoch, are all elsewhere."""
        left: list[tuple[TopicPartition, LeaderEpoch | None]] = []
        for topic_partition, topic_id, epoch in others_in(request, self._broker_id):
            partition = self._hosted.get(topic_partition)
            if partition is None or partition.log is None or epoch <= partition.leader_epoch:
                continue
            if NO_TOPIC_ID not in (topic_id, partition.log.topic_id) and topic_id != partition.log.topic_id:
                continue
            logger.info(
                "%s is assigned to other brokers in epoch %d: its role here ends", topic_partition, epoch
            )
            self._end_role(partition)
            left.append((topic_partition, epoch))
        if left:
            self._fetcher_pool.stop_idle()
            for callback in self.on_stopped:
                callback(left)

    def _end_role(self, partition: Partition) -> None:
        topic_partition = partition.topic_partition
        self._fetcher_pool.leave(topic_partition)
        self._moves.stop(topic_partition)
        del self._hosted.online[topic_partition]
        partition.stop(self._hosted.absence(topic_partition))
