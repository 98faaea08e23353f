"""DescribeTransactions 0: the state of transactional ids (KIP-664).

While markers are being written, the partitions shown are exactly those that have not acknowledged theirs: tools that
look for hanging transactions rely on that.
"""

from typing import TYPE_CHECKING

from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from wire.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasTransactions
    from cluster.handlers.registry import Registry


def register(registry: "Registry") -> None:
    """Serve DescribeTransactions."""
    registry.add(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, begin)


def begin(call: "ApiCall[HasTransactions]") -> None:
    """Describe each id that this broker coordinates; each other one has its own error."""
    request: DescribeTransactionsRequest = call.request
    states = [_describe(call, transactional_id) for transactional_id in request.transactional_ids]
    call.respond(DescribeTransactionsResponse(transaction_states=states))


def _describe(call: "ApiCall[HasTransactions]", transactional_id: str) -> TransactionState:
    found = call.broker.transactions.coordinator.describe(transactional_id)
    if isinstance(found, Error):
        return TransactionState(transactional_id=transactional_id, error_code=found)
    record = found.record
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=record.state.kafka_name,
        transaction_timeout_ms=record.timeout_ms,
        transaction_start_time_ms=record.started_at,
        producer_id=record.producer_id,
        producer_epoch=record.producer_epoch,
        topics=_by_topic(found.unmarked if record.state.is_prepared else record.partitions),
    )


def _by_topic(partitions: "Iterable[TopicPartition]") -> list[TopicData]:
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return [TopicData(topic=topic, partitions=numbers) for topic, numbers in topics.items()]
