"""The answer to every request in every state of a group, as from Kafka 3.9's coordinator."""

import pytest

from cluster.statemachines import group_requests
from cluster.statemachines.group import Group, GroupState
from cluster.statemachines.group_effects import AnswerJoin
from tests.unit.statemachines.group_steps import (
    DELAY_MS,
    NOW,
    answers,
    in_state,
    join,
    only,
    request,
    stable,
    sync,
)
from wire.errors import Error
from wire.types import Generation

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = GroupState
PARKED = None
CHANGED = (("range", b"other"), ("sticky", b"sub"))


def answer_to(group: Group, asked) -> Error | None:
    """Return the immediate answer to a JoinGroup; None if it is parked."""
    return answers(join(group, asked)).get(asked.token, PARKED)


@pytest.mark.parametrize(
    ("state", "fresh", "error", "after"),
    [
        (EMPTY, {}, Error.MEMBER_ID_REQUIRED, EMPTY),
        (EMPTY, {"require_known_member_id": False}, PARKED, PREPARING),
        (EMPTY, {"instance": "i", "require_known_member_id": False}, PARKED, PREPARING),
        (EMPTY, {"member": "b"}, Error.UNKNOWN_MEMBER_ID, EMPTY),
        (EMPTY, {"protocols": ()}, Error.INCONSISTENT_GROUP_PROTOCOL, EMPTY),
        (EMPTY, {"protocol_type": ""}, Error.INCONSISTENT_GROUP_PROTOCOL, EMPTY),
        (PREPARING, {}, Error.MEMBER_ID_REQUIRED, PREPARING),
        (PREPARING, {"require_known_member_id": False}, PARKED, PREPARING),
        # b was the last member that the rebalance waited for.
        (PREPARING, {"member": "b"}, Error.NONE, COMPLETING),
        (PREPARING, {"member": "b", "protocols": CHANGED}, Error.NONE, COMPLETING),
        (PREPARING, {"member": "c"}, Error.UNKNOWN_MEMBER_ID, PREPARING),
        (COMPLETING, {}, Error.MEMBER_ID_REQUIRED, COMPLETING),
        (COMPLETING, {"require_known_member_id": False}, PARKED, PREPARING),
        (COMPLETING, {"member": "a"}, Error.NONE, COMPLETING),
        (COMPLETING, {"member": "b"}, Error.NONE, COMPLETING),
        (COMPLETING, {"member": "b", "protocols": CHANGED}, PARKED, PREPARING),
        (COMPLETING, {"member": "c"}, Error.UNKNOWN_MEMBER_ID, COMPLETING),
        (STABLE, {}, Error.MEMBER_ID_REQUIRED, STABLE),
        (STABLE, {"require_known_member_id": False}, PARKED, PREPARING),
        (STABLE, {"member": "a"}, PARKED, PREPARING),
        (STABLE, {"member": "b"}, Error.NONE, STABLE),
        (STABLE, {"member": "b", "protocols": CHANGED}, PARKED, PREPARING),
        (STABLE, {"member": "c"}, Error.UNKNOWN_MEMBER_ID, STABLE),
        (DEAD, {}, Error.COORDINATOR_NOT_AVAILABLE, DEAD),
        (DEAD, {"member": "b"}, Error.COORDINATOR_NOT_AVAILABLE, DEAD),
        (DEAD, {"instance": "i"}, Error.COORDINATOR_NOT_AVAILABLE, DEAD),
    ],
)
def test_a_join(state: GroupState, fresh: dict[str, object], error: Error | None, after: GroupState) -> None:
    group = in_state(state)
    changes = dict(fresh)
    asked = request(changes.pop("member", ""), token="asked", **changes)
    assert answer_to(group, asked) is error
    assert group.state is after


def test_joining_again_before_the_generation_is_assigned_replays_it_whole_for_the_leader() -> None:
    group = in_state(COMPLETING)
    error = {name: only(join(group, request(name)), AnswerJoin).answer for name in ("a", "b")}
    assert [m.member_id for m in error["a"].members] == ["a", "b"]
    assert error["b"].members == ()
    assert {answer.generation for answer in error.values()} == {group.generation}


