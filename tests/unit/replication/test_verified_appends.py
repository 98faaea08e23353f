"""Transactional batches wait for their coordinators, in order, and hold up nobody else (KIP-890)."""

from collections.abc import Mapping

import pytest

from cluster.handlers import produce
from storage.log import AppendOrigin
from tests.unit.handlers.calls import KeptCall
from tests.unit.replication.in_memory import P0, TOPIC, FakeBroker, batch, partitions_of
from wire.errors import Error
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.records.end_transaction import build_end_transaction_marker
from wire.types import TopicPartition

P1 = TopicPartition(TOPIC, 1)


class Coordinator:
    """Keeps verification requests until the test answers them."""

    def __init__(self, broker: FakeBroker) -> None:
        self.questions: list = []
        broker.replicas.verified_appends.ask = lambda question, on_verified: self.questions.append(
            (question, on_verified)
        )

    def answer(self, error: Error = Error.NONE, index: int = 0) -> None:
        question, on_verified = self.questions.pop(index)
        on_verified(dict.fromkeys(question.partitions, error))


class Producer:
    """Sends batches in the order of their sequence numbers unless told otherwise."""

    def __init__(self, broker: FakeBroker, epoch: int = 0, producer_id: int = 7) -> None:
        self.broker = broker
        self.epoch = epoch
        self.producer_id = producer_id

    def send(self, sequence: int, *places: TopicPartition, acks: int = 1) -> list[Mapping]:
        answers: list = []
        self.broker.replicas.verified_appends.append(
            "t",
            [(at, self.batch(sequence)) for at in places or (P0,)],
            acks,
            1000,
            answers.append,
        )
        return answers

    def batch(self, sequence: int) -> memoryview:
        return batch(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )

    def end(self, *, commit: bool = True) -> None:
        marker = build_end_transaction_marker(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
            coordinator_epoch=0,
            timestamp=1_000_000,
        )
        self.broker.replicas.append(
            [(P0, marker)], 1, 0, lambda results: None, origin=AppendOrigin.COORDINATOR
        )


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker()
    broker.lead(isr=(1,), replicas=(1,), partitions=(0, 1))
    return broker


@pytest.fixture
def coordinator(broker) -> Coordinator:
    return Coordinator(broker)


@pytest.fixture
def producer(broker) -> Producer:
    return Producer(broker)


def outcome(answers, at: TopicPartition = P0):
    (results,) = answers
    return results[at].error, results[at].base_offset


def test_the_first_batch_waits_and_those_behind_it_wait_in_order(broker, coordinator, producer) -> None:
    answers = [producer.send(sequence) for sequence in range(5)]
    assert len(coordinator.questions) == 1
    assert not any(answers)
    others = broker.produce(2)
    assert others[0][P0].base_offset == 0
    coordinator.answer()
    assert [outcome(each) for each in answers] == [(Error.NONE, 2 + index) for index in range(5)]
    assert outcome(producer.send(5)) == (Error.NONE, 7)
    assert not coordinator.questions
    assert broker.replicas.verified_appends.waiting == 0


def test_batches_that_wait_are_not_in_the_receive_buffer_any_more(broker, coordinator, producer) -> None:
    records = producer.batch(0)
    answers: list = []
    broker.replicas.verified_appends.append("t", [(P0, records)], 1, 1000, answers.append)
    records[:] = bytes(len(records))
    coordinator.answer()
    assert outcome(answers) == (Error.NONE, 0)


def test_all_partitions_of_a_request_are_asked_about_at_once(coordinator, producer) -> None:
    answers = producer.send(0, P0, P1)
    ((question, _),) = coordinator.questions
    assert question.partitions == (P0, P1)
    coordinator.answer()
    assert [outcome(answers, at)[0] for at in (P0, P1)] == [Error.NONE, Error.NONE]


def test_two_requests_for_two_partitions_displace_each_other_in_nothing(coordinator, producer) -> None:
    first, second = producer.send(0, P0), producer.send(0, P1)
    coordinator.answer(index=1)
    coordinator.answer()
    assert outcome(first, P0) == (Error.NONE, 0)
    assert outcome(second, P1) == (Error.NONE, 0)


