"""DescribeAcls 0 to 3: the access rules that a filter selects, by resource, from those that this broker applies."""

from typing import TYPE_CHECKING

from cluster.handlers.acl_messages import read_filter
from cluster.security.acl import PatternType, ResourcePattern
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import CallContext
    from cluster.handlers.registry import Registry

_PATTERNS_SINCE = 1


def register(registry: "Registry") -> None:
    """Serve DescribeAcls."""
    registry.add_async(ApiKey.DESCRIBE_ACLS, 0, 3, handle)


async def handle(call: "ApiCall[CallContext]") -> DescribeAclsResponse:
    """Answer from the rules in memory; version 0 knows LITERAL patterns only."""
    request: DescribeAclsRequest = call.request
    authorizer = call.broker.authorizer
    if authorizer is None:
        return DescribeAclsResponse(
            error_code=Error.SECURITY_DISABLED, error_message="this broker has no authorizer"
        )
    wanted = read_filter(request)
    by_pattern: dict[ResourcePattern, list[AclDescription]] = {}
    for binding in authorizer.table.find(wanted) if wanted is not None else ():
        pattern, rule = binding
        if call.version < _PATTERNS_SINCE and pattern.pattern_type is not PatternType.LITERAL:
            continue
        by_pattern.setdefault(pattern, []).append(
            AclDescription(
                principal=rule.principal,
                host=rule.host,
                operation=rule.operation,
                permission_type=rule.permission,
            )
        )
    return DescribeAclsResponse(
        error_message=None,
        resources=[
            DescribeAclsResource(
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
                acls=acls,
            )
            for pattern, acls in by_pattern.items()
        ],
    )
