"""Transactions that hang: open in a partition, and in no coordinator's books, so that nobody will ever end them."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from wire.types import BrokerId, TopicPartition, WallMs

if TYPE_CHECKING:
    from ottla.client.admin import Admin, ProducerDescription, TransactionDescription

_NOTHING_OPEN: Final = -1


async def find_hanging_ones(
    admin: "Admin",
    places: Collection[TopicPartition],
    last_written_before: WallMs | int,
    broker_id: BrokerId | None = None,
) -> "list[tuple[TopicPartition, ProducerDescription]]":
    """Return the partitions that transactions hang in, with their producers.

    Args:
        admin: The cluster.
        places: Where to look; partitions that do not answer are passed over.
        last_written_before: Only transactions whose producer has written nothing since, in ms since 1970.
        broker_id: Whose replicas are asked; None for the leaders.

    Raises:
        ClientError: a coordinator does not say what it knows.
    """
    found = await admin.describe_producers(places, broker_id)
    old = [
        (at, each)
        for at, producers in sorted(found.items())
        if isinstance(producers, list)
        for each in producers
        if each.transaction_start != _NOTHING_OPEN and each.last_timestamp < last_written_before
    ]
    known = await admin.transactions_of(sorted({each.producer_id for _, each in old})) if old else {}
    return [(at, each) for at, each in old if _hangs(at, known[each.producer_id])]


def _hangs(at: TopicPartition, transaction: "TransactionDescription | None") -> bool:
    """Whether no coordinator will end what is open in a partition: none has the partition in a transaction."""
    return transaction is None or at not in transaction.partitions
