"""The rules by which a leader judges its followers: how far records are replicated, and which followers are in sync.

The high watermark is the smallest log end among the *maximal* ISR and those live replicas outside it that are caught
up, so that it does not outrun a replica that is about to join. It stands still while the ISR is smaller than
``min.insync.replicas``, whatever the acks (KAFKA-15583), and never falls on a leader.

Pure: the caller passes the time and the live brokers.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from cluster.replication.partition.remote_replica import RemoteReplica
from cluster.statemachines.isr import IsrState
from cluster.statemachines.leadership import PartitionLeadership
from wire.types import BrokerId, ControllerEpoch, LeaderEpoch, MonotonicSeconds, Offset, ZkVersion

if TYPE_CHECKING:
    from wire.messages.leader_and_isr import LeaderAndIsrPartitionState


def replicated_offset(
    end: Offset,
    persisted: Offset,
    isr: IsrState,
    remotes: Mapping[BrokerId, RemoteReplica],
    is_alive: Callable[[BrokerId], bool],
    now: MonotonicSeconds,
    max_lag_s: float,
) -> Offset:
    """Return how far the high watermark may rise: the offset below which every replica that counts has the log.

    Args:
        end: Where the leader's log ends.
        persisted: The leader's own offset for this; below `end` if acknowledgements wait for the disk.
        isr: The in-sync replicas.
        remotes: The followers.
        is_alive: Whether a broker is live.
        now: The present time.
        max_lag_s: For how many seconds a follower may be behind and still count as caught up.
    """
    offset = persisted
    maximal = isr.maximal_isr
    for remote in remotes.values():
        if remote.log_end_offset < offset and (
            remote.broker_id in maximal
            or (remote.is_caught_up(end, now, max_lag_s) and is_alive(remote.broker_id))
        ):
            offset = remote.log_end_offset
    return offset


def out_of_sync(
    end: Offset,
    isr: IsrState,
    remotes: Mapping[BrokerId, RemoteReplica],
    leader_id: BrokerId,
    now: MonotonicSeconds,
    max_lag_s: float,
) -> frozenset[BrokerId]:
    """Return the members of the ISR, other than the leader, that have not been caught up for `max_lag_s`."""
    return frozenset(
        member
        for member in isr.isr
        if member != leader_id
        and not ((remote := remotes.get(member)) and remote.is_caught_up(end, now, max_lag_s))
    )


def leadership_in(state: "LeaderAndIsrPartitionState", isr: Sequence[int]) -> PartitionLeadership:
    """Return the leadership in a LeaderAndIsr, with `isr` as the ISR: empty on a follower."""
    return PartitionLeadership(
        BrokerId(state.leader),
        LeaderEpoch(state.leader_epoch),
        tuple(BrokerId(member) for member in isr),
        ControllerEpoch(state.controller_epoch),
        ZkVersion(state.partition_epoch),
    )
