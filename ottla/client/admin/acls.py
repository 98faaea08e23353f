"""Access rules: create, list and delete them. Any broker answers."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from ottla.client.admin.router import Router, raise_for
from wire.acl_codes import ANY_CODE, Operation, PatternType, Permission, ResourceType
from wire.messages import create_acls, delete_acls, describe_acls

_Code = TypeVar("_Code", ResourceType, PatternType, Operation, Permission)


class Acl(NamedTuple):
    """One rule and the resources that it applies to.

    Attributes:
        resource_type: The type of resource.
        name: Its name, or a prefix of names.
        pattern_type: LITERAL or PREFIXED.
        principal: `User:name`; `User:*` is everybody.
        host: The client's address, or `*`.
        operation: What is allowed or denied.
        permission: Which of the two.
    """

    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission


class AclSelection(NamedTuple):
    """A filter of rules; None matches any value.

    With `pattern_type` MATCH it selects the rules of every pattern that applies to a resource of this name.
    """

    resource_type: ResourceType | None = None
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation | None = None
    permission: Permission | None = None


class AclsAdmin:
    """The admin client's calls for access rules."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def create_acls(self, acls: Sequence[Acl]) -> None:
        """Create rules; creating one that exists succeeds.

        Raises:
            ClientError: for the first rule that was refused; others may have been created.
        """
        request = create_acls.CreateAclsRequest(
            creations=[
                create_acls.AclCreation(
                    resource_type=each.resource_type,
                    resource_name=each.name,
                    resource_pattern_type=each.pattern_type,
                    principal=each.principal,
                    host=each.host,
                    operation=each.operation,
                    permission_type=each.permission,
                )
                for each in acls
            ]
        )
        answer: create_acls.CreateAclsResponse = await self._router.ask_any(request)
        for acl, result in zip(acls, answer.results, strict=True):
            raise_for(result.error_code, result.error_message, f"the rule for {acl.principal}")

    async def list_acls(self, selection: AclSelection = AclSelection()) -> list[Acl]:  # noqa: B008 - immutable
        """Return the rules that match the selection, sorted.

        Raises:
            ClientError: the cluster refuses, or has no authorizer.
        """
        request = describe_acls.DescribeAclsRequest(
            resource_type_filter=_code(selection.resource_type),
            resource_name_filter=selection.name,
            pattern_type_filter=selection.pattern_type,
            principal_filter=selection.principal,
            host_filter=selection.host,
            operation=_code(selection.operation),
            permission_type=_code(selection.permission),
        )
        answer: describe_acls.DescribeAclsResponse = await self._router.ask_any(request)
        raise_for(answer.error_code, answer.error_message, "the access rules")
        return sorted(
            Acl(
                ResourceType(resource.resource_type),
                resource.resource_name,
                PatternType(resource.pattern_type),
                each.principal,
                each.host,
                Operation(each.operation),
                Permission(each.permission_type),
            )
            for resource in answer.resources
            for each in resource.acls
        )

    async def delete_acls(self, selections: Sequence[AclSelection]) -> list[Acl]:
        """Delete the rules that match any of the selections, and return them.

        Raises:
            ClientError: for the first that could not be deleted; others may have been deleted.
        """
        request = delete_acls.DeleteAclsRequest(
            filters=[
                delete_acls.DeleteAclsFilter(
                    resource_type_filter=_code(each.resource_type),
                    resource_name_filter=each.name,
                    pattern_type_filter=each.pattern_type,
                    principal_filter=each.principal,
                    host_filter=each.host,
                    operation=_code(each.operation),
                    permission_type=_code(each.permission),
                )
                for each in selections
            ]
        )
        answer: delete_acls.DeleteAclsResponse = await self._router.ask_any(request)
        deleted = []
        for result in answer.filter_results:
            raise_for(result.error_code, result.error_message, "the access rules")
            for each in result.matching_acls:
                raise_for(each.error_code, each.error_message, f"the rule for {each.principal}")
                deleted.append(
                    Acl(
                        ResourceType(each.resource_type),
                        each.resource_name,
                        PatternType(each.pattern_type),
                        each.principal,
                        each.host,
                        Operation(each.operation),
                        Permission(each.permission_type),
                    )
                )
        return sorted(deleted)


def _code(value: _Code | None) -> int:
    return ANY_CODE if value is None else int(value)
