"""Fetch sessions: the broker's state follows our requests."""

import random

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.fetch_sessions import FetchPlace, FetchSession
from wire.types import TopicPartition

PLACES = [TopicPartition("t", number) for number in range(5)]


@given(st.integers(0, 10**6))
def test_the_broker_knows_exactly_what_is_wanted(seed: int) -> None:
    source = random.Random(seed)
    session = FetchSession()
    known: dict[TopicPartition, FetchPlace] = {}
    session_id, epoch = 0, 0
    for _ in range(60):
        wanted = {place: FetchPlace(source.randrange(3)) for place in PLACES if source.random() < 0.6}
        said = session.next_request(wanted)
        if said.epoch == 0:
            known, session_id, epoch = dict(said.changed), source.randrange(1, 9), 0
        else:
            assert (said.session_id, said.epoch) == (session_id, epoch)
            for place in said.forgotten:
                del known[place]
            assert all(known.get(place) != each for place, each in said.changed.items()), (
                "what is known is not said"
            )
            known.update(said.changed)
        assert known == wanted
        match source.randrange(5):
            case 0:
                session.reset()
            case 1:
                session.answered(0)
            case _:
                session.answered(session_id)
                epoch = epoch + 1


def test_the_epoch_goes_around() -> None:
    session = FetchSession()
    session.next_request({})
    session.answered(5)
    session._epoch = 0x7FFFFFFF
    session.answered(5)
    assert session.next_request({}).epoch == 1
