"""ReachBroker 0, Ottla's own: whether this broker can connect to another one that the asking broker cannot reach."""

from typing import TYPE_CHECKING

from wire.apis import ApiKey
from wire.messages.reach_broker import ReachBrokerRequest, ReachBrokerResponse

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasSessionWatch
    from cluster.handlers.registry import Registry


def register(registry: "Registry") -> None:
    """Serve ReachBroker."""
    registry.add_async(ApiKey.REACH_BROKER, 0, 0, handle)


async def handle(call: "ApiCall[HasSessionWatch]") -> ReachBrokerResponse:
    """Try to connect. A broker that does not watch over others answers yes, which vetoes ending the session."""
    request: ReachBrokerRequest = call.request
    watch = call.broker.session_watch
    return ReachBrokerResponse(is_reached=watch is None or await watch.reach(request.broker_id))
