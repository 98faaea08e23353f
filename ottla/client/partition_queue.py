"""The batches of one partition on their way out: order, sequence numbers, retries. No I/O.

Rules of this file (KIP-98, KIP-360):

- Batches leave in the order of their numbers. A retry is sent ahead of everything newer, and alone: what is behind it
  waits for its answer.
- A batch gets its sequence number when it is first drained and keeps it, so that the broker recognises a retry.
- If a batch fails after it got a number, there would be a gap before those behind it:
  - surely not written: once nothing is on the wire any more, what is behind it is numbered anew from its number, and
    what is before it keeps its numbers;
  - in doubt: the producer's epoch is raised, and what is left is numbered from 0. A batch that is itself in doubt then
    fails, marked `maybe_written`: sending it under a new epoch could write it twice.
- A partition takes over a raised epoch once nothing sent under the old one is unanswered.
"""

from bisect import insort
from collections import deque
from enum import Enum
from typing import Final

from ottla.client.batch_encoding import ProducerIdentity
from ottla.client.producer_batch import ProducerBatch
from wire.records.batch import NO_SEQUENCE, increment_sequence
from wire.types import TopicPartition

IN_FLIGHT_MAX: Final = 5
"""Unanswered batches of one partition: brokers remember the last five of a producer."""


class Renumbering(Enum):
    """What must happen before the next batch leaves."""

    NONE = "none"
    FROM_FAILED = "from the failed one's number"
    NEW_EPOCH = "from 0, under a raised epoch"


