"""Fetch 0 to 17: read records, for consumers and for followers.

What is read, when a fetch is parked, and how sessions work is described in `cluster.replication.leader.fetch_service`
and its neighbours; here requests become sessions and parameters, and answers are adapted to the client's version: older
record formats, errors that it knows, and the current leader if this broker does not lead (KIP-951). Records leave as
file ranges, never read here, unless they are converted for an old client.
"""

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from cluster.handlers.authorization.fetch_sessions import authorize_session
from cluster.handlers.context import HasConfig, HasMetadata, HasNursery, HasReplicas
from cluster.handlers.current_leader import current_leader
from cluster.replication.leader.fetch_answers import failed_partition
from cluster.replication.leader.fetch_session import (
    TOPIC_IDS_SINCE,
    Admit,
    FetchClient,
    FetchItem,
    FetchParams,
    FetchSession,
    Isolation,
)
from storage.log_read import read_range
from wire.apis import ApiKey
from wire.errors import ApiError, Error
from wire.file_range import FileRange
from wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from wire.records.errors import CorruptRecordError, UnsupportedCompressionError
from wire.records.legacy import down_convert
from wire.types import BrokerId, TopicId

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry

_FORMAT_1_SINCE: Final = 2
_FORMAT_2_SINCE: Final = 4
_STORAGE_ERROR_SINCE: Final = 6
_ZSTD_SINCE: Final = 10
_NEAR_REPLICAS_SINCE: Final = 11
_HARD_LIMIT_UNTIL: Final = 2
_REPLICA_STATE_SINCE: Final = 15
_LEADERS_SINCE: Final = 16
_READ_COMMITTED: Final = 1
_WRONG_LEADER: Final = (Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH)


class _Broker(HasConfig, HasMetadata, HasNursery, HasReplicas, Protocol):
    """The parts of a broker that this API reaches."""


def register(registry: "Registry") -> None:
    """Serve Fetch."""
    registry.add(ApiKey.FETCH, 0, 17, begin)


def begin(call: "ApiCall[_Broker]") -> None:
    """Read, and answer at once or when there are enough records."""
    request: FetchRequest = call.request
    version, broker = call.version, call.broker
    replica_id = request.replica_state.replica_id if version >= _REPLICA_STATE_SINCE else request.replica_id
    replicas = broker.replicas
    try:
        session = replicas.sessions.begin(
            request,
            version,
            broker.metadata.snapshot.topic_names,
            broker.clock.monotonic(),
            is_follower=replica_id >= 0,
        )
    except ApiError as failure:
        call.respond(FetchResponse(error_code=int(failure.error)))
        return
    authorize_session(call, session)
    throttling = broker.throttling
    admit = None
    if throttling is not None:
        if replica_id >= 0:
            call.is_exempt = True
        else:
            admit = partial(throttling.admit_fetch, call)
    params = _params(call, request, replica_id, admit)

    def finish(answers: list[tuple[FetchItem, PartitionData]]) -> None:
        if call.throttle_ms and not (answers or session.is_incremental):
            # A first answer without its partitions creates no session: the client begins again.
            replicas.sessions.forget(session)
        call.respond(_response(call, session, answers))

    cold = replicas.cold_fetches.places(session)
    if not cold:
        replicas.fetch_service.fetch(session, params, finish)
        return

    async def fetch_when_read() -> None:
        await replicas.cold_fetches.read(cold)
        replicas.fetch_service.fetch(session, params, finish)

    broker.nursery.start_soon(fetch_when_read, name="fetch of what is on disk only")


def _params(
    call: "ApiCall[_Broker]", request: FetchRequest, replica_id: BrokerId, admit: Admit | None
) -> FetchParams:
    version = call.version
    max_bytes = min(request.max_bytes, call.broker.config.fetch_max_bytes)
    if admit is not None and call.broker.throttling is not None:
        max_bytes = int(min(max_bytes, call.broker.throttling.fetch_burst(call)))
    may_move = version >= _NEAR_REPLICAS_SINCE and replica_id < 0
    if replica_id >= 0:
        isolation = Isolation.LOG_END
    elif request.isolation_level == _READ_COMMITTED:
        isolation = Isolation.COMMITTED
    else:
        isolation = Isolation.HIGH_WATERMARK
    return FetchParams(
        replica_id=replica_id,
        max_wait_ms=request.max_wait_ms,
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        isolation=isolation,
        # Consumers that support reading from near replicas may read from followers, and so may debuggers (-2).
        require_leader=replica_id >= 0 or (replica_id == -1 and not may_move),
        hard_limit=version <= _HARD_LIMIT_UNTIL,
        client=FetchClient(request.rack_id, call.listener_name) if may_move else None,
        admit=admit,
    )


