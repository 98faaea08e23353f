"""Heartbeat 0 to 4: a member reports that it is alive, and learns whether there is a rebalance."""

from typing import TYPE_CHECKING

from wire.apis import ApiKey
from wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasGroups
    from cluster.handlers.registry import Registry


def register(registry: "Registry") -> None:
    """Serve Heartbeat."""
    registry.add(ApiKey.HEARTBEAT, 0, 4, begin)


def begin(call: "ApiCall[HasGroups]") -> None:
    """Answer at once."""
    request: HeartbeatRequest = call.request
    error = call.broker.groups.coordinator.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    call.respond(HeartbeatResponse(error_code=error))
