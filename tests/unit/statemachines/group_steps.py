"""Requests of members, and groups brought into each state."""

from cluster.statemachines import group_join, group_requests
from cluster.statemachines.group import Group, GroupState
from cluster.statemachines.group_effects import AnswerJoin, AnswerSync, Effect, StoreAssignment
from cluster.statemachines.group_join import Join
from wire.errors import Error
from wire.types import Generation, WallMs

NOW = WallMs(1_000)
DELAY_MS = 3_000


def request(member: str = "", *, token: object = None, instance: str | None = None, **changes) -> Join:
    fields = {
        "token": token if token is not None else f"join-{member}",
        "member_id": member,
        "new_member_id": changes.pop("new", "fresh"),
        "instance_id": instance,
        "client_id": "client",
        "client_host": "/127.0.0.1",
        "rebalance_timeout_ms": 60_000,
        "session_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": (("range", b"sub"),),
    }
    return Join(**(fields | changes))


def join(group: Group, asked: Join, max_size: int = 1_000) -> list[Effect]:
    return group_join.join(group, asked, NOW, max_size=max_size, initial_delay_ms=DELAY_MS)


def answers(effects: list[Effect]) -> dict[object, Error]:
    return {e.token: e.answer.error for e in effects if isinstance(e, AnswerJoin | AnswerSync)}


def only(effects: list[Effect], kind: type) -> Effect:
    found = [e for e in effects if isinstance(e, kind)]
    assert len(found) == 1, effects
    return found[0]


def stable(*members: str, instances: bool = False) -> Group:
    """A stable group of these members, the first its leader."""
    group = Group("g")
    for member in members:
        asked = request(new=member, token=f"join-{member}", instance=f"i-{member}" if instances else None)
        effects = join(group, asked)
        if not instances:
            assert answers(effects) == {f"join-{member}": Error.MEMBER_ID_REQUIRED}
            join(group, request(member))
    formed = group_join.joins_timed_out(group, NOW, DELAY_MS)
    while group.state is GroupState.PREPARING_REBALANCE:
        formed = group_join.joins_timed_out(group, NOW, DELAY_MS)
    assert answers(formed) == {f"join-{m}": Error.NONE for m in members}
    for member in members:
        effects = sync(group, member)
    stored = only(sync(group, members[0]), StoreAssignment)
    effects = group_requests.assignment_stored(group, stored, Error.NONE, NOW, DELAY_MS)
    assert group.state is GroupState.STABLE
    assert set(answers(effects).values()) == {Error.NONE}
    return group


def sync(
    group: Group, member: str, instance: str | None = None, generation: int | None = None
) -> list[Effect]:
    return group_requests.sync(
        group,
        token=f"sync-{member}",
        member_id=member,
        instance_id=instance,
        generation=Generation(group.generation if generation is None else generation),
        protocol_type="consumer",
        protocol_name="range",
        assignments={m: f"part of {m}".encode() for m in group.members},
    )


def in_state(state: GroupState) -> Group:
    group = stable("a", "b")
    if state is GroupState.PREPARING_REBALANCE:
        join(group, request("a"))
    elif state is GroupState.COMPLETING_REBALANCE:
        join(group, request("a"))
        join(group, request("b"))
    elif state is GroupState.EMPTY:
        group = Group("g")
    elif state is GroupState.DEAD:
        group_requests.remove_group(group, NOW, Error.NOT_COORDINATOR)
    assert group.state is state
    return group
