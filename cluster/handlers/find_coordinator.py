"""FindCoordinator 0 to 6: the broker that coordinates a group, or the transactions of an id.

It is the leader of the partition of `__consumer_offsets` or `__transaction_state` that the group or id belongs
to, by Java's hash of strings. The topic is created on the first request; until its leader is known the answer is
COORDINATOR_NOT_AVAILABLE.

Share groups, which version 6 is for, have no coordinator: COORDINATOR_NOT_AVAILABLE, as in Kafka when they are
disabled.
"""

from typing import TYPE_CHECKING, Final, Protocol

from cluster.coordinator.java_hash import partition_for
from cluster.handlers.context import HasAutoCreation, HasGroups, HasMetadata, HasNursery, HasTransactions
from wire.apis import ApiKey
from wire.errors import ApiError, Error
from wire.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from wire.types import NO_BROKER

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry

_GROUP: Final = 0
_TRANSACTION: Final = 1
_SHARE_GROUP: Final = 2
_SHARE_GROUP_SINCE: Final = 6


class _Broker(HasAutoCreation, HasGroups, HasMetadata, HasNursery, HasTransactions, Protocol):
    """The parts of a broker that this API reaches."""


def register(registry: "Registry") -> None:
    """Serve FindCoordinator."""
    registry.add(ApiKey.FIND_COORDINATOR, 0, 6, begin)


def begin(call: "ApiCall[_Broker]") -> None:
    """Answer from the last UpdateMetadata."""
    request: FindCoordinatorRequest = call.request
    if call.version >= 4:
        coordinators = [_find(call, request.key_type, key) for key in request.coordinator_keys]
        call.respond(FindCoordinatorResponse(coordinators=coordinators))
        return
    found = _find(call, request.key_type, request.key)
    call.respond(
        FindCoordinatorResponse(
            error_code=found.error_code,
            error_message=found.error_message,
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )
    )


def _find(call: "ApiCall[_Broker]", key_type: int, key: str) -> Coordinator:
    try:
        if key_type == _GROUP:
            count = call.broker.groups.partition_count
            return _coordinator(call.broker, CONSUMER_OFFSETS, count, key, call.listener_name)
        if key_type == _TRANSACTION:
            count = call.broker.transactions.partition_count
            return _coordinator(call.broker, TRANSACTION_STATE, count, key, call.listener_name)
        if key_type == _SHARE_GROUP and call.version >= _SHARE_GROUP_SINCE:
            raise ApiError(Error.COORDINATOR_NOT_AVAILABLE, "share groups are not served")
        raise ApiError(Error.INVALID_REQUEST, f"there are no coordinators of the type {key_type}")
    except ApiError as error:
        return Coordinator(
            key=key,
            node_id=NO_BROKER,
            port=-1,
            error_code=error.error,
            error_message=error.message or error.error.text,
        )


def _coordinator(broker: "_Broker", topic: str, count: int, key: str, listener: str) -> Coordinator:
    partitions = broker.metadata.snapshot.topics.get(topic)
    if partitions is None:
        broker.nursery.start_soon(broker.auto_creation.create, [topic], name=f"creation of {topic}")
        raise ApiError(Error.COORDINATOR_NOT_AVAILABLE, f"{topic} is being created")
    state = partitions.get(partition_for(key, count))
    node = None if state is None else broker.metadata.node(state.leader, listener)
    if node is None:
        raise ApiError(Error.COORDINATOR_NOT_AVAILABLE, "the coordinator's partition has no leader")
    return Coordinator(key=key, node_id=node.broker_id, host=node.host, port=node.port, error_code=0)
