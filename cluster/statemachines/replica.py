"""One replica of a partition on one broker, as the controller sees it.

Rules:

- A replica gets its role with a LeaderAndIsr request; a StopReplica request stops it;
  all brokers learn of it with an UpdateMetadata request. ``step`` names which of these follow, and in which order.
- A replica leaves the in-sync replicas in ZooKeeper before any broker learns of it (``LeaveIsr``): what was announced
  must survive the controller.
- Data is deleted only after the replica was stopped, and the replica is forgotten only after its broker has answered
  that the data is gone.
- A replica whose deletion failed waits as DELETION_INELIGIBLE: retried through OFFLINE, or revived if its
  broker comes back (the controller starts with all replicas of dead brokers in this state, whatever their
  topic).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from cluster.statemachines.transition import IllegalTransition


class ReplicaState(Enum):
    """Where a replica stands; the values are the names that the management socket shows."""

    NON_EXISTENT = "non-existent"
    """The broker holds nothing of the partition."""
    NEW = "new"
    """Assigned, and sent its role; it cannot lead before it was online."""
    ONLINE = "online"
    """Its broker is live; it leads or follows."""
    OFFLINE = "offline"
    """Its broker or its directory is gone, or it was stopped before being deleted."""
    DELETION_STARTED = "deletion started"
    """StopReplica with deletion was sent; the broker's answer moves us on."""
    DELETION_SUCCESSFUL = "deletion successful"
    """The broker answered that the data is gone; the topic is removed when all its replicas are here."""
    DELETION_INELIGIBLE = "deletion ineligible"
    """It could not be deleted, or its broker was dead when this controller took over."""


@dataclass(frozen=True, slots=True)
class ReplicaAssigned:
    """The replica is part of the assignment now."""


@dataclass(frozen=True, slots=True)
class ReplicaAvailable:
    """Its broker can serve it, or is to be sent its role again."""


@dataclass(frozen=True, slots=True)
class ReplicaUnavailable:
    """Its broker or directory is gone, or it has to stop."""


@dataclass(frozen=True, slots=True)
class DeletionRequested:
    """Its data is to be deleted."""


@dataclass(frozen=True, slots=True)
class DeletionConfirmed:
    """Its broker answered that the data is gone, or the answer is no longer awaited."""


@dataclass(frozen=True, slots=True)
class DeletionFailed:
    """Its broker is dead, or answered with an error."""


@dataclass(frozen=True, slots=True)
class ReplicaForgotten:
    """It is no longer part of the assignment."""


ReplicaEvent = (
    ReplicaAssigned
    | ReplicaAvailable
    | ReplicaUnavailable
    | DeletionRequested
    | DeletionConfirmed
    | DeletionFailed
    | ReplicaForgotten
)


@dataclass(frozen=True, slots=True)
class TellRole:
    """Send LeaderAndIsr to the replica, if the partition has a leadership, and UpdateMetadata to all brokers.

    Attributes:
        is_new: The broker may place the replica in any of its directories, even while one of them is offline.
    """

    is_new: bool


@dataclass(frozen=True, slots=True)
class LeaveIsr:
    """Write the partition's state without the replica; once that is durable, announce it to all brokers."""


@dataclass(frozen=True, slots=True)
class StopReplica:
    """Send StopReplica to the replica.

    Attributes:
        delete: Whether it also deletes its data.
    """

    delete: bool


@dataclass(frozen=True, slots=True)
class LeaveAssignment:
    """Drop the replica from the assignment that the controller remembers."""


ReplicaEffect = TellRole | LeaveIsr | StopReplica | LeaveAssignment

_S: Final = ReplicaState

TRANSITIONS: Mapping[tuple[ReplicaState, type[ReplicaEvent]], ReplicaState] = {
    (_S.NON_EXISTENT, ReplicaAssigned): _S.NEW,
    (_S.NEW, ReplicaAvailable): _S.ONLINE,
    (_S.NEW, ReplicaUnavailable): _S.OFFLINE,
    (_S.ONLINE, ReplicaAvailable): _S.ONLINE,
    (_S.ONLINE, ReplicaUnavailable): _S.OFFLINE,
    (_S.OFFLINE, ReplicaAvailable): _S.ONLINE,
    (_S.OFFLINE, ReplicaUnavailable): _S.OFFLINE,
    (_S.OFFLINE, DeletionRequested): _S.DELETION_STARTED,
    (_S.OFFLINE, DeletionFailed): _S.DELETION_INELIGIBLE,
    (_S.DELETION_STARTED, DeletionConfirmed): _S.DELETION_SUCCESSFUL,
    (_S.DELETION_STARTED, DeletionFailed): _S.DELETION_INELIGIBLE,
    (_S.DELETION_SUCCESSFUL, ReplicaForgotten): _S.NON_EXISTENT,
    (_S.DELETION_INELIGIBLE, ReplicaAvailable): _S.ONLINE,
    (_S.DELETION_INELIGIBLE, ReplicaUnavailable): _S.OFFLINE,
}

_STOP: Final = (LeaveIsr(), StopReplica(delete=False))
_RESUME: Final = (TellRole(is_new=False),)

EFFECTS: Mapping[tuple[ReplicaState, type[ReplicaEvent]], tuple[ReplicaEffect, ...]] = {
    (_S.NON_EXISTENT, ReplicaAssigned): (TellRole(is_new=True),),
    (_S.NEW, ReplicaUnavailable): _STOP,
    (_S.ONLINE, ReplicaAvailable): _RESUME,
    (_S.ONLINE, ReplicaUnavailable): _STOP,
    (_S.OFFLINE, ReplicaAvailable): _RESUME,
    (_S.OFFLINE, ReplicaUnavailable): _STOP,
    (_S.OFFLINE, DeletionRequested): (StopReplica(delete=True),),
    (_S.DELETION_SUCCESSFUL, ReplicaForgotten): (LeaveAssignment(),),
    (_S.DELETION_INELIGIBLE, ReplicaAvailable): _RESUME,
    (_S.DELETION_INELIGIBLE, ReplicaUnavailable): _STOP,
}
"""What follows from a transition, in this order; a legal pair that is missing here has no effect."""


def allows(state: ReplicaState, event: type[ReplicaEvent]) -> bool:
    """Whether ``event`` is legal in ``state``."""
    return (state, event) in TRANSITIONS


def step(state: ReplicaState, event: ReplicaEvent) -> tuple[ReplicaState, tuple[ReplicaEffect, ...]]:
    """Return the state after ``event``, and what has to be done, in order.

    Raises:
        IllegalTransition: the table does not name the pair.
    """
    pair = (state, type(event))
    try:
        after = TRANSITIONS[pair]
    except KeyError:
        raise IllegalTransition(state, event) from None
    return after, EFFECTS.get(pair, ())
