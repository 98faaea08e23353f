"""DescribeAcls: list access rules that match a filter.

Versions:
    1: pattern type (KIP-290); on a quota violation the answer comes before the throttling.
    2: compact lengths and tagged fields (flexible).
    3: user resources.
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT8, INT16, INT32, STRING, Request, Response, Struct, array, field


class DescribeAclsRequest(Request, api=ApiKey.DESCRIBE_ACLS, versions="0-3", flexible="2+"):
    resource_type_filter: int = field(INT8)
    resource_name_filter: str | None = field(STRING, nullable="0+")
    pattern_type_filter: int = field(INT8, versions="1+", default=3)
    principal_filter: str | None = field(STRING, nullable="0+")
    host_filter: str | None = field(STRING, nullable="0+")
    operation: int = field(INT8)
    permission_type: int = field(INT8)


class AclDescription(Struct):
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


class DescribeAclsResource(Struct):
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    pattern_type: int = field(INT8, versions="1+", default=3)
    acls: Sequence[AclDescription] = field(array(AclDescription))


class DescribeAclsResponse(Response, api=ApiKey.DESCRIBE_ACLS, versions="0-3", flexible="2+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    resources: Sequence[DescribeAclsResource] = field(array(DescribeAclsResource))
