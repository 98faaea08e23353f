"""Parked fetches: what parks them, what wakes them, and that each is answered once."""

import pytest

from storage.log import Log
from tests.unit.replication.in_memory import P0, TOPIC, batch, fetch_request, partitions_of
from wire.errors import Error
from wire.types import TopicPartition

P1 = TopicPartition("orders", 1)


@pytest.fixture
def leader(broker):
    broker.lead(isr=(1, 2), replicas=(1, 2), partitions=(0, 1))
    return broker


def test_without_data_a_fetch_waits(leader):
    assert not leader.fetch(0).responses
    assert list(leader.timer.entries.values()) == [500]


@pytest.mark.parametrize(
    "request_",
    [
        fetch_request({0: 0}, max_wait_ms=0),
        fetch_request({}),
        fetch_request({0: 0}, min_bytes=0),
        fetch_request({0: 99}),
        fetch_request({0: 0, 7: 0}),
    ],
    ids=["may not wait", "names nothing", "wants nothing", "out of range", "one partition fails"],
)
def test_answered_at_once(leader, request_):
    assert len(leader.call_fetch(request_).responses) == 1


def test_a_follower_is_woken_by_an_append(leader):
    call = leader.fetch(0, follower=2)
    leader.produce(1)
    assert len(partitions_of(call)[0].records)
    assert not leader.timer.entries


def test_a_consumer_is_woken_by_the_high_watermark_only(leader):
    call = leader.fetch(0)
    leader.produce(1)
    assert not call.responses
    leader.fetch(1, follower=2)
    assert len(partitions_of(call)[0].records)


def test_a_produce_to_many_partitions_comes_in_one_answer(leader):
    call = leader.call_fetch(fetch_request({0: 0, 1: 0}, 2))
    from_client = []
    leader.replicas.append([(P0, batch()), (P1, batch())], 1, 0, from_client.append)
    assert {index for index, data in partitions_of(call).items() if len(data.records)} == {0, 1}


def test_min_bytes_are_the_sum_over_partitions(leader):
    size = 61
    call = leader.call_fetch(fetch_request({0: 0, 1: 0}, 2, min_bytes=size * 2))
    leader.produce(1)
    assert not call.responses
    leader.produce(1, key=P1)
    assert call.responses


def test_only_the_partition_that_moved_is_counted_again(leader, monkeypatch):
    leader.order(1, isr=(1,), replicas=(1,), partitions=range(1, 8))
    counted = []
    measure = Log.offset_metadata
    monkeypatch.setattr(
        Log, "offset_metadata", lambda log, offset: counted.append(log) or measure(log, offset)
    )
    call = leader.call_fetch(fetch_request(dict.fromkeys(range(1, 8), 0), min_bytes=1 << 19))
    for index in range(1, 8):
        counted.clear()
        leader.produce(1, key=TopicPartition(TOPIC, index))
        assert 1 <= len(counted) <= 2
    assert not call.responses


def test_partition_limits_bound_what_counts_towards_min_bytes(leader):
    call = leader.call_fetch(fetch_request({0: 0, 1: 0}, 2, min_bytes=150, partition_bytes=60))
    leader.produce(20)
    assert not call.responses
    leader.timer.expire_all()
    assert len(partitions_of(call)[0].records)


def test_a_roll_completes_whatever_min_bytes_says(leader):
    leader.produce(1)
    call = leader.fetch(1, follower=2, min_bytes=1 << 19)
    assert not call.responses
    leader.partition.log.roll()
    leader.produce(1)
    # The end counts as being in a later segment only if the segment of the start has more to give.
    leader.timer.expire_all()
    assert len(call.responses) == 1


def test_an_old_segment_is_answered_without_waiting_for_min_bytes(leader):
    leader.produce(1)
    call = leader.fetch(0, follower=2, min_bytes=1 << 19)
    leader.partition.log.roll()
    leader.produce(1)
    assert len(partitions_of(call)[0].records)


def test_a_timeout_answers_with_what_there_is(leader):
    call = leader.fetch(0, follower=2, min_bytes=10_000)
    leader.produce(1)
    assert not call.responses
    leader.timer.expire_all()
    assert len(partitions_of(call)[0].records)


def test_losing_the_leadership_answers_at_once(leader):
    call = leader.fetch(0)
    follower = leader.fetch(0, follower=2)
    leader.follow(2)
    assert partitions_of(follower)[0].error_code == Error.NOT_LEADER_OR_FOLLOWER
    assert call.responses


def test_a_new_epoch_of_the_same_leader_fences(leader):
    call = leader.fetch(0, follower=2, leader_epoch=1)
    leader.lead(isr=(1, 2), replicas=(1, 2))
    data = partitions_of(call)[0]
    assert data.error_code == Error.FENCED_LEADER_EPOCH
    assert data.current_leader.leader_epoch == 2


