"""Heartbeat: a group member is alive.

Versions:
    1: throttle time.
    2: on a quota violation the answer comes before the throttling.
    3: group instance id (static membership).
    4: compact lengths and tagged fields (flexible).
"""

from wire.apis import ApiKey
from wire.schema import INT16, INT32, STRING, Request, Response, field
from wire.types import Generation


class HeartbeatRequest(Request, api=ApiKey.HEARTBEAT, versions="0-4", flexible="4+"):
    group_id: str = field(STRING)
    generation_id: Generation = field(INT32)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, versions="3+", nullable="3+", default=None)


class HeartbeatResponse(Response, api=ApiKey.HEARTBEAT, versions="0-4", flexible="4+"):
    throttle_time_ms: int = field(INT32, versions="1+", ignorable=True)
    error_code: int = field(INT16)
