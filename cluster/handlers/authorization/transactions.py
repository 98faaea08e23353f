"""The permissions for producer ids and transactions."""

from typing import TYPE_CHECKING, Any, Final

from cluster.handlers.authorization.guards import Guard, each_of, in_turn, on_cluster, required
from cluster.security.acl import CLUSTER_NAME, Operation, ResourceType
from wire.errors import Error
from wire.internal_topics import INTERNAL_TOPICS
from wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    txn_offset_commit,
    write_txn_markers,
)
from wire.types import NO_PRODUCER_EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.handlers.authorization.guards import Guarded
    from cluster.handlers.call import ApiCall

REFUSED: Final = Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_FROM_BROKERS_SINCE: Final = 4


def _of_id(operation: Operation, refuse: "Callable[[ApiCall[Guarded]], Any]") -> Guard:
    return required(
        operation, ResourceType.TRANSACTIONAL_ID, lambda request: str(request.transactional_id), refuse
    )


def init_producer_id_guard(call: "ApiCall[Guarded]") -> bool:
    """Require WRITE on the transactional id; without one IDEMPOTENT_WRITE on the cluster, or WRITE on any topic."""
    request: init_producer_id.InitProducerIdRequest = call.request
    if request.transactional_id is not None:
        permitted = call.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        error = REFUSED
    else:
        permitted = call.may(
            Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True
        ) or call.may_somewhere(Operation.WRITE, ResourceType.TOPIC)
        error = Error.CLUSTER_AUTHORIZATION_FAILED
    if not permitted:
        call.respond(
            init_producer_id.InitProducerIdResponse(error_code=error, producer_epoch=NO_PRODUCER_EPOCH)
        )
    return permitted


def add_partitions_to_txn_guard(call: "ApiCall[Guarded]") -> bool:
    """Require CLUSTER_ACTION of brokers; of clients WRITE on the id and on every topic, or nothing is added."""
    if call.version >= _FROM_BROKERS_SINCE:
        return _add_from_broker(call)
    request: add_partitions_to_txn.AddPartitionsToTxnRequest = call.request
    topics = request.v3_and_below_topics
    if not call.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.v3_and_below_transactional_id):
        call.respond(_partitions_refused(topics, lambda _name, _index: REFUSED))
        return False
    denied = {
        topic.name
        for topic in topics
        if topic.name in INTERNAL_TOPICS or not call.may(Operation.WRITE, ResourceType.TOPIC, topic.name)
    }
    if not denied:
        return True
    known = call.broker.metadata.snapshot.topics

    def error_of(name: str, index: int) -> Error:
        if name in denied:
            return Error.TOPIC_AUTHORIZATION_FAILED
        if index not in known.get(name, ()):
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        return Error.OPERATION_NOT_ATTEMPTED

    call.respond(_partitions_refused(topics, error_of))
    return False


_add_from_broker = on_cluster(
    Operation.CLUSTER_ACTION,
    lambda _: add_partitions_to_txn.AddPartitionsToTxnResponse(error_code=Error.CLUSTER_AUTHORIZATION_FAILED),
)


def _partitions_refused(topics: Any, error_of: "Callable[[str, int], Error]") -> Any:
    return add_partitions_to_txn.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            add_partitions_to_txn.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    add_partitions_to_txn.AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=error_of(topic.name, index)
                    )
                    for index in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


add_offsets_to_txn_guard = in_turn(
    _of_id(Operation.WRITE, lambda _: add_offsets_to_txn.AddOffsetsToTxnResponse(error_code=REFUSED)),
    required(
        Operation.READ,
        ResourceType.GROUP,
        lambda request: str(request.group_id),
        lambda _: add_offsets_to_txn.AddOffsetsToTxnResponse(error_code=Error.GROUP_AUTHORIZATION_FAILED),
    ),
)
end_txn_guard = _of_id(Operation.WRITE, lambda _: end_txn.EndTxnResponse(error_code=REFUSED))


def _refused_commit(topic: txn_offset_commit.TxnOffsetCommitRequestTopic, error: Error) -> Any:
    return txn_offset_commit.TxnOffsetCommitResponseTopic(
        name=topic.name,
        partitions=[
            txn_offset_commit.TxnOffsetCommitResponsePartition(
                partition_index=partition.partition_index, error_code=error
            )
            for partition in topic.partitions
        ],
    )


def _refused_commits(error: Error) -> "Callable[[ApiCall[Guarded]], Any]":
    return lambda call: txn_offset_commit.TxnOffsetCommitResponse(
        topics=[_refused_commit(topic, error) for topic in call.request.topics]
    )


txn_offset_commit_guard = in_turn(
    _of_id(Operation.WRITE, _refused_commits(REFUSED)),
    required(
        Operation.READ,
        ResourceType.GROUP,
        lambda request: str(request.group_id),
        _refused_commits(Error.GROUP_AUTHORIZATION_FAILED),
    ),
    each_of(
        "topics",
        lambda topic: topic.name,
        Operation.READ,
        ResourceType.TOPIC,
        "topics",
        lambda topic: _refused_commit(topic, Error.TOPIC_AUTHORIZATION_FAILED),
    ),
)
_from_broker = on_cluster(
    Operation.CLUSTER_ACTION,
    lambda call: write_txn_markers.WriteTxnMarkersResponse(
        markers=[_marker_refused(marker) for marker in call.request.markers]
    ),
)


def write_txn_markers_guard(call: "ApiCall[Guarded]") -> bool:
    """Require ALTER on the cluster, as an administrator's tool has, or CLUSTER_ACTION."""
    tool = call.may(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True)
    return tool or _from_broker(call)


def _marker_refused(marker: write_txn_markers.WritableTxnMarker) -> write_txn_markers.WritableTxnMarkerResult:
    return write_txn_markers.WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=[
            write_txn_markers.WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    write_txn_markers.WritableTxnMarkerPartitionResult(
                        partition_index=index, error_code=Error.CLUSTER_AUTHORIZATION_FAILED
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ],
    )


_describe_each = each_of(
    "transactional_ids",
    lambda name: str(name),
    Operation.DESCRIBE,
    ResourceType.TRANSACTIONAL_ID,
    "transaction_states",
    lambda name: describe_transactions.TransactionState(error_code=REFUSED, transactional_id=name),
)


def describe_transactions_guard(call: "ApiCall[Guarded]") -> bool:
    """Require DESCRIBE on each id, and show only those of its topics that the client may describe."""
    call.amend(
        lambda response: response.replace(
            transaction_states=[
                state.replace(
                    topics=[
                        topic
                        for topic in state.topics
                        if call.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic, quiet=True)
                    ]
                )
                for state in response.transaction_states
            ]
        )
    )
    return _describe_each(call)


def list_transactions_guard(call: "ApiCall[Guarded]") -> bool:
    """Show the transactions whose id the client may describe."""
    call.amend(
        lambda response: response.replace(
            transaction_states=[
                state
                for state in response.transaction_states
                if call.may(
                    Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, state.transactional_id, quiet=True
                )
            ]
        )
    )
    return True
