"""SyncGroup 0 to 5: the leader sends the assignment, and every member gets its part.

The answer waits until the leader's assignment is in the log. From version 5 on the protocol's type and name are
required, and must be the group's.
"""

from typing import TYPE_CHECKING

from cluster.statemachines.group_effects import SyncAnswer
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasGroups
    from cluster.handlers.registry import Registry


def register(registry: "Registry") -> None:
    """Serve SyncGroup."""
    registry.add(ApiKey.SYNC_GROUP, 0, 5, begin)


def begin(call: "ApiCall[HasGroups]") -> None:
    """Hand the request to the coordinator, which answers now or later."""
    request: SyncGroupRequest = call.request

    def answer(outcome: SyncAnswer) -> None:
        call.respond(
            SyncGroupResponse(
                error_code=outcome.error,
                protocol_type=outcome.protocol_type,
                protocol_name=outcome.protocol_name,
                assignment=outcome.assignment,
            )
        )

    if call.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        answer(SyncAnswer(Error.INCONSISTENT_GROUP_PROTOCOL))
        return
    call.broker.groups.coordinator.sync(
        request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={each.member_id: each.assignment for each in request.assignments},
        on_done=answer,
    )
