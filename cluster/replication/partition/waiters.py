"""The waiters of one partition, and the direct calls that end their wait.

Requests wait for: the log's end (followers' fetches), the high watermark (consumers' fetches), an offset
below the high watermark (produces with acks=all), an offset that is on disk (acks=1 with
``log.flush.on.ack``), and the low watermark (DeleteRecords).

- A fetch is registered for one event: firing empties the register, and a fetch that still waits registers again. So an
  abandoned session costs one call, not one per append.
- Produces are in a queue, in the order of their appends. An idempotent retry, whose records were appended earlier, can
  wait a little longer than necessary behind them; it is never answered too early.
- Every register is emptied before its waiters are called: a waiter can append, or register again, from within the call.
"""

from collections import deque
from collections.abc import Iterator
from typing import Protocol

from wire.errors import Error
from wire.types import Offset, TopicPartition


class FetchWaiter(Protocol):
    """A fetch, parked or remembered by a session, that is called when there is news."""

    @property
    def operation(self) -> object | None:
        """The parked fetch; None if it is only remembered."""
        ...

    def log_end_moved(self) -> None:
        """Records were appended."""
        ...

    def watermark_moved(self) -> None:
        """The high watermark or the log's start has moved."""
        ...

    def role_changed(self) -> None:
        """The leader or its epoch changed, or the log was cut: what was asked for has to be asked anew."""
        ...


class OffsetWaiter(Protocol):
    """A produce that waits for replicas, or a DeleteRecords; it may wait at several partitions."""

    @property
    def is_complete(self) -> bool:
        """Whether it has been answered, for example by its timeout."""
        ...

    def settle(self, topic_partition: TopicPartition, error: Error) -> None:
        """End the wait at this partition."""
        ...


class Waiters:
    """The registers of one partition."""

    __slots__ = ("_acks", "_flushes", "_log_end", "_low", "_watermark", "topic_partition")

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self._log_end: dict[FetchWaiter, None] = {}
        self._watermark: dict[FetchWaiter, None] = {}
        self._acks: deque[tuple[Offset, OffsetWaiter]] | None = None
        self._flushes: deque[tuple[Offset, OffsetWaiter]] | None = None
        self._low: list[tuple[Offset, OffsetWaiter]] = []

    @property
    def has_low_watermark_waiters(self) -> bool:
        """Whether any request waits for the low watermark, which is not computed otherwise."""
        return bool(self._low)

    @property
    def parked_acks(self) -> int:
        """How many produces wait here."""
        return len(self._acks) if self._acks else 0

    def operations(self) -> Iterator[tuple[str, object]]:
        """Return the waiting requests by Kafka's name of their kind; a fetch once for each register that it is in."""
        for waiter in (*self._log_end, *self._watermark):
            if waiter.operation is not None:
                yield "Fetch", waiter.operation
        for kind, waits in (
            ("Produce", self._acks),
            ("Produce", self._flushes),
            ("DeleteRecords", self._low),
        ):
            for _, settled in waits or ():
                if not settled.is_complete:
                    yield kind, settled

    def watch_log_end(self, waiter: FetchWaiter) -> None:
        """Call ``waiter`` at the next append."""
        self._log_end[waiter] = None

    def watch_watermark(self, waiter: FetchWaiter) -> None:
        """Call ``waiter`` at the next move of the high watermark or the log's start."""
        self._watermark[waiter] = None

    def forget(self, waiter: FetchWaiter) -> None:
        """Take a fetch out of both registers."""
        self._log_end.pop(waiter, None)
        self._watermark.pop(waiter, None)

    def await_high_watermark(self, required: Offset, waiter: OffsetWaiter) -> None:
        """Have ``waiter`` settled once the high watermark has reached ``required``."""
        acks = self._acks
        if acks is None:
            acks = self._acks = deque()
        while acks and acks[0][1].is_complete:
            # Timed out: while the high watermark stands still, nothing else takes them out.
            acks.popleft()
        acks.append((required, waiter))

    def await_flush(self, required: Offset, waiter: OffsetWaiter) -> None:
        """Have ``waiter`` settled once everything below ``required`` is on disk."""
        if self._flushes is None:
            self._flushes = deque()
        self._flushes.append((required, waiter))

    def await_low_watermark(self, required: Offset, waiter: OffsetWaiter) -> None:
        """Have ``waiter`` settled once the low watermark has reached ``required``."""
        self._low = [entry for entry in self._low if not entry[1].is_complete]
        self._low.append((required, waiter))

    def fire_log_end(self) -> None:
        """Records were appended."""
        if self._log_end:
            waiters, self._log_end = self._log_end, {}
            for waiter in waiters:
                waiter.log_end_moved()

    def fire_high_watermark(self, high_watermark: Offset, error: Error) -> None:
        """The high watermark has moved: settle the produces below it with ``error``, then call the fetches."""
        acks = self._acks
        while acks and acks[0][0] <= high_watermark:
            acks.popleft()[1].settle(self.topic_partition, error)
        self.fire_watermark()

    def fire_watermark(self) -> None:
        """Call the fetches: the high watermark or the log's start has moved."""
        if self._watermark:
            waiters, self._watermark = self._watermark, {}
            for waiter in waiters:
                waiter.watermark_moved()

    def fire_flushed(self, flushed_to: Offset) -> None:
        """Settle the waits for the disk that are over: more of the log is flushed."""
        flushes = self._flushes
        while flushes and flushes[0][0] <= flushed_to:
            flushes.popleft()[1].settle(self.topic_partition, Error.NONE)

    def fire_low_watermark(self, low_watermark: Offset) -> None:
        """Settle the waits for the low watermark that are over: it may have moved."""
        reached = [waiter for required, waiter in self._low if required <= low_watermark]
        self._low = [entry for entry in self._low if entry[0] > low_watermark]
        for waiter in reached:
            waiter.settle(self.topic_partition, Error.NONE)

    def fire_epoch_changed(self) -> None:
        """Call every fetch: the leader epoch or the log under them has changed."""
        waiters = {**self._log_end, **self._watermark}
        self._log_end, self._watermark = {}, {}
        for waiter in waiters:
            waiter.role_changed()

    def fire_role_changed(self, error: Error) -> None:
        """This broker no longer leads: settle the waits for replicas with ``error``, and call every fetch."""
        acks, self._acks = self._acks, None
        flushes, self._flushes = self._flushes, None
        low, self._low = self._low, []
        for _, waiter in (*(acks or ()), *(flushes or ()), *low):
            waiter.settle(self.topic_partition, error)
        self.fire_epoch_changed()
