"""The partitions that a group's member has: what is handed out, done, draining, lost."""

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

from ottla.client import runtime
from ottla.client.fetcher import Fetcher
from ottla.client.progress import Progress
from ottla.client.record_batch import Batch
from ottla.client.stalls import Asking
from wire.types import TopicPartition

K = TypeVar("K")
V = TypeVar("V")


class OwnedPartition:
    """A partition between its assignment and its release: the `Ownership` of its batches.

    Attributes:
        place: Topic and partition.
        group: The `Group` whose member has it; that module imports this one.
        progress: What is done.
        draining: Nothing more is handed out, since the partition must be released.
        lost: Another member may have it: what is done counts for nothing.
        parts: Batches that were taken from the fetcher and not handed out.
        idle: Set once it drains, and nothing of it is in work.
        loss: Set when it is lost or released.
        arrived: Set when a batch has come, or none will come any more.
        working: Whether a task of `Group.run` has it.
    """

    def __init__(
        self, place: TopicPartition, group: Any, changed: Callable[["OwnedPartition"], None]
    ) -> None:
        self.place = place
        self.group = group
        self.progress = Progress()
        self.draining = False
        self.lost = False
        self.parts: deque[Batch[Any, Any]] = deque()
        self.idle = runtime.new_event()
        self.arrived = runtime.new_event()
        self.loss = runtime.new_event()
        self.working = False
        self._changed = changed

    def batch_done(self, batch: Batch[Any, Any], offset: int | None) -> None:
        """Note that a batch, or the record at an offset, is done."""
        if not self.lost:
            self.progress.done(batch, offset)
            self._changed(self)

    def check_idle(self) -> None:
        """Set `idle` where the partition drains and nothing of it is in work."""
        if (self.draining or self.lost) and not self.working and self.progress.is_idle:
            self.idle.set()


class Partition(Generic[K, V]):
    """One partition in the hands of its own task; see `Group.run`.

    Iterating ends when the partition must be released: what the task does then still belongs to it, and the others
    wait. Where the partition is lost, the task is cancelled.
    """

    def __init__(
        self,
        owned: OwnedPartition,
        fetcher: Fetcher,
        take: Callable[[OwnedPartition], Batch[Any, Any] | None],
        commit: Callable[[], Any],
        limiter: runtime.Limiter | None,
        asking: Asking,
        *,
        done_by_next: bool,
    ) -> None:
        self._owned = owned
        self._fetcher = fetcher
        self._take = take
        self._commit = commit
        self._limiter = limiter
        self._asking = asking
        self._done_by_next = done_by_next
        self._current: Batch[Any, Any] | None = None

    def __repr__(self) -> str:
        return f"<Partition {self._owned.place}>"

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._owned.place.topic

    @property
    def partition(self) -> int:
        """The partition's number."""
        return self._owned.place.partition

    @property
    def position(self) -> int:
        """What may be committed: the first offset that is not done."""
        return self._owned.progress.position

    def seek(self, offset: int) -> None:
        """Read on from an offset; the batch in hand does not count as done any more."""
        self._current = None
        self._owned.parts.clear()
        self._owned.progress.forget_work()
        self._owned.progress.position = offset
        self._fetcher.seek(self._owned.place, offset)

    async def commit(self) -> None:
        """Commit at once what is done; raises as `Group.commit`."""
        await self._commit()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch[K, V]:
        """Return the next batch; asking for it says that the one before is done. Cancelled, nothing is lost."""
        with self._asking:
            return await self._next_batch()

    async def _next_batch(self) -> Batch[K, V]:
        owned = self._owned
        if self._current is not None and self._done_by_next:
            self._current.done()
        self._current = None
        self._release_turn()
        await runtime.checkpoint()
        while not owned.draining and not owned.lost:
            if not owned.parts:
                owned.arrived = runtime.new_event()
                await owned.arrived.wait()
                continue
            if self._limiter is not None:
                # Before the batch is taken: it counts as handed out from then on.
                await self._limiter.acquire_on_behalf_of(self)
            batch = self._take(owned)
            if batch is not None:
                self._current = batch
                return batch
            self._release_turn()
        raise StopAsyncIteration

    def _release_turn(self) -> None:
        if self._limiter is not None and self in self._limiter.statistics().borrowers:
            self._limiter.release_on_behalf_of(self)

    def end(self) -> None:
        """Release the turn when the task has ended."""
        self._release_turn()
