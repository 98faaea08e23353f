"""ListTransactions: the transactions that this broker coordinates (KIP-664).

Versions:
    1: filter by duration (KIP-994).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT16, INT32, INT64, STRING, Request, Response, Struct, array, field
from wire.types import ProducerId


class ListTransactionsRequest(Request, api=ApiKey.LIST_TRANSACTIONS, versions="0-1", flexible="0+"):
    state_filters: Sequence[str] = field(array(STRING))
    producer_id_filters: Sequence[ProducerId] = field(array(INT64))
    duration_filter: int = field(INT64, versions="1+", default=-1)


class TransactionState(Struct):
    transactional_id: str = field(STRING)
    producer_id: ProducerId = field(INT64)
    transaction_state: str = field(STRING)


class ListTransactionsResponse(Response, api=ApiKey.LIST_TRANSACTIONS, versions="0-1", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    unknown_state_filters: Sequence[str] = field(array(STRING))
    transaction_states: Sequence[TransactionState] = field(array(TransactionState))
