"""ListGroups 0 to 5: the groups that this broker coordinates; from version 4 on those in given states, from 5 on of
given types, of which the classic is the only one here.
"""

from typing import TYPE_CHECKING

from cluster.coordinator.group_admin import CLASSIC
from wire.apis import ApiKey
from wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasGroups
    from cluster.handlers.registry import Registry


def register(registry: "Registry") -> None:
    """Serve ListGroups."""
    registry.add(ApiKey.LIST_GROUPS, 0, 5, begin)


def begin(call: "ApiCall[HasGroups]") -> None:
    """Answer from what the coordinator knows."""
    request: ListGroupsRequest = call.request
    error, groups = call.broker.groups.admin.list(request.states_filter, request.types_filter)
    call.respond(
        ListGroupsResponse(
            error_code=error,
            groups=[
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or "",
                    group_state=group.state.value,
                    group_type=CLASSIC,
                )
                for group in groups
            ],
        )
    )
