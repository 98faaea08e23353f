"""A produce with acks=all, from its append until the high watermark has passed it at every partition."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from timing.timing_wheel import Timer, TimerEntry
from wire.errors import Error
from wire.types import NO_OFFSET, NO_TIMESTAMP, Offset, TopicPartition, WallMs

if TYPE_CHECKING:
    from storage.errors import RecordError


class ProduceResult:
    """The outcome of one partition of a produce.

    Attributes:
        error: ``NONE``, or why nothing was written, or why the records may not be replicated.
        base_offset: The offset that the first record was given.
        log_append_time: When it was appended, if the topic uses LogAppendTime; else -1.
        log_start_offset: Where the log starts, or -1 if it is not known.
        record_errors: Which records were refused, and why.
        error_message: A text for the client besides the error.
    """

    __slots__ = (
        "base_offset",
        "error",
        "error_message",
        "log_append_time",
        "log_start_offset",
        "record_errors",
    )

    def __init__(
        self,
        error: Error,
        base_offset: Offset = NO_OFFSET,
        log_append_time: WallMs = NO_TIMESTAMP,
        log_start_offset: Offset = NO_OFFSET,
        record_errors: "Sequence[RecordError]" = (),
        error_message: str | None = None,
    ) -> None:
        self.error = error
        self.base_offset = base_offset
        self.log_append_time = log_append_time
        self.log_start_offset = log_start_offset
        self.record_errors = record_errors
        self.error_message = error_message

    def __repr__(self) -> str:
        return f"ProduceResult({self.error.name}, base_offset={self.base_offset})"


ProduceResults = dict[TopicPartition, ProduceResult]
OnProduced = Callable[[ProduceResults], None]


class DelayedProduce(TimerEntry):
    """A produce that waits for replicas. It is answered exactly once: by the last partition, or by its timeout.

    The partitions that wait carry REQUEST_TIMED_OUT from the start, so expiry has no logic of its own: those still
    waiting then keep it, and those settled before keep their own outcome.

    Args:
        results: One per partition of the request; those that wait are marked with `wait_for`.
        on_done: Gets the results.
        timer: Where its timeout is set; the caller adds it.
    """

    __slots__ = ("_on_done", "_results", "_timer", "_waiting")

    def __init__(self, results: ProduceResults, on_done: OnProduced, timer: Timer) -> None:
        super().__init__()
        self._results: ProduceResults = results
        self._on_done: OnProduced | None = on_done
        self._waiting: set[TopicPartition] = set()
        self._timer = timer

    @property
    def is_complete(self) -> bool:
        """Whether it has been answered."""
        return self._on_done is None

    def wait_for(self, topic_partition: TopicPartition) -> None:
        """Note that this partition's records are not replicated yet."""
        self._waiting.add(topic_partition)
        self._results[topic_partition].error = Error.REQUEST_TIMED_OUT

    def settle(self, topic_partition: TopicPartition, error: Error) -> None:
        """End the wait at one partition; the last one answers the produce."""
        if self._on_done is None or topic_partition not in self._waiting:
            return
        self._waiting.remove(topic_partition)
        self._results[topic_partition].error = error
        if not self._waiting:
            self._timer.cancel(self)
            self._complete()

    def expire(self) -> None:
        """Answer the produce, because the client's timeout has passed."""
        if self._on_done is not None:
            self._complete()

    def _complete(self) -> None:
        on_done, results = self._on_done, self._results
        # This object stays in the queues of partitions after a timeout, so it must not hold large data.
        self._on_done, self._results, self._waiting = None, {}, set()
        if on_done is not None:
            on_done(results)
