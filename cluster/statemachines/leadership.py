"""Who leads a partition, who follows, and which decision that was.

These are the values that the controller, the partition leaders and the znode codecs exchange. They are facts, not
behaviour: every rule about how one follows from another is in the machines beside this file.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wire.types import NO_LEADER, BrokerId, ControllerEpoch, LeaderEpoch, ZkVersion

INITIAL_LEADER_EPOCH = LeaderEpoch(0)
INITIAL_ZK_VERSION = ZkVersion(0)
"""The version a znode has just after it was created."""


@dataclass(frozen=True, slots=True)
class PartitionLeadership:
    """One decision about a partition: what its ``state`` znode holds, and the znode's version.

    Attributes:
        leader: The broker that serves the partition, or ``NO_LEADER``.
        leader_epoch: Counts the controller's decisions: each raises it, the leader's ISR writes do not.
        isr: The in-sync replicas, in the order in which they were written, which is not that of election.
        controller_epoch: Of the controller that decided.
        zk_version: The version of the znode that holds this decision; the next write is conditional on it.
        recovering: The leader was elected from outside the in-sync replicas and has not yet changed them
            itself (``leader_recovery_state`` in the znode, written only when it is so).
    """

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    controller_epoch: ControllerEpoch
    zk_version: ZkVersion
    recovering: bool = False

    @property
    def has_leader(self) -> bool:
        """Whether a broker leads."""
        return self.leader != NO_LEADER

    def decided(
        self, leader: BrokerId, isr: Sequence[BrokerId], controller_epoch: ControllerEpoch
    ) -> "PartitionLeadership":
        """Return the controller's next decision: leader epoch raised by one, znode version still the old one.

        Args:
            leader: The new leader, or ``NO_LEADER``.
            isr: The new in-sync replicas.
            controller_epoch: Of the controller that decides now.
        """
        return PartitionLeadership(
            leader,
            LeaderEpoch(self.leader_epoch + 1),
            tuple(isr),
            controller_epoch,
            self.zk_version,
            self.recovering,
        )

    def with_isr(self, isr: Sequence[BrokerId]) -> "PartitionLeadership":
        """Return the leader's own change: other in-sync replicas, the same leader epoch, recovery over."""
        return replace(self, isr=tuple(isr), recovering=False)

    def at_version(self, zk_version: ZkVersion) -> "PartitionLeadership":
        """Return the same decision, as stored under another znode version."""
        return replace(self, zk_version=zk_version)


@dataclass(frozen=True, slots=True)
class PartitionAssignment:
    """Which brokers hold a partition, and where a reassignment that is under way adds and removes replicas.

    Attributes:
        replicas: All brokers that hold or will hold the partition, the preferred leader first. During a reassignment:
            the target, followed by the replicas to remove.
        adding: Members of ``replicas`` that are new.
        removing: Members of ``replicas`` that leave when the new ones have caught up.
    """

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        """Whether replicas are being added or removed."""
        return bool(self.adding or self.removing)

    @property
    def origin(self) -> tuple[BrokerId, ...]:
        """The replicas as they were before the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)

    @property
    def target(self) -> tuple[BrokerId, ...]:
        """The replicas as they will be after the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    def reassign_to(self, target: Sequence[BrokerId]) -> "PartitionAssignment":
        """Start a move to ``target``: the replicas become the target, followed by those of the origin to remove.

        A move that is already under way is replaced: its origin stays the origin, so that cancelling leads
        back to where the data is.

        Examples:
            >>> PartitionAssignment((1, 2, 3)).reassign_to((3, 4))
            PartitionAssignment(replicas=(3, 4, 1, 2), adding=(4,), removing=(1, 2))
        """
        origin = self.origin
        full = tuple(dict.fromkeys((*target, *origin)))
        return PartitionAssignment(
            replicas=full,
            adding=tuple(replica for replica in full if replica not in origin),
            removing=tuple(replica for replica in full if replica not in target),
        )


def initial_leadership(live: Sequence[BrokerId], controller_epoch: ControllerEpoch) -> PartitionLeadership:
    """Decide a new partition: the first live replica leads, and all live ones are in sync, because they are empty.

    Args:
        live: The live replicas, in the order of the assignment. At least one.
        controller_epoch: Of the controller that decides.

    Raises:
        ValueError: no replica is live.
    """
    if not live:
        raise ValueError("a partition without a live replica cannot be given a leader")
    return PartitionLeadership(
        leader=live[0],
        leader_epoch=INITIAL_LEADER_EPOCH,
        isr=tuple(live),
        controller_epoch=controller_epoch,
        zk_version=INITIAL_ZK_VERSION,
    )
