"""LeaderAndIsr 0 to 7: the controller assigns the partitions that this broker leads and follows.

Requests of an older controller or for an earlier registration of this broker are refused as a whole; the
rest is decided for each partition, in `cluster.replication.roles.controller_requests`. A KRaft controller's request
stops the broker.
"""

from typing import TYPE_CHECKING

from wire.apis import ApiKey

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasReplicas
    from cluster.handlers.registry import Registry
    from wire.messages.leader_and_isr import LeaderAndIsrResponse


def register(registry: "Registry") -> None:
    """Serve LeaderAndIsr."""
    registry.add_async(ApiKey.LEADER_AND_ISR, 0, 7, handle)


async def handle(call: "ApiCall[HasReplicas]") -> "LeaderAndIsrResponse":
    """Adopt the roles in the request."""
    return await call.broker.replicas.roles.become_leader_or_follower(call.request, call.version)
