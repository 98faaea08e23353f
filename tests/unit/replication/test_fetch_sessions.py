"""Fetch sessions (KIP-227): what each request changes, and what the answer leaves out."""

from typing import NamedTuple

import pytest

from cluster.replication.leader.fetch_session import FetchParams, next_epoch
from cluster.replication.leader.fetch_session_cache import EVICTION_S, FetchSessionCache
from tests.unit.replication.in_memory import fetch_request, partitions_of
from wire.errors import ApiError, Error
from wire.types import MonotonicSeconds, TopicPartition


def open_session(broker, offsets, **rest):
    call = broker.call_fetch(fetch_request(offsets, epoch=0, max_wait_ms=0, **rest))
    return call.responses[0].session_id


def go_on(broker, session, epoch, offsets=None, **rest):
    rest.setdefault("max_wait_ms", 0)
    return broker.call_fetch(fetch_request(offsets or {}, session=session, epoch=epoch, **rest))


class Step(NamedTuple):
    session: str  # none, ours, unknown
    epoch: int
    error: Error
    has_session: bool


@pytest.mark.parametrize(
    "step",
    [
        Step("none", -1, Error.NONE, False),
        Step("none", 0, Error.NONE, True),
        Step("ours", 0, Error.NONE, True),
        Step("ours", -1, Error.NONE, False),
        Step("ours", 1, Error.NONE, True),
        Step("ours", 2, Error.INVALID_FETCH_SESSION_EPOCH, False),
        Step("unknown", 1, Error.FETCH_SESSION_ID_NOT_FOUND, False),
        Step("none", 1, Error.FETCH_SESSION_ID_NOT_FOUND, False),
    ],
)
def test_session_table(broker, step):
    broker.lead(isr=(1,), replicas=(1,))
    ours = open_session(broker, {0: 0})
    session = {"none": 0, "ours": ours, "unknown": 999}[step.session]
    response = go_on(broker, session, step.epoch, {0: 0}).responses[0]
    assert response.error_code == step.error
    assert bool(response.session_id) is step.has_session


def test_an_answer_holds_only_what_is_new(broker):
    broker.lead(isr=(1,), replicas=(1,), partitions=(0, 1, 2))
    call = broker.call_fetch(fetch_request({0: 0, 1: 0, 2: 0}, epoch=0, max_wait_ms=0))
    assert set(partitions_of(call)) == {0, 1, 2}
    session = call.responses[0].session_id
    assert partitions_of(go_on(broker, session, 1)) == {}
    broker.produce(1, key=TopicPartition("orders", 1))
    assert set(partitions_of(go_on(broker, session, 2))) == {1}
    # Not acknowledged by a new offset, so it is sent again.
    assert set(partitions_of(go_on(broker, session, 3))) == {1}
    assert partitions_of(go_on(broker, session, 4, {1: 1})) == {}


def test_a_clean_partition_is_not_read(broker):
    broker.lead(isr=(1,), replicas=(1,), partitions=range(8))
    session = open_session(broker, dict.fromkeys(range(8), 0))
    kept = broker.replicas.sessions._sessions[session]
    assert not kept.dirty
    broker.produce(1)
    assert [item.partition_index for item in kept.dirty] == [0]


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_whole_fetch_forgets_nothing(broker, epoch):
    broker.lead(isr=(1,), replicas=(1,), partitions=(0, 1))
    call = go_on(broker, 0, epoch, {0: 0, 1: 0}, forget=[0])
    assert set(partitions_of(call)) == {0, 1}


def test_forgotten_partitions_are_gone_and_an_empty_session_ends(broker):
    broker.lead(isr=(1,), replicas=(1,), partitions=(0, 1))
    session = open_session(broker, {0: 0, 1: 0})
    go_on(broker, session, 1, forget=[0])
    broker.produce(1)
    assert partitions_of(go_on(broker, session, 2)) == {}
    assert go_on(broker, session, 3, forget=[1]).responses[0].session_id == 0
    assert len(broker.replicas.sessions) == 0


def test_the_high_watermark_alone_is_news(broker):
    broker.lead(isr=(1, 2), replicas=(1, 2))
    broker.produce(1)
    session = open_session(broker, {0: 1}, follower=2)
    # The follower's own fetch moved it to 1, and the answer said so.
    assert broker.partition.log.high_watermark == 1
    broker.lead(isr=(1, 2, 3))
    broker.produce(1)
    call = go_on(broker, session, 1, {0: 2}, follower=2)
    assert partitions_of(call) == {}
    broker.fetch(2, follower=3)
    call = go_on(broker, session, 2, follower=2)
    assert partitions_of(call)[0].high_watermark == 2
    assert len(partitions_of(call)[0].records) == 0


def test_an_error_is_news_each_time_and_so_is_its_end(broker):
    session = open_session(broker, {0: 0})
    assert partitions_of(go_on(broker, session, 1))[0].error_code == Error.NOT_LEADER_OR_FOLLOWER
    broker.lead(isr=(1,), replicas=(1,))
    assert partitions_of(go_on(broker, session, 2))[0].error_code == Error.NONE
    assert partitions_of(go_on(broker, session, 3)) == {}


