"""AddOffsetsToTxn 0 to 4: a group's partition of `__consumer_offsets` joins a transaction."""

from typing import TYPE_CHECKING, Protocol

from cluster.coordinator.java_hash import partition_for
from cluster.handlers.context import HasGroups, HasTransactions
from cluster.handlers.transaction_errors import known_error
from cluster.statemachines.transaction_requests import Producer
from wire.apis import ApiKey
from wire.errors import Error
from wire.internal_topics import CONSUMER_OFFSETS
from wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from wire.types import TopicPartition

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry


class _Broker(HasGroups, HasTransactions, Protocol):
    """The parts of a broker that this API reaches."""


def register(registry: "Registry") -> None:
    """Serve AddOffsetsToTxn."""
    registry.add(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, begin)


def begin(call: "ApiCall[_Broker]") -> None:
    """Add the partition, and answer when that is written."""
    request: AddOffsetsToTxnRequest = call.request

    def answer(error: Error) -> None:
        call.respond(AddOffsetsToTxnResponse(error_code=known_error(call, ApiKey.ADD_OFFSETS_TO_TXN, error)))

    broker = call.broker
    number = partition_for(request.group_id, broker.groups.partition_count)
    broker.transactions.coordinator.add_partitions(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        [TopicPartition(CONSUMER_OFFSETS, number)],
        answer,
    )
