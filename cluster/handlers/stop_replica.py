"""StopReplica 0 to 4: the controller makes this broker stop replicas, and delete their logs if requested.

A deletion carries the leader epoch -2, which no epoch outranks, and deletes logs of partitions that this
broker does not know: those of topics deleted while it was down.
"""

from typing import TYPE_CHECKING

from wire.apis import ApiKey

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasReplicas
    from cluster.handlers.registry import Registry
    from wire.messages.stop_replica import StopReplicaResponse


def register(registry: "Registry") -> None:
    """Serve StopReplica."""
    registry.add_async(ApiKey.STOP_REPLICA, 0, 4, handle)


async def handle(call: "ApiCall[HasReplicas]") -> "StopReplicaResponse":
    """Stop, and delete if requested, the replicas that the request names."""
    return await call.broker.replicas.roles.stop_replicas(call.request)
