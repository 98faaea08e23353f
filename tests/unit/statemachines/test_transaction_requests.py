"""What a transaction coordinator decides: each request in each state, the order of checks, epochs that run out."""

from dataclasses import replace
from random import Random

import pytest

from cluster.statemachines import transaction_requests as requests
from cluster.statemachines.transaction import (
    EPOCH_MAX,
    Pending,
    Transaction,
    TransactionRecord,
    TransactionState,
)
from cluster.statemachines.transaction_requests import Answer, NeedsProducerId, Producer
from cluster.statemachines.transition import IllegalTransition
from wire.errors import Error
from wire.types import NO_PRODUCER_EPOCH, NO_TIMESTAMP, ProducerEpoch, ProducerId, TopicPartition, WallMs

S = TransactionState
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
NOW = WallMs(1_000_000)
LATER = WallMs(NOW + 5_000)
ID = ProducerId(7)
OURS = Producer(ID, ProducerEpoch(3))
LIVE = [state for state in S if state is not S.DEAD]


def given(state: TransactionState, epoch: int = 3, *, pending: bool = False) -> Transaction:
    open_ = state in (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT)
    transaction = Transaction(
        "t",
        TransactionRecord(
            ID,
            ProducerEpoch(epoch),
            60_000,
            state,
            frozenset({P0}) if open_ else frozenset(),
            NOW,
            NO_TIMESTAMP if state is S.EMPTY else NOW,
        ),
    )
    if pending:
        transaction.begin(Pending(transaction.record))
    return transaction


def snapshot(transaction: Transaction) -> tuple:
    return (
        transaction.record,
        transaction.previous_producer_id,
        transaction.previous_epoch,
        transaction.pending,
        transaction.fence_failed,
        set(transaction.unmarked),
    )


REQUESTS = {
    "init": lambda t: requests.initialise(t, None, 30_000, LATER),
    "add known": lambda t: requests.add_partitions(t, OURS, [P0], LATER),
    "add new": lambda t: requests.add_partitions(t, OURS, [P0, P1], LATER),
    "commit": lambda t: requests.end(t, OURS, commit=True, now=LATER),
    "abort": lambda t: requests.end(t, OURS, commit=False, now=LATER),
}
BUSY, WRONG = Error.CONCURRENT_TRANSACTIONS, Error.INVALID_TXN_STATE
# By request, for EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT: an answer, or the
# state that is written before the answer.
DECISIONS = {
    "init": (S.EMPTY, S.PREPARE_ABORT, BUSY, BUSY, S.EMPTY, S.EMPTY),
    "add known": (S.ONGOING, Error.NONE, BUSY, BUSY, S.ONGOING, S.ONGOING),
    "add new": (S.ONGOING, S.ONGOING, BUSY, BUSY, S.ONGOING, S.ONGOING),
    "commit": (WRONG, S.PREPARE_COMMIT, BUSY, BUSY, Error.NONE, WRONG),
    "abort": (WRONG, S.PREPARE_ABORT, BUSY, BUSY, WRONG, Error.NONE),
}


@pytest.mark.parametrize(
    ("name", "state", "expected"),
    [(name, state, row[index]) for name, row in DECISIONS.items() for index, state in enumerate(LIVE)],
)
def test_each_request_in_each_state(name: str, state: S, expected: object) -> None:
    transaction = given(state)
    before = snapshot(transaction)
    decision = REQUESTS[name](transaction)
    assert snapshot(transaction) == before
    if isinstance(expected, Error):
        assert decision == Answer(expected)
    else:
        assert decision.record.state is expected


@pytest.mark.parametrize("state", LIVE)
@pytest.mark.parametrize("name", REQUESTS)
def test_nothing_begins_while_a_transition_is_pending(name: str, state: S) -> None:
    assert REQUESTS[name](given(state, pending=True)) == Answer(BUSY)


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("state", LIVE)
def test_which_partitions_are_confirmed(state: S, pending: bool) -> None:
    answer = requests.verify(given(state, pending=pending), OURS, [P0, P1])
    if state.is_prepared:
        assert answer is BUSY
    else:
        known = Error.NONE if state is S.ONGOING else Error.TRANSACTION_ABORTABLE
        assert answer == {P0: known, P1: Error.TRANSACTION_ABORTABLE}


