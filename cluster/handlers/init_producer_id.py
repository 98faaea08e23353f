"""InitProducerId 0 to 5: the id under which an idempotent producer numbers its records.

Transactional producers are refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED: no client takes it for
something that passes, and transactions are not served yet.
"""

from typing import TYPE_CHECKING

from cluster.zookeeper.client import ZooKeeperError
from cluster.zookeeper.producer_ids import ProducerIdsExhaustedError
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from wire.types import NO_PRODUCER_EPOCH, ProducerEpoch

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry


def register(registry: "Registry") -> None:
    """Serve InitProducerId."""
    registry.add_async(ApiKey.INIT_PRODUCER_ID, 0, 5, handle)


async def handle(call: "ApiCall") -> InitProducerIdResponse:
    """Return the producer a new id, with the epoch 0: without transactions, an old id is never carried on."""
    request: InitProducerIdRequest = call.request
    if request.transactional_id is not None:
        if not request.transactional_id:
            return _failed(Error.INVALID_REQUEST)
        return _failed(Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        return _failed(Error.INVALID_REQUEST)
    try:
        producer_id = await call.broker.producer_ids.next()
    except ZooKeeperError:
        # Not COORDINATOR_NOT_AVAILABLE: a producer without a transactional id has no coordinator to look for.
        return _failed(Error.COORDINATOR_LOAD_IN_PROGRESS)
    except ProducerIdsExhaustedError:
        return _failed(Error.UNKNOWN_SERVER_ERROR)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=ProducerEpoch(0))


def _failed(error: Error) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_epoch=NO_PRODUCER_EPOCH)
