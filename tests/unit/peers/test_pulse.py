"""Liveness probes over one connection."""

import errno
from collections.abc import Iterable

import pytest
import trio
import trio.testing

from cluster.network.broker_client import ConnectionFailedError
from cluster.peers.pulse import Pulse
from cluster.statemachines.peer_liveness import Observation

INTERVAL_S = 0.2
NOW = 0.0
NEVER = 1e9
ANSWERED, REACHED, ENDED, REFUSED, NOT_REACHED, NOTHING = Observation


class ScriptedChannel:
    """Answers each request after a delay, or fails it with an error number; its connection ends after another delay."""

    def __init__(self, outcomes: Iterable[float | int], ends_after_s: float = NEVER) -> None:
        self._outcomes = iter(outcomes)
        self._ends_after_s = ends_after_s
        self.asked = 0
        self.is_closed = False

    async def request(self, message: object, version: int) -> object:
        self.asked += 1
        outcome = next(self._outcomes, NEVER)
        if isinstance(outcome, int):
            await trio.lowlevel.checkpoint()
            raise ConnectionFailedError(outcome, "scripted")
        await trio.sleep(outcome)
        return message

    async def wait_ended(self) -> None:
        await trio.sleep(self._ends_after_s)

    def close(self) -> None:
        self.is_closed = True


def observed(channel: ScriptedChannel, count: int, patience_s: float = 10.0) -> list[Observation | None]:
    """Return the first observations that a pulse makes, and check that it closes its channel."""
    found: list[Observation | None] = []

    async def main() -> None:
        pulse = Pulse(channel, INTERVAL_S, INTERVAL_S / 4)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pulse.run)
            found.extend([await pulse.next(patience_s) for _ in range(count)])
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert channel.is_closed
    return found


def test_it_asks_again_and_again() -> None:
    assert observed(ScriptedChannel([NOW, NOW, NOW]), 3) == [ANSWERED] * 3


def test_the_end_of_the_connection_is_noticed_between_two_questions() -> None:
    assert observed(ScriptedChannel([NOW], ends_after_s=0.1), 2) == [ANSWERED, ENDED]


@pytest.mark.parametrize("code", [errno.ECONNRESET, errno.EPIPE])
def test_the_end_of_the_connection_is_noticed_during_a_question(code: int) -> None:
    assert observed(ScriptedChannel([NOW, code]), 2) == [ANSWERED, ENDED]


def test_a_slow_answer_is_waited_for_on_the_same_connection() -> None:
    channel = ScriptedChannel([NOW, 5.0, NOW])
    assert observed(channel, 4, patience_s=3.0) == [ANSWERED, None, ANSWERED, ANSWERED]
    assert channel.asked == 3


def test_a_refusal_counts_where_the_broker_has_answered() -> None:
    assert observed(ScriptedChannel([NOW, errno.ECONNREFUSED]), 2) == [ANSWERED, REFUSED]
    assert observed(ScriptedChannel([errno.ECONNREFUSED, NOW]), 1) == [ANSWERED]


@pytest.mark.parametrize("code", [errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.EIO])
def test_other_failures_are_silence(code: int) -> None:
    assert observed(ScriptedChannel([NOW, code, NOW]), 2) == [ANSWERED, ANSWERED]
