"""A transaction whose end is decided, and a marker of it that is being sent."""

from typing import TYPE_CHECKING

from cluster.statemachines.transaction import TransactionState

if TYPE_CHECKING:
    from cluster.coordinator.transactions.hosted_transactions import HostedPartition
    from cluster.statemachines.transaction import Transaction
    from wire.types import TopicPartition


class Completion:
    """A transaction whose markers are being sent, for one leadership of its coordinator.

    Attributes:
        partition: The partition that it belongs to.
        transaction: The transaction to complete.
        is_commit: How it ends.
        is_over: Whether all have been acknowledged, or we no longer lead the partition.
    """

    __slots__ = ("is_commit", "is_over", "partition", "transaction")

    def __init__(self, partition: "HostedPartition", transaction: "Transaction") -> None:
        self.partition = partition
        self.transaction = transaction
        self.is_commit = transaction.state is TransactionState.PREPARE_COMMIT
        self.is_over = False


class WaitingMarker:
    """A marker that has not been acknowledged.

    Attributes:
        completion: The transaction that it ends.
        at: The partition that it is for.
        attempts: How often it was postponed.
        refusals: How often it was refused as outdated.
    """

    __slots__ = ("at", "attempts", "completion", "refusals")

    def __init__(self, completion: Completion, at: "TopicPartition") -> None:
        self.completion = completion
        self.at = at
        self.attempts = 0
        self.refusals = 0

    @property
    def transactional_id(self) -> str:
        """The id of the transaction that it ends."""
        return self.completion.transaction.transactional_id
