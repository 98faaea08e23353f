"""A producer's records without an outcome: what to send when, and what an answer means. No I/O.

The sender asks `drain` what may leave for which leader, and reports the outcome (`answered`, `lost`); time
comes in as a number. Effects are left in attributes (`wants_metadata`, `wants_identity`, `fatal`) and in calls of
the budget and of the batches' waiters.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ottla.client.backoff import Backoff
from ottla.client.batch_encoding import BATCH_OVERHEAD, NO_IDENTITY, ProducerIdentity
from ottla.client.errors import (
    ClientError,
    DeliveryError,
    InvalidRecord,
    NotAuthorized,
    RecordTooLarge,
    error_for,
)
from ottla.client.memory_budget import MemoryBudget
from ottla.client.partition_queue import PartitionQueue, Renumbering
from ottla.client.producer_batch import ProducerBatch
from wire.errors import Error
from wire.records.batch import NO_SEQUENCE
from wire.types import ProducerEpoch, TopicPartition

EPOCH_MAX: Final = 32_767

_MAYBE_WRITTEN: Final = frozenset(
    {
        Error.REQUEST_TIMED_OUT,
        Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Error.KAFKA_STORAGE_ERROR,
        Error.UNKNOWN_SERVER_ERROR,
        Error.NETWORK_EXCEPTION,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Answers after which the batch may be in the log; the last two because a leader can append and then lose its role."""
_UNKNOWN_SEQUENCE: Final = frozenset(
    {Error.OUT_OF_ORDER_SEQUENCE_NUMBER, Error.UNKNOWN_PRODUCER_ID, Error.INVALID_PRODUCER_EPOCH}
)
_TOO_LARGE: Final = frozenset({Error.MESSAGE_TOO_LARGE, Error.RECORD_LIST_TOO_LARGE})
_INVALID: Final = frozenset({Error.INVALID_RECORD, Error.INVALID_TIMESTAMP})


