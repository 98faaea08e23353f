"""UpdateMetadata 0 to 8: the live brokers and partitions, from which Metadata is answered.

The brokers are replaced as a whole, partitions are merged; a leader of -2 removes a partition.
"""

from typing import TYPE_CHECKING

from wire.apis import ApiKey

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasReplicas
    from cluster.handlers.registry import Registry
    from wire.messages.update_metadata import UpdateMetadataResponse


def register(registry: "Registry") -> None:
    """Serve UpdateMetadata."""
    registry.add_async(ApiKey.UPDATE_METADATA, 0, 8, handle)


async def handle(call: "ApiCall[HasReplicas]") -> "UpdateMetadataResponse":
    """Apply the request to this broker's metadata."""
    return await call.broker.replicas.roles.update_metadata(call.request)