@pytest.mark.parametrize(
    ("state", "error", "after"),
    [
        (EMPTY, Error.UNKNOWN_MEMBER_ID, EMPTY),
        # a has joined already: without b nobody is missing.
        (PREPARING, Error.NONE, COMPLETING),
        (COMPLETING, Error.NONE, PREPARING),
        (STABLE, Error.NONE, PREPARING),
        (DEAD, Error.COORDINATOR_NOT_AVAILABLE, DEAD),
    ],
)
def test_a_leave(state: GroupState, error: Error, after: GroupState) -> None:
    group = in_state(state)
    assert group_requests.leave(group, "b", None, NOW, DELAY_MS)[0] is error
    assert group.state is after
    assert "b" not in group.members or state is DEAD


@pytest.mark.parametrize("state", [PREPARING, COMPLETING, STABLE])
def test_silence_is_like_a_leave(state: GroupState) -> None:
    group, other = in_state(state), in_state(state)
    group_requests.member_silent(group, "b", NOW, DELAY_MS)
    group_requests.leave(other, "b", None, NOW, DELAY_MS)
    assert (group.state, list(group.members), group.generation) == (
        other.state,
        list(other.members),
        other.generation,
    )


@pytest.mark.parametrize(
    ("state", "of_member", "of_nobody", "of_old_clients"),
    [
        (EMPTY, Error.UNKNOWN_MEMBER_ID, Error.NONE, Error.NONE),
        (PREPARING, Error.NONE, Error.UNKNOWN_MEMBER_ID, Error.NONE),
        (COMPLETING, Error.NONE, Error.UNKNOWN_MEMBER_ID, Error.NONE),
        (STABLE, Error.NONE, Error.UNKNOWN_MEMBER_ID, Error.NONE),
        (DEAD, *[Error.COORDINATOR_NOT_AVAILABLE] * 3),
    ],
)
def test_a_commit_in_a_transaction(
    state: GroupState, of_member: Error, of_nobody: Error, of_old_clients: Error
) -> None:
    group = in_state(state)

    def error(member: str, generation: int) -> Error:
        checked = group_requests.check_commit(group, member, None, Generation(generation), transactional=True)
        return checked[0]

    assert error("b", group.generation) is of_member
    assert error("nobody", -1) is of_nobody
    assert error("", -1) is of_old_clients


def test_who_has_taken_a_static_members_place_fences_it_everywhere() -> None:
    group = stable("a", "b", instances=True)
    join(group, request(new="a2", token="back", instance="i-a"))
    generation = group.generation
    fenced = Error.FENCED_INSTANCE_ID
    assert answers(join(group, request("a", instance="i-a"))) == {"join-a": fenced}
    assert answers(sync(group, "a", "i-a")) == {"sync-a": fenced}
    assert group_requests.heartbeat(group, "a", "i-a", generation)[0] is fenced
    assert group_requests.check_commit(group, "a", "i-a", generation)[0] is fenced
    assert group_requests.check_commit(group, "a", "i-a", generation, transactional=True)[0] is fenced
    assert group_requests.leave(group, "a", "i-a", NOW, DELAY_MS)[0] is fenced
    # Fencing comes before the generation, and an instance that is not there is no member.
    assert group_requests.heartbeat(group, "a", "i-a", Generation(99))[0] is fenced
    assert group_requests.heartbeat(group, "a", "i-none", generation)[0] is Error.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("state", [PREPARING, COMPLETING])
def test_a_static_member_that_returns_during_a_rebalance_fences_what_its_former_self_waits_for(
    state: GroupState,
) -> None:
    group = stable("a", "b", instances=True)
    join(group, request("a", instance="i-a"))
    if state is COMPLETING:
        join(group, request("b", instance="i-b"))
        sync(group, "b", "i-b")
    assert group.state is state
    waiting, instance = ("join-a", "i-a") if state is PREPARING else ("sync-b", "i-b")
    effects = join(group, request(new="new", token="back", instance=instance))
    assert answers(effects)[waiting] is Error.FENCED_INSTANCE_ID
    assert group.state is PREPARING
    assert group.static_members[instance] == "new"