def test_stopping_the_replica_answers_at_once(leader):
    call = leader.fetch(0)
    leader.partition.stop(Error.KAFKA_STORAGE_ERROR)
    assert partitions_of(call)[0].error_code


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(0, Error.FENCED_LEADER_EPOCH), (1, Error.NONE), (2, Error.UNKNOWN_LEADER_EPOCH), (-1, Error.NONE)],
)
def test_leader_epochs_of_fetches(leader, epoch, error):
    call = leader.fetch(0, follower=2, leader_epoch=epoch, max_wait_ms=0)
    assert partitions_of(call)[0].error_code == error


def test_who_is_no_replica_may_not_fetch_as_one(leader):
    with_epoch = leader.fetch(0, follower=9, leader_epoch=1)
    assert partitions_of(with_epoch)[0].error_code == Error.UNKNOWN_LEADER_EPOCH
    without = leader.fetch(0, follower=9)
    assert partitions_of(without)[0].error_code == Error.NOT_LEADER_OR_FOLLOWER


def test_a_parked_session_is_overwritten_by_its_next_fetch(leader):
    first = leader.call_fetch(fetch_request({0: 0}, epoch=0, max_wait_ms=0))
    session = first.responses[0].session_id
    second = leader.call_fetch(fetch_request({}, session=session, epoch=1))
    third = leader.call_fetch(fetch_request({}, session=session, epoch=2))
    assert len(second.responses) == 1
    assert not third.responses
    assert len(leader.timer.entries) == 1


def test_a_session_that_is_replaced_answers_what_it_parked(leader):
    first = leader.call_fetch(fetch_request({0: 0}, epoch=0, max_wait_ms=0))
    session = first.responses[0].session_id
    parked = leader.call_fetch(fetch_request({}, session=session, epoch=1))
    leader.call_fetch(fetch_request({0: 0}, session=session, epoch=0))
    assert len(parked.responses) == 1


def test_a_parked_session_answers_news_of_any_partition(leader):
    first = leader.call_fetch(fetch_request({0: 0, 1: 0}, 2, epoch=0, max_wait_ms=0))
    call = leader.call_fetch(fetch_request({}, 2, session=first.responses[0].session_id, epoch=1))
    leader.produce(1, key=P1)
    assert set(partitions_of(call)) == {1}


def test_registers_do_not_grow_with_answered_fetches(leader):
    for _ in range(20):
        leader.fetch(0)
        leader.timer.expire_all()
    waiters = leader.partition.waiters
    assert not waiters._watermark
    assert not waiters._log_end


def test_an_append_wakes_followers_that_were_not_told_of_the_partition(leader):
    leader.order(1, (1, 2), (1, 2), partitions=(2,))
    parked = leader.call_fetch(fetch_request({0: 0, 1: 0}, 2))
    leader.produce(1, key=TopicPartition("orders", 2))
    assert len(parked.responses) == 1


def test_a_consumer_reads_up_to_the_high_watermark(leader):
    leader.produce(2)
    leader.fetch(2, follower=2)
    leader.produce(1)
    call = leader.fetch(0, max_wait_ms=0)
    data = partitions_of(call)[0]
    assert data.high_watermark == 2
    assert data.records.size == leader.partition.log.offset_metadata(2).position
    # An offset between the high watermark and the end gets no records, and no error either.
    assert partitions_of(leader.fetch(3, max_wait_ms=0))[0].error_code == Error.NONE


def test_what_a_fetch_completes_may_append_to_partitions_that_it_does_not_name(leader):
    opened = leader.call_fetch(fetch_request({0: 0, 1: 0}, 2, epoch=0, max_wait_ms=0))
    session = opened.responses[0].session_id
    leader.replicas.append(
        [(P0, batch())], -1, 5_000, lambda _: leader.replicas.append([(P1, batch())], 1, 0, lambda _: None)
    )
    leader.call_fetch(fetch_request({}, 2, session=session, epoch=1))
    call = leader.call_fetch(fetch_request({0: 1}, 2, session=session, epoch=2))
    assert len(partitions_of(call)[1].records)
    assert not leader.timer.entries


def test_what_waits_can_be_counted(leader):
    leader.fetch(0)
    leader.fetch(0, follower=2)
    leader.fetch(0, follower=2)  # a session of its own
    kinds = [kind for kind, _ in leader.partition.waiters.operations()]
    assert kinds == ["Fetch"] * 3
    answers = leader.produce(3, acks=-1)
    assert not answers
    kinds = sorted(kind for kind, _ in leader.partition.waiters.operations())
    assert kinds == ["Fetch", "Produce"]  # followers were answered
    leader.timer.expire_all()
    assert not list(leader.partition.waiters.operations())
