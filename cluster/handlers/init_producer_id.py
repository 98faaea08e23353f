"""InitProducerId 0 to 5: the id and epoch under which a producer numbers its records.

With a transactional id they come from its coordinator, and fence off earlier producers of that id; from version 3 on a
producer can ask to keep its present id (KIP-360). Without a transactional id it always gets a new one.
"""

from typing import TYPE_CHECKING, Protocol

from cluster.coordinator.transactions.transaction_coordinator import InitAnswer
from cluster.handlers.context import HasNursery, HasProducerIds, HasTransactions
from cluster.handlers.transaction_errors import known_error
from cluster.statemachines.transaction_requests import Producer
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from wire.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerEpoch

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry


class _Broker(HasNursery, HasProducerIds, HasTransactions, Protocol):
    """The parts of a broker that this API reaches."""


def register(registry: "Registry") -> None:
    """Serve InitProducerId."""
    registry.add(ApiKey.INIT_PRODUCER_ID, 0, 5, begin)


def begin(call: "ApiCall[_Broker]") -> None:
    """Allocate an id, or raise the epoch of the present one, and answer when that is written."""
    call.broker.nursery.start_soon(_answer, call, name="init producer id")


async def _answer(call: "ApiCall[_Broker]") -> None:
    request: InitProducerIdRequest = call.request
    has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_PRODUCER_EPOCH

    def respond(answer: InitAnswer) -> None:
        call.respond(
            InitProducerIdResponse(
                error_code=known_error(call, ApiKey.INIT_PRODUCER_ID, answer.error),
                producer_id=answer.producer.producer_id,
                producer_epoch=answer.producer.epoch,
            )
        )

    if has_id != has_epoch:
        respond(InitAnswer(Error.INVALID_REQUEST))
    elif request.transactional_id is not None:
        await call.broker.transactions.coordinator.initialise(
            request.transactional_id,
            request.transaction_timeout_ms,
            Producer(request.producer_id, request.producer_epoch) if has_id else None,
            respond,
        )
    else:
        taken = await call.broker.producer_ids.take()
        if isinstance(taken, Error):
            respond(InitAnswer(taken))
        else:
            respond(InitAnswer(Error.NONE, Producer(taken, ProducerEpoch(0))))
