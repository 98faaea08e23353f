"""ControlledShutdown 0 to 3: a broker that is about to stop has its leaders moved away.

Only the active controller answers; the others say NOT_CONTROLLER. The broker still leads the remaining partitions, and
asks again.
"""

from typing import TYPE_CHECKING

from cluster.handlers.failures import EXPECTED_FAILURES, failure_of
from wire.apis import ApiKey
from wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasController
    from cluster.handlers.registry import Registry


def register(registry: "Registry") -> None:
    """Serve ControlledShutdown."""
    registry.add_async(ApiKey.CONTROLLED_SHUTDOWN, 0, 3, handle)


async def handle(call: "ApiCall[HasController]") -> ControlledShutdownResponse:
    """Have the controller move the broker's leaders, and answer which remain."""
    request: ControlledShutdownRequest = call.request
    try:
        remaining = await call.broker.controller.controlled_shutdown(request.broker_id, request.broker_epoch)
    except EXPECTED_FAILURES as failure:
        return ControlledShutdownResponse(error_code=failure_of(failure).code)
    return ControlledShutdownResponse(
        remaining_partitions=[
            RemainingPartition(topic_name=partition.topic, partition_index=partition.partition)
            for partition in remaining
        ]
    )
