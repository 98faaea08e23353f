"""Groups, member by member: the answer to each request in each state, and the steps of a rebalance."""

import pytest

from cluster.statemachines import group_join, group_requests
from cluster.statemachines.group import (
    TRANSITIONS,
    AssignmentStored,
    GenerationFormed,
    Group,
    GroupEmptied,
    GroupRemoved,
    GroupState,
    RebalanceStarted,
    step,
)
from cluster.statemachines.group_effects import (
    AnswerJoin,
    AwaitJoins,
    StoreAssignment,
    StoreEmptyGroup,
    StoreStaticMember,
    WatchMember,
)
from cluster.statemachines.transition import IllegalTransition
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

EVENTS = (RebalanceStarted, GenerationFormed, GroupEmptied, AssignmentStored, GroupRemoved)


@pytest.mark.parametrize("state", GroupState)
@pytest.mark.parametrize("event", EVENTS)
def test_every_pair_is_in_the_table_or_refused_without_a_change(state, event) -> None:
    group = Group("g", state=state)
    if (state, event) in TRANSITIONS:
        assert step(state, event()) is TRANSITIONS[state, event]
        return
    with pytest.raises(IllegalTransition):
        group.apply(event(), NOW)
    assert group.state is state
    assert group.state_since is None


def test_the_first_rebalance_waits_for_more_members_and_longer_when_some_came() -> None:
    group = Group("g")
    effects = join(group, request(new="a", require_known_member_id=False))
    assert only(effects, AwaitJoins) == AwaitJoins(DELAY_MS)
    join(group, request(new="b", token="join-b", require_known_member_id=False))
    assert group_join.joins_timed_out(group, NOW, DELAY_MS) == [AwaitJoins(DELAY_MS)]
    effects = group_join.joins_timed_out(group, NOW, DELAY_MS)
    assert group.generation == 1
    assert group.state is GroupState.COMPLETING_REBALANCE
    joins = {e.token: e.answer for e in effects if isinstance(e, AnswerJoin)}
    assert [m.member_id for m in joins["join-"].members] == ["a", "b"]
    assert joins["join-b"].members == ()
    assert joins["join-b"].leader_id == "a"


def test_a_new_member_is_sent_back_with_an_id_and_forgotten_if_it_does_not_return() -> None:
    group = Group("g")
    effects = join(group, request(new="a", token="t"))
    assert answers(effects) == {"t": Error.MEMBER_ID_REQUIRED}
    assert only(effects, WatchMember) == WatchMember("a", 10_000)
    assert group.state is GroupState.EMPTY
    group_requests.member_silent(group, "a", NOW, DELAY_MS)
    assert answers(join(group, request("a", token="u"))) == {"u": Error.UNKNOWN_MEMBER_ID}


def test_a_whole_rebalance_hands_each_member_its_part() -> None:
    group = stable("a", "b")
    assert {m.member_id: m.assignment for m in group.members.values()} == {
        "a": b"part of a",
        "b": b"part of b",
    }
    assert answers(sync(group, "b")) == {"sync-b": Error.NONE}


def test_a_joining_member_makes_the_others_join_and_a_late_one_loses_its_place() -> None:
    group = stable("a", "b")
    join(group, request(new="c", token="x"))
    join(group, request("c"))
    assert group.state is GroupState.PREPARING_REBALANCE
    assert group_requests.heartbeat(group, "a", None, group.generation)[0] is Error.REBALANCE_IN_PROGRESS
    join(group, request("a"))
    effects = group_join.joins_timed_out(group, NOW, DELAY_MS)
    assert set(group.members) == {"a", "c"}
    assert answers(effects) == {"join-a": Error.NONE, "join-c": Error.NONE}


def test_the_leader_leaving_makes_another_the_leader_and_rebalances() -> None:
    group = stable("a", "b")
    error, _ = group_requests.leave(group, "a", None, NOW, DELAY_MS)
    assert error is Error.NONE
    assert group.state is GroupState.PREPARING_REBALANCE
    effects = join(group, request("b"))
    assert answers(effects) == {"join-b": Error.NONE}
    assert group.leader_id == "b"


def test_the_last_member_leaving_empties_the_group_and_says_so_in_the_log() -> None:
    group = stable("a")
    _, effects = group_requests.leave(group, "a", None, NOW, DELAY_MS)
    assert group.state is GroupState.EMPTY
    assert group.generation == 2
    assert only(effects, StoreEmptyGroup)
    assert group.state_since == NOW


def test_an_unchanged_follower_is_told_the_same_and_the_leader_rebalances() -> None:
    group = stable("a", "b")
    effects = join(group, request("b"))
    assert answers(effects) == {"join-b": Error.NONE}
    assert group.state is GroupState.STABLE
    join(group, request("a"))
    assert group.state is GroupState.PREPARING_REBALANCE


def test_an_assignment_that_cannot_be_stored_starts_again() -> None:
    group = stable("a")
    join(group, request("a"))
    stored = only(sync(group, "a"), StoreAssignment)
    effects = group_requests.assignment_stored(group, stored, Error.NOT_COORDINATOR, NOW, DELAY_MS)
    assert answers(effects) == {"sync-a": Error.NOT_COORDINATOR}
    assert group.state is GroupState.PREPARING_REBALANCE


def test_members_that_never_sync_are_removed() -> None:
    group = stable("a", "b")
    join(group, request("a"))
    join(group, request("b"))
    assert group.state is GroupState.COMPLETING_REBALANCE
    sync(group, "a")
    group_requests.syncs_timed_out(group, NOW, DELAY_MS)
    assert set(group.members) == {"a"}
    assert group.state is GroupState.PREPARING_REBALANCE


