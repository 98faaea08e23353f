"""DeleteGroups: remove groups that have no members, offsets included.

Versions:
    1: on a quota violation the answer comes before the throttling.
    2: compact lengths and tagged fields (flexible).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT16, INT32, STRING, Request, Response, Struct, array, field


class DeleteGroupsRequest(Request, api=ApiKey.DELETE_GROUPS, versions="0-2", flexible="2+"):
    groups_names: Sequence[str] = field(array(STRING))


class DeletableGroupResult(Struct):
    group_id: str = field(STRING)
    error_code: int = field(INT16)


class DeleteGroupsResponse(Response, api=ApiKey.DELETE_GROUPS, versions="0-2", flexible="2+"):
    throttle_time_ms: int = field(INT32)
    results: Sequence[DeletableGroupResult] = field(array(DeletableGroupResult))