@dataclass(frozen=True, slots=True)
class AccumulatorSettings:
    """What decides when batches leave and fail; times in seconds, sizes in bytes."""

    linger: float
    batch_size: int
    max_request_size: int
    delivery_timeout: float
    idempotent: bool
    transactional: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What a broker answered for one batch."""

    error: Error
    base_offset: int = -1
    log_append_time: int = -1
    message: str | None = None
    record_errors: tuple[tuple[int, str], ...] = ()


class Accumulator:
    """The queues of a producer.

    Args:
        settings: When batches leave and fail.
        budget: Gets the bytes of finished batches back.
        backoff: The wait before a retry.

    Attributes:
        identity: The producer id and epoch to send under; without an id until one was fetched.
        wants_identity: A producer id must be fetched before anything can leave.
        wants_metadata: An answer says that the leaders have changed.
        fatal: Why nothing can be sent any more.
        on_failed: Called with each batch that fails.
        on_finished: Called with each batch that has its outcome; not with one that was split, whose pieces follow.
        on_doubt: Called where a transaction must not be committed any more, with the reason.
    """

    def __init__(self, settings: AccumulatorSettings, budget: MemoryBudget, backoff: Backoff) -> None:
        self.identity = NO_IDENTITY
        self.wants_identity = settings.idempotent
        self.wants_metadata = False
        self.fatal: ClientError | None = None
        self.on_failed: Callable[[ProducerBatch], None] = _ignore
        self.on_finished: Callable[[ProducerBatch], None] = _ignore
        self.on_doubt: Callable[[ClientError], None] = _ignore
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self._settings = settings
        self._budget = budget
        self._backoff = backoff
        self._active: dict[TopicPartition, PartitionQueue] = {}
        self._unfinished: dict[ProducerBatch, None] = {}
        self._number = 0
        self._flushes = 0

    @property
    def is_transactional(self) -> bool:
        """Whether a transaction decides about failures."""
        return self._settings.transactional

    @property
    def on_wire(self) -> int:
        """How many batches were sent and not answered."""
        return sum(queue.on_wire for queue in self.queues.values())

    def queue(self, partition: TopicPartition) -> PartitionQueue:
        """Return a partition's queue, made on first use."""
        queue = self.queues.get(partition)
        if queue is None:
            queue = PartitionQueue(partition, idempotent=self._settings.idempotent)
            self.queues[partition] = queue
        return queue

    def open_batch(self, queue: PartitionQueue, size: int, now: float) -> ProducerBatch:
        """Close a partition's open batch and begin one that has room for ``size`` bytes."""
        queue.close_open()
        self._number += 1
        capacity = max(self._settings.batch_size, size + BATCH_OVERHEAD)
        batch = ProducerBatch(queue.partition, self._number, capacity, now, self._settings.delivery_timeout)
        queue.open = batch
        self._active[queue.partition] = queue
        self._unfinished[batch] = None
        return batch

    @property
    def unfinished(self) -> Iterable[ProducerBatch]:
        """The batches without an outcome, oldest first."""
        return self._unfinished

    def begin_flush(self) -> list[ProducerBatch]:
        """Let nothing linger until `end_flush`; return what is unfinished now."""
        self._flushes += 1
        return list(self._unfinished)

    def end_flush(self) -> None:
        """Undo `begin_flush`."""
        self._flushes -= 1

    def due(self, now: float) -> Iterator[tuple[PartitionQueue, float]]:
        """Yield the partitions that have something to send, with the time from which they may."""
        at_once = bool(self._flushes or self._budget.waiters)
        for partition, queue in list(self._active.items()):
            if queue.is_idle:
                del self._active[partition]
                continue
            yield queue, queue.due_at(now, self._settings.linger, at_once=at_once)

    def prepare(self, queue: PartitionQueue) -> bool:
        """Settle a partition's sequence numbers before a drain; return False if it must wait.

        The epoch is raised locally: brokers accept a newer epoch that no broker assigned.
        """
        if not self._settings.idempotent:
            return True
        if queue.renumbering is not Renumbering.NONE:
            if queue.needs_new_epoch and queue.identity == self.identity and not self._raise_epoch():
                return False
            for batch in queue.renumber():
                self._fail(
                    queue,
                    batch,
                    DeliveryError(
                        f"the producer's epoch was raised while a batch for {queue.partition} was in doubt",
                        topic=queue.partition.topic,
                        partition=queue.partition.partition,
                        maybe_written=True,
                    ),
                )
            if not queue.waiting and queue.open is None:
                return False
        if queue.waiting and queue.waiting[0].base_sequence != NO_SEQUENCE:
            return True
        if self.identity.producer_id < 0:
            self.wants_identity = True
            return False
        return queue.adopt(self.identity)

    def _raise_epoch(self) -> bool:
        if self._settings.transactional:
            # Only the coordinator raises a transactional producer's epoch, once the transaction is aborted.
            self.on_doubt(DeliveryError("a batch of the transaction is in doubt"))
            self.wants_identity = True
            return False
        if self.identity.producer_id < 0:
            return False
        if self.identity.epoch >= EPOCH_MAX:
            self.identity = NO_IDENTITY
            self.wants_identity = True
            return False
        self.identity = ProducerIdentity(self.identity.producer_id, ProducerEpoch(self.identity.epoch + 1))
        return True

    def set_identity(self, identity: ProducerIdentity) -> None:
        """Send under a producer id that a broker gave."""
        self.identity = identity
        self.wants_identity = False

    def reset_numbers(self) -> None:
        """Restart every partition's sequence numbers at 0 under the next identity; no batch may be unanswered."""
        for queue in self.queues.values():
            queue.in_flight.clear()
            queue.renumbering = Renumbering.NONE
            queue.identity = None

    def next_for_leader(
        self, queues: list[PartitionQueue]
    ) -> tuple[list[tuple[PartitionQueue, ProducerBatch]], list[PartitionQueue]]:
        """Take one batch of each partition for one request.

        Args:
            queues: The partitions of that leader that may send.

        Returns:
            What goes into the request, and the partitions that did not fit.
        """
        size = 0
        taken: list[tuple[PartitionQueue, ProducerBatch]] = []
        for position, queue in enumerate(queues):
            first = queue.waiting[0] if queue.waiting else queue.open
            if first is None or not self.prepare(queue):
                continue
            head = queue.waiting[0] if queue.waiting else queue.open
            if head is None or head.is_encoding:
                continue
            if taken and size + head.taken > self._settings.max_request_size:
                return taken, queues[position:]
            size += head.taken
            batch = queue.drain()
            taken.append((queue, batch))
            # The next round begins with the others.
            self._active.pop(queue.partition, None)
            self._active[queue.partition] = queue
        return taken, []

    def answered(self, batch: ProducerBatch, answer: Answer, now: float) -> None:
        """Apply a broker's answer for a batch."""
        queue = self.queues[batch.partition]
        queue.count_answer()
        error = answer.error
        if error.refresh_metadata:
            self.wants_metadata = True
        if batch.done:
            return  # it expired before the answer came; the queue counted it as in doubt
        if error in (Error.NONE, Error.DUPLICATE_SEQUENCE_NUMBER):
            queue.succeeded(batch)
            offset = answer.base_offset if error is Error.NONE else -1
            self._finish(batch, None, offset, answer.log_append_time)
        elif error in _TOO_LARGE and len(batch.values) > 1 and not batch.is_foreign:
            self._split(queue, batch, now)
        elif error in _UNKNOWN_SEQUENCE and self._settings.idempotent:
            self._sequence_unknown(queue, batch, answer, now)
        else:
            if error in _MAYBE_WRITTEN:
                batch.in_doubt = True
            if error.retriable and now < batch.deadline:
                queue.retry(batch, now + self._backoff.delay_s(batch.attempts - 1))
            else:
                self._fail(queue, batch, self._failure(batch, answer))

    def _sequence_unknown(
        self, queue: PartitionQueue, batch: ProducerBatch, answer: Answer, now: float
    ) -> None:
        """Handle a broker that did not expect our sequence number.

        That is normal while an older batch has no outcome. For the oldest batch it means that the broker lost the
        producer's state.
        """
        is_oldest = bool(queue.in_flight) and queue.in_flight[0] is batch
        is_lost = is_oldest and queue.renumbering is Renumbering.NONE
        is_fenced = self._settings.transactional and answer.error is Error.INVALID_PRODUCER_EPOCH
        if is_fenced or (is_lost and batch.in_doubt):
            self._fail(queue, batch, self._failure(batch, answer))
        else:
            if is_lost:
                queue.raise_epoch()
            queue.retry(batch, now + self._backoff.delay_s(min(batch.attempts - 1, 3)))

    def _split(self, queue: PartitionQueue, batch: ProducerBatch, now: float) -> None:
        pieces = batch.split(max(batch.taken // 2, self._settings.batch_size // 2))
        queue.replace(batch, pieces, now)
        # In place, since expiry relies on the order.
        unfinished: dict[ProducerBatch, None] = {}
        for each in self._unfinished:
            unfinished.update(dict.fromkeys(pieces if each is batch else [each]))
        self._unfinished = unfinished
        self._active[queue.partition] = queue
        batch.finish(None)

    def lost(self, batch: ProducerBatch, error: ClientError, now: float, *, in_doubt: bool = True) -> None:
        """Handle a batch whose answer will never come: its connection broke."""
        queue = self.queues[batch.partition]
        queue.count_answer()
        self.wants_metadata = True
        if in_doubt:
            batch.in_doubt = True
        if batch.done:
            return
        if now < batch.deadline and error.retriable:
            queue.retry(batch, now + self._backoff.delay_s(batch.attempts - 1))
        else:
            failure = DeliveryError(
                f"{batch.partition}: {error}",
                topic=batch.partition.topic,
                partition=batch.partition.partition,
                maybe_written=batch.in_doubt,
            )
            self._fail(queue, batch, failure)

    def expire(self, now: float, reason: Callable[[TopicPartition], str]) -> float:
        """Fail what was accepted too long ago; return when the next batch expires.

        Args:
            now: Seconds.
            reason: Returns, for a partition, what its batches waited for.
        """
        for batch in list(self._unfinished):
            if batch.deadline > now:
                # Batches are in the order of their acceptance, and the timeout is the same for all.
                return batch.deadline
            queue = self.queues[batch.partition]
            if queue.open is batch:
                queue.close_open()
            sent = batch not in queue.waiting
            batch.in_doubt = batch.in_doubt or sent
            waited = self._settings.delivery_timeout
            failure = DeliveryError(
                f"{batch.partition}: no acknowledgement within {waited:g} s: {reason(batch.partition)}",
                topic=batch.partition.topic,
                partition=batch.partition.partition,
                error=Error.REQUEST_TIMED_OUT,
                maybe_written=batch.in_doubt,
            )
            self._fail(queue, batch, failure)
        return float("inf")

    def fail_all(self, error: ClientError) -> None:
        """Fail everything that has no outcome."""
        for batch in list(self._unfinished):
            queue = self.queues[batch.partition]
            if queue.open is batch:
                queue.close_open()
            batch.in_doubt = batch.in_doubt or batch not in queue.waiting
            failure = DeliveryError(
                str(error),
                topic=batch.partition.topic,
                partition=batch.partition.partition,
                error=error.error,
                maybe_written=batch.in_doubt,
            )
            failure.__cause__ = error
            self._fail(queue, batch, failure)

    def _failure(self, batch: ProducerBatch, answer: Answer) -> ClientError:
        topic, partition = batch.partition
        error = answer.error
        text = answer.message or error.text
        if error in _TOO_LARGE:
            return RecordTooLarge(
                f"{batch.partition}: a record of at most {batch.taken} bytes is larger than the broker accepts",
                topic=topic,
                partition=partition,
                error=error,
                maybe_written=batch.in_doubt,
            )
        if error in _INVALID:
            details = "; ".join(f"record {index}: {why}" for index, why in answer.record_errors)
            invalid = InvalidRecord(
                f"{batch.partition}: {text} ({error.name}){': ' + details if details else ''}",
                topic=topic,
                partition=partition,
                error=error,
                maybe_written=batch.in_doubt,
            )
            invalid.record_errors = dict(answer.record_errors)
            return invalid
        known = error_for(error, str(batch.partition), message=text, topic=topic, partition=partition)
        if isinstance(known, NotAuthorized):
            known.maybe_written = batch.in_doubt
            return known
        return DeliveryError(
            f"{batch.partition}: {text} ({error.name})",
            topic=topic,
            partition=partition,
            error=error,
            maybe_written=batch.in_doubt,
        )

    def _fail(self, queue: PartitionQueue, batch: ProducerBatch, error: ClientError) -> None:
        queue.failed(batch)
        self._finish(batch, error)
        self.on_failed(batch)

    def _finish(
        self, batch: ProducerBatch, error: ClientError | None, base_offset: int = -1, append_time: int = -1
    ) -> None:
        del self._unfinished[batch]
        batch.finish(error, base_offset, append_time)
        self._budget.release(batch.untake())
        self.on_finished(batch)


def _ignore(_: object) -> None:
    return None
