"""The transactional ids that this broker coordinates, by the partition of ``__transaction_state`` they belong to."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from cluster.coordinator.led_partitions import LedPartitions
from cluster.coordinator.transactions.state_records import record_in
from cluster.coordinator.transactions.stored_transactions import StoredTransactions
from cluster.statemachines.transaction import Transaction, TransactionRecord, TransactionState
from wire.errors import Error
from wire.types import LeaderEpoch, Offset, ProducerId, WallMs


@dataclass(slots=True, eq=False)
class HostedPartition:
    """One partition of ``__transaction_state`` that we lead; ``is_loading`` until its log has been read.

    Attributes:
        number: The partition's number.
        epoch: The leader epoch since which we lead: the coordinator epoch of its markers.
        stored: The state that its log holds.
        transactions: The ids looked up or changed since the load, and all with an open transaction.
    """

    number: int
    epoch: LeaderEpoch
    stored: StoredTransactions = field(default_factory=lambda: StoredTransactions(Offset(0)))
    is_loading: bool = True
    transactions: dict[str, Transaction] = field(default_factory=dict)

    def find(self, transactional_id: str) -> Transaction | None:
        """Return an id's state; None if the id is unknown."""
        found = self.transactions.get(transactional_id)
        if found is None:
            value = self.stored.values.get(transactional_id)
            if value is not None:
                found = self.transactions[transactional_id] = Transaction(transactional_id, record_in(value))
        return found

    def make(self, transactional_id: str, producer_id: ProducerId, now: WallMs) -> Transaction:
        """Add a new id with a producer id of its own; nothing is written yet."""
        made = Transaction(transactional_id, TransactionRecord(producer_id, updated_at=now))
        self.transactions[transactional_id] = made
        return made

    def ids(self) -> Iterator[str]:
        """Return the ids that are known now."""
        yield from tuple(self.stored.values)
        yield from [
            transactional_id
            for transactional_id in self.transactions
            if transactional_id not in self.stored.values
        ]

    def forget(self, transaction: Transaction) -> None:
        """Drop an id that has expired."""
        transactional_id = transaction.transactional_id
        if self.transactions.get(transactional_id) is transaction:
            del self.transactions[transactional_id]


class HostedTransactions:
    """The transactional ids in the partitions that this broker leads.

    A partition that we keep leading in a new epoch keeps its coordinator epoch, as in Kafka.

    Args:
        partition_count: Returns how many partitions ``__transaction_state`` has.
        leads: Whether this broker leads a partition of it at this moment.

    Attributes:
        led: The partitions.
    """

    def __init__(self, partition_count: Callable[[], int], leads: Callable[[int], bool]) -> None:
        self.led = LedPartitions(HostedPartition, partition_count, leads)

    def partition_of(self, transactional_id: str) -> HostedPartition | Error:
        """Return the partition that an id belongs to if its state is known here, else the client's error."""
        return self.led.owner_of(transactional_id) if transactional_id else Error.INVALID_REQUEST

    def open_transactions(self) -> Iterator[Transaction]:
        """Return the transactions that are open, or whose markers are on their way."""
        for partition in self.led.owned():
            for transaction in tuple(partition.transactions.values()):
                if transaction.state is TransactionState.ONGOING or transaction.state.is_prepared:
                    yield transaction
