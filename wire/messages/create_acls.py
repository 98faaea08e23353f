"""CreateAcls: add access rules.

Versions:
    1: pattern type (KIP-290); on a quota violation the answer comes before the throttling.
    2: compact lengths and tagged fields (flexible).
    3: user resources.
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT8, INT16, INT32, STRING, Request, Response, Struct, array, field


class AclCreation(Struct):
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    resource_pattern_type: int = field(INT8, versions="1+", default=3)
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


class CreateAclsRequest(Request, api=ApiKey.CREATE_ACLS, versions="0-3", flexible="2+"):
    creations: Sequence[AclCreation] = field(array(AclCreation))


class AclCreationResult(Struct):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")


class CreateAclsResponse(Response, api=ApiKey.CREATE_ACLS, versions="0-3", flexible="2+"):
    throttle_time_ms: int = field(INT32)
    results: Sequence[AclCreationResult] = field(array(AclCreationResult))
