"""ReachBroker, Ottla's own: a broker asks another one whether it can connect to a third."""

from wire.apis import ApiKey
from wire.schema import BOOL, INT16, INT32, Request, Response, field
from wire.types import BrokerId


class ReachBrokerRequest(Request, api=ApiKey.REACH_BROKER, versions="0", flexible="0+"):
    broker_id: BrokerId = field(INT32)


class ReachBrokerResponse(Response, api=ApiKey.REACH_BROKER, versions="0", flexible="0+"):
    error_code: int = field(INT16)
    is_reached: bool = field(BOOL)