@pytest.mark.parametrize("state", LIVE)
@pytest.mark.parametrize(
    ("producer", "error"),
    [
        (Producer(ProducerId(8), ProducerEpoch(3)), Error.INVALID_PRODUCER_ID_MAPPING),
        (Producer(ProducerId(8), ProducerEpoch(2)), Error.INVALID_PRODUCER_ID_MAPPING),
        (Producer(ID, ProducerEpoch(2)), Error.PRODUCER_FENCED),
        (Producer(ID, ProducerEpoch(4)), Error.PRODUCER_FENCED),
    ],
)
def test_the_producer_is_checked_before_the_state(state: S, producer: Producer, error: Error) -> None:
    """Requests that are wrong in two ways: the id, then the epoch, then what is pending, then the state."""
    for transaction in (given(state), given(state, pending=True)):
        assert requests.add_partitions(transaction, producer, [P1], NOW) == Answer(error)
        assert requests.end(transaction, producer, commit=True, now=NOW) == Answer(error)
        assert requests.verify(transaction, producer, [P0]) is error


def test_what_is_pending_is_checked_before_an_expected_producer() -> None:
    stranger = Producer(ProducerId(8), ProducerEpoch(0))
    assert requests.initialise(given(S.EMPTY, pending=True), stranger, 1, NOW) == Answer(BUSY)
    assert requests.initialise(given(S.PREPARE_COMMIT), stranger, 1, NOW) == Answer(BUSY)
    assert requests.initialise(given(S.EMPTY), stranger, 1, NOW) == Answer(Error.PRODUCER_FENCED)


# What is written


def test_the_first_partitions_start_the_clock_and_later_ones_join() -> None:
    transaction = given(S.COMPLETE_COMMIT)
    begun = requests.add_partitions(transaction, OURS, [P0], LATER)
    assert (begun.record.started_at, begun.record.updated_at) == (LATER, LATER)
    transaction.begin(begun)
    transaction.succeed(begun)
    more = requests.add_partitions(transaction, OURS, [P1], WallMs(LATER + 1))
    assert more.record.partitions == {P0, P1}
    assert (more.record.started_at, more.record.updated_at) == (LATER, LATER + 1)


def test_init_forgets_the_last_transaction_and_takes_the_timeout() -> None:
    pending = requests.initialise(given(S.COMPLETE_ABORT), None, 30_000, LATER)
    assert pending.record == TransactionRecord(ID, ProducerEpoch(4), 30_000, S.EMPTY, frozenset(), LATER, -1)


def test_a_completion_has_no_partitions_and_keeps_the_start() -> None:
    transaction = given(S.PREPARE_COMMIT)
    assert transaction.unmarked == {P0}
    pending = requests.complete(transaction, LATER)
    assert pending.record == replace(
        transaction.record, state=S.COMPLETE_COMMIT, partitions=frozenset(), updated_at=LATER
    )
    with pytest.raises(IllegalTransition):
        requests.complete(given(S.ONGOING), LATER)


def test_a_timeout_counts_from_the_first_partition_and_waits_for_what_is_pending() -> None:
    assert not requests.is_timed_out(given(S.ONGOING), WallMs(NOW + 60_000))
    assert requests.is_timed_out(given(S.ONGOING), WallMs(NOW + 60_001))
    assert not requests.is_timed_out(given(S.ONGOING, pending=True), WallMs(NOW + 60_001))
    for state in LIVE:
        if state is not S.ONGOING:
            assert not requests.is_timed_out(given(state), WallMs(NOW + 60_001))


@pytest.mark.parametrize("state", LIVE)
def test_ids_expire_only_out_of_use(state: S) -> None:
    idle = state in (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT)
    pending = requests.expire(given(state), WallMs(NOW + 100), 100)
    assert (pending is not None and pending.record.state is S.DEAD) == idle
    assert requests.expire(given(state), WallMs(NOW + 99), 100) is None
    assert requests.expire(given(state, pending=True), WallMs(NOW + 100), 100) is None


