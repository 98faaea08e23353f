"""Which batches of a log belong to aborted transactions, read front to back: compaction drops those, and later their
markers.

A marker goes once all records of its transaction are gone: a pass that meets none of them before the marker gives it a
horizon, as a tombstone has, and a pass after that horizon drops it.
"""

from collections.abc import Iterable

from storage.transaction_index import AbortedTransaction
from wire.records.batch import BatchHeader
from wire.records.record import ControlType
from wire.types import ProducerId


class TransactionReader:
    """Follows the transactions of a log while its batches are read in order."""

    __slots__ = ("_aborted", "_committed", "_open", "_seen")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Take every aborted transaction that touches the part to be read."""
        self._aborted = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
        self._open: dict[ProducerId, AbortedTransaction] = {}
        self._seen: set[ProducerId] = set()  # of the aborted ones that are open, those with a batch met
        self._committed: set[ProducerId] = set()

    def is_aborted(self, header: BatchHeader) -> bool:
        """Note a data batch; return whether its transaction was aborted."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        transaction = self._open.get(header.producer_id)
        if transaction is not None and header.base_offset <= transaction.last_offset:
            self._seen.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def read_marker(
        self, header: BatchHeader, control: ControlType | None
    ) -> tuple[bool, AbortedTransaction | None]:
        """Take note of a control batch.

        Args:
            header: the batch's.
            control: what its record says; None where it has none any more.

        Returns:
            Whether no record of the transaction was met, so that the marker may go; and the transaction that must stay
            in the index.
        """
        self._advance(header.last_offset)
        producer = header.producer_id
        match control:
            case ControlType.ABORT:
                transaction = self._open.pop(producer, None)
                met = producer in self._seen
                self._seen.discard(producer)
                return not met, transaction if met else None
            case ControlType.COMMIT:
                met = producer in self._committed
                self._committed.discard(producer)
                return not met, None
            case None:
                return True, None
        return False, None

    def _advance(self, offset: int) -> None:
        while self._aborted and self._aborted[-1].first_offset <= offset:
            transaction = self._aborted.pop()
            # A producer has one transaction at a time. One that still seems open ended before the part that is read, or
            # lost its marker to an earlier cleaning: what the producer wrote after its end is not aborted by it.
            self._open[transaction.producer_id] = transaction
            self._seen.discard(transaction.producer_id)
