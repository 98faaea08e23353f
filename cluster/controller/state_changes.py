"""State changes for the controller's observers: every state that a partition or a replica enters."""

from collections.abc import Callable
from dataclasses import dataclass

from cluster.statemachines.leadership import PartitionLeadership
from wire.types import BrokerId, ControllerEpoch, TopicPartition


@dataclass(frozen=True, slots=True)
class StateChange:
    """A partition or a replica entered a state, possibly the one it was in.

    Attributes:
        controller_epoch: The epoch of the controller that decided it.
        partition: The partition.
        broker_id: The broker of the replica; ``None`` for the partition itself.
        before: The state it left.
        after: The state it is in.
        leadership: The partition's, as the controller knows it.
    """

    controller_epoch: ControllerEpoch
    partition: TopicPartition
    broker_id: BrokerId | None
    before: str
    after: str
    leadership: PartitionLeadership | None


OnStateChange = Callable[[StateChange], None]
"""Called with each change, synchronously and in order; it must not block or raise."""
