"""AddPartitionsToTxn 0 to 5: partitions join a transaction, or are verified to be in it (KIP-98, KIP-890).

Clients send versions up to 3, for one transaction; brokers the later ones, for several. A transaction's partitions join
all or not at all: if one does not exist, or must not be written to, the others get OPERATION_NOT_ATTEMPTED.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from cluster.handlers.context import HasMetadata, HasTransactions
from cluster.handlers.transaction_errors import known_error
from cluster.replication.leader.verified_appends import Question
from cluster.statemachines.transaction_requests import Producer
from wire.apis import ApiKey
from wire.errors import Error
from wire.internal_topics import INTERNAL_TOPICS
from wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from wire.types import TopicPartition

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry

_SEVERAL_SINCE: Final = 4
_Outcome = Mapping[TopicPartition, Error]


class _Broker(HasMetadata, HasTransactions, Protocol):
    """The parts of a broker that this API reaches."""


def register(registry: "Registry") -> None:
    """Serve AddPartitionsToTxn."""
    registry.add(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, begin)


def begin(call: "ApiCall[_Broker]") -> None:
    """Add or verify the partitions of each transaction, and answer when all is written."""
    request: AddPartitionsToTxnRequest = call.request
    if call.version >= _SEVERAL_SINCE:
        transactions = request.transactions
    else:
        transactions = [
            AddPartitionsToTxnTransaction(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                verify_only=False,
                topics=request.v3_and_below_topics,
            )
        ]
    outcomes: list[_Outcome | None] = [None] * len(transactions)
    left = len(transactions)

    def settle(index: int, outcome: _Outcome) -> None:
        nonlocal left
        outcomes[index] = outcome
        left -= 1
        if not left:
            call.respond(_response(call, transactions, outcomes))

    if not left:
        call.respond(AddPartitionsToTxnResponse())
    for index, transaction in enumerate(transactions):
        _handle(call, transaction, lambda outcome, index=index: settle(index, outcome))  # type: ignore[misc]


def _handle(
    call: "ApiCall[_Broker]", transaction: AddPartitionsToTxnTransaction, settle: Callable[[_Outcome], None]
) -> None:
    partitions = _partitions(transaction.topics)
    refused = {at: error for at in partitions if (error := _refusal(call, at)) is not Error.NONE}
    if refused:
        settle({at: refused.get(at, Error.OPERATION_NOT_ATTEMPTED) for at in partitions})
        return
    coordinator = call.broker.transactions.coordinator
    transactional_id = transaction.transactional_id
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    if transaction.verify_only:
        settle(coordinator.verify(Question(transactional_id, *producer, tuple(partitions))))
    else:
        coordinator.add_partitions(
            transactional_id, producer, partitions, lambda error: settle(dict.fromkeys(partitions, error))
        )


def _refusal(call: "ApiCall[_Broker]", at: TopicPartition) -> Error:
    """Return why a partition must not join, or `NONE`."""
    if call.version < _SEVERAL_SINCE and at.topic in INTERNAL_TOPICS:
        return Error.TOPIC_AUTHORIZATION_FAILED
    if not call.broker.metadata.contains(at):
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    return Error.NONE


def _partitions(topics: Sequence[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _response(
    call: "ApiCall[_Broker]",
    transactions: Sequence[AddPartitionsToTxnTransaction],
    outcomes: Sequence[_Outcome | None],
) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnResult(
            transactional_id=transaction.transactional_id,
            topic_results=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(
                            partition_index=index,
                            partition_error_code=known_error(
                                call,
                                ApiKey.ADD_PARTITIONS_TO_TXN,
                                (outcome or {})[TopicPartition(topic.name, index)],
                            ),
                        )
                        for index in topic.partitions
                    ],
                )
                for topic in transaction.topics
            ],
        )
        for transaction, outcome in zip(transactions, outcomes, strict=True)
    ]
    if call.version >= _SEVERAL_SINCE:
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
