"""How long accepting pauses when connections arrive faster than the limit."""

from cluster.network.creation_rate import CreationRate


def rate(limit: int, windows: int = 11) -> CreationRate:
    made = CreationRate(windows, 1.0)
    made.limit = limit
    return made


def test_without_a_limit_nothing_rests() -> None:
    free = CreationRate(11, 1.0)
    assert {free.record(0.0) for _ in range(1000)} == {0.0}


def test_a_burst_passes_as_far_as_the_average_bears_it() -> None:
    limited = rate(5)
    assert [limited.record(100.0) for _ in range(50)] == [0.0] * 50
    assert limited.record(100.0) == 51 / 5 - 10


def test_a_rest_is_no_longer_than_a_window() -> None:
    limited = rate(1)
    rests = [limited.record(0.0) for _ in range(30)]
    assert rests[9:12] == [0.0, 1.0, 1.0]
    assert max(rests) == 1.0


def test_nothing_at_all_a_second_is_one_connection_a_window() -> None:
    assert [rate(0).record(now) for now in (0.0, 1.0)] == [1.0, 1.0]


def test_who_waits_as_told_comes_at_the_limit() -> None:
    limited = rate(20)
    now, taken = 0.0, 0
    while now < 60.0:
        now += limited.record(now)
        taken += 1
    assert 20 * 60 <= taken <= 20 * 70 + 1, "at the limit, after the burst that ten quiet windows allow"


def test_old_windows_are_forgotten() -> None:
    limited = rate(1)
    while not limited.record(0.0):
        pass
    assert limited.record(12.0) == 0.0


def test_a_limit_that_is_lifted_forgets_what_came() -> None:
    limited = rate(1)
    for _ in range(20):
        limited.record(0.0)
    limited.limit = 2**31 - 1
    assert limited.record(0.1) == 0.0
    limited.limit = 1
    assert limited.record(0.2) == 0.0
