"""The rules by which a leader judges its followers: how far is replicated, and who is in sync.

The high watermark is the smallest log end among the *maximal* ISR and those live replicas outside of it that are
caught up, so that one which is about to join is not outrun. It stands still while the ISR is smaller than
``min.insync.replicas``, whatever the acks (KAFKA-15583), and never falls on a leader.

Pure: the caller says what time it is.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cluster.replication.partition.partition_surroundings import PartitionSurroundings
from cluster.replication.partition.remote_replica import RemoteReplica
from cluster.statemachines.isr import IsrState
from cluster.statemachines.leadership import PartitionLeadership
from wire.types import BrokerId, ControllerEpoch, LeaderEpoch, MonotonicSeconds, ZkVersion

if TYPE_CHECKING:
    from storage.log import Log
    from wire.messages.leader_and_isr import LeaderAndIsrPartitionState


def effective_min_isr(log: "Log", remotes: Mapping[BrokerId, RemoteReplica]) -> int:
    """Return ``min.insync.replicas``, which cannot be more than there are replicas."""
    return min(log.config.min_insync_replicas, len(remotes) + 1)


def waits_for_disk(log: "Log", around: PartitionSurroundings) -> bool:
    """Whether an acknowledgement waits for the disk: by the broker's setting, or the topic's ``flush.messages=1``."""
    return around.flush_on_ack or log.config.flush_messages <= 1


def advance_high_watermark(
    log: "Log",
    isr: IsrState,
    remotes: Mapping[BrokerId, RemoteReplica],
    around: PartitionSurroundings,
    now: MonotonicSeconds,
) -> bool:
    """Raise a leader's high watermark as far as the rules allow; gives whether it rose.

    Where acknowledgements wait for the disk, the leader itself counts as far as it has flushed.
    """
    if len(isr.isr) < min(log.config.min_insync_replicas, len(remotes) + 1):
        return False
    end = watermark = log.log_end_offset
    if waits_for_disk(log, around):
        watermark = min(watermark, log.recovery_point)
    maximal = isr.maximal_isr
    for remote in remotes.values():
        if remote.log_end_offset < watermark and (
            remote.broker_id in maximal
            or (
                remote.is_caught_up(end, now, around.lag_time_max_s)
                and around.metadata.is_alive(remote.broker_id)
            )
        ):
            watermark = remote.log_end_offset
    return log.advance_high_watermark(watermark)


def out_of_sync(
    log: "Log",
    isr: IsrState,
    remotes: Mapping[BrokerId, RemoteReplica],
    around: PartitionSurroundings,
    now: MonotonicSeconds,
) -> frozenset[BrokerId]:
    """Return the members of the ISR, other than the leader, that have not been caught up for the whole lag time."""
    end, lag = log.log_end_offset, around.lag_time_max_s
    return frozenset(
        member
        for member in isr.isr
        if member != around.broker_id
        and not ((remote := remotes.get(member)) and remote.is_caught_up(end, now, lag))
    )


def leadership_in(state: "LeaderAndIsrPartitionState", isr: Sequence[int]) -> PartitionLeadership:
    """Return the leadership that a controller's order tells, with the ISR as far as it concerns this broker."""
    return PartitionLeadership(
        BrokerId(state.leader),
        LeaderEpoch(state.leader_epoch),
        tuple(BrokerId(member) for member in isr),
        ControllerEpoch(state.controller_epoch),
        ZkVersion(state.partition_epoch),
    )
