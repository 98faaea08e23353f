"""The coordinator's shell: no answer and no marker is sent before its record is replicated."""

import pytest
import trio

from cluster.replication.leader.verified_appends import Question
from cluster.statemachines.transaction import TransactionState
from cluster.statemachines.transaction_requests import Producer
from tests.unit.transactions.in_memory import P0, P1, Shell, run_shell
from wire.errors import Error
from wire.types import LeaderEpoch, ProducerEpoch, ProducerId

LOST = Error.NOT_LEADER_OR_FOLLOWER


def test_a_transaction_from_its_begin_to_its_end() -> None:
    async def body(shell: Shell) -> None:
        producer = await shell.producer()
        assert producer == Producer(ProducerId(1001), ProducerEpoch(0))
        assert shell.add(producer) == [Error.NONE]
        assert shell.state() == "Ongoing"
        assert shell.end(producer) == [Error.NONE]
        assert shell.state() == "PrepareCommit"
        assert shell.end(producer) == [Error.CONCURRENT_TRANSACTIONS]
        shell.mark()
        assert shell.state() == "CompleteCommit"
        assert shell.end(producer) == [Error.NONE]
        assert shell.end(producer, commit=False) == [Error.INVALID_TXN_STATE]
        assert shell.add(producer) == [Error.NONE]

    run_shell(body)


def test_a_next_transaction_waits_for_the_markers_of_the_last_one() -> None:
    async def body(shell: Shell) -> None:
        producer = await shell.producer()
        shell.add(producer)
        shell.end(producer)
        first, second = shell.add(producer), shell.add(producer, P1)
        await trio.sleep(0.01)
        assert (first, second) == ([], [])
        shell.mark()
        assert (first, second) == ([Error.NONE], [Error.NONE])
        assert shell.state() == "Ongoing"
        assert not len(shell.coordinator.parked)
        # It is answered once, and nothing is left to expire.
        await trio.sleep(1)
        assert (first, second) == ([Error.NONE], [Error.NONE])

    run_shell(body)


def test_a_next_transaction_waits_no_longer_than_its_client_would() -> None:
    async def body(shell: Shell) -> None:
        producer = await shell.producer()
        shell.add(producer)
        shell.end(producer)
        answers = shell.add(producer)
        await trio.sleep(0.05)
        assert answers == [Error.CONCURRENT_TRANSACTIONS]
        assert not len(shell.coordinator.parked)
        shell.mark()
        assert answers == [Error.CONCURRENT_TRANSACTIONS]

    run_shell(body)


def test_a_next_transaction_learns_that_its_coordinator_has_moved() -> None:
    async def body(shell: Shell) -> None:
        producer = await shell.producer()
        shell.add(producer)
        shell.end(producer)
        answers = shell.add(producer)
        shell.hosted.led.unload(0, LeaderEpoch(6))
        await trio.sleep(0.05)
        assert answers == [Error.NOT_COORDINATOR]

    run_shell(body)


def test_an_answer_waits_until_its_record_is_replicated() -> None:
    async def body(shell: Shell) -> None:
        shell.log.holds = True
        answers = await shell.init()
        assert not answers
        assert shell.state() == "Empty"
        shell.log.complete()
        producer = answers[0].producer
        added = shell.add(producer)
        assert not added
        assert shell.add(producer) == [Error.CONCURRENT_TRANSACTIONS]
        shell.log.complete()
        assert added == [Error.NONE]
        ended = shell.end(producer)
        assert not ended
        assert not shell.markers.sent
        shell.log.complete()
        assert ended == [Error.NONE]
        assert len(shell.markers.sent) == 1

    run_shell(body)


