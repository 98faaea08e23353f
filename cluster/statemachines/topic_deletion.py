"""How a topic is deleted: its replicas are stopped, then deleted, and the topic is forgotten when all have answered.

Rules:

- A topic is queued by its znode under ``/admin/delete_topics`` and stays queued until it is gone. That znode is removed
  last, so that if the controller dies in between, the next one continues.
- A deletion is halted while a replica's broker or directory is dead, or while a partition is being
  reassigned; it is resumed when a broker with a replica starts, or when the reassignment ends. Halting stops
  new rounds only: a round whose requests are out may still finish the topic.
- One round: announce the deletion to all brokers, stop every live replica, delete every live replica's data, wait for
  the answers. Replicas that answered with an error, or were dead, make the next round.

The steps of a topic are a function of the states of its replicas (``cluster.statemachines.replica``): nothing else is
remembered that could disagree with them.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from cluster.statemachines.replica import ReplicaState
from wire.types import BrokerId, TopicPartition


class Replica(NamedTuple):
    """One replica: which partition, on which broker."""

    partition: TopicPartition
    broker_id: BrokerId


class DeletionStep(Enum):
    """What may be done next for a topic that is queued for deletion."""

    RETRY = "retry"
    """Reset the replicas that could not be deleted, so that the next round takes them."""
    BEGIN = "begin"
    """Begin a round."""
    FINISH = "finish"
    """Forget the topic: its znodes, its configuration, its place in the queue."""


def next_steps(replica_states: Collection[ReplicaState], *, is_halted: bool) -> tuple[DeletionStep, ...]:
    """Decide what to do for a queued topic.

    Args:
        replica_states: Of all replicas of all its partitions.
        is_halted: A dead replica or a reassignment forbids a new round.

    Returns:
        The steps in order; none means to wait, for answers or for the end of the halt.
    """
    states = set(replica_states)
    if states <= {ReplicaState.DELETION_SUCCESSFUL}:
        return (DeletionStep.FINISH,)
    if ReplicaState.DELETION_STARTED in states:
        return ()
    steps = []
    if ReplicaState.DELETION_INELIGIBLE in states:
        steps.append(DeletionStep.RETRY)
    if not is_halted:
        steps.append(DeletionStep.BEGIN)
    return tuple(steps)


@dataclass(frozen=True, slots=True)
class DeletionRound:
    """The replicas of a round.

    Attributes:
        to_delete: Live replicas that have not answered yet: they are stopped, then deleted.
        dead: Replicas that cannot be reached; they halt the topic after this round.
    """

    to_delete: tuple[Replica, ...]
    dead: tuple[Replica, ...]


def plan_round(
    replicas: Iterable[Replica],
    state_of: Callable[[Replica], ReplicaState],
    is_online: Callable[[Replica], bool],
) -> DeletionRound:
    """Divide the replicas of a topic into those that this round deletes, and those that it cannot reach.

    Args:
        replicas: All replicas of all partitions of the topic.
        state_of: Where each stands.
        is_online: Whether its broker is live and its directory works.
    """
    to_delete: list[Replica] = []
    dead: list[Replica] = []
    for replica in replicas:
        if state_of(replica) is ReplicaState.DELETION_SUCCESSFUL:
            continue
        (to_delete if is_online(replica) else dead).append(replica)
    return DeletionRound(tuple(to_delete), tuple(dead))