# Fences


def fence(transaction: Transaction, *, written: bool) -> Pending:
    pending = requests.fence(transaction, LATER)
    transaction.begin(pending)
    (transaction.succeed if written else transaction.fail)(pending)
    return pending


def test_a_fence_aborts_in_an_epoch_that_nobody_is_given() -> None:
    transaction = given(S.ONGOING)
    assert fence(transaction, written=True).record.producer_epoch == 4
    assert transaction.state is S.PREPARE_ABORT
    done = requests.complete(transaction, LATER)
    transaction.begin(done)
    transaction.succeed(done)
    assert requests.initialise(transaction, None, 1, LATER).record.producer_epoch == 5
    # The fenced producer's last epoch is no longer accepted (half of KIP-588).
    assert requests.initialise(transaction, OURS, 1, LATER) == Answer(Error.PRODUCER_FENCED)


def test_fences_that_cannot_be_written_use_up_one_epoch_only() -> None:
    transaction = given(S.ONGOING)
    assert [fence(transaction, written=False).record.producer_epoch for _ in range(3)] == [4, 4, 4]
    assert transaction.state is S.ONGOING
    assert requests.end(transaction, OURS, commit=True, now=LATER) == Answer(Error.PRODUCER_FENCED)
    assert fence(transaction, written=True).record.producer_epoch == 4
    assert not transaction.fence_failed


def test_a_zombie_does_not_abort_what_the_living_producer_has_open() -> None:
    zombie = Producer(ID, ProducerEpoch(2))
    assert requests.initialise(given(S.ONGOING), zombie, 1, NOW) == Answer(Error.PRODUCER_FENCED)
    assert requests.initialise(given(S.ONGOING), OURS, 1, NOW).is_fence


# KIP-360


def initialise(transaction: Transaction, expected: Producer | None, new_id: int | None = None) -> object:
    """Return the client's answer: its producer, or an error; None if a producer id is needed."""
    decision = requests.initialise(
        transaction, expected, 1, LATER, None if new_id is None else ProducerId(new_id)
    )
    if isinstance(decision, NeedsProducerId):
        return None
    if isinstance(decision, Answer):
        return decision.error
    transaction.begin(decision)
    transaction.succeed(decision)
    return Producer(decision.record.producer_id, decision.record.producer_epoch)


def test_a_retried_bump_is_answered_with_the_same_epoch() -> None:
    transaction = given(S.EMPTY)
    assert initialise(transaction, OURS) == Producer(ID, ProducerEpoch(4))
    assert initialise(transaction, OURS) == Producer(ID, ProducerEpoch(4))
    assert initialise(transaction, Producer(ID, ProducerEpoch(4))) == Producer(ID, ProducerEpoch(5))
    assert initialise(transaction, OURS) is Error.PRODUCER_FENCED


def test_another_producer_between_makes_the_retry_a_fenced_one() -> None:
    transaction = given(S.EMPTY)
    initialise(transaction, OURS)
    assert initialise(transaction, None) == Producer(ID, ProducerEpoch(5))
    assert initialise(transaction, OURS) is Error.PRODUCER_FENCED
    assert initialise(transaction, Producer(ID, ProducerEpoch(4))) is Error.PRODUCER_FENCED


def test_a_new_or_expired_id_takes_any_expectation() -> None:
    transaction = Transaction("t", TransactionRecord(ProducerId(9)))
    assert transaction.record.producer_epoch == NO_PRODUCER_EPOCH
    assert initialise(transaction, OURS) == Producer(ProducerId(9), ProducerEpoch(0))


# Epochs end


def test_the_last_epoch_is_for_a_fence_only() -> None:
    transaction = given(S.EMPTY, EPOCH_MAX - 2)
    last = Producer(ID, ProducerEpoch(EPOCH_MAX - 1))
    before = Producer(ID, ProducerEpoch(EPOCH_MAX - 2))
    assert initialise(transaction, before) == last
    # A retry before the rotation: Kafka throws.
    assert initialise(transaction, before) == last
    assert initialise(transaction, last) is None
    rotated = Producer(ProducerId(70), ProducerEpoch(0))
    assert initialise(transaction, last, 70) == rotated
    # A retry after it.
    assert initialise(transaction, last) == rotated
    assert initialise(transaction, before) is Error.PRODUCER_FENCED


