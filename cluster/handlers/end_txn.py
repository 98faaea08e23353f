"""EndTxn 0 to 4: commit or abort a transaction.

Answered when the decision is on all in-sync replicas of the coordinator's log; the markers follow.

A client that has closed its connection may have repeated the request on another one, and have begun its next
transaction since: the protocol has no number for a transaction, and the late request would end that one
(KAFKA-17754). So it is not carried out, as if it had been lost on its way.
"""

import logging
from typing import TYPE_CHECKING

from cluster.handlers.transaction_errors import known_error
from cluster.statemachines.transaction_requests import Producer
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasTransactions
    from cluster.handlers.registry import Registry

logger = logging.getLogger(__name__)


def register(registry: "Registry") -> None:
    """Serve EndTxn."""
    registry.add(ApiKey.END_TXN, 0, 4, begin)


def begin(call: "ApiCall[HasTransactions]") -> None:
    """Commit or abort the transaction, unless the client has gone."""
    request: EndTxnRequest = call.request
    if call.client_has_gone:
        logger.info("EndTxn of %s is not carried out: its client has gone", request.transactional_id)
        call.close()
        return

    def answer(error: Error) -> None:
        call.respond(EndTxnResponse(error_code=known_error(call, ApiKey.END_TXN, error)))

    call.broker.transactions.coordinator.end(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        commit=request.committed,
        on_done=answer,
    )
