"""DeleteGroups 0 to 2: delete groups that have no members, with their offsets."""

from typing import TYPE_CHECKING

from wire.apis import ApiKey
from wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasGroups
    from cluster.handlers.registry import Registry


def register(registry: "Registry") -> None:
    """Serve DeleteGroups."""
    registry.add(ApiKey.DELETE_GROUPS, 0, 2, begin)


def begin(call: "ApiCall[HasGroups]") -> None:
    """Delete the groups and answer at once, once per group."""
    request: DeleteGroupsRequest = call.request
    admin = call.broker.groups.admin
    call.respond(
        DeleteGroupsResponse(
            results=[
                DeletableGroupResult(group_id=group_id, error_code=admin.delete(group_id))
                for group_id in dict.fromkeys(request.groups_names)
            ]
        )
    )
