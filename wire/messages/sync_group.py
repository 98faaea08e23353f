"""SyncGroup: the group leader hands in the assignment, every member receives its own.

Versions:
    1: throttle time.
    2: on a quota violation the answer comes before the throttling.
    3: group instance id (static membership).
    4: compact lengths and tagged fields (flexible).
    5: protocol type and name, checked against the group's (KIP-559).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import BYTES, INT16, INT32, STRING, Request, Response, Struct, array, field
from wire.types import Generation


class SyncGroupRequestAssignment(Struct):
    member_id: str = field(STRING)
    assignment: bytes = field(BYTES)


class SyncGroupRequest(Request, api=ApiKey.SYNC_GROUP, versions="0-5", flexible="4+"):
    group_id: str = field(STRING)
    generation_id: Generation = field(INT32)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, versions="3+", nullable="3+", default=None)
    protocol_type: str | None = field(STRING, versions="5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = field(STRING, versions="5+", nullable="5+", default=None, ignorable=True)
    assignments: Sequence[SyncGroupRequestAssignment] = field(array(SyncGroupRequestAssignment))


class SyncGroupResponse(Response, api=ApiKey.SYNC_GROUP, versions="0-5", flexible="4+"):
    throttle_time_ms: int = field(INT32, versions="1+", ignorable=True)
    error_code: int = field(INT16)
    protocol_type: str | None = field(STRING, versions="5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = field(STRING, versions="5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = field(BYTES)
