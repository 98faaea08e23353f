"""The shell around the group state machine: what is written before the answer, and what happens as time passes."""

import pytest
import trio

from cluster.statemachines.group import GroupState
from tests.unit.coordinator.in_memory import run_shell
from wire.errors import Error
from wire.types import Generation


def errors(answers) -> list[Error]:
    return [answer.error for answer in answers]


def test_a_group_forms_is_written_and_gets_its_assignment() -> None:
    async def body(shell) -> None:
        shell.log.holds = True
        await shell.stable("a", "b")
        # The assignment is handed out only when the log has it.
        assert shell.syncs == {"a": [], "b": []}
        assert shell.group().group.state is GroupState.COMPLETING_REBALANCE
        shell.log.complete()
        assert [answer.assignment for answer in shell.syncs["b"]] == [b"part of b"]
        assert shell.group().group.state is GroupState.STABLE
        assert shell.group().stored.value is not None

    run_shell(body)


@pytest.mark.parametrize(
    ("failure", "answered"),
    [
        (Error.NOT_LEADER_OR_FOLLOWER, Error.NOT_COORDINATOR),
        (Error.NOT_ENOUGH_REPLICAS, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.REQUEST_TIMED_OUT, Error.REBALANCE_IN_PROGRESS),
        (Error.MESSAGE_TOO_LARGE, Error.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_assignment_that_cannot_be_written_starts_another_rebalance(failure, answered) -> None:
    async def body(shell) -> None:
        shell.log.holds = True
        await shell.stable("a", "b")
        shell.log.complete(failure)
        assert errors(shell.syncs["a"]) == errors(shell.syncs["b"]) == [answered]
        assert shell.group().group.state is GroupState.PREPARING_REBALANCE

    run_shell(body)


def test_a_silent_member_is_removed_after_its_session_and_one_that_is_heard_of_is_not() -> None:
    async def body(shell) -> None:
        await shell.stable("a", "b")
        a = shell.joins["a"][-1]
        for _ in range(3):
            await trio.sleep(5)
            shell.coordinator.heartbeat("g", a.member_id, None, a.generation)
        assert set(shell.group().group.members) == {a.member_id}
        assert shell.group().group.state is GroupState.PREPARING_REBALANCE
        assert (
            shell.coordinator.heartbeat("g", a.member_id, None, a.generation) is Error.REBALANCE_IN_PROGRESS
        )
        await trio.sleep(10.1)
        assert shell.group().group.state is GroupState.EMPTY
        assert len(shell.timer) == 0 or all(not timer.is_pending for timer in shell.group().timers())

    run_shell(body)


def test_a_member_that_waits_for_an_answer_owes_no_heartbeat() -> None:
    async def body(shell) -> None:
        await shell.stable("a", "b")
        b = shell.joins["b"][-1]
        shell.join("a", shell.joins["a"][-1].member_id)
        # b goes on sending heartbeats and does not join; a has waited longer than its session.
        for _ in range(5):
            await trio.sleep(9)
            assert shell.coordinator.heartbeat("g", b.member_id, None, b.generation) is (
                Error.REBALANCE_IN_PROGRESS
            )
        await trio.sleep(16)
        assert errors(shell.joins["a"]) == [Error.NONE, Error.NONE]
        assert set(shell.group().group.members) == {shell.joins["a"][-1].member_id}

    run_shell(body)


def test_members_that_never_sync_are_removed_after_the_rebalance_timeout() -> None:
    async def body(shell) -> None:
        shell.join("a")
        shell.join("b")
        await trio.sleep(6.1)
        a, b = shell.joins["a"][-1], shell.joins["b"][-1]
        shell.sync("a", {a.member_id: b"all"})
        for _ in range(7):
            await trio.sleep(9)
            for member in (a, b):
                shell.coordinator.heartbeat("g", member.member_id, None, member.generation)
        assert set(shell.group().group.members) == {a.member_id}

    run_shell(body)


def test_a_session_timeout_out_of_bounds_and_an_empty_group_id_are_refused() -> None:
    async def body(shell) -> None:
        shell.join("a", session_timeout_ms=5_999)
        shell.join("a", session_timeout_ms=30_001)
        shell.join("a", group_id="")
        shell.join("a", member_id="unknown")
        assert errors(shell.joins["a"]) == [
            Error.INVALID_SESSION_TIMEOUT,
            Error.INVALID_SESSION_TIMEOUT,
            Error.INVALID_GROUP_ID,
            Error.UNKNOWN_MEMBER_ID,
        ]
        assert shell.hosted.find("g") is None

    run_shell(body, session_timeout_max_ms=30_000)


def test_a_full_group_takes_nobody_in_and_goes_on_without_who_is_refused() -> None:
    async def body(shell) -> None:
        await shell.stable("a", "b")
        shell.join("c")
        assert errors(shell.joins["c"]) == [Error.GROUP_MAX_SIZE_REACHED]
        assert shell.joins["c"][-1].member_id == ""
        assert shell.group().group.state is GroupState.STABLE

    run_shell(body, max_size=2)


def test_while_a_partition_loads_members_count_as_alive_and_all_else_waits() -> None:
    async def body(shell) -> None:
        shell.hosted.led.get(0).is_loading = True
        assert shell.coordinator.heartbeat("g", "a", None, Generation(1)) is Error.NONE
        shell.join("a", "a")
        assert errors(shell.joins["a"]) == [Error.COORDINATOR_LOAD_IN_PROGRESS]
        shell.sync("a")
        assert errors(shell.syncs["a"]) == [Error.REBALANCE_IN_PROGRESS]
        assert shell.coordinator.leave("g", [("a", None)]) == (Error.COORDINATOR_LOAD_IN_PROGRESS, [])
        assert shell.commit(1) == [Error.COORDINATOR_LOAD_IN_PROGRESS]
        assert shell.position() is Error.COORDINATOR_LOAD_IN_PROGRESS

    run_shell(body)


def test_nothing_is_answered_from_a_partition_that_we_do_not_lead_any_more() -> None:
    async def body(shell) -> None:
        await shell.stable("a")
        shell.commit(5, generation=Generation(1), member_id=shell.joins["a"][-1].member_id)
        assert shell.position() == 5
        shell.leads = False
        assert shell.position() is Error.NOT_COORDINATOR
        assert shell.coordinator.heartbeat("g", "a", None, Generation(1)) is Error.NOT_COORDINATOR

    run_shell(body)


def test_leaving_answers_for_each_member() -> None:
    async def body(shell) -> None:
        await shell.stable("a", "b")
        a = shell.joins["a"][-1]
        assert shell.coordinator.leave("g", [(a.member_id, None), ("who", None), ("", "static")]) == (
            Error.NONE,
            [Error.NONE, Error.UNKNOWN_MEMBER_ID, Error.UNKNOWN_MEMBER_ID],
        )
        assert shell.coordinator.leave("none", [("a", None)]) == (Error.NONE, [Error.UNKNOWN_MEMBER_ID])

    run_shell(body)


def test_a_static_member_that_returns_takes_its_place_once_it_is_written() -> None:
    async def body(shell) -> None:
        shell.join("a", instance_id="i")
        await trio.sleep(6.1)
        first = shell.joins["a"][-1]
        shell.coordinator.sync(
            "g",
            member_id=first.member_id,
            instance_id="i",
            generation=first.generation,
            protocol_type=None,
            protocol_name=None,
            assignments={first.member_id: b"all"},
            on_done=shell.syncs.setdefault("a", []).append,
        )
        shell.log.holds = True
        shell.join("a", instance_id="i")
        assert len(shell.joins["a"]) == 1
        shell.log.complete()
        again = shell.joins["a"][-1]
        assert (again.error, again.generation, again.skip_assignment) == (Error.NONE, first.generation, True)
        assert again.member_id != first.member_id
        assert (
            shell.coordinator.heartbeat("g", first.member_id, "i", first.generation)
            is Error.FENCED_INSTANCE_ID
        )

    run_shell(body)
