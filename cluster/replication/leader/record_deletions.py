"""DeleteRecords: a leader moves its log start forward, and waits until every live replica has."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from cluster.replication.partition.partition import Partition
from cluster.replication.roles.hosted_partitions import HostedPartitions
from storage.errors import LogError
from timing.timing_wheel import Timer, TimerEntry
from wire.errors import ApiError, Error
from wire.internal_topics import INTERNAL_TOPICS
from wire.types import NO_OFFSET, Offset, TopicPartition

HIGH_WATERMARK: Final = -1
"""The offset by which a client deletes everything that consumers can see."""


class DeletionResult(NamedTuple):
    """The outcome of one partition: its low watermark, below which no live replica has records, or an error."""

    error: Error
    low_watermark: Offset


OnDeleted = Callable[[dict[TopicPartition, DeletionResult]], None]

if TYPE_CHECKING:
    from storage.log import Log


class DelayedDeletion(TimerEntry):
    """A DeleteRecords that waits for replicas; answered exactly once.

    Args:
        results: Those that need no waiting.
        waiting: Partitions that wait.
        on_done: Called with the results.
        timer: Where its timeout is set; the caller adds it.
    """

    __slots__ = ("_on_done", "_results", "_timer", "_waiting")

    def __init__(
        self,
        results: dict[TopicPartition, DeletionResult],
        waiting: dict[TopicPartition, Partition],
        on_done: OnDeleted,
        timer: Timer,
    ) -> None:
        super().__init__()
        self._results = results
        self._waiting = waiting
        self._on_done: OnDeleted | None = on_done
        self._timer = timer

    @property
    def is_complete(self) -> bool:
        """Whether it has been answered."""
        return self._on_done is None

    def settle(self, topic_partition: TopicPartition, error: Error) -> None:
        """End the wait at one partition; the last one answers."""
        partition = self._waiting.pop(topic_partition, None)
        if self._on_done is None or partition is None:
            return
        self._results[topic_partition] = _result(partition, error)
        if not self._waiting:
            self._timer.cancel(self)
            self._complete()

    def expire(self) -> None:
        """Answer, because the client's timeout has passed: the log starts later here, but not yet everywhere."""
        if self._on_done is None:
            return
        for topic_partition, partition in self._waiting.items():
            self._results[topic_partition] = _result(partition, Error.REQUEST_TIMED_OUT)
        self._complete()

    def _complete(self) -> None:
        on_done, self._on_done = self._on_done, None
        if on_done is not None:
            on_done(self._results)


def delete_records(
    hosted: HostedPartitions,
    timer: Timer,
    offsets: Mapping[TopicPartition, int],
    timeout_ms: int,
    on_done: OnDeleted,
) -> None:
    """Move the starts of logs forward.

    Args:
        hosted: The partitions.
        timer: Ends the wait.
        offsets: Where each log is to start; `HIGH_WATERMARK` for as late as possible.
        timeout_ms: How long to wait for the replicas.
        on_done: Called exactly once with a result per partition.
    """
    results: dict[TopicPartition, DeletionResult] = {}
    waiting: dict[TopicPartition, Partition] = {}
    required: dict[TopicPartition, Offset] = {}
    for topic_partition, offset in offsets.items():
        try:
            partition = hosted.find(topic_partition)
            target = _start_later(partition, offset)
            low = partition.leader_or_error().low_watermark()
        except ApiError as failure:
            results[topic_partition] = DeletionResult(failure.error, NO_OFFSET)
        except LogError as failure:
            results[topic_partition] = DeletionResult(failure.kafka_error, NO_OFFSET)
        else:
            if low >= target:
                results[topic_partition] = DeletionResult(Error.NONE, low)
            else:
                waiting[topic_partition] = partition
                required[topic_partition] = target
    if not waiting:
        on_done(results)
        return
    deletion = DelayedDeletion(results, dict(waiting), on_done, timer)
    timer.add(deletion, timeout_ms)
    for topic_partition, partition in waiting.items():
        partition.waiters.await_low_watermark(required[topic_partition], deletion)
    for partition in waiting.values():
        partition.waiters.fire_epoch_changed()  # followers learn of the new start from the answer to a fetch


def _start_later(partition: Partition, offset: int) -> Offset:
    if partition.topic_partition.topic in INTERNAL_TOPICS:
        raise ApiError(Error.INVALID_TOPIC_EXCEPTION)
    log: Log | None = partition.leader_log
    if log is None:
        raise ApiError(Error.NOT_LEADER_OR_FOLLOWER)
    if not log.config.deletes:
        raise ApiError(Error.POLICY_VIOLATION)
    target = log.high_watermark if offset == HIGH_WATERMARK else Offset(offset)
    if target < 0:
        raise ApiError(Error.OFFSET_OUT_OF_RANGE)
    log.advance_log_start(target)
    return target


def _result(partition: Partition, error: Error) -> DeletionResult:
    try:
        return DeletionResult(error, partition.leader_or_error().low_watermark())
    except ApiError:
        return DeletionResult(error, NO_OFFSET)
