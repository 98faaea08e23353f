"""What a heartbeat costs, counted in calls: the same among a hundred thousand members as among ten."""

import gc
import sys
from collections.abc import Callable

import pytest
import trio

from cluster.statemachines.group import GroupState, Member
from tests.unit.coordinator.in_memory import run_shell
from timing import timing_wheel
from wire.errors import Error
from wire.types import Generation

CALLS_MAX = 40
SESSION_MS = 45_000
HEARTBEAT_MS = 3_000


def calls_of(do: Callable[[], object]) -> int:
    """Count the calls that a function makes, of Python functions and of C functions."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    # A garbage collection during the call would add the calls of its callbacks.
    gc.collect()
    gc.disable()
    sys.setprofile(note)
    try:
        do()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def stable_group(shell, members: int) -> Generation:
    """Make a stable group of `members` members, each with a session timer."""
    hosted = shell.hosted.find_or_make("g")
    group = hosted.group
    for number in range(members):
        member = Member(f"m{number}", None, "client", "/host", SESSION_MS, SESSION_MS, (("range", b""),))
        group.add(member, None)
        shell.coordinator.watch(hosted, member.member_id, SESSION_MS)
    group.state, group.protocol_type, group.protocol_name = GroupState.STABLE, "consumer", "range"
    return group.generation


def test_a_heartbeat_costs_the_same_among_very_many_members() -> None:
    counts: dict[int, int] = {}

    for members in (10, 100_000):

        async def body(shell, members: int = members) -> None:
            generation = stable_group(shell, members)
            await trio.sleep(1)
            counts[members] = calls_of(lambda: shell.coordinator.heartbeat("g", "m7", None, generation))
            assert len(shell.timer) == members

        run_shell(body)
    # The first heartbeat of a tick opens its bucket, which costs a few calls more.
    assert counts[100_000] <= counts[10] <= CALLS_MAX


def test_timers_that_are_put_off_in_time_are_never_touched_by_the_wheel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    members, rounds = 2_000, 20
    pushed = []
    push = timing_wheel.heappush
    monkeypatch.setattr(timing_wheel, "heappush", lambda *what: (pushed.append(1), push(*what)))

    async def body(shell) -> None:
        generation = stable_group(shell, members)
        for _ in range(rounds):
            await trio.sleep(HEARTBEAT_MS / 1000)
            for number in range(members):
                beat = shell.coordinator.heartbeat("g", f"m{number}", None, generation)
                assert beat is Error.NONE
        # 40,000 heartbeats have opened only one bucket per round, and no timer was moved to a lower level.
        assert len(pushed) <= rounds + 1
        assert len(shell.timer) == members

    run_shell(body)
