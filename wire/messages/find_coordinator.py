"""FindCoordinator: which broker coordinates a group or a transactional id.

Versions:
    1: key type; throttle time, error message.
    2: on a quota violation the answer comes before the throttling.
    3: compact lengths and tagged fields (flexible).
    4: several keys at once (KIP-699).
    5: the answer may be TRANSACTION_ABORTABLE (KIP-890).
    6: share groups (not served).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT8, INT16, INT32, STRING, Request, Response, Struct, array, field
from wire.types import BrokerId


class FindCoordinatorRequest(Request, api=ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+"):
    key: str = field(STRING, versions="0-3")
    key_type: int = field(INT8, versions="1+")
    coordinator_keys: Sequence[str] = field(array(STRING), versions="4+")


class Coordinator(Struct):
    key: str = field(STRING)
    node_id: BrokerId = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", ignorable=True)


class FindCoordinatorResponse(Response, api=ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+"):
    throttle_time_ms: int = field(INT32, versions="1+", ignorable=True)
    error_code: int = field(INT16, versions="0-3")
    error_message: str | None = field(STRING, versions="1-3", nullable="1-3", ignorable=True)
    node_id: BrokerId = field(INT32, versions="0-3")
    host: str = field(STRING, versions="0-3")
    port: int = field(INT32, versions="0-3")
    coordinators: Sequence[Coordinator] = field(array(Coordinator), versions="4+")
