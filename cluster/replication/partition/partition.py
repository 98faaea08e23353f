"""One partition on this broker: leader or follower, its ISR, its high watermark, and who waits for it.

Rules of this file:

- Nothing here awaits. An ISR change is *proposed*: the partition enters a pending state and hands itself to
  ``submit_isr_change``; the outcome comes back through `isr_committed` or
  `in_sync_replicas`.
- Its parts hold what is known of the followers (`Followers`) and of the ISR (`InSyncReplicas`); the rules of the high
  watermark and of who is in sync stand in `cluster.replication.partition.isr_rules`.
- State changes first, waiters are called after: a waiter may append again from within its callback.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cluster.replication.partition.followers import Followers
from cluster.replication.partition.in_sync_replicas import InSyncReplicas
from cluster.replication.partition.isr_rules import leadership_in, out_of_sync, replicated_offset
from cluster.replication.partition.remote_replica import RemoteReplica
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
    WallMs,
    ZkVersion,
)

if TYPE_CHECKING:
    from cluster.metrics.catalogue import BrokerMetrics
    from storage.log import AppendOrigin, AppendResult, Log
    from storage.verification import VerificationToken
    from wire.messages.leader_and_isr import LeaderAndIsrPartitionState

ACKS_ALL = -1


class LiveBrokers(Protocol):
    """What is needed of the metadata; `MetadataCache` has it."""

    def is_alive(self, broker_id: BrokerId) -> bool:
        """Whether a broker is live."""
        ...


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
    """A replica of a partition on this broker, and what its leader, if that is us, knows of the others.

    Args:
        topic_partition: Which partition.
        broker_id: This broker.
        live_brokers: Which brokers are live.
        lag_time_max_s: How long a follower may be behind and stay in sync, ``replica.lag.time.max.ms`` in seconds.
        metrics: What the data path counts into.
        submit_isr_change: Takes a partition that has just proposed an ISR change.
        wake_follower: Has a follower's parked fetches answered, so that it asks for partitions it does not fetch yet.
        group_flush: Takes a partition that has appended, and calls its `flushed` when that is on disk.
        flush_on_ack: Whether every acknowledgement waits for the disk, ``log.flush.on.ack``.

    Attributes:
        topic_partition: Which partition.
        log: The local log; None until a role is given, and after the partition is stopped.
        leader_log: The same where this broker leads, else None: the one test of leadership on the hot path.
        leader_id: Who leads, or ``NO_LEADER``.
        leader_epoch: The epoch of that leadership.
        epoch_start: Where the log ended when this broker began to lead in this epoch; None on a follower.
        assignment: The assigned brokers.
        followers: What this broker knows of the followers, where it leads.
        in_sync_replicas: The ISR and the change to it that is under way.
        traffic: The topic's counters.
        waiters: The fetches, produces and deletions that wait for the log's end, the high or the low watermark.
    """

    __slots__ = (
        "_broker_id",
        "_flush_on_ack",
        "_group_flush",
        "_is_alive",
        "_lag_time_max_s",
        "_wake_follower",
        "assignment",
        "epoch_start",
        "followers",
        "in_sync_replicas",
        "leader_epoch",
        "leader_id",
        "leader_log",
        "log",
        "topic_partition",
        "traffic",
        "waiters",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        *,
        broker_id: BrokerId,
        live_brokers: LiveBrokers,
        lag_time_max_s: float,
        metrics: "BrokerMetrics",
        submit_isr_change: "Callable[[Partition], None]",
        wake_follower: Callable[[BrokerId], None],
        group_flush: "Callable[[Partition], None]",
        flush_on_ack: bool = False,
    ) -> None:
        self.topic_partition = topic_partition
        self.log: Log | None = None
        self.leader_log: Log | None = None
        self.leader_id: BrokerId = NO_LEADER
        self.leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
        self.epoch_start: Offset | None = None
        self.assignment = Assignment()
        self.waiters = Waiters(topic_partition)
        self.traffic = TopicTraffic(metrics, topic_partition.topic)
        self._broker_id = broker_id
        self._is_alive = live_brokers.is_alive
        self._lag_time_max_s = lag_time_max_s
        self._wake_follower = wake_follower
        self._group_flush = group_flush
        self._flush_on_ack = flush_on_ack
        self.followers = Followers()
        self.in_sync_replicas = InSyncReplicas(lambda: submit_isr_change(self))

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads."""
        return self.leader_log is not None

    @property
    def isr(self) -> IsrState:
        """The in-sync replicas and what is being done to them; empty on a follower."""
        return self.in_sync_replicas.state

    @property
    def remotes(self) -> dict[BrokerId, RemoteReplica]:
        """The followers by broker id, where this broker leads."""
        return self.followers.remotes

    @property
    def replicas(self) -> tuple[BrokerId, ...]:
        """The assigned brokers."""
        return self.assignment.replicas

    @property
    def topic_id(self) -> TopicId:
        """The topic's id as the log has it; ``NO_TOPIC_ID`` where it has none."""
        return NO_TOPIC_ID if self.log is None else self.log.topic_id

    @property
    def zk_version(self) -> ZkVersion:
        """The version of the partition's znode that we know."""
        return self.isr.leadership.zk_version

    @property
    def replication_factor(self) -> int:
        """How many replicas are meant to be, those that a reassignment adds left out."""
        return len(self.assignment.replicas) - len(self.assignment.adding)

    @property
    def is_under_replicated(self) -> bool:
        """Whether this broker leads and fewer replicas are in sync than are meant to be."""
        return self.leader_log is not None and len(self.isr.isr) < self.replication_factor

    @property
    def is_under_min_isr(self) -> bool:
        """Whether this broker leads and fewer replicas are in sync than ``min.insync.replicas`` asks for."""
        return self.leader_log is not None and len(self.isr.isr) < self._min_isr(self.leader_log)

    @property
    def is_at_min_isr(self) -> bool:
        """Whether this broker leads and just as many replicas are in sync as ``min.insync.replicas`` asks for."""
        return self.leader_log is not None and len(self.isr.isr) == self._min_isr(self.leader_log)

    # Roles

    def become_leader(self, state: "LeaderAndIsrPartitionState", log: "Log", now: MonotonicSeconds) -> bool:
        """Lead, or go on leading in a new epoch.

        Args:
            state: What the controller decided; its epoch is not lower than ours.
            log: The local log.
            now: The time of this change, by which members of the ISR count as caught up.

        Returns:
            Whether this broker did not lead before.
        """
        if state.partition_epoch < self.zk_version:
            return False
        is_new_leader = self.leader_log is None
        is_new_epoch = state.leader_epoch > self.leader_epoch
        self._assign(state)
        self.followers.assign(each for each in self.replicas if each != self._broker_id)
        if is_new_epoch:
            start = log.log_end_offset
            # Followers may hold later epochs than any entry of this log: they find where to truncate only if the
            # new epoch stands in the cache before its first record does.
            log.leader_epochs.assign(LeaderEpoch(state.leader_epoch), start)
            self.followers.begin_epoch(start, now, state.isr, is_new_leader=is_new_leader)
            self.leader_epoch = LeaderEpoch(state.leader_epoch)
            self.epoch_start = start
        self.in_sync_replicas.receive(leadership_in(state, state.isr))
        self.leader_id = self._broker_id
        self.log = self.leader_log = log
        if is_new_epoch:
            self.waiters.fire_epoch_changed()
        self._flush_if_due(log)
        if self._advance_high_watermark(log, now):
            self.waiters.fire_high_watermark(log.high_watermark, self._ack_error())
        return is_new_leader

    def become_follower(self, state: "LeaderAndIsrPartitionState", log: "Log") -> bool:
        """Follow another broker, or nobody where there is no leader.

        Returns:
            Whether the epoch is new, so that fetching has to be begun anew, even from the same leader.
        """
        if state.partition_epoch < self.zk_version:
            return False
        is_new_epoch = state.leader_epoch > self.leader_epoch
        self._assign(state)
        self.leader_id = BrokerId(state.leader)
        self.leader_epoch = LeaderEpoch(state.leader_epoch)
        self.epoch_start = None
        self.in_sync_replicas.receive(leadership_in(state, ()))
        self.followers.clear()
        self.leader_log = None
        self.log = log
        self.waiters.fire_role_changed(Error.NOT_LEADER_OR_FOLLOWER)
        return is_new_epoch

    def replace_log(self, log: "Log") -> None:
        """Go on with another log that has the same records: the replica has moved to another directory."""
        self.log = log
        if self.leader_log is not None:
            self.leader_log = log
            self._flush_if_due(log)
        self.waiters.fire_epoch_changed()

    def stop(self, error: Error) -> None:
        """Release the replica: its log is being deleted, or its disk failed. Every waiter gets ``error``."""
        self.log = self.leader_log = None
        self.leader_id = NO_LEADER
        self.epoch_start = None
        self.in_sync_replicas.reset()
        self.assignment = Assignment()
        self.followers.clear()
        self.waiters.fire_role_changed(error)

    def _assign(self, state: "LeaderAndIsrPartitionState") -> None:
        self.assignment = Assignment(
            tuple(BrokerId(replica) for replica in state.replicas),
            tuple(BrokerId(replica) for replica in state.adding_replicas),
            tuple(BrokerId(replica) for replica in state.removing_replicas),
        )

    # Reading and writing

    def local_log(self, current_leader_epoch: int, *, require_leader: bool) -> "Log":
        """Return the log for a read, if the reader's idea of the leadership fits.

        Args:
            current_leader_epoch: The epoch that the reader knows, or -1 where it tells none.
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

    def append_as_leader(
        self,
        records: memoryview | bytearray,
        required_acks: int,
        now: WallMs,
        origin: "AppendOrigin",
        token: "VerificationToken | None" = None,
    ) -> "AppendResult":
        """Append what a client or a coordinator sent; `appended` is to follow, once all of a request is appended.

        With a `token`, a batch that opens a transaction must be verified by it.

        Raises:
            ApiError: this broker does not lead, or acks=all is asked for and too few replicas are in sync; nothing
                was written.
            LogError: the log refused the records; nothing was written.
        """
        log = self.leader_log
        if log is None:
            raise ApiError(Error.NOT_LEADER_OR_FOLLOWER)
        if required_acks == ACKS_ALL and len(self.isr.isr) < self._min_isr(log):
            raise ApiError(
                Error.NOT_ENOUGH_REPLICAS,
                f"{self.topic_partition} has {len(self.isr.isr)} in-sync replicas, "
                f"min.insync.replicas asks for {self._min_isr(log)}",
            )
        return log.append_as_leader(records, self.leader_epoch, now, origin=origin, token=token)

    def appended(self, now: MonotonicSeconds) -> None:
        """Tell followers about an append, and move the high watermark where nobody has to be waited for."""
        log = self.leader_log
        if log is None:
            return
        self.waiters.fire_log_end()
        self._flush_if_due(log)
        if self.followers.silent:
            for follower in tuple(self.followers.silent):
                self._wake_follower(follower)
        if self._advance_high_watermark(log, now):
            self.waiters.fire_high_watermark(log.high_watermark, self._ack_error())

    def flushed(self, now: MonotonicSeconds) -> None:
        """Acknowledge what is on disk now: the leader counts for the high watermark as far as it has flushed."""
        log = self.leader_log
        if log is None:
            return
        self.waiters.fire_flushed(log.recovery_point)
        if self._advance_high_watermark(log, now):
            self.waiters.fire_high_watermark(log.high_watermark, self._ack_error())

    def is_flushed(self, required: Offset) -> bool:
        """Whether an acknowledgement of everything below ``required`` need not wait for the disk."""
        log = self.leader_log
        return log is not None and (not self._waits_for_disk(log) or log.recovery_point >= required)

    def _waits_for_disk(self, log: "Log") -> bool:
        """Whether an acknowledgement waits for the disk: by the broker's setting, or ``flush.messages=1``."""
        return self._flush_on_ack or log.config.flush_messages <= 1

    def _flush_if_due(self, log: "Log") -> None:
        if self._waits_for_disk(log) or log.is_flush_due:
            self._group_flush(self)

    def follower_fetched(
        self,
        remote: RemoteReplica,
        fetch_offset: Offset,
        log_start_offset: Offset,
        leader_end: Offset,
        now: MonotonicSeconds,
    ) -> None:
        """Record a follower's fetch: it may join the ISR, move the high watermark, and end what waits for that."""
        log = self.leader_log
        if log is None:
            return
        moved = remote.log_end_offset != fetch_offset
        start_moved = remote.log_start_offset != log_start_offset
        remote.fetched(fetch_offset, log_start_offset, leader_end, now)
        if self.followers.silent:
            self.followers.silent.discard(remote.broker_id)
        if remote.broker_id not in self.isr.maximal_isr:
            self._maybe_expand(remote, log)
        if moved and self._advance_high_watermark(log, now):
            self.waiters.fire_high_watermark(log.high_watermark, self._ack_error())
        if start_moved and self.waiters.has_low_watermark_waiters:
            self.waiters.fire_low_watermark(self.low_watermark())

    def truncated(self) -> None:
        """Wake the consumers that read from this follower: the log's end has moved back."""
        self.waiters.fire_epoch_changed()

    # High and low watermark

    def _min_isr(self, log: "Log") -> int:
        """``min.insync.replicas``, which cannot be more than there are replicas."""
        return min(log.config.min_insync_replicas, len(self.remotes) + 1)

    def _ack_error(self) -> Error:
        """The answer to acks=all for records that all of the ISR has: whether the ISR was large enough."""
        log = self.leader_log
        if log is None or len(self.isr.maximal_isr) < self._min_isr(log):
            return Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return Error.NONE

    def acknowledged(self, required: Offset) -> Error | None:
        """Say whether everything below ``required`` is replicated: an error or ``NONE``, or None for not yet."""
        log = self.leader_log
        if log is None:
            return Error.NOT_LEADER_OR_FOLLOWER
        return self._ack_error() if log.high_watermark >= required else None

    def _advance_high_watermark(self, log: "Log", now: MonotonicSeconds) -> bool:
        isr = self.in_sync_replicas.state
        remotes = self.followers.remotes
        if len(isr.isr) < min(log.config.min_insync_replicas, len(remotes) + 1):
            return False
        end = log.log_end_offset
        persisted = min(end, log.recovery_point) if self._waits_for_disk(log) else end
        return log.advance_high_watermark(
            replicated_offset(end, persisted, isr, remotes, self._is_alive, now, self._lag_time_max_s)
        )

    def low_watermark(self) -> Offset:
        """Return the smallest log start among the live replicas: below it the records are gone everywhere.

        Raises:
            ApiError: this broker does not lead.
        """
        log = self.leader_log
        if log is None:
            raise ApiError(Error.NOT_LEADER_OR_FOLLOWER)
        return self.followers.low_watermark(log.log_start_offset, self._is_alive)

    # In-sync replicas

    def _maybe_expand(self, remote: RemoteReplica, log: "Log") -> None:
        if (
            not self.isr.is_pending
            and remote.log_end_offset >= log.high_watermark
            and self.epoch_start is not None
            and remote.log_end_offset >= self.epoch_start
            and self._is_alive(remote.broker_id)
        ):
            self.in_sync_replicas.propose_expand(remote.broker_id)

    def out_of_sync(self, now: MonotonicSeconds) -> frozenset[BrokerId]:
        """Return the members of the ISR that have not been caught up for the whole lag time."""
        log = self.leader_log
        if log is None or self.isr.is_pending:
            return frozenset()
        return out_of_sync(
            log.log_end_offset, self.isr, self.remotes, self._broker_id, now, self._lag_time_max_s
        )

    def maybe_shrink(self, now: MonotonicSeconds) -> frozenset[BrokerId]:
        """Propose an ISR without the members that are out of sync, and return those."""
        gone = self.out_of_sync(now)
        if gone:
            self.in_sync_replicas.propose_shrink(gone)
        return gone

    def reconsider(self, now: MonotonicSeconds) -> None:
        """Look at what changes by itself: followers that fell behind or died, or may join, and those they held back.

        A follower whose partitions are clean in its session is not read at each fetch, so what kept it out of the ISR
        when it was (another change under way, its broker not known to be live) has to be looked at again. One that
        has not fetched in this leader epoch stays out: what is known of its log may belong to its broker's former life.
        """
        log = self.leader_log
        if log is None:
            return
        if not self.maybe_shrink(now):
            for remote in self.remotes.values():
                if (
                    remote.broker_id not in self.followers.silent
                    and remote.broker_id not in self.isr.maximal_isr
                    and remote.was_heard(now, self._lag_time_max_s)
                ):
                    self._maybe_expand(remote, log)
        if self._advance_high_watermark(log, now):
            self.waiters.fire_high_watermark(log.high_watermark, self._ack_error())
        if self.waiters.has_low_watermark_waiters and self.leader_log is not None:
            self.waiters.fire_low_watermark(self.low_watermark())

    def isr_committed(self, pending: PendingIsr, zk_version: ZkVersion, now: MonotonicSeconds) -> bool:
        """Commit a pending ISR; return False if the controller superseded it."""
        if not self.in_sync_replicas.committed(pending, zk_version):
            return False
        self.reconsider(now)
        return True

    def __repr__(self) -> str:
        role = "leader" if self.is_leader else f"follower of {self.leader_id}"
        return f"Partition({self.topic_partition}, {role}, epoch={self.leader_epoch}, isr={self.isr})"
