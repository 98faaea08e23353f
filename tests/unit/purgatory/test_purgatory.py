"""Operations complete exactly once, whoever comes first, and leave nothing behind."""

from collections.abc import Awaitable, Callable

import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from cluster.replication.purgatory import DelayedOperation, Purgatory
from cluster.replication.timing_wheel import Timer


class Wait(DelayedOperation):
    """Completes when `ready`."""

    def __init__(self, name: str, log: list[str]) -> None:
        super().__init__()
        self.name = name
        self.log = log
        self.ready = False
        self.looks = 0
        self.when_looked: Callable[[], None] | None = None
        self.when_completed: Callable[[], None] | None = None

    def try_complete(self) -> bool:
        self.looks += 1
        if self.when_looked is not None:
            self.when_looked()
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.log.append(self.name)
        if self.when_completed is not None:
            self.when_completed()

    def on_expiration(self) -> None:
        self.log.append(self.name + " expired")


def run(body: Callable[[Purgatory, list[str]], Awaitable[None]]) -> None:
    async def main() -> None:
        timer = Timer()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(timer.run)
            purgatory = Purgatory("Test", timer)
            await body(purgatory, [])
            nursery.cancel_scope.cancel()
        assert len(timer) == purgatory.pending_count == purgatory.watched_count == 0

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_what_holds_already_is_not_parked() -> None:
    async def body(purgatory: Purgatory, log: list[str]) -> None:
        operation = Wait("a", log)
        operation.ready = True
        assert purgatory.try_complete_else_watch(operation, ["key"], 100)
        assert log == ["a"]
        assert not purgatory.is_watched("key")

    run(body)


def test_a_look_completes_what_is_ready_and_frees_all_of_its_keys() -> None:
    async def body(purgatory: Purgatory, log: list[str]) -> None:
        first, second = Wait("first", log), Wait("second", log)
        assert not purgatory.try_complete_else_watch(first, ["x", "y"], 100)
        assert not purgatory.try_complete_else_watch(second, ["y"], 100)
        assert (purgatory.pending_count, purgatory.watched_count) == (2, 3)
        assert purgatory.check_and_complete("nobody") == 0
        assert purgatory.check_and_complete("y") == 0
        first.ready = True
        assert purgatory.check_and_complete("y") == 1
        assert log == ["first"]
        assert not purgatory.is_watched("x")
        assert purgatory.check_and_complete("x") == 0
        second.ready = True
        assert purgatory.check_and_complete("y") == 1

    run(body)


def test_the_end_of_time_completes_and_says_so() -> None:
    async def body(purgatory: Purgatory, log: list[str]) -> None:
        start = trio.current_time()
        ended: list[float] = []
        operation = Wait("a", log)
        operation.when_completed = lambda: ended.append(trio.current_time())
        purgatory.try_complete_else_watch(operation, ["key", "key"], 250)
        await trio.sleep(10)
        assert log == ["a", "a expired"]
        assert 0.25 <= ended[0] - start <= 0.252
        assert purgatory.expired_count == 1
        assert not operation.force_complete()

    run(body)


def test_without_a_time_it_waits_for_ever() -> None:
    async def body(purgatory: Purgatory, log: list[str]) -> None:
        operation = Wait("a", log)
        purgatory.try_complete_else_watch(operation, ["key"], None)
        await trio.sleep(10**6)
        assert log == []
        assert operation.force_complete()

    run(body)


def test_a_trigger_during_the_first_look_is_not_missed() -> None:
    async def body(purgatory: Purgatory, log: list[str]) -> None:
        operation = Wait("a", log)

        def trigger() -> None:
            operation.when_looked = None
            purgatory.check_and_complete("key")

        operation.when_looked = trigger
        assert not purgatory.try_complete_else_watch(operation, ["key"], 100)
        assert operation.looks == 2
        operation.ready = True
        assert purgatory.check_and_complete("key") == 1

    run(body)


def test_one_that_completes_may_complete_others() -> None:
    async def body(purgatory: Purgatory, log: list[str]) -> None:
        first, second = Wait("first", log), Wait("second", log)
        for operation in (first, second):
            purgatory.try_complete_else_watch(operation, ["key"], 100)
        second.ready = True

        def nested() -> None:
            assert purgatory.check_and_complete("key") == 1

        first.ready = True
        first.when_completed = nested
        assert purgatory.check_and_complete("key") == 1
        assert log == ["first", "second"]

    run(body)


def test_cancelled_ones_leave_without_a_word() -> None:
    async def body(purgatory: Purgatory, log: list[str]) -> None:
        operations = [Wait("a", log), Wait("b", log)]
        for operation in operations:
            purgatory.try_complete_else_watch(operation, ["x", "y"], 100)
        assert purgatory.cancel_for_key("x") == operations
        assert purgatory.cancel_for_key("x") == []
        await trio.sleep(1)
        assert log == []

    run(body)


@given(st.data())
def test_each_completes_exactly_once(data: st.DataObject) -> None:
    async def body(purgatory: Purgatory, log: list[str]) -> None:
        operations: list[Wait] = []
        for number in range(data.draw(st.integers(0, 12))):
            operation = Wait(str(number), log)
            keys = data.draw(st.lists(st.integers(0, 3), max_size=3))
            purgatory.try_complete_else_watch(operation, keys, data.draw(st.integers(0, 500)))
            operations.append(operation)
        for _ in range(data.draw(st.integers(0, 12))):
            match data.draw(st.sampled_from(["ready", "look", "force", "sleep"])):
                case "ready" if operations:
                    data.draw(st.sampled_from(operations)).ready = True
                case "force" if operations:
                    data.draw(st.sampled_from(operations)).force_complete()
                case "look":
                    purgatory.check_and_complete(data.draw(st.integers(0, 3)))
                case "sleep":
                    await trio.sleep(data.draw(st.integers(0, 300)) / 1000)
        await trio.sleep(1)
        done = [line for line in log if not line.endswith("expired")]
        assert sorted(done, key=int) == [operation.name for operation in operations]

    run(body)
