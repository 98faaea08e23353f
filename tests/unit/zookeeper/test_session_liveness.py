"""The self-fencing clock, and the small parts between kazoo and trio."""

import threading

import pytest
import trio
import trio.testing
from kazoo import exceptions as kazoo
from kazoo.handlers.threading import KazooTimeoutError

from cluster.zookeeper.client import (
    BadVersionError,
    ConnectionLossError,
    MultiResult,
    NoNodeError,
    RolledBackError,
    SessionExpiredError,
    Stat,
    ZooKeeperError,
)
from cluster.zookeeper.kazoo_bridge import WINDOW, KazooBridge
from cluster.zookeeper.kazoo_errors import translate
from cluster.zookeeper.kazoo_handler import Completion
from cluster.zookeeper.session_liveness import SessionLiveness
from wire.types import MonotonicSeconds, ZkVersion


def at(seconds: float) -> MonotonicSeconds:
    return MonotonicSeconds(seconds)


def test_a_machine_that_was_suspended_no_longer_knows_that_its_session_lives() -> None:
    suspended_s = 0.0
    now = 10.0
    liveness = SessionLiveness(6.0, lambda: 1000.0 + now + suspended_s)
    liveness.answered(at(now), liveness.skew_s(at(now)))
    now = 11.0
    assert liveness.is_live(at(now))
    suspended_s = 4.9
    assert liveness.is_live(at(now))
    suspended_s = 5.0
    assert not liveness.is_live(at(now))
    liveness.answered(at(now), liveness.skew_s(at(now)))
    assert liveness.is_live(at(now))


def test_a_session_lives_from_the_sending_of_its_last_answered_probe() -> None:
    liveness = SessionLiveness(6.0)
    assert not liveness.is_live(at(0))
    liveness.answered(at(10))
    assert liveness.is_live(at(15.9))
    assert not liveness.is_live(at(16))
    # A late answer proves only that the session lived when the request was sent.
    liveness.answered(at(9))
    assert not liveness.is_live(at(16))
    liveness.answered(at(12))
    assert liveness.is_live(at(17))
    liveness.lost()
    assert not liveness.is_live(at(12))
    assert liveness.probe_interval_s == 1.0


def completion() -> Completion:
    return Completion(threading.Lock())


def test_a_completion_tells_once() -> None:
    notified: list[Completion] = []
    early = completion()
    early.rawlink(notified.append)
    with pytest.raises(KazooTimeoutError):
        early.get()
    assert not early.ready()
    early.set(5)
    early.set(6)
    early.set_exception(ValueError())
    assert notified == [early]
    assert (early.get(), early.ready(), early.successful(), early.exception) == (5, True, True, None)
    late = completion()
    late.set_exception(NoNodeError("x"))
    late.rawlink(notified.append)
    assert notified == [early, late]
    assert not late.successful()
    with pytest.raises(NoNodeError):
        late.get()


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (kazoo.NoNodeError(), NoNodeError),
        (kazoo.BadVersionError(), BadVersionError),
        (kazoo.ConnectionLoss(), ConnectionLossError),
        (kazoo.ConnectionClosedError(), SessionExpiredError),
        (kazoo.RuntimeInconsistency(), RolledBackError),
        (kazoo.ThrottledOpError(), ZooKeeperError),
        (RuntimeError("xids do not match"), ZooKeeperError),
        (NoNodeError("ours already"), NoNodeError),
    ],
)
def test_kazoos_errors_become_ours(theirs: BaseException, ours: type[ZooKeeperError]) -> None:
    assert type(translate(theirs)) is ours


def test_the_failure_of_a_multi_is_the_operation_that_failed_by_itself() -> None:
    assert MultiResult(("/a", None)).failure is None
    bad = BadVersionError()
    assert MultiResult((RolledBackError(), bad, RolledBackError())).failure == (1, bad)
    first = RolledBackError()
    assert MultiResult((first, RolledBackError())).failure == (0, first)
    with pytest.raises(TypeError):
        MultiResult(("/a",)).stat(0)
    assert MultiResult((Stat(1, 1, ZkVersion(0)),)).stat(0).czxid == 1


