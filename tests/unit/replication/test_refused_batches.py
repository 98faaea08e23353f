"""Batches that were sent after one with a retriable error: refused with the same error, and taken in order later."""

import pytest

from cluster.replication.leader.refused_batches import RefusedBatches
from tests.unit.replication.in_memory import P0, batch
from wire.errors import Error
from wire.types import TopicPartition


class IdempotentProducer:
    """One producer's batches of one record each, as they arrive at a broker."""

    def __init__(self, broker, producer_id=7):
        self.broker = broker
        self.producer_id = producer_id

    def send(self, sequence, *, epoch=0, acks=1, key=P0):
        """Send a batch, and return the error and the offset of the answer."""
        records = batch(1, producer_id=self.producer_id, producer_epoch=epoch, base_sequence=sequence)
        answers = []
        self.broker.replicas.append([(key, records)], acks, 1000, answers.append)
        ((result,),) = [results.values() for results in answers]
        return result.error, result.base_offset


@pytest.fixture
def producer(broker):
    return IdempotentProducer(broker)


NOT_LEADER = (Error.NOT_LEADER_OR_FOLLOWER, -1)


def refuse_the_second(broker, producer):
    """Take a producer's first batch, refuse the second while the broker is no leader, and make it lead again."""
    broker.lead()
    assert producer.send(0) == (Error.NONE, 0)
    broker.follow(2)
    assert producer.send(1) == NOT_LEADER
    broker.lead()


def test_leadership_that_comes_between_two_requests_makes_no_gap(broker, producer):
    refuse_the_second(broker, producer)
    assert [producer.send(sequence) for sequence in (2, 3, 4, 5)] == [NOT_LEADER] * 4
    assert [producer.send(sequence)[1] for sequence in (1, 2, 3, 4, 5)] == [1, 2, 3, 4, 5]


def test_a_producer_that_is_new_here_does_not_begin_with_its_second_batch(broker, producer):
    broker.follow(2)
    assert producer.send(0) == NOT_LEADER
    broker.lead()
    assert producer.send(1) == NOT_LEADER
    assert [producer.send(sequence)[1] for sequence in (0, 1)] == [0, 1]


def test_a_partition_that_is_not_here_yet_is_the_same(broker, producer):
    broker.lead(partitions=(0,))
    new = TopicPartition("orders", 1)
    assert producer.send(0, key=new)[0] is Error.NOT_LEADER_OR_FOLLOWER
    broker.lead(partitions=(0, 1))
    assert producer.send(1, key=new)[0] is Error.NOT_LEADER_OR_FOLLOWER
    assert [producer.send(sequence, key=new)[1] for sequence in (0, 1)] == [0, 1]


def test_an_isr_that_grows_between_two_requests_makes_no_gap(broker, producer):
    broker.zookeeper.configs["orders"] = {"min.insync.replicas": "2"}
    broker.lead(isr=(1,))
    assert producer.send(0) == (Error.NONE, 0)
    assert producer.send(1, acks=-1)[0] is Error.NOT_ENOUGH_REPLICAS
    broker.lead(isr=(1, 2))
    assert producer.send(2)[0] is Error.NOT_ENOUGH_REPLICAS
    assert [producer.send(sequence)[1] for sequence in (1, 2)] == [1, 2]


def test_a_batch_that_the_log_has_is_answered_with_its_offset(broker, producer):
    broker.lead()
    assert [producer.send(sequence)[1] for sequence in (0, 1)] == [0, 1]
    broker.follow(2)
    assert producer.send(0) == NOT_LEADER
    broker.lead()
    assert producer.send(1) == (Error.NONE, 1)


def test_a_log_that_went_on_elsewhere_goes_on_here(broker, producer):
    refuse_the_second(broker, producer)
    assert IdempotentProducer(broker, 8).send(0) == (Error.NONE, 1)
    entry = broker.partition.log.producer_state.entries[7]
    entry.add(0, entry.batches[-1]._replace(last_sequence=1))
    assert producer.send(2) == (Error.NONE, 2)


def test_a_gap_is_told_as_one_when_nothing_can_be_on_its_way_any_more(broker, producer):
    refuse_the_second(broker, producer)
    assert [producer.send(sequence) for sequence in (2, 3, 4, 5)] == [NOT_LEADER] * 4
    assert producer.send(6)[0] is Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_behind_what_was_refused_for_good_is_told_at_once(broker, producer):
    broker.lead()
    assert producer.send(0) == (Error.NONE, 0)
    broker.partition.log.update_config(
        type(broker.partition.log.config).from_strings({"max.message.bytes": "10"})
    )
    assert producer.send(1)[0] is Error.MESSAGE_TOO_LARGE
    broker.partition.log.update_config(type(broker.partition.log.config).from_strings({}))
    assert producer.send(2)[0] is Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_starts_over(broker, producer):
    refuse_the_second(broker, producer)
    assert producer.send(0, epoch=1) == (Error.NONE, 1)
    assert producer.send(1, epoch=1) == (Error.NONE, 2)


def test_another_producer_is_not_held_back(broker, producer):
    broker.follow(2)
    assert producer.send(0) == NOT_LEADER
    broker.lead()
    assert IdempotentProducer(broker, 8).send(0) == (Error.NONE, 0)


def test_sequence_numbers_wrap(broker, producer):
    broker.lead()
    last = (1 << 31) - 1
    assert producer.send(last) == (Error.NONE, 0)
    broker.follow(2)
    assert producer.send(0) == NOT_LEADER
    broker.lead()
    assert producer.send(1) == NOT_LEADER
    assert [producer.send(sequence)[1] for sequence in (0, 1)] == [1, 2]


def test_producers_without_sequence_numbers_leave_nothing_behind():
    refused = RefusedBatches()
    for records in (batch(), None, memoryview(b"short"), memoryview(bytes(61))):
        refused.note(P0, records, Error.NOT_LEADER_OR_FOLLOWER)
    assert not refused


def test_what_is_remembered_is_bounded():
    refused = RefusedBatches()
    for producer_id in range(5000):
        records = batch(1, producer_id=producer_id, producer_epoch=0, base_sequence=0)
        refused.note(P0, records, Error.NOT_LEADER_OR_FOLLOWER)
    assert len(refused) == 4096
