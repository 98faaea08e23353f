"""What a flow has done so far, for its progress line and its metrics."""

from dataclasses import dataclass, field

from wire.types import TopicPartition


@dataclass(slots=True)
class MirrorCounters:
    """Counts, since the start.

    Attributes:
        records: Records that the target has acknowledged, in committed transactions where there are any.
        byte_count: Their bytes, as they went over the wire.
        dropped: Records that the target refused, if that does not end the flow.
        transactions: Committed transactions.
        aborted: Aborted ones.
        checkpoints: Checkpoints written.
        groups: Groups whose offsets were set at the target at the last look.
        lag: Offsets between what was copied and the source's end, by partition; -1 while unknown.
    """

    records: int = 0
    byte_count: int = 0
    dropped: int = 0
    transactions: int = 0
    aborted: int = 0
    checkpoints: int = 0
    groups: int = 0
    lag: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def total_lag(self) -> int:
        """The sum of what is known of the lag."""
        return sum(each for each in self.lag.values() if each > 0)