def test_under_a_limit_partitions_take_turns(broker):
    broker.lead(isr=(1,), replicas=(1,), partitions=(0, 1, 2))
    for index in range(3):
        broker.produce(10, key=TopicPartition("orders", index))
    session = open_session(broker, {0: 0, 1: 0, 2: 0}, max_bytes=1)
    seen = []
    for epoch in range(1, 4):
        data = partitions_of(go_on(broker, session, epoch, max_bytes=1))
        seen += [index for index, one in data.items() if len(one.records)]
    assert sorted(seen) == [0, 1, 2]


def test_topic_ids_and_names_do_not_mix(broker):
    broker.lead(isr=(1,), replicas=(1,))
    session = open_session(broker, {0: 0})
    request = fetch_request({}, session=session, epoch=1)
    assert broker.call_fetch(request, 12).responses[0].error_code == Error.FETCH_SESSION_TOPIC_ID_ERROR


def test_an_unknown_topic_id_resolves_when_the_broker_is_told(broker, make_broker):
    other = make_broker(1)
    other.metadata.snapshot = type(other.metadata.snapshot)()
    call = other.call_fetch(fetch_request({0: 0}, epoch=0, max_wait_ms=0))
    assert partitions_of(call)[0].error_code == Error.UNKNOWN_TOPIC_ID
    other.live(1, 2, 3)
    other.lead(isr=(1,), replicas=(1,))
    call = go_on(other, call.responses[0].session_id, 1)
    assert partitions_of(call)[0].error_code == Error.NONE


def test_epochs_wrap():
    assert [next_epoch(epoch) for epoch in (0, 1, 0x7FFFFFFF)] == [1, 2, 1]


# The cache


def begin(cache, now, *, is_follower=False, partitions=1):
    request = fetch_request(dict.fromkeys(range(partitions), 0), epoch=0)
    return cache.begin(request, 17, {}, MonotonicSeconds(now), is_follower=is_follower)


def cache_of(slots):
    return FetchSessionCache(slots, iter(range(1, 100)).__next__)


def test_without_a_slot_there_is_no_session():
    cache = cache_of(1)
    assert begin(cache, 0).session_id
    assert not begin(cache, 1).session_id


def test_the_longest_unused_gives_way():
    cache = cache_of(2)
    first, second = begin(cache, 0), begin(cache, 0)
    cache.begin(fetch_request({}, session=first.session_id, epoch=1), 17, {}, 100.0, is_follower=False)
    third = begin(cache, EVICTION_S + 1)
    assert third.session_id
    assert cache.evictions == 1
    with pytest.raises(ApiError):
        cache.begin(fetch_request({}, session=second.session_id, epoch=1), 17, {}, 125.0, is_follower=False)


def test_a_follower_takes_a_clients_slot_at_once():
    cache = cache_of(1)
    begin(cache, 0, partitions=5)
    assert begin(cache, 1, is_follower=True).session_id


def test_a_client_never_takes_a_followers_slot_that_is_in_use():
    cache = cache_of(1)
    follower = begin(cache, 0, is_follower=True)
    cache.begin(fetch_request({}, session=follower.session_id, epoch=1), 17, {}, 300.0, is_follower=True)
    assert not begin(cache, 310, partitions=100).session_id


def test_of_old_sessions_the_smallest_gives_way():
    cache = cache_of(2)
    small, large = begin(cache, 0, partitions=1), begin(cache, 0, partitions=4)
    for session in (small, large):
        cache.begin(fetch_request({}, session=session.session_id, epoch=1), 17, {}, 130.0, is_follower=False)
    assert begin(cache, 131, partitions=2).session_id
    with pytest.raises(ApiError):
        cache.begin(fetch_request({}, session=small.session_id, epoch=2), 17, {}, 132.0, is_follower=False)


def test_a_fetch_over_quota_leaves_its_session_as_it_was(broker):
    broker.lead(isr=(1,), replicas=(1,))
    session = open_session(broker, {0: 0})
    broker.produce(1)
    (found,) = broker.replicas.sessions._sessions.values()
    kept = []
    broker.replicas.fetch_service.fetch(found, FetchParams(admit=lambda answers: False), kept.append)
    assert kept == [[]]
    assert set(partitions_of(go_on(broker, session, 1))) == {0}, "what was held back is still news"


def test_topics_that_may_not_be_read_are_answered_with_the_error_until_they_may(broker):
    broker.lead(isr=(1,), replicas=(1,))
    session = open_session(broker, {0: 0})
    assert partitions_of(go_on(broker, session, 1)) == {}
    (found,) = broker.replicas.sessions._sessions.values()
    found.deny(frozenset({"orders"}), None)
    for epoch in (2, 3):
        (data,) = partitions_of(go_on(broker, session, epoch)).values()
        assert data.error_code == Error.TOPIC_AUTHORIZATION_FAILED
        assert not data.records
    found.deny(frozenset(), None)
    (data,) = partitions_of(go_on(broker, session, 4)).values()
    assert data.error_code == 0
