"""A partition, as the controller sees it: whether it has a leader.

Rules:

- A partition is ONLINE from the moment its leadership is in ZooKeeper, and not before: ``LeaderElected`` is
  applied after the write, so that a controller that dies between the two leaves nothing that its successor
  has to undo.
- OFFLINE only says that the leader is gone. The znode still names the last in-sync replicas, and an election
  among them brings the partition back.
- Deleting goes through OFFLINE: no leader may be elected for a partition that is being deleted.

The table is the only statement of what is legal: tests and documents are derived from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from cluster.statemachines.transition import IllegalTransition


class PartitionState(Enum):
    """Where a partition stands.

    The values are the names that the management socket shows.
    """

    NON_EXISTENT = "non-existent"
    """Never created, or deleted. Clients get UNKNOWN_TOPIC_OR_PARTITION; an assignment moves us on."""
    NEW = "new"
    """Assigned, no leader yet. Clients get LEADER_NOT_AVAILABLE; the first live replica moves us on."""
    ONLINE = "online"
    """It has a leader. The loss of the leader's broker moves us on; a further election keeps us here."""
    OFFLINE = "offline"
    """The leader is gone. Clients get LEADER_NOT_AVAILABLE; an election or the deletion moves us on."""


@dataclass(frozen=True, slots=True)
class PartitionAssigned:
    """Its replicas are known to the controller."""


@dataclass(frozen=True, slots=True)
class LeaderElected:
    """A leadership with a leader was written to ZooKeeper."""


@dataclass(frozen=True, slots=True)
class LeaderLost:
    """The leader's broker is gone, or its replica's directory failed, or the partition is to be deleted."""


@dataclass(frozen=True, slots=True)
class PartitionRemoved:
    """The deletion of its topic began."""


PartitionEvent = PartitionAssigned | LeaderElected | LeaderLost | PartitionRemoved

TRANSITIONS: Mapping[tuple[PartitionState, type[PartitionEvent]], PartitionState] = {
    (PartitionState.NON_EXISTENT, PartitionAssigned): PartitionState.NEW,
    (PartitionState.NEW, LeaderElected): PartitionState.ONLINE,
    (PartitionState.NEW, LeaderLost): PartitionState.OFFLINE,
    (PartitionState.ONLINE, LeaderElected): PartitionState.ONLINE,
    (PartitionState.ONLINE, LeaderLost): PartitionState.OFFLINE,
    (PartitionState.OFFLINE, LeaderElected): PartitionState.ONLINE,
    (PartitionState.OFFLINE, LeaderLost): PartitionState.OFFLINE,
    (PartitionState.OFFLINE, PartitionRemoved): PartitionState.NON_EXISTENT,
}


def allows(state: PartitionState, event: type[PartitionEvent]) -> bool:
    """Whether ``event`` is legal in ``state``."""
    return (state, event) in TRANSITIONS


def step(state: PartitionState, event: PartitionEvent) -> PartitionState:
    """Return the state after ``event``.

    Raises:
        IllegalTransition: the table does not name the pair.
    """
    try:
        return TRANSITIONS[state, type(event)]
    except KeyError:
        raise IllegalTransition(state, event) from None
