"""DescribeGroups: state, protocol and members of groups.

Versions:
    1: throttle time.
    2: on a quota violation the answer comes before the throttling.
    3: authorised operations.
    4: group instance ids.
    5: compact lengths and tagged fields (flexible).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import BOOL, BYTES, INT16, INT32, STRING, Request, Response, Struct, array, field


class DescribeGroupsRequest(Request, api=ApiKey.DESCRIBE_GROUPS, versions="0-5", flexible="5+"):
    groups: Sequence[str] = field(array(STRING))
    include_authorized_operations: bool = field(BOOL, versions="3+")


class DescribedGroupMember(Struct):
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, versions="4+", nullable="4+", default=None, ignorable=True)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    member_metadata: bytes = field(BYTES)
    member_assignment: bytes = field(BYTES)


class DescribedGroup(Struct):
    error_code: int = field(INT16)
    group_id: str = field(STRING)
    group_state: str = field(STRING)
    protocol_type: str = field(STRING)
    protocol_data: str = field(STRING)
    members: Sequence[DescribedGroupMember] = field(array(DescribedGroupMember))
    authorized_operations: int = field(INT32, versions="3+", default=-2147483648)


class DescribeGroupsResponse(Response, api=ApiKey.DESCRIBE_GROUPS, versions="0-5", flexible="5+"):
    throttle_time_ms: int = field(INT32, versions="1+", ignorable=True)
    groups: Sequence[DescribedGroup] = field(array(DescribedGroup))
