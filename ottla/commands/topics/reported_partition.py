"""A partition as ``ottla topics --describe`` judges it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wire.types import BrokerId

if TYPE_CHECKING:
    from ottla.client.admin import PartitionDescription, Reassignment


@dataclass(frozen=True, slots=True)
class ReportedPartition:
    """A partition with what its state is judged by."""

    topic: str
    described: "PartitionDescription"
    reassignment: "Reassignment | None"
    min_isr: int
    live_brokers: frozenset[BrokerId]

    @property
    def replication_factor(self) -> int:
        """How many replicas it is meant to have; while it moves, those it moves to."""
        if self.reassignment is None:
            return len(self.described.replicas)
        return len(self.reassignment.replicas) - len(self.reassignment.adding)

    def matches(self, name: str) -> bool:
        """Whether one of kafka-topics' choices of partitions takes this one."""
        isr = len(self.described.isr)
        has_leader = self.described.leader >= 0
        match name:
            case "under_replicated_partitions":
                return self.replication_factor > isr
            case "unavailable_partitions":
                return not has_leader or self.described.leader not in self.live_brokers
            case "under_min_isr_partitions":
                return not has_leader or isr < self.min_isr
            case "at_min_isr_partitions":
                return isr == self.min_isr
        raise ValueError(name)

    def as_json(self) -> dict[str, object]:
        """Return it for programs; a leader that is none is null."""
        data: dict[str, object] = {
            "partition": self.described.partition,
            "leader": self.described.leader if self.described.leader >= 0 else None,
            "leader_epoch": self.described.leader_epoch,
            "replicas": list(self.described.replicas),
            "isr": list(self.described.isr),
            "offline_replicas": list(self.described.offline),
        }
        if self.reassignment is not None:
            data["adding_replicas"] = list(self.reassignment.adding)
            data["removing_replicas"] = list(self.reassignment.removing)
        return data
