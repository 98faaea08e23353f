"""The in-sync replicas, as the leader of a partition holds them.

The leader may change the ISR only in ZooKeeper, conditional on the version of the partition's znode, and at
most one change is under way. Until its outcome is known the ISR is uncertain, and the leader must assume the
worse:

- the high watermark and acks=all wait for the *maximal* ISR: the committed one plus the replica that is being
  added;
- ``min.insync.replicas`` counts the *committed* ISR, from which a member that is being removed has not gone
  yet.

=================  ====================
========================================================================== state              event
     becomes =================  ====================
     ==========================================================================
CommittedIsr       ExpandProposed        PendingExpand
CommittedIsr       ShrinkProposed        PendingShrink
Pending*           ChangeCommitted       CommittedIsr with the proposed ISR and the znode's new version
Pending*           ChangeRefused         CommittedIsr as before, if the write certainly did not happen
Pending*           ChangeSuperseded      stays: the znode has moved on, only the next LeaderAndIsr ends
it any                LeadershipReceived    CommittedIsr as the controller says
=================  ====================
==========================================================================

The controller always wins: an answer to a proposal that a LeadershipReceived has overtaken belongs to a
state that is gone; the caller compares ``pending`` and drops it.
"""

from dataclasses import dataclass, field
from typing import assert_never

from cluster.statemachines.leadership import PartitionLeadership
from cluster.statemachines.transition import IllegalTransition
from wire.types import BrokerId, ZkVersion


@dataclass(frozen=True, slots=True)
class CommittedIsr:
    """The ISR is what ZooKeeper holds. A proposal of the leader, or a decision of the controller, moves us on.

    Attributes:
        leadership: As last written by us or received from the controller; the next write is conditional on its
            ``zk_version``.
    """

    leadership: PartitionLeadership
    isr: frozenset[BrokerId] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "isr", frozenset(self.leadership.isr))

    @property
    def maximal_isr(self) -> frozenset[BrokerId]:
        """Whom the high watermark waits for."""
        return self.isr

    @property
    def is_pending(self) -> bool:
        """No change is under way."""
        return False


@dataclass(frozen=True, slots=True)
class PendingExpand:
    """A write that adds a replica is under way: the high watermark waits for that replica already.

    Attributes:
        committed: What held when the change was proposed.
        proposed: What is being written; ``zk_version`` is the version that the write expects.
        replica: The one that is being added.
    """

    committed: CommittedIsr
    proposed: PartitionLeadership
    replica: BrokerId
    maximal_isr: frozenset[BrokerId] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "maximal_isr", self.committed.isr | {self.replica})

    @property
    def isr(self) -> frozenset[BrokerId]:
        """What is certain: the ISR without the replica that is being added."""
        return self.committed.isr

    @property
    def leadership(self) -> PartitionLeadership:
        """The last certain leadership."""
        return self.committed.leadership

    @property
    def is_pending(self) -> bool:
        """A change is under way."""
        return True


@dataclass(frozen=True, slots=True)
class PendingShrink:
    """A write that removes replicas is under way: until it is certain the high watermark waits for them
    still.

    Attributes:
        committed: What held when the change was proposed.
        proposed: What is being written; ``zk_version`` is the version that the write expects.
        replicas: The ones that are being removed.
    """

    committed: CommittedIsr
    proposed: PartitionLeadership
    replicas: frozenset[BrokerId]

    @property
    def isr(self) -> frozenset[BrokerId]:
        """What is certain: the ISR with the replicas that are being removed."""
        return self.committed.isr

    @property
    def maximal_isr(self) -> frozenset[BrokerId]:
        """Whom the high watermark waits for."""
        return self.committed.isr

    @property
    def leadership(self) -> PartitionLeadership:
        """The last certain leadership."""
        return self.committed.leadership

    @property
    def is_pending(self) -> bool:
        """A change is under way."""
        return True


IsrState = CommittedIsr | PendingExpand | PendingShrink
PendingIsr = PendingExpand | PendingShrink


@dataclass(frozen=True, slots=True)
class ExpandProposed:
    """A follower has caught up with the high watermark and the leader's epoch."""

    replica: BrokerId


@dataclass(frozen=True, slots=True)
class ShrinkProposed:
    """Followers have not caught up for ``replica.lag.time.max.ms``."""

    replicas: frozenset[BrokerId]


@dataclass(frozen=True, slots=True)
class ChangeCommitted:
    """The proposed ISR is in ZooKeeper, under this version."""

    zk_version: ZkVersion


@dataclass(frozen=True, slots=True)
class ChangeRefused:
    """The write certainly did not happen, and can be tried again from here."""


@dataclass(frozen=True, slots=True)
class ChangeSuperseded:
    """The znode has another version, or the leader epoch is over: another writer decided."""


@dataclass(frozen=True, slots=True)
class LeadershipReceived:
    """LeaderAndIsr brought this leadership, with a higher leader epoch or for the first time."""

    leadership: PartitionLeadership


IsrEvent = (
    ExpandProposed | ShrinkProposed | ChangeCommitted | ChangeRefused | ChangeSuperseded | LeadershipReceived
)


def step(state: IsrState, event: IsrEvent) -> IsrState:
    """Return the state after ``event``.

    The effect of entering a pending state is one conditional write of ``proposed``; there is no other effect.

    Raises:
        IllegalTransition: a change was proposed while another is under way, a proposal changes nothing or would empty
            the ISR, or an outcome came while no change was under way.
    """
    match state:
        case CommittedIsr():
            return _from_committed(state, event)
        case PendingExpand() | PendingShrink():
            return _from_pending(state, event)
        case _:
            assert_never(state)


def _from_committed(state: CommittedIsr, event: IsrEvent) -> IsrState:
    leadership = state.leadership
    match event:
        case ExpandProposed(replica):
            if replica in state.isr:
                raise IllegalTransition(state, event)
            return PendingExpand(state, leadership.with_isr((*leadership.isr, replica)), replica)
        case ShrinkProposed(replicas):
            left = tuple(replica for replica in leadership.isr if replica not in replicas)
            if not left or len(left) == len(leadership.isr) or leadership.leader in replicas:
                raise IllegalTransition(state, event)
            return PendingShrink(state, leadership.with_isr(left), replicas & state.isr)
        case LeadershipReceived(received):
            return CommittedIsr(received)
        case ChangeCommitted() | ChangeRefused() | ChangeSuperseded():
            raise IllegalTransition(state, event)
        case _:
            assert_never(event)


def _from_pending(state: PendingIsr, event: IsrEvent) -> IsrState:
    match event:
        case ChangeCommitted(zk_version):
            return CommittedIsr(state.proposed.at_version(zk_version))
        case ChangeRefused():
            return state.committed
        case ChangeSuperseded():
            return state
        case LeadershipReceived(received):
            return CommittedIsr(received)
        case ExpandProposed() | ShrinkProposed():
            raise IllegalTransition(state, event)
        case _:
            assert_never(event)
