"""The offsets of the source's records at the target, by which a group's offset is translated. No I/O.

What is known of a partition is a list of runs: ``count`` records with consecutive offsets in both clusters, from
``upstream`` at the source and ``downstream`` at the target. A transaction's marker or a record that was left out begins
a new run.
Old runs are thinned as MirrorMaker 2 thins its syncs: the further back, the fewer, at most `RUNS_MAX`.

An offset within a run is translated exactly. An offset behind a run is translated to the run's end, since all that is
known is that later records follow it: some records may be read again, none is skipped.
"""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

from ottla.mirror.formats import OffsetSync
from wire.types import TopicPartition

RUNS_MAX: Final = 64


@dataclass(slots=True)
class Run:
    """Records with consecutive offsets in both clusters."""

    upstream: int
    downstream: int
    count: int


class OffsetMap:
    """What is known of all partitions, under their names at the source."""

    def __init__(self) -> None:
        self._runs: dict[TopicPartition, list[Run]] = {}

    def synced(self, sync: OffsetSync) -> None:
        """Take over a record of the syncs topic: a run of one record."""
        self.copied(sync.place, sync.upstream, sync.downstream, 1)

    def copied(self, place: TopicPartition, upstream: int, downstream: int, count: int) -> None:
        """Note that records were copied.

        Args:
            place: The partition, as called at the source.
            upstream: The offset of the first at the source.
            downstream: The offset of the first at the target.
            count: How many, in both clusters without a gap.
        """
        runs = self._runs.setdefault(place, [])
        if runs and (upstream < runs[-1].upstream or downstream < runs[-1].downstream):
            runs.clear()  # the source was rewound, or one of the topics was created anew: older runs no longer hold
        if runs:
            last = runs[-1]
            at = upstream - last.upstream
            if at <= last.count and downstream - last.downstream == at:
                last.count = max(last.count, at + count)
                return
        runs.append(Run(upstream, downstream, count))
        if len(runs) > RUNS_MAX:
            _thin(runs)

    def translate(self, place: TopicPartition, upstream: int) -> int | None:
        """Return the target's offset for a group's offset at the source.

        Returns:
            An offset at which the group reads its next record or one before it; None if no run is that old.
        """
        runs = self._runs.get(place, ())
        index = bisect_right(runs, upstream, key=_upstream) - 1
        if index < 0:
            return None
        run = runs[index]
        return run.downstream + min(upstream - run.upstream, run.count)

    def last_record(self, place: TopicPartition) -> tuple[int, int] | None:
        """Return the offsets of the last record that was copied, at the source and at the target."""
        runs = self._runs.get(place)
        return (
            None
            if not runs
            else (runs[-1].upstream + runs[-1].count - 1, runs[-1].downstream + runs[-1].count - 1)
        )

    @property
    def places(self) -> list[TopicPartition]:
        """The partitions that have runs."""
        return list(self._runs)


def _upstream(run: Run) -> int:
    return run.upstream


def _thin(runs: list[Run]) -> None:
    """Drop the run that costs least to lose: the one with the smallest gap around it for its age."""
    newest = runs[-1].upstream
    ages = range(1, len(runs) - 1)
    dropped = min(
        ages, key=lambda i: (runs[i + 1].upstream - runs[i - 1].upstream) / (newest - runs[i].upstream + 1)
    )
    del runs[dropped]
