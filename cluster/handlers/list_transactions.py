"""ListTransactions 0 to 1: the transactional ids that this broker coordinates (KIP-664, KIP-994).

While any of its partitions is loading, the list would lack ids: COORDINATOR_LOAD_IN_PROGRESS.
"""

from typing import TYPE_CHECKING, Final

import trio

from cluster.statemachines.transaction import TransactionState as State
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasTransactions
    from cluster.handlers.registry import Registry
    from cluster.statemachines.transaction import Transaction

_SLICE: Final = 1_000
_KNOWN: Final = frozenset({*(state.kafka_name for state in State), "PrepareEpochFence"})
"""The states that Kafka's filters can name: a fence is a separate state there."""


def register(registry: "Registry") -> None:
    """Serve ListTransactions."""
    registry.add_async(ApiKey.LIST_TRANSACTIONS, 0, 1, handle)


async def handle(call: "ApiCall[HasTransactions]") -> ListTransactionsResponse:
    """List the ids that pass all filters."""
    request: ListTransactionsRequest = call.request
    led = call.broker.transactions.coordinator.hosted.led
    if any(partition.is_loading for partition in led):
        return ListTransactionsResponse(error_code=Error.COORDINATOR_LOAD_IN_PROGRESS)
    unknown = [name for name in request.state_filters if name not in _KNOWN]
    listed: list[TransactionState] = []
    count = 0
    for partition in led.owned():
        for transactional_id in partition.ids():
            count += 1
            if count % _SLICE == 0:
                await trio.lowlevel.checkpoint()
            found = partition.find(transactional_id)
            if found is not None and _passes(call, request, found):
                listed.append(
                    TransactionState(
                        transactional_id=transactional_id,
                        producer_id=found.record.producer_id,
                        transaction_state=found.state.kafka_name,
                    )
                )
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=listed)


def _passes(
    call: "ApiCall[HasTransactions]", request: ListTransactionsRequest, transaction: "Transaction"
) -> bool:
    record = transaction.record
    if record.state is State.DEAD:
        return False
    if request.state_filters and record.state.kafka_name not in request.state_filters:
        return False
    if request.producer_id_filters and record.producer_id not in request.producer_id_filters:
        return False
    duration = request.duration_filter
    return duration < 0 or call.broker.clock.wall_ms() - record.started_at > duration
