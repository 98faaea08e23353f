"""Polling until a condition holds."""

import pytest

from tests.unit.storage.samples import TestClock
from timing import polling
from timing.polling import poll_until


@pytest.fixture
def clock(monkeypatch) -> TestClock:
    """A clock that the pauses move."""
    clock = TestClock()
    monkeypatch.setattr(
        polling, "pause_between_looks", lambda interval_s: clock.advance(int(interval_s * 1000))
    )
    return clock


@pytest.mark.parametrize("nothing", [None, False])
def test_it_looks_again_until_it_sees_something(clock, nothing) -> None:
    sights = iter([nothing, nothing, 0])
    began = clock.monotonic()
    assert poll_until(lambda: next(sights), clock, timeout_s=5, interval_s=0.5) == 0
    assert clock.monotonic() - began == pytest.approx(1.0)


def test_it_gives_up_when_the_time_is_over(clock) -> None:
    began = clock.monotonic()
    assert poll_until(lambda: None, clock, timeout_s=5, interval_s=2) is None
    assert clock.monotonic() - began == pytest.approx(6.0)


def test_it_looks_once_without_any_time(clock) -> None:
    assert poll_until(lambda: "seen", clock, timeout_s=0, interval_s=1) == "seen"
