"""How far a partition's records are done: what may be committed. No I/O.

The committed offset is the first one that is not done, whatever is done behind it.
"""

from collections import deque
from typing import Any

from wire.types import NO_LEADER_EPOCH, LeaderEpoch


class _Handed:
    """A batch in work."""

    __slots__ = ("batch", "done", "done_offsets")

    def __init__(self, batch: Any) -> None:
        self.batch = batch
        self.done = False
        self.done_offsets: set[int] = set()


class Progress:
    """Of one partition of a group.

    Args:
        position: Where it begins: the committed offset, or the start.

    Attributes:
        position: What may be committed.
        leader_epoch: The epoch of the last record before it, -1 where unknown.
        committed: What was committed last, -1 before.
    """

    __slots__ = ("_handed", "committed", "leader_epoch", "position")

    def __init__(self, position: int = -1, leader_epoch: LeaderEpoch = NO_LEADER_EPOCH) -> None:
        self.position = position
        self.leader_epoch = leader_epoch
        self.committed = -1
        self._handed: deque[_Handed] = deque()

    @property
    def is_idle(self) -> bool:
        """Whether no batch is in work."""
        return not self._handed

    @property
    def is_dirty(self) -> bool:
        """Whether there is something to commit."""
        return self.position >= 0 and self.position != self.committed

    def handed_out(self, batch: Any) -> None:
        """Note that a batch is in work."""
        self._handed.append(_Handed(batch))

    def skipped(self, next_offset: int, leader_epoch: LeaderEpoch) -> None:
        """Pass offsets without records, where nothing before them is in work."""
        if not self._handed:
            self.position, self.leader_epoch = next_offset, leader_epoch

    def done(self, batch: Any, offset: int | None = None) -> None:
        """Note that a batch, or one record of it, is done; one that is not in work is ignored."""
        for handed in self._handed:
            if handed.batch is batch:
                if offset is None:
                    handed.done = True
                else:
                    handed.done_offsets.add(offset)
                    handed.done = len(handed.done_offsets) >= len(batch)
                break
        while self._handed:
            first = self._handed[0]
            if not first.done:
                if first.done_offsets:
                    self._move_inside(first)
                return
            self.position, self.leader_epoch = first.batch.next_offset, first.batch.leader_epoch
            self._handed.popleft()

    def _move_inside(self, handed: _Handed) -> None:
        undone = next(offset for offset in handed.batch.offsets() if offset not in handed.done_offsets)
        if undone > self.position:
            self.position = undone

    def forget_work(self) -> None:
        """Ignore the batches in work from now on: the position was moved, or the partition is lost."""
        self._handed.clear()
