"""The producers of a partition in memory: what makes appends idempotent, and which transactions are open.

The rules are Kafka's (KIP-98):

- A client's batch must begin at the sequence number after its producer's last one. The same batch again is answered
  with its first offset; a gap is refused. A producer that we know nothing of may begin anywhere.
- A higher epoch starts over at sequence 0, and fences the lower ones off.
- A follower believes its leader: it takes every batch as it comes.
- A producer that has been silent for `producer.id.expiration.ms`, by its records' timestamps, and has no open
  transaction is forgotten.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from storage.errors import (
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from storage.producer_entry import BatchMetadata, ProducerEntry
from storage.verification import Verifications, VerificationToken
from wire.records.batch import NO_SEQUENCE, TRANSACTIONAL_BIT, BatchHeader, increment_sequence
from wire.records.end_transaction import EndTransactionMarker
from wire.types import NO_PRODUCER_EPOCH, Offset, ProducerId, WallMs

EXPIRATION_MS: Final = 24 * 60 * 60 * 1000


class AppendOrigin(Enum):
    """Who appends records, which decides how they are checked."""

    CLIENT = "client"
    COORDINATOR = "coordinator"  # group and transaction coordinators: no sequence numbers, markers allowed
    REPLICATION = "replication"  # a leader, which has checked all


class OpenTransaction(NamedTuple):
    """A transaction without an end marker yet, or one whose marker is not replicated."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset | None


