"""LeaveGroup: members leave without waiting for their session to expire.

Versions:
    1: throttle time.
    2: on a quota violation the answer comes before the throttling.
    3: several members at once, by member id and group instance id.
    4: compact lengths and tagged fields (flexible).
    5: reason (KIP-800).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT16, INT32, STRING, Request, Response, Struct, array, field


class MemberIdentity(Struct):
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, nullable="0+", default=None)
    reason: str | None = field(STRING, versions="5+", nullable="5+", default=None, ignorable=True)


class LeaveGroupRequest(Request, api=ApiKey.LEAVE_GROUP, versions="0-5", flexible="4+"):
    group_id: str = field(STRING)
    member_id: str = field(STRING, versions="0-2")
    members: Sequence[MemberIdentity] = field(array(MemberIdentity), versions="3+")


class MemberResponse(Struct):
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, nullable="0+")
    error_code: int = field(INT16)


class LeaveGroupResponse(Response, api=ApiKey.LEAVE_GROUP, versions="0-5", flexible="4+"):
    throttle_time_ms: int = field(INT32, versions="1+", ignorable=True)
    error_code: int = field(INT16)
    members: Sequence[MemberResponse] = field(array(MemberResponse), versions="3+")
