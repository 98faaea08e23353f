"""What evidence it takes to close the session of another broker."""

import pytest

from cluster.statemachines.peer_liveness import (
    Observation,
    PeerLiveness,
    choose_witnesses,
    is_dead,
    is_suspect,
    observe,
    seems_dead,
)

LIMIT_S = 1.0


def after(*observations: tuple[Observation, float]) -> PeerLiveness:
    liveness = PeerLiveness()
    for observation, elapsed_s in observations:
        liveness = observe(liveness, observation, elapsed_s, LIMIT_S)
    return liveness


ANSWERED, REACHED, ENDED, REFUSED, NOT_REACHED, NOTHING = Observation


def test_an_answer_clears_all_suspicion() -> None:
    assert after((ENDED, 0.1), (NOT_REACHED, 5.0), (ANSWERED, 0.1)) == PeerLiveness()


def test_a_connection_clears_the_suspicion_of_silence() -> None:
    assert after((NOT_REACHED, 5.0), (REACHED, 0.1)) == PeerLiveness()


def test_a_connection_takes_back_an_ended_one_only_with_time() -> None:
    for_a_moment = after((ENDED, 0.1), (REACHED, 0.1), (NOT_REACHED, 0.1))
    assert for_a_moment.was_ended
    assert is_suspect(for_a_moment, NOT_REACHED, LIMIT_S)
    assert not after((ENDED, 0.1), (REACHED, 0.9), (REACHED, 0.2), (NOT_REACHED, 0.1)).was_ended


def test_a_refused_connection_counts_as_an_ended_one() -> None:
    assert is_suspect(after((REFUSED, 0.0)), REFUSED, LIMIT_S)
    assert is_dead(after((REFUSED, 0.0)), [], 3)


def test_an_ended_connection_and_no_new_one_is_suspect_at_once() -> None:
    assert not is_suspect(after((ENDED, 0.0)), ENDED, LIMIT_S)
    assert is_suspect(after((ENDED, 0.0), (NOT_REACHED, 0.0)), NOT_REACHED, LIMIT_S)


def test_a_broker_seems_dead_for_a_moment_after_its_side_ended_a_connection() -> None:
    assert seems_dead(after((ENDED, 0.1)), LIMIT_S)
    assert seems_dead(after((REFUSED, 0.1), (NOT_REACHED, 0.5)), LIMIT_S)
    assert not seems_dead(after((REFUSED, 0.1), (REFUSED, 0.6), (REFUSED, 0.6)), LIMIT_S)
    assert not seems_dead(after((ENDED, 0.1), (ANSWERED, 0.1)), LIMIT_S)
    assert not seems_dead(after((NOT_REACHED, 5.0)), LIMIT_S)


def test_silence_is_suspect_past_the_limit() -> None:
    assert not is_suspect(after((NOT_REACHED, 1.0)), NOT_REACHED, LIMIT_S)
    assert is_suspect(after((NOT_REACHED, 1.0), (NOT_REACHED, 0.1)), NOT_REACHED, LIMIT_S)
    assert not is_suspect(after((NOT_REACHED, 2.0), (NOTHING, 1.0)), NOTHING, LIMIT_S)


def test_a_fault_of_our_own_network_tells_nothing() -> None:
    assert after((NOT_REACHED, 0.5), (NOTHING, 9.0)) == PeerLiveness(0.5)


def test_one_broker_that_reaches_the_suspect_is_enough_for_it_to_live() -> None:
    for liveness in (after((ENDED, 0.0), (NOT_REACHED, 9.0)), after((NOT_REACHED, 9.0))):
        assert not is_dead(liveness, [False, True, False], 5)


@pytest.mark.parametrize(
    ("votes", "registered", "dead"),
    [(0, 1, True), (0, 2, False), (0, 3, False), (1, 3, True), (1, 4, False), (2, 4, True), (2, 5, True)],
)
def test_silence_takes_most_of_the_brokers(votes: int, registered: int, dead: bool) -> None:
    assert is_dead(after((NOT_REACHED, 9.0)), [False] * votes, registered) is dead
    assert is_dead(after((ENDED, 0.0), (NOT_REACHED, 0.1)), [False] * votes, registered)


@pytest.mark.parametrize(
    ("broker", "controller", "candidates", "witnesses"),
    [
        (1, 3, [1, 2, 3, 4, 5], (3, 2, 4)),
        (4, 3, [1, 2, 3, 4, 5], (3, 5, 1)),
        (3, 3, [1, 2, 3, 4, 5], (4, 5, 1)),
        (3, None, [1, 2, 3, 4, 5], (4, 5, 1)),
        (1, 9, [1, 2], (2,)),
        (1, 1, [1], ()),
        (1, 2, [1, 2, 3], (2, 3)),
    ],
)
def test_the_controller_and_the_next_in_the_ring_are_witnesses(
    broker: int, controller: int | None, candidates: list[int], witnesses: tuple[int, ...]
) -> None:
    assert choose_witnesses(broker, controller, candidates) == witnesses
