"""The transactional ids that this broker coordinates, by the partition of ``__transaction_state`` they belong to.

A partition is absent (another broker's), loading, or owned. Each gaining or losing it carries a leader epoch; what
comes with an older one came late and is ignored. Work that waits is tied to the `HostedPartition` object, not to an
epoch number: a partition that was lost and gained again is another object, whose load begins that work anew
(KAFKA-15468, KAFKA-16352).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from cluster.coordinator.java_hash import partition_for
from cluster.coordinator.transactions.state_records import record_in
from cluster.coordinator.transactions.stored_transactions import StoredTransactions
from cluster.statemachines.transaction import Transaction, TransactionRecord, TransactionState
from wire.errors import Error
from wire.types import NO_LEADER_EPOCH, LeaderEpoch, Offset, ProducerId, WallMs


@dataclass(slots=True, eq=False)
class HostedPartition:
    """One partition of ``__transaction_state`` that we lead; ``is_loading`` until its log has been read.

    Attributes:
        number: Which partition.
        epoch: The leader epoch since which we lead: the coordinator epoch of its markers.
        stored: What its log says.
        transactions: The ids that something has happened to since, and all whose transaction is open.
    """

    number: int
    epoch: LeaderEpoch
    stored: StoredTransactions = field(default_factory=lambda: StoredTransactions(Offset(0)))
    is_loading: bool = True
    transactions: dict[str, Transaction] = field(default_factory=dict)

    def find(self, transactional_id: str) -> Transaction | None:
        """Return an id's state; None where it is not known."""
        found = self.transactions.get(transactional_id)
        if found is None:
            value = self.stored.values.get(transactional_id)
            if value is not None:
                found = self.transactions[transactional_id] = Transaction(transactional_id, record_in(value))
        return found

    def make(self, transactional_id: str, producer_id: ProducerId, now: WallMs) -> Transaction:
        """Take in a new id with a producer id of its own; nothing is written yet."""
        made = Transaction(transactional_id, TransactionRecord(producer_id, updated_at=now))
        self.transactions[transactional_id] = made
        return made

    def ids(self) -> Iterator[str]:
        """Return the known ids, as they are now."""
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
    """Which partitions are ours, and the ids in them.

    Args:
        partition_count: Gives how many partitions ``__transaction_state`` has.
        leads: Tells whether this broker leads a partition at this moment.
    """

    def __init__(self, partition_count: Callable[[], int], leads: Callable[[int], bool]) -> None:
        self._partition_count = partition_count
        self._leads = leads
        self._partitions: dict[int, HostedPartition] = {}
        self._latest: dict[int, LeaderEpoch] = {}

    def partition_of(self, transactional_id: str) -> HostedPartition | Error:
        """Return the partition that an id belongs to, if its state is known here, else what a client is told."""
        if not transactional_id:
            return Error.INVALID_REQUEST
        number = partition_for(transactional_id, self._partition_count())
        partition = self._partitions.get(number)
        if partition is None or not self._leads(number):
            return Error.NOT_COORDINATOR
        return Error.COORDINATOR_LOAD_IN_PROGRESS if partition.is_loading else partition

    def begin_loading(self, number: int, epoch: LeaderEpoch) -> HostedPartition | None:
        """Note that we lead a partition.

        Returns:
            The partition, which is to be loaded; None where the news is old, or we led it before: nobody else has
            written to it then, and its coordinator epoch stays, as in Kafka.
        """
        if epoch <= self._latest.get(number, NO_LEADER_EPOCH):
            return None
        self._latest[number] = epoch
        if number in self._partitions:
            return None
        loading = self._partitions[number] = HostedPartition(number, epoch)
        return loading

    def unload(self, number: int, epoch: LeaderEpoch | None) -> HostedPartition | None:
        """Note that we do not lead a partition any more; with None in any case, as it was deleted.

        Returns:
            What was hosted of it, None where nothing was or the news is old.
        """
        if epoch is None:
            # A topic made again under the name begins with the first epoch.
            self._latest.pop(number, None)
        elif epoch < self._latest.get(number, NO_LEADER_EPOCH):
            return None
        else:
            self._latest[number] = epoch
        return self._partitions.pop(number, None)

    def is_current(self, partition: HostedPartition) -> bool:
        """Whether a partition is still hosted under the leadership that it was begun for."""
        return self._partitions.get(partition.number) is partition

    def get(self, number: int) -> HostedPartition | None:
        """Return a partition that is loading or owned."""
        return self._partitions.get(number)

    def __iter__(self) -> Iterator[HostedPartition]:
        return iter(tuple(self._partitions.values()))

    def owned(self) -> list[HostedPartition]:
        """Return the partitions whose ids are known."""
        return [each for each in self._partitions.values() if not each.is_loading]

    def open_transactions(self) -> Iterator[Transaction]:
        """Return the transactions that are open, or whose markers are on their way."""
        for partition in self.owned():
            for transaction in tuple(partition.transactions.values()):
                if transaction.state is TransactionState.ONGOING or transaction.state.is_prepared:
                    yield transaction
