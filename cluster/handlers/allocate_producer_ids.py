"""AllocateProducerIds 0: a broker that runs Apache Kafka takes a block of producer ids through the
controller.

Ottla's own brokers take theirs from ZooKeeper.
"""

from typing import TYPE_CHECKING

from wire.apis import ApiKey

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasController
    from cluster.handlers.registry import Registry
    from wire.messages.allocate_producer_ids import AllocateProducerIdsResponse


def register(registry: "Registry") -> None:
    """Serve AllocateProducerIds."""
    registry.add_async(ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0, handle)


async def handle(call: "ApiCall[HasController]") -> "AllocateProducerIdsResponse":
    """Hand the request to the controller, which answers with a block or an error."""
    return await call.broker.controller.allocate_producer_ids(call.request)