def test_a_request_is_answered_when_its_last_partition_is(coordinator, producer) -> None:
    producer.send(0, P0)
    coordinator.answer()
    answers = producer.send(1, P0, P1)
    assert not answers
    coordinator.answer(Error.TRANSACTION_ABORTABLE)
    assert outcome(answers, P0) == (Error.NONE, 1)
    assert outcome(answers, P1)[0] is Error.TRANSACTION_ABORTABLE


@pytest.mark.parametrize(
    ("said", "verified"),
    [
        (Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_ENOUGH_REPLICAS),
        (Error.COORDINATOR_LOAD_IN_PROGRESS, Error.NOT_ENOUGH_REPLICAS),
        (Error.NOT_COORDINATOR, Error.NOT_ENOUGH_REPLICAS),
        (Error.NETWORK_EXCEPTION, Error.NOT_ENOUGH_REPLICAS),
        (Error.CONCURRENT_TRANSACTIONS, Error.NOT_ENOUGH_REPLICAS),
        (Error.PRODUCER_FENCED, Error.INVALID_PRODUCER_EPOCH),
        (Error.TRANSACTION_ABORTABLE, Error.TRANSACTION_ABORTABLE),
        (Error.INVALID_PRODUCER_ID_MAPPING, Error.INVALID_PRODUCER_ID_MAPPING),
        (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.UNKNOWN_TOPIC_OR_PARTITION),
        (Error.INVALID_TXN_STATE, Error.INVALID_TXN_STATE),
    ],
)
def test_what_a_producer_is_told_of_a_failed_verification(
    broker, coordinator, producer, said, verified
) -> None:
    answers = [producer.send(sequence) for sequence in range(3)]
    coordinator.answer(said)
    assert [outcome(each)[0] for each in answers] == [verified] * 3
    assert broker.partition.log.log_end_offset == 0


def test_after_a_passing_failure_the_batches_come_again_in_order(broker, coordinator, producer) -> None:
    for sequence in range(2):
        producer.send(sequence)
    coordinator.answer(Error.NETWORK_EXCEPTION)
    # Sent before the client learned of the first batch's failure: it must not become the first of the transaction.
    late = producer.send(2)
    coordinator.answer()
    assert outcome(late)[0] is Error.NOT_ENOUGH_REPLICAS
    again = [producer.send(sequence) for sequence in range(3)]
    coordinator.answer()
    assert [outcome(each) for each in again] == [(Error.NONE, offset) for offset in range(3)]


def test_an_answer_overtaken_by_the_marker_appends_nothing(broker, coordinator, producer) -> None:
    answers = producer.send(0)
    producer.end()
    coordinator.answer()
    assert outcome(answers)[0] is Error.INVALID_TXN_STATE
    assert broker.partition.log.producer_state.first_open_offset is None


def test_a_fenced_producer_is_told_so_before_anybody_is_asked(broker, coordinator, producer) -> None:
    Producer(broker, epoch=1).end(commit=False)
    assert outcome(producer.send(0))[0] is Error.INVALID_PRODUCER_EPOCH
    assert not coordinator.questions


def test_a_producer_fenced_while_it_waits_is_told_so(broker, coordinator, producer) -> None:
    answers = producer.send(0)
    Producer(broker, epoch=1).end(commit=False)
    coordinator.answer(Error.TRANSACTION_ABORTABLE)
    assert outcome(answers)[0] is Error.INVALID_PRODUCER_EPOCH


def test_a_newer_epoch_behind_an_older_one_asks_for_itself(broker, coordinator, producer) -> None:
    old, new = producer.send(0), Producer(broker, epoch=1).send(0)
    coordinator.answer(Error.PRODUCER_FENCED)
    assert outcome(old)[0] is Error.INVALID_PRODUCER_EPOCH
    assert not new
    assert coordinator.questions[0][0].producer_epoch == 1
    coordinator.answer()
    assert outcome(new) == (Error.NONE, 0)


def test_a_leader_that_follows_meanwhile_says_so(broker, coordinator, producer) -> None:
    answers = producer.send(0)
    broker.follow(2)
    coordinator.answer()
    assert outcome(answers)[0] is Error.NOT_LEADER_OR_FOLLOWER