@pytest.mark.parametrize(
    ("said", "answered"),
    [
        (Error.NOT_ENOUGH_REPLICAS, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.REQUEST_TIMED_OUT, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.NOT_LEADER_OR_FOLLOWER, Error.NOT_COORDINATOR),
        (Error.KAFKA_STORAGE_ERROR, Error.NOT_COORDINATOR),
        (Error.MESSAGE_TOO_LARGE, Error.UNKNOWN_SERVER_ERROR),
        (Error.RECORD_LIST_TOO_LARGE, Error.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_record_that_cannot_be_written_changes_nothing(said: Error, answered: Error) -> None:
    async def body(shell: Shell) -> None:
        producer = await shell.producer()
        shell.log.holds = True
        added = shell.add(producer)
        shell.log.complete(said)
        assert added == [answered]
        assert shell.state() == "Empty"
        shell.log.holds = False
        assert shell.add(producer) == [Error.NONE]
        shell.log.holds = True
        ended = shell.end(producer)
        shell.log.complete(said)
        assert ended == [answered]
        assert shell.state() == "Ongoing"
        assert not shell.markers.sent
        # The record may be in the log nevertheless; the next one replaces it.
        shell.log.holds = False
        assert shell.end(producer, commit=False) == [Error.NONE]

    run_shell(body)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("step", ["init", "add", "end", "complete"])
def test_what_was_written_under_a_lost_leadership_is_nobodys_answer(step: str, again: bool) -> None:
    """The partition is lost during each wait, and gained again in half of them."""

    async def body(shell: Shell) -> None:
        producer = await shell.producer()
        if step != "init":
            shell.add(producer)
        if step == "complete":
            shell.end(producer)
        shell.log.holds = True
        match step:
            case "init":
                answers = await shell.init()
            case "add":
                answers = shell.add(producer, P1)
            case "end":
                answers = shell.end(producer)
            case _:
                shell.mark()
                answers = [Error.NOT_COORDINATOR]
        partition = shell.hosted.led.unload(0, LeaderEpoch(6))
        shell.markers.unload(partition)
        if again:
            shell.lead(7)
        shell.log.complete()
        assert [getattr(each, "error", each) for each in answers] == [Error.NOT_COORDINATOR]
        assert not shell.markers.sent
        if again:
            assert not shell.hosted.led.get(0).transactions

    run_shell(body)


def test_an_open_transaction_is_fenced_before_a_producer_is_given() -> None:
    async def body(shell: Shell) -> None:
        producer = await shell.producer()
        shell.add(producer)
        (answer,) = await shell.init()
        assert answer.error is Error.CONCURRENT_TRANSACTIONS
        ((_, transaction),) = shell.markers.sent
        assert transaction.state is TransactionState.PREPARE_ABORT
        assert transaction.record.producer_epoch == 1
        assert shell.end(producer) == [Error.PRODUCER_FENCED]
        shell.mark()
        assert await shell.producer() == Producer(producer.producer_id, ProducerEpoch(2))

    run_shell(body)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_that_is_not_allowed_is_refused_first(timeout_ms: int) -> None:
    async def body(shell: Shell) -> None:
        shell.leads = False
        (answer,) = await shell.init(timeout_ms=timeout_ms)
        assert answer.error is Error.INVALID_TRANSACTION_TIMEOUT

    run_shell(body)


def test_who_is_no_coordinator_says_so() -> None:
    async def body(shell: Shell) -> None:
        ours = Producer(ProducerId(1), ProducerEpoch(0))
        assert shell.add(ours, transactional_id="") == [Error.INVALID_REQUEST]
        assert (await shell.init(""))[0].error is Error.INVALID_REQUEST
        assert shell.end(ours) == [Error.INVALID_PRODUCER_ID_MAPPING]
        assert shell.state() == "TRANSACTIONAL_ID_NOT_FOUND"
        shell.hosted.led.get(0).is_loading = True
        assert shell.add(ours) == [Error.COORDINATOR_LOAD_IN_PROGRESS]
        shell.leads = False
        assert shell.add(ours) == [Error.NOT_COORDINATOR]
        assert (await shell.init())[0].error is Error.NOT_COORDINATOR
        assert shell.state() == "NOT_COORDINATOR"
        assert shell.coordinator.verify(Question("t", *ours, (P0,))) == {P0: Error.NOT_COORDINATOR}

    run_shell(body)


def test_without_a_producer_id_a_client_is_to_ask_again() -> None:
    async def body(shell: Shell) -> None:
        shell.next_id = Error.COORDINATOR_LOAD_IN_PROGRESS
        (answer,) = await shell.init()
        assert answer.error is Error.COORDINATOR_LOAD_IN_PROGRESS
        assert shell.state() == "TRANSACTIONAL_ID_NOT_FOUND"

    run_shell(body)


def test_two_that_begin_an_id_together_get_one_producer_after_the_other() -> None:
    async def body(shell: Shell) -> None:
        answers: list = []
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(shell.coordinator.initialise, "t", 1, None, answers.append)
        assert [answer.error for answer in answers] == [Error.NONE, Error.NONE]
        first, second = (answer.producer for answer in answers)
        assert (first.producer_id, first.epoch + 1) == (second.producer_id, second.epoch)

    run_shell(body)


def test_partitions_are_confirmed_while_a_record_is_on_its_way() -> None:
    async def body(shell: Shell) -> None:
        producer = await shell.producer()
        shell.add(producer)
        shell.log.holds = True
        shell.add(producer, P1)
        answer = shell.coordinator.verify(Question("t", *producer, (P0, P1)))
        assert answer == {P0: Error.NONE, P1: Error.TRANSACTION_ABORTABLE}

    run_shell(body)


def test_a_completion_is_tried_until_it_is_written() -> None:
    async def body(shell: Shell) -> None:
        producer = await shell.producer()
        shell.add(producer)
        shell.end(producer)
        shell.log.holds = True
        shell.mark()
        shell.log.complete(Error.REQUEST_TIMED_OUT)
        assert shell.state() == "PrepareCommit"
        assert shell.end(producer) == [Error.CONCURRENT_TRANSACTIONS]
        await trio.sleep(0.2)
        shell.log.complete()
        assert shell.state() == "CompleteCommit"

    run_shell(body)


def test_a_transaction_is_completed_once() -> None:
    async def body(shell: Shell) -> None:
        producer = await shell.producer()
        shell.add(producer)
        shell.end(producer)
        ((partition, transaction),) = shell.markers.sent
        shell.log.holds = True
        written = len(shell.log.written)
        for _ in range(2):
            shell.coordinator.marked(partition, transaction)
        assert len(shell.log.written) == written + 1
        shell.log.complete()
        shell.coordinator.marked(partition, transaction)
        assert len(shell.log.written) == written + 1

    run_shell(body)


def test_a_transaction_that_is_open_for_too_long_is_aborted() -> None:
    async def body(shell: Shell) -> None:
        producer = await shell.producer()
        shell.add(producer)
        partition = shell.hosted.led.get(0)
        await trio.sleep(60)
        assert shell.coordinator.abort_timed_out(partition, tuple(partition.transactions.values())) == 0
        await trio.sleep(0.1)
        assert shell.coordinator.abort_timed_out(partition, tuple(partition.transactions.values())) == 1
        assert shell.state() == "PrepareAbort"
        assert shell.coordinator.oldest_prepare(shell.clock.wall_ms()) == 0
        await trio.sleep(3)
        assert shell.coordinator.oldest_prepare(shell.clock.wall_ms()) == pytest.approx(3)
        shell.mark()
        assert shell.end(producer, commit=False) == [Error.PRODUCER_FENCED]

    run_shell(body)


def test_a_coordinator_whose_clock_is_behind_goes_on_with_every_transaction() -> None:
    """Times are stored, and another broker can compare them with its clock: they need not increase (KAFKA-8803)."""

    async def body(shell: Shell) -> None:
        producer = await shell.producer()
        assert shell.add(producer) == [Error.NONE]
        shell.clock.jump_ms = -2 * 3_600_000
        partition = shell.hosted.led.get(0)
        assert shell.add(producer, P1) == [Error.NONE]
        assert shell.coordinator.abort_timed_out(partition, tuple(partition.transactions.values())) == 0
        assert shell.end(producer) == [Error.NONE]
        shell.mark()
        assert shell.state() == "CompleteCommit"
        assert shell.add(producer) == [Error.NONE]
        assert shell.end(producer, commit=False) == [Error.NONE]
        shell.mark()
        assert (await shell.producer()).epoch == producer.epoch + 1

    run_shell(body)


def test_a_coordinator_whose_clock_is_ahead_aborts_early_and_only_what_is_open() -> None:
    async def body(shell: Shell) -> None:
        producer = await shell.producer()
        idle = await shell.producer("idle")
        shell.add(producer)
        shell.clock.jump_ms = 2 * 3_600_000
        partition = shell.hosted.led.get(0)
        assert shell.coordinator.abort_timed_out(partition, tuple(partition.transactions.values())) == 1
        assert shell.end(producer) == [Error.PRODUCER_FENCED]
        shell.mark()
        assert shell.state() == "CompleteAbort"
        assert shell.add(idle, transactional_id="idle") == [Error.NONE]

    run_shell(body)


def test_ids_out_of_use_are_forgotten_when_their_tombstones_are_replicated() -> None:
    async def body(shell: Shell) -> None:
        await shell.producer()
        partition = shell.hosted.led.get(0)
        await trio.sleep(10)
        shell.log.holds = True
        assert shell.coordinator.expire(partition, ["t", "unknown"]) == 1
        assert shell.log.written[-1] == {"t": None}
        # A producer that asks right now has to ask again.
        assert (await shell.init())[0].error is Error.CONCURRENT_TRANSACTIONS
        shell.log.complete(Error.NOT_ENOUGH_REPLICAS)
        assert shell.state() == "Empty"
        assert shell.coordinator.expire(partition, ["t"]) == 1
        shell.log.complete()
        assert shell.state() == "TRANSACTIONAL_ID_NOT_FOUND"
        shell.log.holds = False
        assert (await shell.producer()).producer_id == 1002

    run_shell(body, id_expiration_ms=10_000)


def test_long_ids_expire_in_batches_that_fit() -> None:
    async def body(shell: Shell) -> None:
        ids = [f"{number}{'x' * 30_000}" for number in range(20)]
        for transactional_id in ids:
            await shell.producer(transactional_id)
        await trio.sleep(10)
        before = len(shell.log.written)
        assert shell.coordinator.expire(shell.hosted.led.get(0), ids) == 20
        batches = shell.log.written[before:]
        assert [len(batch) for batch in batches] == [8, 8, 4]
        assert not list(shell.hosted.led.get(0).ids())

    run_shell(body, id_expiration_ms=10_000)
