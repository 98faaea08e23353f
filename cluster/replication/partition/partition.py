"""One partition on this broker: its log, its assignment, its role, and the requests that wait for it.

Rules of this file:

- Nothing here awaits, and nothing outside changes a role.
- A partition that this broker leads has a `Leader`, which holds all that only a leader knows; without one it follows,
  and the fetcher tracks its progress (`cluster.replication.follower`).
- The ISR and the waiters outlive the role: a change of role is what empties them.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from cluster.replication.partition.in_sync_replicas import InSyncReplicas
from cluster.replication.partition.isr_rules import leadership_in
from cluster.replication.partition.leader import Leader, LeaderRules
from cluster.replication.partition.topic_traffic import TopicTraffic
from cluster.replication.partition.waiters import Waiters
from cluster.statemachines.isr import IsrState, PendingIsr
from wire.errors import ApiError, Error
from wire.types import (
    NO_LEADER,
    NO_LEADER_EPOCH,
    NO_TOPIC_ID,
    BrokerId,
    LeaderEpoch,
    MonotonicSeconds,
    Offset,
    TopicId,
    TopicPartition,
    ZkVersion,
)

if TYPE_CHECKING:
    from cluster.metrics.catalogue import BrokerMetrics
    from storage.log import Log
    from wire.messages.leader_and_isr import LeaderAndIsrPartitionState


class Assignment(NamedTuple):
    """The brokers that a partition is assigned to.

    Attributes:
        replicas: All of them.
        adding: Those that a reassignment adds.
        removing: Those that a reassignment removes.
    """

    replicas: tuple[BrokerId, ...] = ()
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()


class Partition:
    """A replica of a partition on this broker and, if this broker leads, the state of the other replicas.

    Args:
        topic_partition: Which partition.
        rules: Shared by all partitions that this broker leads.
        metrics: The counters of the data path.
        submit_isr_change: Called with a partition that has just proposed an ISR change.
        group_flush: Called with a partition that has appended; calls its leader's `flushed` when that is on disk.

    Attributes:
        topic_partition: Which partition.
        log: The local log; None until the first role, and after the partition is stopped.
        leader: The leader's role; None if this broker follows.
        leader_id: The leader, or ``NO_LEADER``.
        leader_epoch: The epoch of that leadership.
        assignment: The assigned brokers.
        in_sync_replicas: The ISR and the change to it that is under way.
        traffic: The topic's counters.
        waiters: The fetches, produces and deletions that wait for the log's end, the high or the low watermark.
    """

    __slots__ = (
        "_group_flush",
        "_rules",
        "assignment",
        "in_sync_replicas",
        "leader",
        "leader_epoch",
        "leader_id",
        "log",
        "topic_partition",
        "traffic",
        "waiters",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        *,
        rules: LeaderRules,
        metrics: "BrokerMetrics",
        submit_isr_change: "Callable[[Partition], None]",
        group_flush: "Callable[[Partition], None]",
    ) -> None:
        self.topic_partition = topic_partition
        self.log: Log | None = None
        self.leader: Leader | None = None
        self.leader_id: BrokerId = NO_LEADER
        self.leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
        self.assignment = Assignment()
        self.waiters = Waiters(topic_partition)
        self.traffic = TopicTraffic(metrics, topic_partition.topic)
        self._rules = rules
        self._group_flush = group_flush
        self.in_sync_replicas = InSyncReplicas(lambda: submit_isr_change(self))

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads."""
        return self.leader is not None

    @property
    def leader_log(self) -> "Log | None":
        """The local log if this broker leads, else None."""
        leader = self.leader
        return None if leader is None else leader.log

    @property
    def isr(self) -> IsrState:
        """The in-sync replicas and the change under way; empty on a follower."""
        return self.in_sync_replicas.state

    @property
    def replicas(self) -> tuple[BrokerId, ...]:
        """The assigned brokers."""
        return self.assignment.replicas

    @property
    def topic_id(self) -> TopicId:
        """The topic's id as the log has it; ``NO_TOPIC_ID`` if it has none."""
        return NO_TOPIC_ID if self.log is None else self.log.topic_id

    @property
    def zk_version(self) -> ZkVersion:
        """The version of the partition's znode that we know."""
        return self.isr.leadership.zk_version

    @property
    def replication_factor(self) -> int:
        """How many replicas there should be, without those that a reassignment adds."""
        return len(self.assignment.replicas) - len(self.assignment.adding)

    @property
    def is_under_replicated(self) -> bool:
        """Whether this broker leads and fewer replicas are in sync than there should be."""
        return self.leader is not None and len(self.isr.isr) < self.replication_factor

    @property
    def is_under_min_isr(self) -> bool:
        """Whether this broker leads and fewer replicas are in sync than ``min.insync.replicas``."""
        return self.leader is not None and len(self.isr.isr) < self.leader.min_isr

    @property
    def is_at_min_isr(self) -> bool:
        """Whether this broker leads and exactly ``min.insync.replicas`` replicas are in sync."""
        return self.leader is not None and len(self.isr.isr) == self.leader.min_isr

    # Roles

    def become_leader(self, state: "LeaderAndIsrPartitionState", log: "Log", now: MonotonicSeconds) -> bool:
        """Lead, or go on leading in a new epoch.

        Args:
            state: The controller's decision; its epoch is not lower than ours.
            log: The local log.
            now: The time of this change, at which members of the ISR count as caught up.

        Returns:
            Whether this broker did not lead before.
        """
        if state.partition_epoch < self.zk_version:
            return False
        leader = self.leader
        is_new_leader = leader is None
        if leader is None:
            leader = Leader(
                self.topic_partition,
                log,
                self.leader_epoch,
                self._rules,
                self.in_sync_replicas,
                self.waiters,
                lambda: self._group_flush(self),
            )
        is_new_epoch = state.leader_epoch > self.leader_epoch
        self._assign(state)
        leader.log = log
        leader.assign(self.replicas)
        if is_new_epoch:
            leader.begin_epoch(state, now, is_new_leader=is_new_leader)
        self.in_sync_replicas.receive(leadership_in(state, state.isr))
        self.leader_id, self.leader_epoch = self._rules.broker_id, leader.epoch
        self.log, self.leader = log, leader
        if is_new_epoch:
            self.waiters.fire_epoch_changed()
        leader.flush_if_due()
        leader.raise_high_watermark(now)
        return is_new_leader

    def become_follower(self, state: "LeaderAndIsrPartitionState", log: "Log") -> bool:
        """Follow another broker, or none if there is no leader.

        Returns:
            Whether the epoch is new, so that fetching must start anew, even from the same leader.
        """
        if state.partition_epoch < self.zk_version:
            return False
        is_new_epoch = state.leader_epoch > self.leader_epoch
        self._assign(state)
        self.leader_id = BrokerId(state.leader)
        self.leader_epoch = LeaderEpoch(state.leader_epoch)
        self.in_sync_replicas.receive(leadership_in(state, ()))
        self.leader = None
        self.log = log
        self.waiters.fire_role_changed(Error.NOT_LEADER_OR_FOLLOWER)
        return is_new_epoch

    def replace_log(self, log: "Log") -> None:
        """Switch to another log that has the same records: the replica has moved to another directory."""
        self.log = log
        if self.leader is not None:
            self.leader.replace_log(log)
        self.waiters.fire_epoch_changed()

    def stop(self, error: Error) -> None:
        """Release the replica: its log is being deleted, or its disk failed. Every waiter gets ``error``."""
        self.log = self.leader = None
        self.leader_id = NO_LEADER
        self.in_sync_replicas.reset()
        self.assignment = Assignment()
        self.waiters.fire_role_changed(error)

    def _assign(self, state: "LeaderAndIsrPartitionState") -> None:
        self.assignment = Assignment(
            tuple(BrokerId(replica) for replica in state.replicas),
            tuple(BrokerId(replica) for replica in state.adding_replicas),
            tuple(BrokerId(replica) for replica in state.removing_replicas),
        )

    # Reading and writing

    def local_log(self, current_leader_epoch: int, *, require_leader: bool) -> "Log":
        """Return the log for a read, if the leader epoch that the reader knows is current.

        Args:
            current_leader_epoch: The epoch that the reader knows, or -1 if it names none.
            require_leader: Whether only the leader may serve it.

        Raises:
            ApiError: the reader's epoch is older or newer, or this broker does not lead.
        """
        if current_leader_epoch != self.leader_epoch and current_leader_epoch != NO_LEADER_EPOCH:
            if current_leader_epoch < self.leader_epoch:
                raise ApiError(Error.FENCED_LEADER_EPOCH)
            raise ApiError(Error.UNKNOWN_LEADER_EPOCH)
        log = self.leader_log if require_leader else self.log
        if log is None:
            raise ApiError(Error.NOT_LEADER_OR_FOLLOWER)
        return log

    def leader_or_error(self) -> Leader:
        """Return the leader's role.

        Raises:
            ApiError: this broker does not lead.
        """
        if self.leader is None:
            raise ApiError(Error.NOT_LEADER_OR_FOLLOWER)
        return self.leader

    def acknowledged(self, required: Offset) -> Error | None:
        """Return an error or ``NONE`` if everything below ``required`` is replicated, or None if it is not yet."""
        leader = self.leader
        if leader is None:
            return Error.NOT_LEADER_OR_FOLLOWER
        return leader.ack_error() if leader.log.high_watermark >= required else None

    def is_flushed(self, required: Offset) -> bool:
        """Whether an acknowledgement of everything below ``required`` need not wait for the disk."""
        return self.leader is not None and self.leader.is_flushed(required)

    def truncated(self) -> None:
        """Wake the consumers that read from this follower, because the log was truncated."""
        self.waiters.fire_epoch_changed()

    def isr_committed(self, pending: PendingIsr, zk_version: ZkVersion, now: MonotonicSeconds) -> bool:
        """Commit a pending ISR; return False if the controller superseded it."""
        if not self.in_sync_replicas.committed(pending, zk_version):
            return False
        if self.leader is not None:
            self.leader.reconsider(now)
        return True

    def __repr__(self) -> str:
        role = "leader" if self.is_leader else f"follower of {self.leader_id}"
        return f"Partition({self.topic_partition}, {role}, epoch={self.leader_epoch}, isr={self.isr})"