def test_a_client_that_answers_within_the_answer_keeps_its_order(broker, coordinator, producer) -> None:
    more: list = []
    answers = []

    def next_one(results) -> None:
        answers.append(results)
        more.append(producer.send(2))

    broker.replicas.verified_appends.append("t", [(P0, producer.batch(0))], 1, 1000, next_one)
    second = producer.send(1)
    coordinator.answer()
    assert outcome(answers) == (Error.NONE, 0)
    assert outcome(second) == (Error.NONE, 1)
    assert outcome(more[0]) == (Error.NONE, 2)


def test_nothing_unverified_is_appended_past_the_verification(broker, producer) -> None:
    results: list = []
    broker.replicas.append([(P0, producer.batch(0))], 1, 1000, results.append)
    assert outcome(results)[0] is Error.INVALID_TXN_STATE


def test_verification_can_be_switched_off(make_broker) -> None:
    broker = make_broker(transaction_partition_verification_enable="false")
    broker.lead(isr=(1,), replicas=(1,))
    coordinator = Coordinator(broker)
    assert outcome(Producer(broker).send(0)) == (Error.NONE, 0)
    assert not coordinator.questions


def test_records_of_a_coordinator_are_verified_once(broker, coordinator, producer) -> None:
    verified: list = []
    appends = broker.replicas.verified_appends
    appends.verify("t", P0, 7, 0, lambda error, token: verified.append((error, token)))
    coordinator.answer()
    ((error, token),) = verified
    assert error is Error.NONE
    results: list = []
    broker.replicas.append(
        [(P0, producer.batch(0))],
        1,
        1000,
        results.append,
        origin=AppendOrigin.COORDINATOR,
        tokens={P0: token},
    )
    assert outcome(results) == (Error.NONE, 0)
    appends.verify("t", P0, 7, 0, lambda error, token: verified.append((error, token)))
    assert verified[1] == (Error.NONE, None)
    appends.verify(
        "t", TopicPartition("absent", 0), 7, 0, lambda error, token: verified.append((error, token))
    )
    assert verified[2] == (Error.UNKNOWN_TOPIC_OR_PARTITION, None)


# The Produce handler


def request(broker, transactional_id, *batches, version=11):
    call = KeptCall(
        broker,
        ProduceRequest(
            transactional_id=transactional_id,
            acks=1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(
                    name=TOPIC,
                    partition_data=[
                        PartitionProduceData(index=index, records=records)
                        for index, records in enumerate(batches)
                    ],
                )
            ],
        ),
        version,
    )
    produce.begin(call)
    return call


def errors(call) -> list[Error]:
    (response,) = call.responses
    return [Error(one.error_code) for topic in response.responses for one in topic.partition_responses]


def test_transactional_batches_without_an_id_fail_the_whole_request(broker, coordinator, producer) -> None:
    call = request(broker, None, producer.batch(0), batch(1))
    assert errors(call) == [Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2
    assert broker.partition.log.log_end_offset == 0


def test_a_request_of_two_transactional_producers_is_refused(broker, coordinator, producer) -> None:
    call = request(broker, "t", producer.batch(0), Producer(broker, producer_id=8).batch(0))
    assert errors(call) == [Error.INVALID_PRODUCER_ID_MAPPING] * 2


def test_an_id_with_plain_batches_is_not_verified(broker, coordinator) -> None:
    assert errors(request(broker, "t", batch(1))) == [Error.NONE]
    assert not coordinator.questions


@pytest.mark.parametrize(
    ("version", "verified"), [(11, Error.TRANSACTION_ABORTABLE), (10, Error.INVALID_TXN_STATE)]
)
def test_only_new_clients_hear_that_a_transaction_can_be_aborted(
    broker, coordinator, producer, version, verified
) -> None:
    call = request(broker, "t", producer.batch(0), version=version)
    coordinator.answer(Error.TRANSACTION_ABORTABLE)
    assert errors(call) == [verified]


def test_a_fetch_of_committed_data_tells_of_no_aborted_transaction_by_an_empty_list(broker) -> None:
    data = partitions_of(broker.fetch(0, committed=True, max_wait_ms=0))[0]
    assert list(data.aborted_transactions) == []
    assert partitions_of(broker.fetch(0, max_wait_ms=0))[0].aborted_transactions is None
