"""EndTxn: commit or abort a transaction.

Versions:
    1: on a quota violation the answer comes before the throttling.
    2: the answer may be PRODUCER_FENCED.
    3: compact lengths and tagged fields (flexible).
    4: the answer may be TRANSACTION_ABORTABLE (KIP-890).
"""

from wire.apis import ApiKey
from wire.schema import BOOL, INT16, INT32, INT64, STRING, Request, Response, field
from wire.types import ProducerEpoch, ProducerId


class EndTxnRequest(Request, api=ApiKey.END_TXN, versions="0-4", flexible="3+"):
    transactional_id: str = field(STRING)
    producer_id: ProducerId = field(INT64)
    producer_epoch: ProducerEpoch = field(INT16)
    committed: bool = field(BOOL)


class EndTxnResponse(Response, api=ApiKey.END_TXN, versions="0-4", flexible="3+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
