"""Log directories: how full they are, and their largest replicas."""

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.client.admin import LogDirectory, ReplicaOnDisk
from ottla.web.answers import Answer

_LARGEST = 5


@dataclass(frozen=True, slots=True)
class DiskRow:
    """A log directory.

    Attributes:
        path: Where it is.
        error: The error of the directory; None if there is none.
        replicas: How many replicas it holds.
        held: Their bytes.
        total: The bytes of its volume; None if the broker does not report them.
        used: The share of the volume that is taken, by anything, from 0 to 1; None likewise.
        behind: How many of the replicas are behind their leaders.
        largest: The largest replicas.
    """

    path: str
    error: str | None
    replicas: int
    held: int
    total: int | None
    used: float | None
    behind: int
    largest: tuple[ReplicaOnDisk, ...]

    @property
    def tone(self) -> str:
        """The colour that shows its state."""
        if self.error is not None or (self.used is not None and self.used >= 0.95):
            return "bad"
        return "warn" if self.used is not None and self.used >= 0.85 else "good"


def disk_rows(directories: Sequence[LogDirectory]) -> list[DiskRow]:
    """Sum up log directories."""
    return [
        DiskRow(
            each.path,
            each.error,
            len(each.replicas),
            sum(replica.size_bytes for replica in each.replicas),
            each.total_bytes if each.total_bytes >= 0 else None,
            1 - each.usable_bytes / each.total_bytes if each.total_bytes > 0 else None,
            sum(replica.offset_lag > 0 for replica in each.replicas),
            tuple(sorted(each.replicas, key=lambda replica: -replica.size_bytes)[:_LARGEST]),
        )
        for each in directories
    ]


def fullest(answer: Answer[list[LogDirectory]]) -> DiskRow | None:
    """Return the directory that needs attention most; None if none is known."""
    rows = disk_rows(answer.or_else([]))
    return max(rows, key=lambda row: (row.error is not None, row.used or 0.0), default=None)