def _response(
    call: "ApiCall[_Broker]", session: FetchSession, answers: list[tuple[FetchItem, PartitionData]]
) -> FetchResponse:
    version = call.version
    topics: dict[tuple[str, TopicId], list[PartitionData]] = {}
    endpoints: dict[BrokerId, NodeEndpoint] = {}
    for item, answer in answers:
        data = answer
        if data.error_code:
            data = _explain(call, item, data, endpoints)
        elif data.records:
            data = _convert(call, item, data, session.is_follower)
            _count(call, item, len(data.records or b""), session.is_follower)
        topics.setdefault((item.topic, item.topic_id), []).append(data)
    by_id = version >= TOPIC_IDS_SINCE
    return FetchResponse(
        session_id=session.session_id,
        responses=[
            FetchableTopicResponse(topic="" if by_id else name, topic_id=topic_id, partitions=partitions)
            for (name, topic_id), partitions in topics.items()
        ],
        node_endpoints=list(endpoints.values()),
    )


def _explain(
    call: "ApiCall[_Broker]", item: FetchItem, data: PartitionData, endpoints: dict[BrokerId, NodeEndpoint]
) -> PartitionData:
    """Replace an error that the client does not know, and name the current leader if its version can carry it."""
    error = Error.from_code(data.error_code)
    if error is Error.KAFKA_STORAGE_ERROR and call.version < _STORAGE_ERROR_SINCE:
        return failed_partition(item.partition_index, Error.NOT_LEADER_OR_FOLLOWER)
    if error not in _WRONG_LEADER or call.version < _LEADERS_SINCE or item.topic_partition is None:
        return data
    known = current_leader(call, item.topic_partition)
    if known.node is not None:
        endpoints[known.leader_id] = NodeEndpoint(
            node_id=known.leader_id, host=known.node.host, port=known.node.port, rack=known.node.rack
        )
    return PartitionData(
        partition_index=data.partition_index,
        error_code=data.error_code,
        high_watermark=data.high_watermark,
        current_leader=LeaderIdAndEpoch(leader_id=known.leader_id, leader_epoch=known.leader_epoch),
        records=data.records,
    )


def _convert(
    call: "ApiCall[_Broker]", item: FetchItem, data: PartitionData, is_follower: bool
) -> PartitionData:
    """Return records that an old client can read, if the topic allows conversion."""
    version, key = call.version, item.topic_partition
    partition = None if key is None else call.broker.replicas.hosted.get(key)
    log = None if partition is None else partition.log
    if version >= _ZSTD_SINCE or log is None:
        return data
    if log.config.compression_type == "zstd":
        return failed_partition(item.partition_index, Error.UNSUPPORTED_COMPRESSION_TYPE)
    if version >= _FORMAT_2_SINCE or not isinstance(data.records, FileRange):
        return data
    if not is_follower and not log.config.message_downconversion_enable:
        return failed_partition(item.partition_index, Error.UNSUPPORTED_VERSION)
    magic = 1 if version >= _FORMAT_1_SINCE else 0
    try:
        converted = down_convert(read_range(data.records), magic, item.fetch_offset)
    except UnsupportedCompressionError:
        return failed_partition(item.partition_index, Error.UNSUPPORTED_COMPRESSION_TYPE)
    except CorruptRecordError:
        return failed_partition(item.partition_index, Error.CORRUPT_MESSAGE)
    except OSError as failure:
        log.log_directory.fail(failure, f"reading {key}")
        return failed_partition(item.partition_index, Error.NOT_LEADER_OR_FOLLOWER)
    return PartitionData(
        partition_index=data.partition_index,
        high_watermark=data.high_watermark,
        last_stable_offset=data.last_stable_offset,
        log_start_offset=data.log_start_offset,
        aborted_transactions=data.aborted_transactions,
        preferred_read_replica=data.preferred_read_replica,
        records=converted,
    )


def _count(call: "ApiCall[_Broker]", item: FetchItem, size: int, is_follower: bool) -> None:
    replicas = call.broker.replicas
    if is_follower:
        replicas.replication_bytes_out.value += size
        return
    partition = None if item.topic_partition is None else replicas.hosted.get(item.topic_partition)
    if partition is not None:
        partition.traffic.bytes_out.value += size
