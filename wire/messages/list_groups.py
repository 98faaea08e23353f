"""ListGroups: the groups that this broker coordinates.

Versions:
    1: throttle time.
    2: on a quota violation the answer comes before the throttling.
    3: compact lengths and tagged fields (flexible).
    4: filter by state; states (KIP-518).
    5: filter by type; types (KIP-848).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT16, INT32, STRING, Request, Response, Struct, array, field


class ListGroupsRequest(Request, api=ApiKey.LIST_GROUPS, versions="0-5", flexible="3+"):
    states_filter: Sequence[str] = field(array(STRING), versions="4+")
    types_filter: Sequence[str] = field(array(STRING), versions="5+")


class ListedGroup(Struct):
    group_id: str = field(STRING)
    protocol_type: str = field(STRING)
    group_state: str = field(STRING, versions="4+", ignorable=True)
    group_type: str = field(STRING, versions="5+", ignorable=True)


class ListGroupsResponse(Response, api=ApiKey.LIST_GROUPS, versions="0-5", flexible="3+"):
    throttle_time_ms: int = field(INT32, versions="1+", ignorable=True)
    error_code: int = field(INT16)
    groups: Sequence[ListedGroup] = field(array(ListedGroup))
