"""The ISR of a partition on this broker, and the one change to it that may be under way."""

from collections.abc import Callable

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
from wire.types import NO_CONTROLLER_EPOCH, NO_LEADER, NO_LEADER_EPOCH, BrokerId, ZkVersion

_NO_LEADERSHIP = CommittedIsr(
    PartitionLeadership(NO_LEADER, NO_LEADER_EPOCH, (), NO_CONTROLLER_EPOCH, ZkVersion(-1))
)


class InSyncReplicas:
    """Holds the state of `cluster.statemachines.isr`.

    Args:
        on_proposed: Called when a change has been proposed and is to be written.

    Attributes:
        state: The in-sync replicas and the change under way; empty on a follower.
    """

    __slots__ = ("_on_proposed", "state")

    def __init__(self, on_proposed: Callable[[], None]) -> None:
        self._on_proposed = on_proposed
        self.state: IsrState = _NO_LEADERSHIP

    def receive(self, leadership: PartitionLeadership) -> None:
        """Adopt the controller's decision, which overrides a change under way."""
        self.state = step(self.state, LeadershipReceived(leadership))

    def reset(self) -> None:
        """Forget the leadership."""
        self.state = _NO_LEADERSHIP

    def propose_expand(self, replica: BrokerId) -> None:
        """Propose an ISR with another member."""
        self.state = step(self.state, ExpandProposed(replica))
        self._on_proposed()

    def propose_shrink(self, replicas: frozenset[BrokerId]) -> None:
        """Propose an ISR without some members."""
        self.state = step(self.state, ShrinkProposed(replicas))
        self._on_proposed()

    def committed(self, pending: PendingIsr, zk_version: ZkVersion) -> bool:
        """Commit a pending ISR; return False if the controller superseded it."""
        if self.state is not pending:
            return False
        self.state = step(self.state, ChangeCommitted(zk_version))
        return True

    def refused(self, pending: PendingIsr) -> None:
        """Go back to the committed ISR: the write certainly did not happen."""
        if self.state is pending:
            self.state = step(self.state, ChangeRefused())

    def superseded(self, pending: PendingIsr) -> None:
        """Stay pending: another writer changed the znode, and the controller's LeaderAndIsr is to come."""
        if self.state is pending:
            self.state = step(self.state, ChangeSuperseded())
