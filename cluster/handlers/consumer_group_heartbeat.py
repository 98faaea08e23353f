"""ConsumerGroupHeartbeat 0: the groups of KIP-848 need KRaft, as in Kafka; a consumer learns so from the answer."""

from typing import TYPE_CHECKING

from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import CallContext
    from cluster.handlers.registry import Registry


def register(registry: "Registry") -> None:
    """Serve ConsumerGroupHeartbeat."""
    registry.add(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 0, begin)


def begin(call: "ApiCall[CallContext]") -> None:
    """Refuse the heartbeat."""
    call.respond(ConsumerGroupHeartbeatResponse(error_code=Error.UNSUPPORTED_VERSION))
