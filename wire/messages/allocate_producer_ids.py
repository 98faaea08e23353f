"""AllocateProducerIds: a broker asks the controller for a block of producer ids (KIP-730)."""

from wire.apis import ApiKey
from wire.schema import INT16, INT32, INT64, Request, Response, field
from wire.types import BrokerEpoch, BrokerId, ProducerId


class AllocateProducerIdsRequest(Request, api=ApiKey.ALLOCATE_PRODUCER_IDS, versions="0", flexible="0+"):
    broker_id: BrokerId = field(INT32)
    broker_epoch: BrokerEpoch = field(INT64, default=-1)


class AllocateProducerIdsResponse(Response, api=ApiKey.ALLOCATE_PRODUCER_IDS, versions="0", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    producer_id_start: ProducerId = field(INT64)
    producer_id_len: int = field(INT32)
