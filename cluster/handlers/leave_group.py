"""LeaveGroup 0 to 5: members leave; from version 3 on several at once, and static ones by their instance id alone."""

from typing import TYPE_CHECKING

from wire.apis import ApiKey
from wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasGroups
    from cluster.handlers.registry import Registry


def register(registry: "Registry") -> None:
    """Serve LeaveGroup."""
    registry.add(ApiKey.LEAVE_GROUP, 0, 5, begin)


def begin(call: "ApiCall[HasGroups]") -> None:
    """Remove the members, and answer for each."""
    request: LeaveGroupRequest = call.request
    single = call.version < 3
    members = [MemberIdentity(member_id=request.member_id)] if single else request.members
    error, errors = call.broker.groups.coordinator.leave(
        request.group_id, [(each.member_id, each.group_instance_id) for each in members]
    )
    if single:
        call.respond(LeaveGroupResponse(error_code=errors[0] if errors else error))
        return
    call.respond(
        LeaveGroupResponse(
            error_code=error,
            members=[
                MemberResponse(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    error_code=outcome,
                )
                for member, outcome in zip(members, errors, strict=False)
            ],
        )
    )
