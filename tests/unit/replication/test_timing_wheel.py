"""The wheel against a sorted list, and the timer on a clock that jumps."""

import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from timing.timing_wheel import SPANS_MS, Timer, TimerEntry, TimingWheel


class Note(TimerEntry):
    """Records when it expired."""

    def __init__(self, notes: list[tuple[str, int]], name: str) -> None:
        super().__init__()
        self.notes = notes
        self.name = name

    def expire(self) -> None:
        self.notes.append((self.name, round(trio.current_time() * 1000)))


def take_all(wheel: TimingWheel) -> list[TimerEntry]:
    taken = []
    while (entry := wheel.take_due()) is not None:
        taken.append(entry)
    return taken


def test_an_entry_is_due_in_its_millisecond_and_not_before() -> None:
    for delay in (0, 1, 19, 20, 21, 399, 400, 445, 8000, 160_001, 3_200_000, 10**12):
        wheel = TimingWheel()
        entry = TimerEntry()
        now = 1_234_567
        wheel.add(entry, now + delay, now)
        looks = 0
        while (look := wheel.next_look_ms()) is not None and look < now + delay:
            wheel.advance(look)
            assert wheel.take_due() is None
            looks += 1
        assert looks <= len(SPANS_MS) + 40, "coarse levels bring an entry near in few steps"
        wheel.advance(now + delay)
        assert take_all(wheel) == [entry]
        assert len(wheel) == 0
        assert wheel.next_look_ms() is None


def test_a_deadline_that_has_passed_is_due_at_once() -> None:
    wheel = TimingWheel()
    entry = TimerEntry()
    assert wheel.add(entry, 5, 100) <= 100
    wheel.advance(100)
    assert take_all(wheel) == [entry]


def test_a_cancelled_entry_is_never_due_and_may_be_added_again() -> None:
    wheel = TimingWheel()
    entry = TimerEntry()
    wheel.add(entry, 50, 0)
    assert wheel.cancel(entry)
    assert not wheel.cancel(entry)
    assert wheel.next_look_ms() is None
    wheel.add(entry, 70, 0)
    wheel.advance(69)
    assert take_all(wheel) == []
    wheel.advance(70)
    assert take_all(wheel) == [entry]


def test_what_is_due_can_be_cancelled_until_it_is_taken() -> None:
    wheel = TimingWheel()
    first, second = TimerEntry(), TimerEntry()
    wheel.add(first, 5, 0)
    wheel.add(second, 5, 0)
    wheel.advance(5)
    assert wheel.take_due() is first
    assert wheel.cancel(second)
    assert wheel.take_due() is None


def test_an_entry_is_in_one_wheel_at_most() -> None:
    wheel = TimingWheel()
    entry = TimerEntry()
    wheel.add(entry, 5, 0)
    try:
        wheel.add(entry, 9, 0)
    except ValueError:
        pass
    else:
        raise AssertionError("added twice")
    assert len(wheel) == 1
    assert entry.deadline_ms == 5


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "cancel", "advance"]), st.integers(0, 30_000), st.integers(0, 2_000)
        ),
        max_size=60,
    )
)
def test_the_wheel_agrees_with_a_sorted_list(steps: list[tuple[str, int, int]]) -> None:
    wheel = TimingWheel()
    model: dict[TimerEntry, int] = {}
    now = 7
    for kind, number, step in steps:
        if kind == "add":
            entry = TimerEntry()
            wheel.add(entry, now + number, now)
            model[entry] = now + number
        elif kind == "cancel" and model:
            entry = list(model)[number % len(model)]
            assert wheel.cancel(entry)
            del model[entry]
        elif kind == "advance":
            now += step
            wheel.advance(now)
            due = take_all(wheel)
            assert [entry.deadline_ms for entry in due] == sorted(d for d in model.values() if d <= now)
            assert set(due) == {entry for entry, deadline in model.items() if deadline <= now}
            for entry in due:
                del model[entry]
        assert len(wheel) == len(model)
        look = wheel.next_look_ms()
        assert (look is None) == (not model)
        assert look is None or look <= min(model.values())


def run_for(seconds: float, begin: "object") -> None:
    """Run a timer on a jumping clock while `begin(timer)` goes on."""

    async def main() -> None:
        timer = Timer()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(timer.run)
            await begin(timer)  # type: ignore[operator]
            await trio.sleep(seconds)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_the_timer_expires_each_at_its_time() -> None:
    notes: list[tuple[str, int]] = []

    async def begin(timer: Timer) -> None:
        timer.add(Note(notes, "late"), 30_000)
        await trio.sleep(0.001)
        timer.add(Note(notes, "soon"), 15)
        timer.add(Note(notes, "now"), 0)
        gone = Note(notes, "gone")
        timer.add(gone, 20)
        await trio.sleep(0.010)
        assert timer.cancel(gone)
        assert len(timer) == 2

    run_for(60, begin)
    assert [name for name, _ in notes] == ["now", "soon", "late"]
    times = dict(notes)
    assert times["soon"] - times["now"] == 15
    assert times["late"] - times["now"] in (29_999, 30_000)


def test_an_idle_timer_sleeps() -> None:
    """Without an entry the clock jumps straight to the end: a timer that polled would keep it busy."""
    wakes = 0

    class Instrument(trio.abc.Instrument):
        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            nonlocal wakes
            if "Timer.run" in task.name:
                wakes += 1

    async def main() -> None:
        timer = Timer()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(timer.run)
            await trio.sleep(80_000)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0), instruments=[Instrument()])
    assert wakes <= 2, "its start and its cancellation"


def test_an_entry_may_add_and_cancel_others_as_it_expires() -> None:
    notes: list[tuple[str, int]] = []

    async def begin(timer: Timer) -> None:
        second = Note(notes, "cancelled by the first")

        class First(TimerEntry):
            def expire(self) -> None:
                timer.cancel(second)
                timer.add(Note(notes, "follows"), 5)

        timer.add(First(), 10)
        timer.add(second, 10)

    run_for(1, begin)
    assert [name for name, _ in notes] == ["follows"]


def test_a_cancelled_run_keeps_what_is_pending() -> None:
    notes: list[tuple[str, int]] = []

    async def main() -> None:
        timer = Timer()
        timer.add(Note(notes, "kept"), 5_000)
        with trio.move_on_after(1):
            await timer.run()
        assert len(timer) == 1
        with trio.move_on_after(10):
            await timer.run()
        assert notes == [("kept", notes[0][1])]

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
