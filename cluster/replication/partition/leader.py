"""The leader's role in one partition: appends, what its followers have, the high watermark, and who is in sync.

Rules of this file:

- Nothing here awaits. An ISR change is *proposed*: the ISR becomes pending, and `IsrChanges`, which writes it, reports
  the outcome to `Partition.isr_committed` or `InSyncReplicas`.
- State changes come first, calls of waiters after: a waiter can append again from within its callback.
- A callback can end the role, after a disk error. The ISR is empty from then on, so nothing more is acknowledged.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from cluster.replication.partition.followers import Followers
from cluster.replication.partition.isr_rules import out_of_sync, replicated_offset
from wire.errors import ApiError, Error
from wire.types import BrokerId, LeaderEpoch, MonotonicSeconds, Offset, TopicPartition, WallMs

if TYPE_CHECKING:
    from cluster.replication.partition.in_sync_replicas import InSyncReplicas
    from cluster.replication.partition.remote_replica import RemoteReplica
    from cluster.replication.partition.waiters import Waiters
    from cluster.statemachines.isr import IsrState
    from storage.log import AppendOrigin, AppendResult, Log
    from storage.verification import VerificationToken
    from wire.messages.leader_and_isr import LeaderAndIsrPartitionState

ACKS_ALL = -1


class LeaderRules(NamedTuple):
    """The settings and functions shared by all partitions that this broker leads.

    Attributes:
        broker_id: This broker.
        is_alive: Whether a broker is live.
        lag_time_max_s: How long a follower can be behind and stay in sync, ``replica.lag.time.max.ms`` in seconds.
        wake_follower: Answers a follower's parked fetches, so that it asks for partitions that it does not fetch yet.
        flush_on_ack: Whether every acknowledgement waits for the disk, ``log.flush.on.ack``.
    """

    broker_id: BrokerId
    is_alive: Callable[[BrokerId], bool]
    lag_time_max_s: float
    wake_follower: Callable[[BrokerId], None]
    flush_on_ack: bool = False


class Leader:
    """One partition's leader, from the LeaderAndIsr that makes it one to the one that makes it a follower.

    Args:
        topic_partition: Which partition.
        log: The local log.
        rules: Shared by all partitions.
        in_sync_replicas: The partition's ISR.
        waiters: The requests that wait for the partition.
        flush_soon: Flushes the log together with others, and then calls `flushed`.

    Attributes:
        log: The local log.
        epoch: The leader epoch; those of one leader follow each other without a change of role.
        epoch_start: Where the log ended when the epoch began; None before the first epoch.
        followers: The progress of the followers.
    """

    __slots__ = (
        "_flush_soon",
        "_in_sync_replicas",
        "_rules",
        "_waiters",
        "epoch",
        "epoch_start",
        "followers",
        "log",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        log: "Log",
        epoch: LeaderEpoch,
        rules: LeaderRules,
        in_sync_replicas: "InSyncReplicas",
        waiters: "Waiters",
        flush_soon: Callable[[], None],
    ) -> None:
        self.topic_partition = topic_partition
        self.log = log
        self.epoch = epoch
        self.epoch_start: Offset | None = None
        self.followers = Followers()
        self._rules = rules
        self._in_sync_replicas = in_sync_replicas
        self._waiters = waiters
        self._flush_soon = flush_soon

    @property
    def isr(self) -> "IsrState":
        """The in-sync replicas and the change under way."""
        return self._in_sync_replicas.state

    @property
    def remotes(self) -> "dict[BrokerId, RemoteReplica]":
        """The followers by broker id."""
        return self.followers.remotes

    @property
    def min_isr(self) -> int:
        """``min.insync.replicas``, limited to the number of replicas."""
        return min(self.log.config.min_insync_replicas, len(self.followers.remotes) + 1)

    # The role

    def assign(self, replicas: Iterable[BrokerId]) -> None:
        """Set the assigned replicas; the progress of those already known is kept."""
        self.followers.assign(each for each in replicas if each != self._rules.broker_id)

    def begin_epoch(
        self, state: "LeaderAndIsrPartitionState", now: MonotonicSeconds, *, is_new_leader: bool
    ) -> None:
        """Lead in a new epoch, which begins at the log's present end.

        Args:
            state: The controller's decision.
            now: The time of this change, at which members of the ISR count as caught up.
            is_new_leader: Whether this broker did not lead before.
        """
        start, epoch = self.log.log_end_offset, LeaderEpoch(state.leader_epoch)
        # Followers may hold later epochs than any entry of this log: they find where to truncate only if the new epoch
        # is in the cache before its first record is in the log.
        self.log.leader_epochs.assign(epoch, start)
        self.followers.begin_epoch(start, now, state.isr, is_new_leader=is_new_leader)
        self.epoch, self.epoch_start = epoch, start

    def replace_log(self, log: "Log") -> None:
        """Switch to another log that has the same records."""
        self.log = log
        self.flush_if_due()

    # Reading and writing

    def append(
        self,
        records: memoryview | bytearray,
        required_acks: int,
        now: WallMs,
        origin: "AppendOrigin",
        token: "VerificationToken | None" = None,
    ) -> "AppendResult":
        """Append a batch from a client or a coordinator; the caller calls `appended` once all of a request is appended.

        With a `token`, a batch that opens a transaction must be verified by it.

        Raises:
            ApiError: acks=all is asked for and too few replicas are in sync; nothing was written.
            LogError: the log refused the records; nothing was written.
        """
        if required_acks == ACKS_ALL and len(self.isr.isr) < self.min_isr:
            raise ApiError(
                Error.NOT_ENOUGH_REPLICAS,
                f"{self.topic_partition} has {len(self.isr.isr)} in-sync replicas, "
                f"min.insync.replicas asks for {self.min_isr}",
            )
        return self.log.append_as_leader(records, self.epoch, now, origin=origin, token=token)

    def appended(self, now: MonotonicSeconds) -> None:
        """Answer the fetches that wait for an append, and raise the high watermark if that needs no follower."""
        self._waiters.fire_log_end()
        self.flush_if_due()
        if self.followers.silent:
            for follower in tuple(self.followers.silent):
                self._rules.wake_follower(follower)
        self.raise_high_watermark(now)

    def flushed(self, now: MonotonicSeconds) -> None:
        """Acknowledge what is on disk now: the leader counts towards the high watermark as far as it has flushed."""
        self._waiters.fire_flushed(self.log.recovery_point)
        self.raise_high_watermark(now)

    def is_flushed(self, required: Offset) -> bool:
        """Whether an acknowledgement of everything below ``required`` need not wait for the disk."""
        return not self._waits_for_disk() or self.log.recovery_point >= required

    def flush_if_due(self) -> None:
        """Have the log flushed if acknowledgements wait for that, or enough was appended."""
        if self._waits_for_disk() or self.log.is_flush_due:
            self._flush_soon()

    def _waits_for_disk(self) -> bool:
        """Whether an acknowledgement waits for the disk: by the broker's setting, or ``flush.messages=1``."""
        return self._rules.flush_on_ack or self.log.config.flush_messages <= 1

    def follower_fetched(
        self,
        remote: "RemoteReplica",
        fetch_offset: Offset,
        log_start_offset: Offset,
        leader_end: Offset,
        now: MonotonicSeconds,
    ) -> None:
        """Record a follower's fetch: it can join the ISR, raise the high watermark, and end waits for it."""
        moved = remote.log_end_offset != fetch_offset
        start_moved = remote.log_start_offset != log_start_offset
        remote.fetched(fetch_offset, log_start_offset, leader_end, now)
        if self.followers.silent:
            self.followers.silent.discard(remote.broker_id)
        if remote.broker_id not in self.isr.maximal_isr:
            self._maybe_expand(remote)
        if moved:
            self.raise_high_watermark(now)
        if start_moved:
            self._fire_low_watermark()

    # High and low watermark

    def ack_error(self) -> Error:
        """Return the answer to acks=all for records that the whole ISR has: an error if the ISR is too small."""
        if len(self.isr.maximal_isr) < self.min_isr:
            return Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return Error.NONE

    def raise_high_watermark(self, now: MonotonicSeconds) -> None:
        """Raise the high watermark as far as the followers' progress allows, and answer requests that wait for it."""
        log, remotes = self.log, self.followers.remotes
        isr = self._in_sync_replicas.state
        if len(isr.isr) < min(log.config.min_insync_replicas, len(remotes) + 1):
            return
        end = log.log_end_offset
        persisted = min(end, log.recovery_point) if self._waits_for_disk() else end
        rules = self._rules
        offset = replicated_offset(end, persisted, isr, remotes, rules.is_alive, now, rules.lag_time_max_s)
        if log.advance_high_watermark(offset):
            self._waiters.fire_high_watermark(log.high_watermark, self.ack_error())

    def low_watermark(self) -> Offset:
        """Return the smallest log start among the live replicas: below it the records are deleted everywhere."""
        return self.followers.low_watermark(self.log.log_start_offset, self._rules.is_alive)

    def _fire_low_watermark(self) -> None:
        if self._waiters.has_low_watermark_waiters:
            self._waiters.fire_low_watermark(self.low_watermark())

    # In-sync replicas

    def _maybe_expand(self, remote: "RemoteReplica") -> None:
        if (
            not self.isr.is_pending
            and remote.log_end_offset >= self.log.high_watermark
            and self.epoch_start is not None
            and remote.log_end_offset >= self.epoch_start
            and self._rules.is_alive(remote.broker_id)
        ):
            self._in_sync_replicas.propose_expand(remote.broker_id)

    def maybe_shrink(self, now: MonotonicSeconds) -> frozenset[BrokerId]:
        """Propose an ISR without the members that are out of sync, and return these."""
        if self.isr.is_pending:
            return frozenset()
        rules = self._rules
        gone = out_of_sync(
            self.log.log_end_offset, self.isr, self.remotes, rules.broker_id, now, rules.lag_time_max_s
        )
        if gone:
            self._in_sync_replicas.propose_shrink(gone)
        return gone

    def reconsider(self, now: MonotonicSeconds) -> None:
        """Re-evaluate what time changes: followers that fell behind, died or can join, and waits that they held back.

        A follower whose partitions are clean in its session is not read at each fetch, so the reasons that kept it out
        of the ISR at its last read (another change under way, its broker not known to be live) must be checked again.
        One that has not fetched in this leader epoch stays out: its known log end may date from before its broker's
        restart.
        """
        if not self.maybe_shrink(now):
            for remote in self.remotes.values():
                if (
                    remote.broker_id not in self.followers.silent
                    and remote.broker_id not in self.isr.maximal_isr
                    and remote.was_heard(now, self._rules.lag_time_max_s)
                ):
                    self._maybe_expand(remote)
        self.raise_high_watermark(now)
        self._fire_low_watermark()