class FakeKazoo:
    """Completes requests in its own thread, when the test asks."""

    def __init__(self) -> None:
        self.waiting: list[Completion] = []
        self.most = 0

    def submit(self) -> Completion:
        made = completion()
        self.waiting.append(made)
        self.most = max(self.most, len(self.waiting))
        return made

    async def complete(self, value: object) -> None:
        def on_a_thread() -> None:
            waiting, self.waiting = self.waiting, []
            for made in waiting:
                if isinstance(value, Exception):
                    made.set_exception(value)
                else:
                    made.set(value)

        await trio.to_thread.run_sync(on_a_thread)
        await trio.testing.wait_all_tasks_blocked()


def test_many_requests_go_in_a_window_and_lost_ones_again() -> None:
    async def main() -> None:
        bridge, their = KazooBridge(), FakeKazoo()
        bridge.attach()
        bridge.open()
        results: list[object] = []

        async def read() -> None:
            results.extend(await bridge.call_many(lambda _: their.submit(), WINDOW * 2 + 5, repeat_lost=True))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            assert len(their.waiting) == WINDOW
            await their.complete(kazoo.ConnectionLoss())
            assert len(their.waiting) == WINDOW
            await their.complete(1)
            await their.complete(kazoo.NoNodeError())
            assert len(their.waiting) == 5
            await their.complete(2)
        assert their.most == WINDOW
        assert results[:WINDOW] == [1] * WINDOW
        assert {type(result) for result in results[WINDOW : 2 * WINDOW]} == {NoNodeError}
        assert results[2 * WINDOW :] == [2] * 5

    trio.run(main)


def test_a_shut_gate_fails_what_is_under_way_and_what_comes() -> None:
    async def main() -> None:
        bridge, their = KazooBridge(), FakeKazoo()
        bridge.attach()
        bridge.open()
        outcomes: list[BaseException] = []

        async def expect_expiry(call: object) -> None:
            try:
                await call()  # type: ignore[operator]
            except SessionExpiredError as error:
                outcomes.append(error)

        async def one() -> None:
            await bridge.call(their.submit)

        async def many() -> None:
            await bridge.call_many(lambda _: their.submit(), 3, repeat_lost=True)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(expect_expiry, one)
            nursery.start_soon(expect_expiry, many)
            await trio.testing.wait_all_tasks_blocked()
            bridge.shut(SessionExpiredError("over"))
            await trio.testing.wait_all_tasks_blocked()
            assert len(outcomes) == 2
            nursery.start_soon(expect_expiry, one)
            nursery.start_soon(expect_expiry, many)
            await trio.testing.wait_all_tasks_blocked()
            assert len(outcomes) == 4
            # Late completions of abandoned requests have no receiver.
            await their.complete(1)
            probe = await_value(nursery, bridge, their)
            await trio.testing.wait_all_tasks_blocked()
            await their.complete(7)
            assert probe == [7]

    def await_value(nursery: trio.Nursery, bridge: KazooBridge, their: FakeKazoo) -> list[object]:
        got: list[object] = []

        async def ask() -> None:
            got.append(await bridge.call(their.submit, through_gate=False))

        nursery.start_soon(ask)
        return got

    trio.run(main)


def test_cancelled_calls_leave_the_bridge_usable() -> None:
    async def main() -> None:
        bridge, their = KazooBridge(), FakeKazoo()
        bridge.attach()
        bridge.open()
        for call in (
            lambda: bridge.call(their.submit),
            lambda: bridge.call_many(lambda _: their.submit(), WINDOW + 1, repeat_lost=True),
        ):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call)
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
        await their.complete(1)
        # The rest of a cancelled batch is not sent.
        assert their.waiting == []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bridge.call, their.submit)
            await trio.testing.wait_all_tasks_blocked()
            await their.complete(2)

    trio.run(main)


def test_a_post_waits_for_its_turn_and_no_longer_than_allowed() -> None:
    async def main() -> None:
        bridge = KazooBridge()
        bridge.attach()
        done: list[int] = []
        await trio.to_thread.run_sync(bridge.post_and_wait, lambda: done.append(1), 5.0)
        assert done == [1]

    trio.run(main)
