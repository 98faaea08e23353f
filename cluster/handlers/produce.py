"""Produce 0 to 11: append records to partitions that this broker leads.

The records are checked by their batches' headers, patched and written directly from the receive buffer, in the order of
the requests. With acks=-1 the answer waits for the in-sync replicas, without holding up the next request of the
connection. With acks=0 there is no answer: a failure drops the connection, which is how the client learns of it.

From version 3 on a partition's records are exactly one batch of format 2.

Transactional batches need a transactional id. The first one of a transaction, and those behind it, wait until the
transaction's coordinator has confirmed it (`cluster.replication.leader.verified_appends`, KIP-890).
"""

from typing import TYPE_CHECKING, Final, Protocol

from cluster.handlers.context import HasMetadata, HasReplicas
from cluster.handlers.current_leader import current_leader
from cluster.handlers.transaction_errors import known_error
from cluster.replication.leader.delayed_produce import ProduceResult, ProduceResults
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from wire.records.batch import MAGIC
from wire.records.compression import Compression
from wire.types import BrokerId, TopicPartition

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry
    from cluster.replication.leader.delayed_produce import OnProduced

ADMIN_CLIENT_ID: Final = "__admin_client"
"""The client id that may write to internal topics, as in Kafka."""
_ONE_BATCH_SINCE: Final = 3
_ZSTD_SINCE: Final = 7
_LEADERS_SINCE: Final = 10
_MAGIC_AT: Final = 16
_CODEC_AT: Final = 22
_CODEC_MASK: Final = 0x07
_BATCH_MIN: Final = 61
_TRANSACTIONAL_MASK: Final = 0x10
_PRODUCER_ID: Final = slice(43, 51)
_NO_LEADER: Final = LeaderIdAndEpoch()


class _Broker(HasMetadata, HasReplicas, Protocol):
    """The parts of a broker that this API reaches."""


def register(registry: "Registry") -> None:
    """Serve Produce."""
    registry.add(ApiKey.PRODUCE, 0, 11, begin)


def begin(call: "ApiCall[_Broker]") -> None:
    """Append, and answer when the acknowledgements that the client asked for are there."""
    request: ProduceRequest = call.request
    version, acks = call.version, request.acks
    layout: list[tuple[str, list[TopicPartition]]] = []
    batches: list[tuple[TopicPartition, memoryview | bytearray | None]] = []
    refused: ProduceResults = {}
    writers: set[bytes] = set()
    for topic in request.topic_data:
        name = topic.name
        keys = []
        for data in topic.partition_data:
            key = TopicPartition(name, data.index)
            keys.append(key)
            records: memoryview | None = data.records
            error = _check(version, records) if version >= _ONE_BATCH_SINCE else Error.NONE
            if error is Error.NONE:
                batches.append((key, records))
                if records is not None and _is_transactional(records):
                    writers.add(bytes(records[_PRODUCER_ID]))
            else:
                refused[key] = ProduceResult(error, error_message=error.text)
        layout.append((name, keys))

    def finish(results: ProduceResults) -> None:
        if refused:
            results.update(refused)
        if acks:
            call.respond(_response(call, layout, results))
        elif any(result.error is not Error.NONE for result in results.values()):
            call.close()
        else:
            call.skip()

    refusal = _refuse_transaction(request.transactional_id, len(writers))
    if refusal is not Error.NONE:
        finish({key: ProduceResult(refusal) for key, _ in batches})
    elif not batches:
        finish({})
    else:
        _append(call, request, batches, finish, transactional=bool(writers))
    # A request that waits for replicas must not keep the receive buffer.
    call.request = None


def _append(
    call: "ApiCall[_Broker]",
    request: ProduceRequest,
    batches: list[tuple[TopicPartition, memoryview | bytearray | None]],
    finish: "OnProduced",
    *,
    transactional: bool,
) -> None:
    replicas, acks, timeout_ms = call.broker.replicas, request.acks, request.timeout_ms
    internal = call.header.client_id == ADMIN_CLIENT_ID
    if transactional and request.transactional_id is not None:
        replicas.verified_appends.append(
            request.transactional_id, batches, acks, timeout_ms, finish, internal_topics_allowed=internal
        )
    else:
        replicas.append(batches, acks, timeout_ms, finish, internal_topics_allowed=internal)


def _refuse_transaction(transactional_id: str | None, writer_count: int) -> Error:
    """Return why a request's transactional batches are refused, or `NONE`."""
    if not writer_count:
        return Error.NONE
    if transactional_id is None:
        return Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return Error.NONE if writer_count == 1 else Error.INVALID_PRODUCER_ID_MAPPING


def _is_transactional(records: memoryview | bytearray) -> bool:
    return (
        len(records) >= _BATCH_MIN
        and records[_MAGIC_AT] == MAGIC
        and bool(records[_CODEC_AT] & _TRANSACTIONAL_MASK)
    )


def _check(version: int, records: memoryview | None) -> Error:
    if records is None or len(records) < _BATCH_MIN or records[_MAGIC_AT] != MAGIC:
        return Error.INVALID_RECORD
    if version < _ZSTD_SINCE and records[_CODEC_AT] & _CODEC_MASK == Compression.ZSTD:
        return Error.UNSUPPORTED_COMPRESSION_TYPE
    return Error.NONE


def _response(
    call: "ApiCall[_Broker]", layout: list[tuple[str, list[TopicPartition]]], results: ProduceResults
) -> ProduceResponse:
    endpoints: dict[BrokerId, NodeEndpoint] = {}
    topics = [
        TopicProduceResponse(
            name=name, partition_responses=[_partition(call, key, results[key], endpoints) for key in keys]
        )
        for name, keys in layout
    ]
    return ProduceResponse(responses=topics, node_endpoints=list(endpoints.values()))


def _partition(
    call: "ApiCall[_Broker]",
    key: TopicPartition,
    result: ProduceResult,
    endpoints: dict[BrokerId, NodeEndpoint],
) -> PartitionProduceResponse:
    error = result.error
    if error is Error.NONE:
        return PartitionProduceResponse(
            index=key.partition,
            base_offset=result.base_offset,
            log_append_time_ms=result.log_append_time,
            log_start_offset=result.log_start_offset,
        )
    error = known_error(call, ApiKey.PRODUCE, error)
    leader = _NO_LEADER
    if error is Error.NOT_LEADER_OR_FOLLOWER and call.version >= _LEADERS_SINCE:
        known = current_leader(call, key)
        leader = LeaderIdAndEpoch(leader_id=known.leader_id, leader_epoch=known.leader_epoch)
        if known.node is not None:
            endpoints[known.leader_id] = NodeEndpoint(
                node_id=known.leader_id, host=known.node.host, port=known.node.port, rack=known.node.rack
            )
    return PartitionProduceResponse(
        index=key.partition,
        error_code=int(error),
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time,
        log_start_offset=result.log_start_offset,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=one.batch_index, batch_index_error_message=one.message)
            for one in result.record_errors
        ],
        error_message=result.error_message,
        current_leader=leader,
    )
