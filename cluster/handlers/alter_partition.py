"""AlterPartition 0 to 3: a leader that runs Apache Kafka has the controller write its in-sync replicas.

Ottla's own leaders write them to ZooKeeper themselves.
"""

from typing import TYPE_CHECKING

from wire.apis import ApiKey

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasController
    from cluster.handlers.registry import Registry
    from wire.messages.alter_partition import AlterPartitionResponse


def register(registry: "Registry") -> None:
    """Serve AlterPartition."""
    registry.add_async(ApiKey.ALTER_PARTITION, 0, 3, handle)


async def handle(call: "ApiCall[HasController]") -> "AlterPartitionResponse":
    """Hand the request to the controller, which answers every partition or the whole with an error."""
    return await call.broker.controller.alter_partition(call.request, call.version)
