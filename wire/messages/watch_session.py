"""WatchSession, Ottla's own: a broker hands the key of its ZooKeeper session to another one, or takes it back.

Sent only to brokers that list the API in ApiVersions; they list it only to clients that name themselves Ottla brokers.
"""

from wire.apis import ApiKey
from wire.schema import BYTES, INT16, INT32, INT64, Request, Response, field
from wire.types import BrokerEpoch, BrokerId


class WatchSessionRequest(Request, api=ApiKey.WATCH_SESSION, versions="0", flexible="0+"):
    broker_id: BrokerId = field(INT32)
    broker_epoch: BrokerEpoch = field(INT64)
    session_id: int = field(INT64)
    password: bytes = field(BYTES, sensitive=True)
    timeout_ms: int = field(INT32)


class WatchSessionResponse(Response, api=ApiKey.WATCH_SESSION, versions="0", flexible="0+"):
    error_code: int = field(INT16)
