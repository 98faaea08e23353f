"""What a partition remembers of one producer: its epoch, its last five batches, and its open transaction.

Five, because a producer may have five requests in flight (KIP-98): a repeated batch must be recognised as long as it
can arrive.
"""

from typing import Final, NamedTuple

from wire.records.batch import NO_SEQUENCE, decrement_sequence
from wire.types import NO_PRODUCER_EPOCH, NO_TIMESTAMP, Offset, ProducerEpoch, ProducerId, WallMs

BATCHES_KEPT: Final = 5
NO_COORDINATOR_EPOCH: Final = -1


class BatchMetadata(NamedTuple):
    """One appended batch, by sequence numbers and offsets."""

    last_sequence: int
    last_offset: Offset
    offset_delta: int
    timestamp: WallMs

    @property
    def first_sequence(self) -> int:
        """The sequence number of its first record."""
        return decrement_sequence(self.last_sequence, self.offset_delta)

    @property
    def first_offset(self) -> Offset:
        """The offset of its first record."""
        return Offset(self.last_offset - self.offset_delta)


class ProducerEntry:
    """The state of one producer in one partition. `batches` holds the newest last, and at most five.

    `is_whole` says that they are all batches that the producer has written here since it became known.
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "is_whole",
        "last_timestamp",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(
        self,
        producer_id: ProducerId,
        epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = NO_COORDINATOR_EPOCH,
        last_timestamp: WallMs = NO_TIMESTAMP,
        transaction_first_offset: Offset | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.transaction_first_offset = transaction_first_offset
        self.batches: list[BatchMetadata] = []
        self.is_whole = False

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, -1 where no batch of this epoch is known."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> Offset:
        """The offset of the last record, -1 where no batch of this epoch is known."""
        return self.batches[-1].last_offset if self.batches else Offset(-1)

    def find(self, epoch: ProducerEpoch, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        """Find the batch that has exactly these sequence numbers in this epoch: a repeated one was appended
        before.
        """
        if epoch != self.epoch:
            return None
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                return batch
        return None

    def add(self, epoch: ProducerEpoch, batch: BatchMetadata) -> None:
        """Record an appended batch; one of another epoch drops those before it."""
        if epoch != self.epoch:
            if self.batches:
                self.is_whole = False
            self.batches.clear()
            self.epoch = epoch
        elif len(self.batches) == BATCHES_KEPT:
            self.is_whole = False
            del self.batches[0]
        self.batches.append(batch)
        self.last_timestamp = batch.timestamp

    def rolled_back(self, end: Offset) -> int | None:
        """Return how many batches are left when the log is cut at `end`; None where they don't tell the earlier state.

        A cut removes the newest batches, so those that are left still recognise whatever the producer may repeat.
        """
        if self.coordinator_epoch != NO_COORDINATOR_EPOCH or self.transaction_first_offset is not None:
            return None  # a marker may be cut, too
        left = sum(1 for batch in self.batches if batch.last_offset < end)
        return left if left or self.is_whole else None

    def end_transaction(self, epoch: ProducerEpoch, coordinator_epoch: int, timestamp: WallMs) -> None:
        """Note an end marker."""
        if epoch != self.epoch:
            self.batches.clear()
            self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.transaction_first_offset = None
        self.last_timestamp = timestamp

    def __repr__(self) -> str:
        return (
            f"ProducerEntry(producer_id={self.producer_id}, epoch={self.epoch}, batches={self.batches}, "
            f"coordinator_epoch={self.coordinator_epoch}, last_timestamp={self.last_timestamp}, "
            f"transaction_first_offset={self.transaction_first_offset})"
        )
