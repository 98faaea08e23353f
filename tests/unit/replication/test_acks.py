"""Produce requests: which replicas they wait for, and their answers."""

import pytest

from tests.unit.replication.in_memory import batch
from wire.errors import Error
from wire.types import TopicPartition


def only(answers):
    (results,) = answers
    (result,) = results.values()
    return result


def test_acks_1_is_answered_at_once(broker):
    broker.lead()
    result = only(broker.produce(3, acks=1))
    assert (result.error, result.base_offset) == (Error.NONE, 0)
    assert broker.partition.log.log_end_offset == 3
    assert broker.partition.log.high_watermark == 0


def test_acks_all_waits_for_every_member_of_the_isr(broker):
    broker.lead()
    answers = broker.produce(3, acks=-1)
    broker.fetch(3, follower=2)
    assert not answers
    broker.fetch(3, follower=3)
    assert only(answers).error is Error.NONE
    assert not [entry for entry in broker.timer.entries if type(entry).__name__ == "DelayedProduce"]


def test_acks_all_with_a_single_replica_does_not_wait(broker):
    broker.lead(isr=(1,), replicas=(1,))
    assert only(broker.produce(2, acks=-1)).error is Error.NONE
    assert broker.partition.log.high_watermark == 2


def test_acks_other_than_three_write_nothing(broker):
    broker.lead()
    assert only(broker.produce(acks=2)).error is Error.INVALID_REQUIRED_ACKS
    assert broker.partition.log.log_end_offset == 0


def test_too_small_an_isr_refuses_acks_all_before_the_append(broker):
    broker.zookeeper.configs["orders"] = {"min.insync.replicas": "2"}
    broker.lead(isr=(1,))
    assert only(broker.produce(acks=-1)).error is Error.NOT_ENOUGH_REPLICAS
    assert broker.partition.log.log_end_offset == 0
    assert only(broker.produce(acks=1)).error is Error.NONE


def test_min_isr_is_capped_by_the_replication_factor(broker):
    broker.zookeeper.configs["orders"] = {"min.insync.replicas": "3"}
    broker.lead(isr=(1, 2), replicas=(1, 2))
    answers = broker.produce(acks=-1)
    broker.fetch(1, follower=2)
    assert only(answers).error is Error.NONE


def test_an_isr_that_shrinks_below_the_minimum_leaves_the_records_and_says_so(broker):
    broker.zookeeper.configs["orders"] = {"min.insync.replicas": "2"}
    partition = broker.lead(isr=(1, 2), replicas=(1, 2, 3))
    answers = broker.produce(acks=-1)
    broker.lead(isr=(1,), replicas=(1, 2, 3))
    # The high watermark does not move while the ISR is too small, so the producer waits for its timeout.
    assert partition.log.high_watermark == 0
    broker.timer.expire_all()
    assert only(answers).error is Error.REQUEST_TIMED_OUT
    assert partition.log.log_end_offset == 1


def test_the_minimum_is_looked_at_again_when_the_replicas_have_it(broker):
    partition = broker.lead(isr=(1, 2), replicas=(1, 2))
    answers = broker.produce(acks=-1)
    config = partition.log.config
    partition.log.update_config(type(config).from_strings({"min.insync.replicas": "2"}))
    partition.leader.remotes[2].log_end_offset = 1
    partition.log.advance_high_watermark(1)
    partition.leader.remotes.clear()
    partition.waiters.fire_high_watermark(1, Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    assert only(answers).error is Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert only(answers).base_offset == 0


def test_a_leader_that_is_succeeded_fails_its_producers_at_once(broker):
    broker.lead()
    answers = broker.produce(acks=-1)
    broker.follow(2)
    assert only(answers).error is Error.NOT_LEADER_OR_FOLLOWER
    assert not broker.timer.entries


def test_a_leader_that_is_elected_again_goes_on_waiting(broker):
    broker.lead()
    answers = broker.produce(acks=-1)
    broker.lead()
    assert not answers
    for follower in (2, 3):
        broker.fetch(1, follower=follower)
    assert only(answers).error is Error.NONE


def test_each_partition_has_its_own_outcome(broker):
    broker.lead(partitions=(0, 1))
    answers = []
    from_elsewhere = TopicPartition("orders", 7)
    unknown = TopicPartition("nothing", 0)
    keys = [TopicPartition("orders", 0), TopicPartition("orders", 1), from_elsewhere, unknown]
    broker.replicas.append([(key, batch()) for key in keys], -1, 100, answers.append)
    assert not answers
    for follower in (2, 3):
        broker.fetch(1, follower=follower)
    broker.timer.expire_all()
    (results,) = answers
    assert [results[key].error for key in keys] == [
        Error.NONE,
        Error.REQUEST_TIMED_OUT,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_where_every_partition_fails_nobody_waits(broker):
    assert only(broker.produce(acks=-1, key=TopicPartition("nothing", 0))).error is (
        Error.UNKNOWN_TOPIC_OR_PARTITION
    )


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_are_only_for_coordinators(broker, topic):
    assert only(broker.produce(key=TopicPartition(topic, 0))).error is Error.INVALID_TOPIC_EXCEPTION


def test_a_waiter_is_answered_once_however_many_things_end_it(broker):
    broker.lead()
    answers = broker.produce(acks=-1)
    broker.timer.expire_all()
    for follower in (2, 3):
        broker.fetch(1, follower=follower)
    broker.follow(2)
    assert len(answers) == 1
    assert only(answers).error is Error.REQUEST_TIMED_OUT


def test_waiters_that_timed_out_are_taken_out_of_the_queue(broker):
    partition = broker.lead()
    for _ in range(5):
        broker.produce(acks=-1)
        broker.timer.expire_all()
    assert partition.waiters.parked_acks == 1


def test_an_append_from_within_a_completion_is_seen(broker):
    broker.lead(isr=(1, 2), replicas=(1, 2))
    later = []

    def on_done(results):
        broker.replicas.append([(TopicPartition("orders", 0), batch())], -1, 100, later.append)

    broker.replicas.append([(TopicPartition("orders", 0), batch())], -1, 100, on_done)
    broker.fetch(1, follower=2)
    assert broker.partition.log.log_end_offset == 2
    broker.fetch(2, follower=2)
    assert only(later).base_offset == 1