class CompletedTransaction(NamedTuple):
    """A transaction whose end marker was just appended."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    aborted: bool


class ProducerTable:
    """The producers of one partition, as of `end_offset`.

    Attributes:
        entries: by producer id.
        end_offset: the offset up to which the log is accounted for.
        verifications: the transactional producers whose coordinators are being asked.
    """

    __slots__ = (
        "_expiration_ms",
        "_open",
        "_unreplicated",
        "end_offset",
        "entries",
        "verifications",
    )

    def __init__(self, expiration_ms: int = EXPIRATION_MS) -> None:
        self._expiration_ms = expiration_ms
        self.entries: dict[ProducerId, ProducerEntry] = {}
        self._open: dict[Offset, OpenTransaction] = {}  # by first offset, rising
        self._unreplicated: dict[Offset, OpenTransaction] = {}
        self.end_offset = Offset(0)
        self.verifications = Verifications()

    # Checks and updates of an append

    def check(
        self,
        header: BatchHeader,
        first_offset: Offset,
        origin: AppendOrigin,
        token: VerificationToken | None = None,
    ) -> BatchMetadata | None:
        """Check a leader's data batch that has a producer id.

        Args:
            header: of the batch, as the client sent it.
            first_offset: the offset it would get, for messages.
            origin: who sent it.
            token: the proof that its coordinator knows its transaction; None where none is required.

        Returns:
            The batch that it repeats, if it is a client's and repeats one.

        Raises:
            InvalidProducerEpochError: its epoch has been succeeded.
            OutOfOrderSequenceError: a client's sequence number leaves a gap.
            InvalidTransactionStateError: its producer has an open transaction, and it is not part of one; or it
                would open one that was not verified.
        """
        entry = self.entries.get(header.producer_id)
        from_client = origin is AppendOrigin.CLIENT
        if (
            entry is not None
            and from_client
            and entry.epoch == header.producer_epoch
            and entry.batches
            and header.base_sequence == increment_sequence(entry.batches[-1].last_sequence, 1)
            and not header.attributes & TRANSACTIONAL_BIT
            and entry.transaction_first_offset is None
        ):
            return None  # the next batch of an idempotent producer, as nearly all are: nothing else applies
        follows = True
        if entry is not None:
            if from_client and entry.epoch != NO_PRODUCER_EPOCH:
                last = entry.last_sequence if header.producer_epoch == entry.epoch else NO_SEQUENCE
                follows = header.base_sequence == increment_sequence(last, 1)
                if not follows:
                    duplicate = entry.find(header.producer_epoch, header.base_sequence, header.last_sequence)
                    if duplicate is not None:
                        return duplicate
            self.check_epoch(header, first_offset)
        if header.is_transactional:
            self._check_verified(header, first_offset, token, from_client=from_client)
        if entry is not None:
            if not follows:
                raise self._gap(header, first_offset, entry)
            if entry.transaction_first_offset is not None and not header.is_transactional:
                raise InvalidTransactionStateError(
                    f"producer {header.producer_id} at offset {first_offset} has an open transaction "
                    "and wrote outside of it"
                )
        return None

    def check_epoch(self, header: BatchHeader, first_offset: Offset) -> None:
        """Check that a batch's epoch has not been succeeded.

        Raises:
            InvalidProducerEpochError: it has.
        """
        entry = self.entries.get(header.producer_id)
        if entry is not None and header.producer_epoch < entry.epoch:
            raise InvalidProducerEpochError(
                f"producer {header.producer_id} at offset {first_offset} has epoch {header.producer_epoch}, "
                f"the last seen is {entry.epoch}"
            )

    def is_open_for(self, header: BatchHeader) -> bool:
        """Return whether a batch goes into a transaction that its producer has open in its epoch."""
        entry = self.entries.get(header.producer_id)
        return (
            entry is not None
            and entry.transaction_first_offset is not None
            and entry.epoch == header.producer_epoch
        )

    def _check_verified(
        self,
        header: BatchHeader,
        first_offset: Offset,
        token: VerificationToken | None,
        *,
        from_client: bool,
    ) -> None:
        """Check a batch that would open a transaction: verified, and none before it was left out."""
        if token is None or self.is_open_for(header):
            return
        verification = self.verifications.get(header.producer_id)
        if verification is None or verification.token is not token:
            raise InvalidTransactionStateError(
                f"producer {header.producer_id} at offset {first_offset} has no open transaction, "
                "and its coordinator has not confirmed one"
            )
        if from_client and header.base_sequence > verification.lowest_sequence:
            raise OutOfOrderSequenceError(
                f"producer {header.producer_id} at offset {first_offset}: sequence {header.base_sequence} comes "
                f"before {verification.lowest_sequence}, which has not been appended"
            )

    def continues(self, header: BatchHeader) -> bool:
        """Return whether a batch is the next of its producer, or repeats one that is remembered."""
        entry = self.entries.get(header.producer_id)
        if entry is None or header.producer_epoch != entry.epoch:
            return False
        first_sequence = header.base_sequence
        return (
            first_sequence == increment_sequence(entry.last_sequence, 1)
            or entry.find(header.producer_epoch, first_sequence, header.last_sequence) is not None
        )

    def check_marker(self, header: BatchHeader, marker: EndTransactionMarker, offset: Offset) -> None:
        """Check a coordinator's end marker.

        Raises:
            InvalidProducerEpochError: its producer's epoch has been succeeded.
            TransactionCoordinatorFencedError: a newer coordinator has written here.
        """
        entry = self.entries.get(header.producer_id)
        if entry is None:
            return
        if header.producer_epoch < entry.epoch:
            raise InvalidProducerEpochError(
                f"a marker for producer {header.producer_id} at offset {offset} has epoch "
                f"{header.producer_epoch}, the last seen is {entry.epoch}"
            )
        if entry.coordinator_epoch > marker.coordinator_epoch:
            raise TransactionCoordinatorFencedError(
                f"a marker for producer {header.producer_id} at offset {offset} comes from coordinator epoch "
                f"{marker.coordinator_epoch}, the last seen is {entry.coordinator_epoch}"
            )

    def apply(self, header: BatchHeader, first_offset: Offset, timestamp: WallMs) -> None:
        """Take an appended data batch with a producer id into account.

        Args:
            header: the batch's, as its producer sent it, even where the leader stamped the batch.
            first_offset: the offset of its first record in the log.
            timestamp: its greatest, as it is in the log: the producer's silence is counted from it.
        """
        producer_id = header.producer_id
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id)
            entry.is_whole = True
        delta = header.last_offset_delta
        entry.add(
            header.producer_epoch,
            BatchMetadata(header.last_sequence, Offset(first_offset + delta), delta, timestamp),
        )
        if header.attributes & TRANSACTIONAL_BIT:
            self.verifications.end(producer_id)
            if entry.transaction_first_offset is None:
                entry.transaction_first_offset = first_offset
                self._open[first_offset] = OpenTransaction(producer_id, first_offset, None)

    def apply_marker(
        self, header: BatchHeader, marker: EndTransactionMarker, offset: Offset, timestamp: WallMs
    ) -> CompletedTransaction | None:
        """Take an appended end marker into account; pass the transaction that is returned to `complete`."""
        producer_id = header.producer_id
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id)
        self.verifications.end(producer_id)
        first_offset = entry.transaction_first_offset
        entry.end_transaction(header.producer_epoch, marker.coordinator_epoch, timestamp)
        if first_offset is None:
            return None
        return CompletedTransaction(producer_id, first_offset, offset, not marker.committed)

    def stable_offset_after(self, completed: CompletedTransaction) -> Offset:
        """Return the last stable offset as it will be once `completed` is replicated: what an index entry must
        say.
        """
        for transaction in self._open.values():
            if transaction.producer_id != completed.producer_id:
                return transaction.first_offset
        return Offset(completed.last_offset + 1)

    def complete(self, completed: CompletedTransaction) -> None:
        """Move a transaction from open to ended; it holds the last stable offset back until its marker is
        replicated.
        """
        self._open.pop(completed.first_offset, None)
        self._unreplicated[completed.first_offset] = OpenTransaction(
            completed.producer_id, completed.first_offset, completed.last_offset
        )

    def forget_from(self, end: Offset) -> bool:
        """Undo the appends from an offset on, if what is remembered suffices for that; else change nothing.

        It suffices where each producer has a remembered batch left, or began at or after the offset, and no transaction
        is involved.
        """
        left: list[tuple[ProducerEntry, int]] = []
        for entry in self.entries.values():
            count = entry.rolled_back(end)
            if count is None:
                return False
            if count < len(entry.batches):
                left.append((entry, count))
        for entry, count in left:
            del entry.batches[count:]
            if count:
                entry.last_timestamp = entry.batches[-1].timestamp
            else:
                del self.entries[entry.producer_id]
        self.end_offset = end
        return True

    # Open transactions, which hold the last stable offset back

    @property
    def first_unstable_offset(self) -> Offset | None:
        """Where the first transaction begins that is open, or ended by a marker above the high watermark."""
        first = next(iter(self._open), None)
        if self._unreplicated:
            unreplicated = min(self._unreplicated)
            return unreplicated if first is None else min(first, unreplicated)
        return first

    @property
    def first_open_offset(self) -> Offset | None:
        """Where the first transaction without an end marker begins."""
        return next(iter(self._open), None)

    def has_open_transaction(self, producer_id: ProducerId) -> bool:
        """Return whether a producer has a transaction without an end marker here."""
        entry = self.entries.get(producer_id)
        return entry is not None and entry.transaction_first_offset is not None

    def has_late_transaction(self, now: WallMs, max_timeout_ms: int) -> bool:
        """Return whether the oldest open transaction has outlived the longest time-out by five minutes: its
        marker was lost.
        """
        first = next(iter(self._open.values()), None)
        entry = self.entries.get(first.producer_id) if first else None
        return (
            entry is not None
            and entry.last_timestamp > 0
            and now - entry.last_timestamp > max_timeout_ms + 300_000
        )

    def on_high_watermark(self, high_watermark: Offset) -> None:
        """Let go of the ended transactions whose markers are replicated now."""
        if self._unreplicated:
            self._drop_replicated(high_watermark)

    def _drop_replicated(self, offset: Offset) -> None:
        for first, transaction in list(self._unreplicated.items()):
            if transaction.last_offset is not None and transaction.last_offset < offset:
                del self._unreplicated[first]

    def on_log_start(self, log_start: Offset) -> None:
        """Note that the log begins at `log_start` now."""
        self._drop_replicated(log_start)
        self.end_offset = max(self.end_offset, log_start)

    def remove_expired(self, now: WallMs) -> int:
        """Forget the producers that have been silent for too long; return how many."""
        self.verifications.remove_expired(now, self._expiration_ms)
        expired = [
            producer_id
            for producer_id, entry in self.entries.items()
            if entry.transaction_first_offset is None and now - entry.last_timestamp >= self._expiration_ms
        ]
        for producer_id in expired:
            del self.entries[producer_id]
        return len(expired)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remember."""
        return not self.entries and not self._unreplicated

    def active(self) -> Mapping[ProducerId, ProducerEntry]:
        """Return the producers, for DescribeProducers; not to be changed."""
        return self.entries

    def take_over(self, other: "ProducerTable") -> None:
        """Adopt the state of a table whose identical log is being discarded."""
        self.entries = dict(other.entries)
        self._open = dict(other._open)
        self._unreplicated = dict(other._unreplicated)
        self.end_offset = other.end_offset
        self.verifications.take_over(other.verifications)

    def _clear(self) -> None:
        self.entries.clear()
        self._open.clear()
        self._unreplicated.clear()
        self.verifications.clear()

    def _load(self, entries: list[ProducerEntry], now: WallMs) -> None:
        for entry in entries:
            if entry.transaction_first_offset is None and now - entry.last_timestamp >= self._expiration_ms:
                continue
            self.entries[entry.producer_id] = entry
        starts = {e.transaction_first_offset: e for e in entries if e.transaction_first_offset is not None}
        for first in sorted(starts):
            self._open[first] = OpenTransaction(starts[first].producer_id, first, None)

    @staticmethod
    def _gap(header: BatchHeader, offset: Offset, entry: ProducerEntry) -> OutOfOrderSequenceError:
        return OutOfOrderSequenceError(
            f"producer {header.producer_id} at offset {offset}: sequence {header.base_sequence} of epoch "
            f"{header.producer_epoch} does not follow {entry.last_sequence} of epoch {entry.epoch}"
        )
