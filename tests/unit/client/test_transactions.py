"""A transactional producer's states, and what answers mean for it."""

from itertools import product

import pytest

from ottla.client.errors import ClientError, ProducerFenced, TransactionAborted
from ottla.client.transactions import (
    TRANSITIONS,
    IllegalTransition,
    TransactionEvent,
    TransactionMachine,
    TransactionPhase,
    Verdict,
    fatal_error,
    verdict_on,
)
from wire.errors import Error
from wire.types import TopicPartition

PLACE = TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("phase", "event"),
    [pair for pair in product(TransactionPhase, TransactionEvent) if pair not in TRANSITIONS],
)
def test_every_other_transition_is_illegal_and_changes_nothing(
    phase: TransactionPhase, event: TransactionEvent
) -> None:
    machine = TransactionMachine("id")
    machine.phase = phase
    with pytest.raises(IllegalTransition):
        machine._move(event)
    assert machine.phase is phase


def test_a_partition_is_added_before_its_first_batch_leaves() -> None:
    machine = TransactionMachine("id")
    asked = []
    machine.on_wanted = lambda: asked.append(set(machine.wanted))
    assert not machine.may_send(PLACE), "outside of a transaction nothing leaves"
    machine.begin()
    assert not machine.may_send(PLACE)
    assert not machine.may_send(PLACE)
    assert asked == [{PLACE}]
    machine.partitions_added({PLACE})
    assert machine.may_send(PLACE)
    assert not machine.is_empty
    machine.ended()
    assert machine.is_empty
    machine.begin()
    assert not machine.may_send(PLACE), "each transaction adds its own"


def test_a_doubted_transaction_only_aborts() -> None:
    machine = TransactionMachine("id")
    machine.doubt(ClientError("late failure"))
    assert machine.phase is TransactionPhase.READY
    machine.begin()
    machine.doubt(ClientError("first"))
    machine.doubt(ClientError("second"))
    assert not machine.may_send(PLACE)
    error = machine.aborted_error()
    assert isinstance(error, TransactionAborted)
    assert "first" in str(error)
    machine.ended()
    machine.begin()


def test_a_fenced_producer_stays_so() -> None:
    machine = TransactionMachine("id")
    machine.begin()
    fenced = fatal_error(Error.PRODUCER_FENCED, "id")
    assert isinstance(fenced, ProducerFenced)
    machine.fail(fenced)
    assert machine.aborted_error() is fenced
    machine.ended()
    with pytest.raises(ProducerFenced):
        machine.begin()


def test_verdicts() -> None:
    assert verdict_on(Error.NONE) is Verdict.DONE
    assert verdict_on(Error.CONCURRENT_TRANSACTIONS) is Verdict.RETRY
    assert verdict_on(Error.NOT_COORDINATOR) is Verdict.FIND
    assert verdict_on(Error.TRANSACTION_ABORTABLE) is Verdict.ABORT
    assert verdict_on(Error.ILLEGAL_GENERATION) is Verdict.ABORT
    assert verdict_on(Error.PRODUCER_FENCED) is Verdict.FATAL
    assert verdict_on(Error.INVALID_TXN_STATE) is Verdict.FATAL
