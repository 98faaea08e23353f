"""Who leads next: small functions of an assignment, a leadership and the live brokers.

Rules that hold for all of them:

- Candidates are tried in the order of the assignment, never in that of the ISR: the first replica is the
  preferred one, and the order of the ISR is only the order in which replicas caught up.
- A candidate is live and in the ISR. The single exception is an unclean election, which may lose records and
  is made only where the topic or the operator allows it.
- The outcome is a decision (leader epoch raised by one) that still has to be written, conditional on the
  version of the leadership that it was made from. On a version conflict the function is called again with the
  fresh leadership.

An election that finds no leader returns ``None``: the caller decides what that means.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Protocol

from cluster.statemachines.leadership import PartitionAssignment, PartitionLeadership
from wire.types import NO_LEADER, BrokerId, ControllerEpoch

IsLive = Callable[[BrokerId], bool]
"""Whether the replica on a broker can serve: the broker is registered, not shutting down, and its directory works."""


@dataclass(frozen=True, slots=True)
class Election:
    """A decision to be written, and then to be sent to the brokers.

    Attributes:
        leadership: The decision; its ``zk_version`` is that of the leadership it replaces.
        recipients: The replicas that get a LeaderAndIsr request once it is written.
        unclean: The leader was not in sync: records that were acknowledged may be lost.
    """

    leadership: PartitionLeadership
    recipients: tuple[BrokerId, ...]
    unclean: bool = False


class Elect(Protocol):
    """An election, with every argument but the partition's own bound."""

    def __call__(
        self, assignment: PartitionAssignment, leadership: PartitionLeadership, is_live: IsLive
    ) -> Election | None:
        """Elect a leader of one partition."""


def elect_offline(
    assignment: PartitionAssignment,
    leadership: PartitionLeadership,
    is_live: IsLive,
    *,
    controller_epoch: ControllerEpoch,
    unclean: bool,
) -> Election | None:
    """Elect a leader for a partition that has lost its leader.

    The ISR shrinks to its live members. Where none is live and ``unclean`` allows it, the first live replica
    leads alone and is marked as recovering.

    Args:
        assignment: Its replicas.
        leadership: As read from ZooKeeper just now.
        is_live: Which replicas can serve.
        controller_epoch: Of the controller that decides.
        unclean: Whether a replica outside the ISR may be elected.
    """
    live = tuple(replica for replica in assignment.replicas if is_live(replica))
    in_sync = leadership.isr
    leader = next((replica for replica in live if replica in in_sync), NO_LEADER)
    if leader != NO_LEADER:
        isr = tuple(replica for replica in in_sync if is_live(replica))
        return Election(leadership.decided(leader, isr, controller_epoch), live)
    if unclean and live:
        decided = leadership.decided(live[0], live[:1], controller_epoch)
        return Election(replace(decided, recovering=True), live, unclean=True)
    return None


def elect_reassigned(
    assignment: PartitionAssignment,
    leadership: PartitionLeadership,
    is_live: IsLive,
    *,
    controller_epoch: ControllerEpoch,
) -> Election | None:
    """Elect a leader among the target replicas of a reassignment; the ISR stays as it is."""
    target = assignment.target
    for replica in target:
        if replica in leadership.isr and is_live(replica):
            return Election(leadership.decided(replica, leadership.isr, controller_epoch), target)
    return None


def elect_preferred(
    assignment: PartitionAssignment,
    leadership: PartitionLeadership,
    is_live: IsLive,
    *,
    controller_epoch: ControllerEpoch,
) -> Election | None:
    """Return the leadership to the first replica of the assignment, if it is live and in sync."""
    replicas = assignment.replicas
    if not replicas or replicas[0] not in leadership.isr or not is_live(replicas[0]):
        return None
    return Election(leadership.decided(replicas[0], leadership.isr, controller_epoch), replicas)


def elect_controlled_shutdown(
    assignment: PartitionAssignment,
    leadership: PartitionLeadership,
    is_registered: IsLive,
    *,
    controller_epoch: ControllerEpoch,
    shutting_down: Collection[BrokerId],
) -> Election | None:
    """Move the leadership away from brokers that are shutting down, and take these out of the ISR.

    Args:
        assignment: Its replicas.
        leadership: As read from ZooKeeper just now.
        is_registered: Which replicas can be reached. Unlike in the other elections, a broker that is shutting down
            counts: the old leader must learn that it is now a follower.
        controller_epoch: Of the controller that decides.
        shutting_down: The brokers that are shutting down.
    """
    reachable = tuple(replica for replica in assignment.replicas if is_registered(replica))
    isr = tuple(replica for replica in leadership.isr if replica not in shutting_down)
    for replica in reachable:
        if replica in isr:
            return Election(leadership.decided(replica, isr, controller_epoch), reachable)
    return None


def leave_isr(
    leadership: PartitionLeadership, leaving: Collection[BrokerId], controller_epoch: ControllerEpoch
) -> PartitionLeadership | None:
    """Take stopped replicas out of the ISR.

    If none would remain, the ISR stays as it was: each of its members has every acknowledged record, and whichever
    returns first may lead. (Kafka removes members one by one, and waits for the last one removed.)

    Returns:
        The decision, or ``None`` if none of them was in sync, so that nothing changes.
    """
    remaining = tuple(replica for replica in leadership.isr if replica not in leaving)
    if len(remaining) == len(leadership.isr):
        return None
    leader = NO_LEADER if leadership.leader in leaving else leadership.leader
    if not remaining and leader == leadership.leader:
        return None
    return leadership.decided(leader, remaining or leadership.isr, controller_epoch)


def bump_leader_epoch(
    leadership: PartitionLeadership, controller_epoch: ControllerEpoch
) -> PartitionLeadership:
    """Decide the same leader and ISR again: the raised epoch makes replicas accept the new assignment."""
    return leadership.decided(leadership.leader, leadership.isr, controller_epoch)
