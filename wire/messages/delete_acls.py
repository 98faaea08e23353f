"""DeleteAcls: remove the access rules that match filters.

Versions:
    1: pattern type (KIP-290); on a quota violation the answer comes before the throttling.
    2: compact lengths and tagged fields (flexible).
    3: user resources.
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT8, INT16, INT32, STRING, Request, Response, Struct, array, field


class DeleteAclsFilter(Struct):
    resource_type_filter: int = field(INT8)
    resource_name_filter: str | None = field(STRING, nullable="0+")
    pattern_type_filter: int = field(INT8, versions="1+", default=3)
    principal_filter: str | None = field(STRING, nullable="0+")
    host_filter: str | None = field(STRING, nullable="0+")
    operation: int = field(INT8)
    permission_type: int = field(INT8)


class DeleteAclsRequest(Request, api=ApiKey.DELETE_ACLS, versions="0-3", flexible="2+"):
    filters: Sequence[DeleteAclsFilter] = field(array(DeleteAclsFilter))


class DeleteAclsMatchingAcl(Struct):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    pattern_type: int = field(INT8, versions="1+", default=3)
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


class DeleteAclsFilterResult(Struct):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    matching_acls: Sequence[DeleteAclsMatchingAcl] = field(array(DeleteAclsMatchingAcl))


class DeleteAclsResponse(Response, api=ApiKey.DELETE_ACLS, versions="0-3", flexible="2+"):
    throttle_time_ms: int = field(INT32)
    filter_results: Sequence[DeleteAclsFilterResult] = field(array(DeleteAclsFilterResult))