class PartitionQueue:
    """One partition's batches.

    Args:
        partition: Which one.
        idempotent: Whether batches carry sequence numbers.

    Attributes:
        open: The batch that records are appended to, None while there is none.
        waiting: Closed batches to be sent, oldest first, retries included.
        in_flight: Batches that have a sequence number and no outcome, oldest first.
        on_wire: How many batches were sent and not answered.
        blocked: Sent to nobody until the partition is part of the transaction.
        renumbering: What must happen first.
    """

    __slots__ = (
        "_before_failed",
        "_idempotent",
        "_renumber_from",
        "blocked",
        "identity",
        "in_flight",
        "next_sequence",
        "on_wire",
        "open",
        "partition",
        "renumbering",
        "waiting",
    )

    def __init__(self, partition: TopicPartition, *, idempotent: bool) -> None:
        self.partition = partition
        self.open: ProducerBatch | None = None
        self.waiting: deque[ProducerBatch] = deque()
        self.in_flight: list[ProducerBatch] = []
        self.on_wire = 0
        self.blocked = False
        self.identity: ProducerIdentity | None = None
        self.next_sequence = 0
        self.renumbering = Renumbering.NONE
        self._renumber_from = 0
        self._before_failed: set[ProducerBatch] = set()
        self._idempotent = idempotent

    def __repr__(self) -> str:
        return f"<PartitionQueue {self.partition}: {len(self.waiting)} waiting, {self.on_wire} on the wire>"

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to send and nothing unanswered."""
        return not self.waiting and self.open is None and not self.on_wire

    @property
    def depth(self) -> int:
        """Batches that wait, the open one included."""
        return len(self.waiting) + (self.open is not None)

    def close_open(self) -> None:
        """Append nothing more to the open batch."""
        if self.open is not None:
            self.waiting.append(self.open)
            self.open = None

    def due_at(self, now: float, linger_s: float, *, at_once: bool) -> float:
        """Return when the next batch may leave, in seconds; infinity while an answer must come first.

        Args:
            now: Seconds.
            linger_s: How long an open batch waits for more records.
            at_once: Whether open batches do not linger: a flush, or others wait for room.
        """
        if not self._may_send():
            return float("inf")
        if self.waiting:
            return max(now, self.waiting[0].retry_at)
        if self.open is None:
            return float("inf")
        return now if at_once else self.open.opened_at + linger_s

    def _may_send(self) -> bool:
        if self.blocked:
            return False
        if not self._idempotent:
            # Without sequence numbers a second batch in flight could overtake a first one that fails.
            return not self.on_wire
        if self.renumbering is not Renumbering.NONE:
            return not self.on_wire
        if self.waiting and self.waiting[0].base_sequence != NO_SEQUENCE:
            return bool(self.in_flight) and self.in_flight[0] is self.waiting[0]
        return len(self.in_flight) < IN_FLIGHT_MAX

    def adopt(self, identity: ProducerIdentity) -> bool:
        """Use the producer's identity from now on; return False while the old one has unanswered batches."""
        if self.identity == identity:
            return True
        if self.in_flight:
            return False
        self.identity = identity
        self.next_sequence = 0
        return True

    def renumber(self) -> list[ProducerBatch]:
        """Drop the numbers of waiting batches, as `renumbering` says; legal only with nothing on the wire.

        Returns:
            The batches that cannot be sent again, since they may have been written under the old epoch.
        """
        assert not self.on_wire
        doubtful: list[ProducerBatch] = []
        if self.renumbering is Renumbering.NEW_EPOCH:
            doubtful = [batch for batch in self.waiting if batch.in_doubt]
            self.identity = None
        kept: set[ProducerBatch] = set()
        if self.renumbering is Renumbering.FROM_FAILED:
            self.next_sequence = self._renumber_from
            kept = self._before_failed
        self.renumbering = Renumbering.NONE
        self.in_flight = [batch for batch in self.in_flight if batch in kept]
        for batch in self.waiting:
            if batch not in kept:
                batch.forget_sequence()
        for batch in doubtful:
            self.waiting.remove(batch)
        return doubtful

    @property
    def needs_new_epoch(self) -> bool:
        """Whether the producer's epoch must be raised before the next batch leaves."""
        if self.renumbering is Renumbering.FROM_FAILED and any(
            batch.in_doubt and batch not in self._before_failed for batch in self.waiting
        ):
            self.renumbering = Renumbering.NEW_EPOCH
        return self.renumbering is Renumbering.NEW_EPOCH

    def drain(self) -> ProducerBatch:
        """Take the next batch to send, numbered where it has to be."""
        if not self.waiting:
            self.close_open()
        batch = self.waiting.popleft()
        if self._idempotent and batch.base_sequence == NO_SEQUENCE:
            batch.identity = self.identity
            batch.base_sequence = self.next_sequence
            self.next_sequence = increment_sequence(self.next_sequence, len(batch.values))
            self.in_flight.append(batch)
        batch.attempts += 1
        self.on_wire += 1
        return batch

    def count_answer(self) -> None:
        """Count an answer, or the loss of one."""
        self.on_wire -= 1

    def retry(self, batch: ProducerBatch, retry_at: float) -> None:
        """Send a batch again, ahead of everything newer."""
        batch.retry_at = retry_at
        if not self.waiting or batch.number < self.waiting[0].number:
            self.waiting.appendleft(batch)
        else:
            ordered = list(self.waiting)
            insort(ordered, batch, key=_number)
            self.waiting = deque(ordered)

    def replace(self, batch: ProducerBatch, pieces: list[ProducerBatch], retry_at: float) -> None:
        """Put the pieces of a batch that was too large where it was."""
        for piece in reversed(pieces):
            piece.retry_at = retry_at
            self.waiting.appendleft(piece)
        if batch in self.in_flight:
            index = self.in_flight.index(batch)
            self.in_flight[index : index + 1] = pieces

    def succeeded(self, batch: ProducerBatch) -> None:
        """Note that a batch is in the log."""
        if batch not in self.in_flight:
            return
        index = self.in_flight.index(batch)
        del self.in_flight[index]
        if self.renumbering is Renumbering.FROM_FAILED and batch not in self._before_failed:
            # The broker went on past the gap: its next number is the one behind this batch.
            self._renumber_from = increment_sequence(batch.last_sequence, 1)
            self._before_failed = set(self.in_flight[:index])

    def failed(self, batch: ProducerBatch) -> None:
        """Note that a batch has failed for good; `in_doubt` says whether it may be in the log."""
        if batch in self.waiting:
            self.waiting.remove(batch)
        if batch not in self.in_flight:
            return
        index = self.in_flight.index(batch)
        del self.in_flight[index]
        if batch.in_doubt:
            self.renumbering = Renumbering.NEW_EPOCH
        elif self.renumbering is Renumbering.NONE or (
            self.renumbering is Renumbering.FROM_FAILED and batch in self._before_failed
        ):
            self.renumbering = Renumbering.FROM_FAILED
            self._renumber_from = batch.base_sequence
            self._before_failed = set(self.in_flight[:index])

    def raise_epoch(self) -> None:
        """Number what is left from 0 under a raised epoch: the broker does not know our numbers any more."""
        self.renumbering = Renumbering.NEW_EPOCH


def _number(batch: ProducerBatch) -> int:
    return batch.number
