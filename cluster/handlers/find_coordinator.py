"""FindCoordinator 0 to 5: the broker that coordinates a group or a transactional id.

It is the leader of the partition of `__consumer_offsets` or `__transaction_state` that the key belongs to, by
Java's hash of strings. The topic is created when it is first asked for; until its leader is known the
answer is COORDINATOR_NOT_AVAILABLE. Version 6 is for share groups, which are not served.
"""

from typing import TYPE_CHECKING, Final

from cluster.coordinator.java_hash import partition_for
from cluster.handlers.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from wire.apis import ApiKey
from wire.errors import ApiError, Error
from wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from wire.types import NO_BROKER

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import BrokerContext
    from cluster.handlers.registry import Registry

_TOPICS: Final = {0: CONSUMER_OFFSETS, 1: TRANSACTION_STATE}
"""The topic whose leaders coordinate, by the type of the key."""


def register(registry: "Registry") -> None:
    """Serve FindCoordinator."""
    registry.add(ApiKey.FIND_COORDINATOR, 0, 5, begin)


def begin(call: "ApiCall") -> None:
    """Answer from what the controller last told."""
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


def _find(call: "ApiCall", key_type: int, key: str) -> Coordinator:
    try:
        topic = _TOPICS.get(key_type)
        if topic is None:
            raise ApiError(Error.INVALID_REQUEST, f"there are no coordinators of the type {key_type}")
        if not key and key_type != 0:
            raise ApiError(Error.INVALID_REQUEST, "the key is empty")
        return _coordinator(call.broker, topic, key, call.listener_name)
    except ApiError as error:
        return Coordinator(
            key=key,
            node_id=NO_BROKER,
            port=-1,
            error_code=error.error,
            error_message=error.message or error.error.text,
        )


def _coordinator(broker: "BrokerContext", topic: str, key: str, listener: str) -> Coordinator:
    partitions = broker.metadata.snapshot.topics.get(topic)
    if partitions is None:
        broker.nursery.start_soon(broker.auto_creation.create, [topic], name=f"creation of {topic}")
        raise ApiError(Error.COORDINATOR_NOT_AVAILABLE, f"{topic} is being created")
    count = broker.groups.partition_count if topic == CONSUMER_OFFSETS else len(partitions)
    state = partitions.get(partition_for(key, count))
    node = None if state is None else broker.metadata.node(state.leader, listener)
    if node is None:
        raise ApiError(Error.COORDINATOR_NOT_AVAILABLE, "the coordinator's partition has no leader")
    return Coordinator(key=key, node_id=node.broker_id, host=node.host, port=node.port, error_code=0)
