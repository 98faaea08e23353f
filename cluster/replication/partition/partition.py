"""One partition on this broker: leader or follower, its ISR, its high watermark, and who waits for it.

Rules of this file:

- Nothing here awaits. An ISR change is *proposed*: the partition enters a pending state and hands itself to
  ``submit_isr_change``; the outcome comes back through `isr_committed`, `isr_refused` or `isr_superseded`.
- The rules of the high watermark and of who is in sync stand in `cluster.replication.partition.isr_rules`.
- State changes first, waiters are called after: a waiter may append again from within its callback.
"""

from typing import TYPE_CHECKING

from cluster.replication.partition.isr_rules import (
    advance_high_watermark,
    effective_min_isr,
    leadership_in,
    out_of_sync,
    waits_for_disk,
)
from cluster.replication.partition.partition_surroundings import PartitionSurroundings
from cluster.replication.partition.remote_replica import RemoteReplica
from cluster.replication.partition.topic_traffic import TopicTraffic
from cluster.replication.partition.waiters import Waiters
from cluster.statemachines.isr import (
    ChangeCommitted,
    ChangeRefused,
    ChangeSuperseded,
    CommittedIsr,
    ExpandProposed,
    IsrState,
    LeadershipReceived,
    PendingIsr,
    ShrinkProposed,
    step,
)
from cluster.statemachines.leadership import PartitionLeadership
from wire.errors import ApiError, Error
from wire.types import (
    NO_CONTROLLER_EPOCH,
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
    from storage.log import AppendOrigin, AppendResult, Log
    from storage.verification import VerificationToken
    from wire.messages.leader_and_isr import LeaderAndIsrPartitionState

ACKS_ALL = -1


_NO_LEADERSHIP = CommittedIsr(
    PartitionLeadership(NO_LEADER, NO_LEADER_EPOCH, (), NO_CONTROLLER_EPOCH, ZkVersion(-1))
)


class Partition:
    """A replica of a partition on this broker, and what its leader, if that is us, knows of the others.

    Attributes:
        topic_partition: Which partition.
        log: The local log; None until a role is given, and after the partition is stopped.
        leader_log: The same where this broker leads, else None: the one test of leadership on the hot path.
        leader_id: Who leads, or ``NO_LEADER``.
        leader_epoch: The epoch of that leadership.
        epoch_start: Where the log ended when this broker began to lead in this epoch; None on a follower.
        isr: The in-sync replicas and what is being done to them; empty on a follower.
        replicas: The assigned brokers.
        adding: Those of them that a reassignment adds.
        removing: Those of them that a reassignment removes.
        remotes: The followers by broker id, where this broker leads.
        traffic: The topic's counters.
        waiters: Whoever waits for the log's end, the high watermark or the low watermark.
    """

    __slots__ = (
        "_around",
        "_unheard",
        "adding",
        "epoch_start",
        "isr",
        "leader_epoch",
        "leader_id",
        "leader_log",
        "log",
        "remotes",
        "removing",
        "replicas",
        "topic_partition",
        "traffic",
        "waiters",
    )

    def __init__(self, topic_partition: TopicPartition, around: PartitionSurroundings) -> None:
        self.topic_partition = topic_partition
        self.log: Log | None = None
        self.leader_log: Log | None = None
        self.leader_id: BrokerId = NO_LEADER
        self.leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
        self.epoch_start: Offset | None = None
        self.isr: IsrState = _NO_LEADERSHIP
        self.replicas: tuple[BrokerId, ...] = ()
        self.adding: tuple[BrokerId, ...] = ()
        self.removing: tuple[BrokerId, ...] = ()
        self.remotes: dict[BrokerId, RemoteReplica] = {}
        self.waiters = Waiters(topic_partition)
        self.traffic = TopicTraffic(around.metrics, topic_partition.topic)
        self._around = around
        # Followers that have not fetched in this epoch: they may not have been told yet, or be parked elsewhere.
        self._unheard: set[BrokerId] = set()

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads."""
        return self.leader_log is not None

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
        return len(self.replicas) - len(self.adding)

    @property
    def is_under_replicated(self) -> bool:
        """Whether this broker leads and fewer replicas are in sync than are meant to be."""
        return self.leader_log is not None and len(self.isr.isr) < self.replication_factor

    @property
    def is_under_min_isr(self) -> bool:
        """Whether this broker leads and fewer replicas are in sync than ``min.insync.replicas`` asks for."""
        return self.leader_log is not None and len(self.isr.isr) < self._min_isr(self.leader_log)

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
        followers = [replica for replica in self.replicas if replica != self._around.broker_id]
        self.remotes = {replica: self.remotes.get(replica) or RemoteReplica(replica) for replica in followers}
        if is_new_epoch:
            start = log.log_end_offset
            # Followers may hold later epochs than any entry of this log: they find where to truncate only if the
            # new epoch stands in the cache before its first record does.
            log.leader_epochs.assign(LeaderEpoch(state.leader_epoch), start)
            for remote in self.remotes.values():
                remote.reset(
                    start, now, is_new_leader=is_new_leader, is_in_sync=remote.broker_id in state.isr
                )
            self.leader_epoch = LeaderEpoch(state.leader_epoch)
            self.epoch_start = start
            self._unheard = set(followers)
        self.isr = step(self.isr, LeadershipReceived(leadership_in(state, state.isr)))
        self.leader_id = self._around.broker_id
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
        self.isr = step(self.isr, LeadershipReceived(leadership_in(state, ())))
        self.remotes = {}
        self._unheard = set()
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
        self.isr = _NO_LEADERSHIP
        self.replicas = self.adding = self.removing = ()
        self.remotes = {}
        self._unheard = set()
        self.waiters.fire_role_changed(error)

    def _assign(self, state: "LeaderAndIsrPartitionState") -> None:
        self.replicas = tuple(BrokerId(replica) for replica in state.replicas)
        self.adding = tuple(BrokerId(replica) for replica in state.adding_replicas)
        self.removing = tuple(BrokerId(replica) for replica in state.removing_replicas)

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
        if self._unheard:
            for follower in tuple(self._unheard):
                self._around.wake_follower(follower)
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
        return log is not None and (not waits_for_disk(log, self._around) or log.recovery_point >= required)

    def _flush_if_due(self, log: "Log") -> None:
        if waits_for_disk(log, self._around) or log.is_flush_due:
            self._around.group_flush(self)

    def follower(self, broker_id: BrokerId, current_leader_epoch: int) -> RemoteReplica:
        """Return the state of the follower that fetches.

        Raises:
            ApiError: it is no assigned replica, as far as we were told.
        """
        remote = self.remotes.get(broker_id)
        if remote is None:
            # With an epoch, the pair of replica and epoch is one that we do not know yet: the follower retries.
            known = current_leader_epoch != NO_LEADER_EPOCH
            raise ApiError(Error.UNKNOWN_LEADER_EPOCH if known else Error.NOT_LEADER_OR_FOLLOWER)
        return remote

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
        if self._unheard:
            self._unheard.discard(remote.broker_id)
        if remote.broker_id not in self.isr.maximal_isr:
            self._maybe_expand(remote, log)
        if moved and self._advance_high_watermark(log, now):
            self.waiters.fire_high_watermark(log.high_watermark, self._ack_error())
        if start_moved and self.waiters.has_low_watermark_waiters:
            self.waiters.fire_low_watermark(self.low_watermark())

    def truncated(self) -> None:
        """Tell whoever reads here, consumers of a follower, that the log's end has moved back."""
        self.waiters.fire_epoch_changed()

    # High and low watermark

    def _min_isr(self, log: "Log") -> int:
        return effective_min_isr(log, self.remotes)

    def _ack_error(self) -> Error:
        """What acks=all is told about records that all of the ISR has: whether that was enough of them."""
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
        return advance_high_watermark(log, self.isr, self.remotes, self._around, now)

    def low_watermark(self) -> Offset:
        """Return the smallest log start among the live replicas: below it the records are gone everywhere.

        Raises:
            ApiError: this broker does not lead.
        """
        log = self.leader_log
        if log is None:
            raise ApiError(Error.NOT_LEADER_OR_FOLLOWER)
        low = log.log_start_offset
        for remote in self.remotes.values():
            if remote.log_start_offset < low and self._around.metadata.is_alive(remote.broker_id):
                low = remote.log_start_offset
        return low

    # In-sync replicas

    def _maybe_expand(self, remote: RemoteReplica, log: "Log") -> None:
        if (
            not self.isr.is_pending
            and remote.log_end_offset >= log.high_watermark
            and self.epoch_start is not None
            and remote.log_end_offset >= self.epoch_start
            and self._around.metadata.is_alive(remote.broker_id)
        ):
            self.isr = step(self.isr, ExpandProposed(remote.broker_id))
            self._around.submit_isr_change(self)

    def out_of_sync(self, now: MonotonicSeconds) -> frozenset[BrokerId]:
        """Return the members of the ISR that have not been caught up for the whole lag time."""
        log = self.leader_log
        if log is None or self.isr.is_pending:
            return frozenset()
        return out_of_sync(log, self.isr, self.remotes, self._around, now)

    def maybe_shrink(self, now: MonotonicSeconds) -> frozenset[BrokerId]:
        """Propose an ISR without those that are out of sync, and give them."""
        gone = self.out_of_sync(now)
        if gone:
            self.isr = step(self.isr, ShrinkProposed(gone))
            self._around.submit_isr_change(self)
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
                    remote.broker_id not in self._unheard
                    and remote.broker_id not in self.isr.maximal_isr
                    and remote.was_heard(now, self._around.lag_time_max_s)
                ):
                    self._maybe_expand(remote, log)
        if self._advance_high_watermark(log, now):
            self.waiters.fire_high_watermark(log.high_watermark, self._ack_error())
        if self.waiters.has_low_watermark_waiters and self.leader_log is not None:
            self.waiters.fire_low_watermark(self.low_watermark())

    def isr_committed(self, pending: PendingIsr, zk_version: ZkVersion, now: MonotonicSeconds) -> bool:
        """Take a proposed ISR for real; False where the controller's word has overtaken it."""
        if self.isr is not pending:
            return False
        self.isr = step(self.isr, ChangeCommitted(zk_version))
        self.reconsider(now)
        return True

    def isr_refused(self, pending: PendingIsr) -> None:
        """Go back to the committed ISR: the write certainly did not happen."""
        if self.isr is pending:
            self.isr = step(self.isr, ChangeRefused())

    def isr_superseded(self, pending: PendingIsr) -> None:
        """Stay pending: somebody else wrote the znode, and the controller will tell."""
        if self.isr is pending:
            self.isr = step(self.isr, ChangeSuperseded())

    def __repr__(self) -> str:
        role = "leader" if self.is_leader else f"follower of {self.leader_id}"
        return f"Partition({self.topic_partition}, {role}, epoch={self.leader_epoch}, isr={self.isr})"
