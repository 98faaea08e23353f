"""JoinGroup: a consumer enters a group, and waits for the generation that includes it.

Versions:
    1: rebalance timeout of its own.
    2: throttle time.
    3: on a quota violation the answer comes before the throttling.
    4: a new member is refused with an id to join again with (KIP-394).
    5: group instance id (static membership).
    6: compact lengths and tagged fields (flexible).
    7: the answer names the protocol type; no protocol is None (KIP-559).
    8: reason (KIP-800).
    9: skip_assignment: a static leader returned, nothing changes.
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import BOOL, BYTES, INT16, INT32, STRING, Request, Response, Struct, array, field
from wire.types import Generation


class JoinGroupRequestProtocol(Struct):
    name: str = field(STRING)
    metadata: bytes = field(BYTES)


class JoinGroupRequest(Request, api=ApiKey.JOIN_GROUP, versions="0-9", flexible="6+"):
    group_id: str = field(STRING)
    session_timeout_ms: int = field(INT32)
    rebalance_timeout_ms: int = field(INT32, versions="1+", default=-1, ignorable=True)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, versions="5+", nullable="5+", default=None)
    protocol_type: str = field(STRING)
    protocols: Sequence[JoinGroupRequestProtocol] = field(array(JoinGroupRequestProtocol))
    reason: str | None = field(STRING, versions="8+", nullable="8+", default=None, ignorable=True)


class JoinGroupResponseMember(Struct):
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, versions="5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes = field(BYTES)


class JoinGroupResponse(Response, api=ApiKey.JOIN_GROUP, versions="0-9", flexible="6+"):
    throttle_time_ms: int = field(INT32, versions="2+", ignorable=True)
    error_code: int = field(INT16)
    generation_id: Generation = field(INT32, default=-1)
    protocol_type: str | None = field(STRING, versions="7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = field(STRING, nullable="7+")
    leader: str = field(STRING)
    skip_assignment: bool = field(BOOL, versions="9+")
    member_id: str = field(STRING)
    members: Sequence[JoinGroupResponseMember] = field(array(JoinGroupResponseMember))
