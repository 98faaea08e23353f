"""Where partitions are read."""

from itertools import product

import pytest

from ottla.client.positions import (
    EARLIEST,
    LATEST,
    TRANSITIONS,
    Event,
    IllegalTransition,
    Position,
    PositionState,
    start_for,
)
from wire.types import BrokerId, LeaderEpoch, TopicPartition

PLACE = TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("state", "event"), [pair for pair in product(PositionState, Event) if pair not in TRANSITIONS]
)
def test_every_other_transition_is_illegal_and_changes_nothing(state: PositionState, event: Event) -> None:
    position = Position(PLACE)
    position.state = state
    steps = {
        Event.PLACED: lambda: position.place(5),
        Event.DIVERGED: position.lose,
        Event.RESET: lambda: position.reset(EARLIEST),
    }
    with pytest.raises(IllegalTransition):
        steps[event]()
    assert (position.state, position.number, position.offset) == (state, 0, -1)


def test_a_moved_position_has_another_number() -> None:
    position = Position(PLACE)
    position.place(5)
    number = position.number
    position.advance(9, LeaderEpoch(2))
    assert position.number == number
    assert (position.offset, position.last_epoch) == (9, 2)
    position.place(3)
    assert position.number != number
    assert position.last_epoch == -1


def test_a_closer_replica_counts_for_its_time_and_while_it_lives() -> None:
    position = Position(PLACE)
    live = {BrokerId(1): None, BrokerId(2): None}
    position.prefer(BrokerId(2), 10.0)
    assert position.read_from(BrokerId(1), live, 9.0) == 2
    assert position.read_from(BrokerId(1), live, 10.0) == 1
    position.prefer(BrokerId(2), 20.0)
    del live[BrokerId(2)]
    assert position.read_from(BrokerId(1), live, 11.0) == 1


def test_starts_by_partition() -> None:
    assert start_for(LATEST, PLACE) is LATEST
    assert start_for({1: 7}, PLACE) == 7
    assert start_for({PLACE: 8, 1: 7}, PLACE) == 8
    assert start_for({2: 7}, PLACE) is None
