"""CreateAcls 0 to 3: add access rules, each by itself; the rules of one resource are one write.

Any broker answers, once it applies the new rules itself; the others follow through ZooKeeper. Without an authorizer
the answer is SECURITY_DISABLED. Tools have to check whether an operation makes sense on a resource.
"""

from typing import TYPE_CHECKING

from cluster.handlers.acl_messages import is_filter_only, read_creation, refuse_unknown
from cluster.handlers.failures import failure_of
from cluster.security.authorizer import audit_logger, quoted
from cluster.zookeeper.client import ZooKeeperError
from wire.apis import ApiKey
from wire.errors import ApiError, Error
from wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasAcls
    from cluster.handlers.registry import Registry
    from cluster.security.acl import AclBinding


def register(registry: "Registry") -> None:
    """Serve CreateAcls."""
    registry.add_async(ApiKey.CREATE_ACLS, 0, 3, handle)


async def handle(call: "ApiCall[HasAcls]") -> CreateAclsResponse:
    """Check each rule, store the valid ones, and answer for each."""
    request: CreateAclsRequest = call.request
    acls = call.broker.acls
    if acls is None:
        return _all(request, Error.SECURITY_DISABLED, "this broker has no authorizer")
    for each in request.creations:
        refuse_unknown((each.resource_type, each.resource_pattern_type, each.operation, each.permission_type))
    if any(is_filter_only(creation) for creation in request.creations):
        return _all(
            request, Error.UNKNOWN_SERVER_ERROR, "ANY and MATCH select rules, they are no part of one"
        )
    results: list[AclCreationResult] = []
    bindings: dict[int, AclBinding] = {}
    for index, creation in enumerate(request.creations):
        try:
            bindings[index] = read_creation(creation)
        except ApiError as error:
            results.append(AclCreationResult(error_code=error.error, error_message=error.message))
        else:
            results.append(AclCreationResult(error_code=0, error_message=None))
    failures = await acls.create(list(bindings.values()))
    for (index, binding), failure in zip(bindings.items(), failures, strict=True):
        if failure is None:
            audit_logger.info(
                "principal=%s created rule=%s", quoted(str(call.principal)), quoted(describe_binding(binding))
            )
        elif isinstance(failure, ZooKeeperError):
            code, message = failure_of(failure)
            results[index] = AclCreationResult(error_code=code, error_message=message)
        else:
            results[index] = AclCreationResult(
                error_code=Error.UNKNOWN_SERVER_ERROR, error_message="the stored rules do not parse"
            )
    return CreateAclsResponse(results=results)


def describe_binding(binding: "AclBinding") -> str:
    """Return a binding as one line of the audit log shows it."""
    rule = binding.rule
    return (
        f"{rule.permission.name} {rule.principal} {rule.operation.name} from {rule.host} on {binding.pattern}"
    )


def _all(request: CreateAclsRequest, error: Error, message: str) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=error, error_message=message) for _ in request.creations]
    )
