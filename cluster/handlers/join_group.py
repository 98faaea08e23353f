"""JoinGroup 0 to 9: become, or stay, a member of a group.

The answer comes when the join's rebalance has gathered its members; until then the connection's later requests are
begun, but their answers wait behind it, as in Kafka. Version 4 gives a new member its id and sends it back (KIP-394), 5
knows static members, 9 lets a returning static leader skip the assignment.
"""

from typing import TYPE_CHECKING

from cluster.statemachines.group_effects import JoinAnswer
from cluster.statemachines.group_join import Join
from wire.apis import ApiKey
from wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasGroups
    from cluster.handlers.registry import Registry


def register(registry: "Registry") -> None:
    """Serve JoinGroup."""
    registry.add(ApiKey.JOIN_GROUP, 0, 9, begin)


def begin(call: "ApiCall[HasGroups]") -> None:
    """Hand the member to the coordinator, which answers now or later."""
    request: JoinGroupRequest = call.request
    instance_id = request.group_instance_id

    def answer(outcome: JoinAnswer) -> None:
        call.respond(_response(call.version, outcome))

    call.broker.groups.coordinator.join(
        request.group_id,
        Join(
            token=None,
            member_id=request.member_id,
            new_member_id="",
            instance_id=instance_id,
            client_id=call.header.client_id or "",
            client_host=f"/{call.slot.connection.peer_host}",
            # The oldest version has only one timeout, which serves as both.
            rebalance_timeout_ms=(
                request.session_timeout_ms if call.version == 0 else request.rebalance_timeout_ms
            ),
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=tuple((each.name, each.metadata) for each in request.protocols),
            require_known_member_id=call.version >= 4 and instance_id is None,
            skip_supported=call.version >= 9,
        ),
        answer,
    )


def _response(version: int, outcome: JoinAnswer) -> JoinGroupResponse:
    name = outcome.protocol_name
    return JoinGroupResponse(
        error_code=outcome.error,
        generation_id=outcome.generation,
        protocol_type=outcome.protocol_type,
        protocol_name="" if name is None and version < 7 else name,
        leader=outcome.leader_id,
        skip_assignment=outcome.skip_assignment,
        member_id=outcome.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=each.member_id, group_instance_id=each.instance_id, metadata=each.metadata
            )
            for each in outcome.members
        ],
    )