def test_silence_removes_a_member_but_not_one_that_waits_for_us() -> None:
    group = stable("a", "b")
    join(group, request("a"))
    assert group_requests.member_silent(group, "a", NOW, DELAY_MS) == []
    effects = group_requests.member_silent(group, "b", NOW, DELAY_MS)
    assert set(group.members) == {"a"}
    assert answers(effects) == {"join-a": Error.NONE}


def test_a_static_member_returns_under_a_new_id_without_a_rebalance() -> None:
    group = stable("a", "b", instances=True)
    effects = join(group, request(new="a2", token="back", instance="i-a"))
    stored = only(effects, StoreStaticMember)
    assert group.state is GroupState.STABLE
    assert group.leader_id == "a2"
    answer = only(group_join.static_member_stored(group, stored, Error.NONE), AnswerJoin).answer
    assert (answer.error, answer.generation, answer.skip_assignment) == (Error.NONE, group.generation, True)
    assert group_requests.heartbeat(group, "a", "i-a", group.generation)[0] is Error.FENCED_INSTANCE_ID
    assert group.members["a2"].assignment == b"part of a"


def test_a_static_member_that_cannot_be_stored_has_its_old_id_again() -> None:
    group = stable("a", instances=True)
    stored = only(join(group, request(new="a2", token="back", instance="i-a")), StoreStaticMember)
    effects = group_join.static_member_stored(group, stored, Error.NOT_COORDINATOR)
    assert answers(effects) == {"back": Error.NOT_COORDINATOR}
    assert list(group.members) == ["a"]
    assert group.static_members == {"i-a": "a"}


def test_static_members_that_do_not_join_keep_their_places() -> None:
    group = stable("a", "b", instances=True)
    error, _ = group_requests.leave(group, "", "i-a", NOW, DELAY_MS)
    assert error is Error.NONE
    assert group_join.joins_timed_out(group, NOW, DELAY_MS) == [AwaitJoins(60_000)]
    assert list(group.members) == ["b"]


def test_a_full_group_refuses_and_takes_known_members() -> None:
    group = stable("a", "b")
    assert answers(join(group, request(new="c", token="c"), max_size=2)) == {
        "c": Error.GROUP_MAX_SIZE_REACHED
    }
    assert answers(join(group, request("b"), max_size=2)) == {"join-b": Error.NONE}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"member": "nobody"}, Error.UNKNOWN_MEMBER_ID),
        ({"member": "a", "protocol_type": "connect"}, Error.INCONSISTENT_GROUP_PROTOCOL),
        ({"member": "a", "protocols": (("sticky", b""),)}, Error.INCONSISTENT_GROUP_PROTOCOL),
        ({"member": "a", "instance": "i"}, Error.UNKNOWN_MEMBER_ID),
    ],
)
def test_joins_that_are_refused(changes, error) -> None:
    group = stable("a", "b")
    asked = request(changes.pop("member"), token="t", **changes)
    assert answers(join(group, asked)) == {"t": error}
    assert group.state is GroupState.STABLE


@pytest.mark.parametrize(
    ("state", "on_sync", "on_heartbeat", "on_commit"),
    [
        (GroupState.EMPTY, Error.UNKNOWN_MEMBER_ID, Error.UNKNOWN_MEMBER_ID, Error.UNKNOWN_MEMBER_ID),
        (
            GroupState.PREPARING_REBALANCE,
            Error.REBALANCE_IN_PROGRESS,
            Error.REBALANCE_IN_PROGRESS,
            Error.NONE,
        ),
        (GroupState.COMPLETING_REBALANCE, None, Error.NONE, Error.REBALANCE_IN_PROGRESS),
        (GroupState.STABLE, Error.NONE, Error.NONE, Error.NONE),
        (GroupState.DEAD, *[Error.COORDINATOR_NOT_AVAILABLE] * 3),
    ],
)
def test_what_a_member_is_told_in_each_state(state, on_sync, on_heartbeat, on_commit) -> None:
    assert answers(sync(in_state(state), "b")) == ({} if on_sync is None else {"sync-b": on_sync})
    group = in_state(state)
    assert group_requests.heartbeat(group, "b", None, group.generation)[0] is on_heartbeat
    assert group_requests.check_commit(group, "b", None, group.generation)[0] is on_commit


def test_an_old_generation_is_refused_everywhere() -> None:
    group = stable("a")
    old = Generation(group.generation - 1)
    assert answers(sync(group, "a", generation=old)) == {"sync-a": Error.ILLEGAL_GENERATION}
    assert group_requests.heartbeat(group, "a", None, old)[0] is Error.ILLEGAL_GENERATION
    assert group_requests.check_commit(group, "a", None, old)[0] is Error.ILLEGAL_GENERATION


def test_a_group_without_members_takes_commits_of_clients_that_assign_by_hand() -> None:
    assert group_requests.check_commit(Group("g"), "", None, Generation(-1))[0] is Error.NONE
    assert group_requests.check_commit(stable("a"), "", None, Generation(-1))[0] is Error.UNKNOWN_MEMBER_ID


def test_removal_answers_everybody_who_waits() -> None:
    group = in_state(GroupState.COMPLETING_REBALANCE)
    sync(group, "b")
    effects = group_requests.remove_group(group, NOW, Error.NOT_COORDINATOR)
    assert answers(effects) == {"sync-b": Error.NOT_COORDINATOR}