def test_a_rotation_without_expectation_remembers_nothing() -> None:
    transaction = given(S.COMPLETE_COMMIT, EPOCH_MAX - 1)
    assert initialise(transaction, None, 70) == Producer(ProducerId(70), ProducerEpoch(0))
    assert initialise(transaction, Producer(ID, ProducerEpoch(EPOCH_MAX - 1))) is Error.PRODUCER_FENCED


def test_a_fence_at_the_end_of_the_epochs_can_fail_and_come_again() -> None:
    transaction = given(S.ONGOING, EPOCH_MAX - 1)
    assert [fence(transaction, written=False).record.producer_epoch for _ in range(2)] == [EPOCH_MAX] * 2
    assert fence(transaction, written=True).record.producer_epoch == EPOCH_MAX
    done = requests.complete(transaction, LATER)
    transaction.begin(done)
    transaction.succeed(done)
    assert initialise(transaction, None) is None
    assert initialise(transaction, None, 70) == Producer(ProducerId(70), ProducerEpoch(0))


# The transition under way


def test_only_the_transition_under_way_can_end() -> None:
    transaction = given(S.EMPTY)
    first = requests.add_partitions(transaction, OURS, [P0], NOW)
    other = requests.add_partitions(transaction, OURS, [P0], NOW)
    transaction.begin(first)
    before = snapshot(transaction)
    for act in (transaction.begin, transaction.succeed, transaction.fail):
        with pytest.raises(IllegalTransition):
            act(other)
        assert snapshot(transaction) == before
    transaction.fail(first)
    assert transaction.state is S.EMPTY


@pytest.mark.parametrize("seed", range(200))
def test_whatever_happens_epochs_never_fall_and_decisions_stand(seed: int) -> None:
    """Random requests, outcomes of writes, and failovers to a coordinator that has only the log."""
    chance = Random(seed)
    log = TransactionRecord(ID, ProducerEpoch(0), 60_000, S.EMPTY, frozenset(), NOW, NO_TIMESTAMP)
    transaction = Transaction("t", log)
    given_out: set[Producer] = {Producer(ID, ProducerEpoch(0))}
    next_id = 100
    highest = {ID: 0}
    for step in range(300):
        now = WallMs(NOW + step * 1_000)
        producer = Producer(transaction.record.producer_id, transaction.record.producer_epoch)
        if chance.random() < 0.3:
            producer = chance.choice(sorted(given_out))
        decision: object
        match chance.randrange(7):
            case 0:
                expected = producer if chance.random() < 0.5 else None
                next_id += 1
                decision = requests.initialise(transaction, expected, 60_000, now, ProducerId(next_id))
            case 1 | 2:
                decision = requests.add_partitions(transaction, producer, [chance.choice((P0, P1))], now)
            case 3 | 4:
                decision = requests.end(transaction, producer, commit=chance.random() < 0.5, now=now)
            case 5:
                decision = requests.fence(transaction, now) if transaction.state is S.ONGOING else None
            case _:
                decision = requests.complete(transaction, now) if transaction.state.is_prepared else None
        if not isinstance(decision, Pending):
            continue
        was = log.state
        transaction.begin(decision)
        outcome = chance.random()
        if outcome < 0.75:
            transaction.succeed(decision)
            log = decision.record
            if was is S.PREPARE_COMMIT:
                assert log.state is S.COMPLETE_COMMIT
            if was is S.PREPARE_ABORT:
                assert log.state is S.COMPLETE_ABORT
            if log.state is S.EMPTY:
                given_out.add(Producer(log.producer_id, log.producer_epoch))
            assert log.producer_epoch >= highest.get(log.producer_id, 0)
            highest[log.producer_id] = log.producer_epoch
        else:
            transaction.fail(decision)
        if outcome > 0.95:
            transaction = Transaction("t", log)
