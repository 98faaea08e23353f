"""DeleteAcls 0 to 3: delete the access rules that filters select, and answer which those were.

Filters that name a resource also find rules that have not reached this broker. A rule that several filters select is
answered under the first.
"""

from typing import TYPE_CHECKING

from cluster.handlers.acl_messages import read_filter
from cluster.handlers.create_acls import describe_binding
from cluster.handlers.failures import failure_of
from cluster.security.acl import AclBinding, AclFilter
from cluster.security.authorizer import audit_logger, quoted
from cluster.zookeeper.client import ZooKeeperError
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasAcls
    from cluster.handlers.registry import Registry


def register(registry: "Registry") -> None:
    """Serve DeleteAcls."""
    registry.add_async(ApiKey.DELETE_ACLS, 0, 3, handle)


async def handle(call: "ApiCall[HasAcls]") -> DeleteAclsResponse:
    """Delete the rules that each filter selects."""
    request: DeleteAclsRequest = call.request
    acls = call.broker.acls
    if acls is None:
        return DeleteAclsResponse(
            filter_results=[
                DeleteAclsFilterResult(
                    error_code=Error.SECURITY_DISABLED, error_message="this broker has no authorizer"
                )
                for _ in request.filters
            ]
        )
    read = [read_filter(each) for each in request.filters]
    places: list[int] = []
    filters: list[AclFilter] = []
    for index, each in enumerate(read):
        if each is not None:
            places.append(index)
            filters.append(each)
    results = [DeleteAclsFilterResult(error_code=0, error_message=None, matching_acls=[]) for _ in read]
    for index, deleted in zip(places, await acls.delete(filters), strict=True):
        results[index] = DeleteAclsFilterResult(
            error_code=0,
            error_message=None,
            matching_acls=[_matching(binding, failure) for binding, failure in deleted.items()],
        )
        for binding, failure in deleted.items():
            if failure is None:
                audit_logger.info(
                    "principal=%s deleted rule=%s",
                    quoted(str(call.principal)),
                    quoted(describe_binding(binding)),
                )
    return DeleteAclsResponse(filter_results=results)


def _matching(binding: AclBinding, failure: Exception | None) -> DeleteAclsMatchingAcl:
    code, message = 0, None
    if isinstance(failure, ZooKeeperError):
        error, message = failure_of(failure)
        code = int(error)
    elif failure is not None:
        code, message = int(Error.UNKNOWN_SERVER_ERROR), "the stored rules do not parse"
    pattern, rule = binding
    return DeleteAclsMatchingAcl(
        error_code=code,
        error_message=message,
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission,
    )
