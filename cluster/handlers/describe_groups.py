"""DescribeGroups 0 to 5: state, protocol and members of groups; one that does not exist is described as dead."""

from typing import TYPE_CHECKING

from cluster.handlers.authorized_operations import GROUP_OPERATIONS, NOT_ASKED
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasGroups
    from cluster.handlers.registry import Registry


def register(registry: "Registry") -> None:
    """Serve DescribeGroups."""
    registry.add(ApiKey.DESCRIBE_GROUPS, 0, 5, begin)


def begin(call: "ApiCall[HasGroups]") -> None:
    """Answer from what the coordinator knows."""
    request: DescribeGroupsRequest = call.request
    call.respond(DescribeGroupsResponse(groups=[_describe(call, group_id) for group_id in request.groups]))


def _describe(call: "ApiCall[HasGroups]", group_id: str) -> DescribedGroup:
    error, group = call.broker.groups.admin.describe(group_id)
    shows_operations = call.request.include_authorized_operations and error is Error.NONE
    return DescribedGroup(
        error_code=error,
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=[
            DescribedGroupMember(
                member_id=each.member.member_id,
                group_instance_id=each.member.instance_id,
                client_id=each.member.client_id,
                client_host=each.member.client_host,
                member_metadata=each.metadata,
                member_assignment=each.assignment,
            )
            for each in group.members
        ],
        authorized_operations=GROUP_OPERATIONS if shows_operations else NOT_ASKED,
    )
