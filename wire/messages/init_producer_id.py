"""InitProducerId: hand out a producer id and epoch, fencing earlier users of a transactional id.

Versions:
    1: on a quota violation the answer comes before the throttling.
    2: compact lengths and tagged fields (flexible).
    3: a producer may ask to continue with its id at a new epoch (KIP-360).
    4: the answer may be PRODUCER_FENCED.
    5: the answer may be TRANSACTION_ABORTABLE (KIP-890).
"""

from wire.apis import ApiKey
from wire.schema import INT16, INT32, INT64, STRING, Request, Response, field
from wire.types import ProducerEpoch, ProducerId


class InitProducerIdRequest(Request, api=ApiKey.INIT_PRODUCER_ID, versions="0-5", flexible="2+"):
    transactional_id: str | None = field(STRING, nullable="0+")
    transaction_timeout_ms: int = field(INT32)
    producer_id: ProducerId = field(INT64, versions="3+", default=-1)
    producer_epoch: ProducerEpoch = field(INT16, versions="3+", default=-1)


class InitProducerIdResponse(Response, api=ApiKey.INIT_PRODUCER_ID, versions="0-5", flexible="2+"):
    throttle_time_ms: int = field(INT32, ignorable=True)
    error_code: int = field(INT16)
    producer_id: ProducerId = field(INT64, default=-1)
    producer_epoch: ProducerEpoch = field(INT16)
