"""A coordinator's decisions on requests about a transactional id, in Kafka's order of checks.

No function changes anything: its result is an answer, or the transition that must be written first.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, assert_never

from cluster.statemachines.transaction import (
    EPOCH_MAX,
    AbortDecided,
    CommitDecided,
    Expired,
    Initialised,
    MarkersWritten,
    PartitionsAdded,
    Pending,
    Transaction,
    TransactionRecord,
    TransactionState,
    step,
)
from wire.errors import Error
from wire.types import (
    NO_PRODUCER_EPOCH,
    NO_TIMESTAMP,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    WallMs,
)

_NOTHING: Final[frozenset[TopicPartition]] = frozenset()


class Producer(NamedTuple):
    """A producer id and its epoch."""

    producer_id: ProducerId
    epoch: ProducerEpoch


@dataclass(frozen=True, slots=True)
class Answer:
    """Nothing is written: the client is answered at once."""

    error: Error


@dataclass(frozen=True, slots=True)
class NeedsProducerId:
    """The epochs of the producer id are used up: call again with a new id."""


Decision = Answer | Pending


def initialise(
    transaction: Transaction,
    expected: Producer | None,
    timeout_ms: int,
    now: WallMs,
    new_id: ProducerId | None = None,
) -> Decision | NeedsProducerId:
    """Decide on InitProducerId.

    Args:
        transaction: The transactional id, with an epoch of -1 if it is new.
        expected: The id and epoch that the producer says it has (KIP-360); None if it has none.
        timeout_ms: The timeout of its transactions.
        now: Wall time.
        new_id: An unused producer id, if an earlier call returned `NeedsProducerId`.

    Returns:
        A pending EMPTY whose producer is the answer; a pending PREPARE_ABORT that fences the open transaction,
        after which the answer is CONCURRENT_TRANSACTIONS; or an error.
    """
    record = transaction.record
    if transaction.is_busy:
        return Answer(Error.CONCURRENT_TRANSACTIONS)
    if expected is not None and not _may_continue(transaction, expected):
        return Answer(Error.PRODUCER_FENCED)
    if record.state is TransactionState.ONGOING:
        if expected is not None and expected.epoch != record.producer_epoch and not transaction.fence_failed:
            # A zombie must not abort what the living producer has open.
            return Answer(Error.PRODUCER_FENCED)
        return fence(transaction, now)
    state = step(record.state, Initialised())
    epoch = record.producer_epoch
    if expected is None or epoch in (NO_PRODUCER_EPOCH, expected.epoch):
        remembered = NO_PRODUCER_EPOCH if expected is None else epoch
        if _is_exhausted(epoch):
            if new_id is None:
                return NeedsProducerId()
            producer = Producer(new_id, ProducerEpoch(0))
        else:
            producer = Producer(record.producer_id, ProducerEpoch(epoch + 1))
    elif expected.epoch == transaction.previous_epoch:
        # A retry whose first answer was lost: had another producer come in between, this epoch would be forgotten.
        producer, remembered = Producer(record.producer_id, epoch), transaction.previous_epoch
        return Pending(
            _initialised(producer, state, timeout_ms, now), transaction.previous_producer_id, remembered
        )
    else:
        return Answer(Error.PRODUCER_FENCED)
    return Pending(_initialised(producer, state, timeout_ms, now), record.producer_id, remembered)


def _may_continue(transaction: Transaction, expected: Producer) -> bool:
    record = transaction.record
    return (
        record.producer_epoch == NO_PRODUCER_EPOCH  # the id is new here, or had expired
        or expected.producer_id == record.producer_id
        or (expected.producer_id == transaction.previous_producer_id and _is_exhausted(expected.epoch))
    )


def _initialised(
    producer: Producer, state: TransactionState, timeout_ms: int, now: WallMs
) -> TransactionRecord:
    return TransactionRecord(
        producer.producer_id, producer.epoch, timeout_ms, state, _NOTHING, now, NO_TIMESTAMP
    )


def _is_exhausted(epoch: ProducerEpoch) -> bool:
    return epoch >= EPOCH_MAX - 1


def add_partitions(
    transaction: Transaction, producer: Producer, partitions: Iterable[TopicPartition], now: WallMs
) -> Decision:
    """Decide on AddPartitionsToTxn and AddOffsetsToTxn."""
    error = _check(transaction, producer)
    if error is not Error.NONE:
        return Answer(error)
    record = transaction.record
    wanted = frozenset(partitions)
    if record.state is TransactionState.ONGOING:
        if wanted <= record.partitions:
            return Answer(Error.NONE)
        return transaction.next(PartitionsAdded(), now, partitions=record.partitions | wanted)
    return transaction.next(PartitionsAdded(), now, partitions=wanted, started_at=now)


def verify(
    transaction: Transaction, producer: Producer, partitions: Iterable[TopicPartition]
) -> Error | Mapping[TopicPartition, Error]:
    """Return whether partitions belong to a producer's present transaction; a pending transition is ignored."""
    error = _check_producer(transaction, producer)
    if error is not Error.NONE:
        return error
    if transaction.state.is_prepared:
        return Error.CONCURRENT_TRANSACTIONS
    known = transaction.record.partitions
    return {at: Error.NONE if at in known else Error.TRANSACTION_ABORTABLE for at in partitions}


def end(transaction: Transaction, producer: Producer, *, commit: bool, now: WallMs) -> Decision:
    """Decide on a client's EndTxn; a repeated one gets the answer of the first."""
    error = _check(transaction, producer)
    if error is not Error.NONE:
        return Answer(error)
    match transaction.state:
        case TransactionState.ONGOING:
            return transaction.next(CommitDecided() if commit else AbortDecided(), now)
        case TransactionState.COMPLETE_COMMIT:
            return Answer(Error.NONE if commit else Error.INVALID_TXN_STATE)
        case TransactionState.COMPLETE_ABORT:
            return Answer(Error.INVALID_TXN_STATE if commit else Error.NONE)
        case TransactionState.EMPTY:
            return Answer(Error.INVALID_TXN_STATE)
        case TransactionState.PREPARE_COMMIT | TransactionState.PREPARE_ABORT | TransactionState.DEAD:
            return Answer(Error.CONCURRENT_TRANSACTIONS)
        case _:
            assert_never(transaction.state)


def fence(transaction: Transaction, now: WallMs) -> Pending:
    """Return the transition that aborts the open transaction, and fences its producer by an unassigned epoch.

    Raises:
        IllegalTransition: none is open.
    """
    epoch = transaction.record.producer_epoch
    if not transaction.fence_failed and epoch < EPOCH_MAX:
        epoch = ProducerEpoch(epoch + 1)
    return transaction.next(AbortDecided(), now, producer_epoch=epoch, is_fence=True)


def is_timed_out(transaction: Transaction, now: WallMs) -> bool:
    """Whether a transaction has been open for longer than its producer allowed."""
    record = transaction.record
    return (
        record.state is TransactionState.ONGOING
        and transaction.pending is None
        and record.started_at + record.timeout_ms < now
    )


def complete(transaction: Transaction, now: WallMs) -> Pending:
    """Return the transition that ends a transaction whose markers are written.

    Raises:
        IllegalTransition: its end is not decided.
    """
    return transaction.next(MarkersWritten(), now, partitions=_NOTHING)


def expire(transaction: Transaction, now: WallMs, expiration_ms: int) -> Pending | None:
    """Return the transition that removes an id; None if it is in use or not old enough."""
    record = transaction.record
    if (
        transaction.is_busy
        or record.state is TransactionState.ONGOING
        or record.updated_at + expiration_ms > now
    ):
        return None
    return transaction.next(Expired(), now)


def _check_producer(transaction: Transaction, producer: Producer) -> Error:
    record = transaction.record
    if producer.producer_id != record.producer_id:
        return Error.INVALID_PRODUCER_ID_MAPPING
    # Strictly equal: no client can have an epoch that it was not given (KAFKA-9600).
    return Error.NONE if producer.epoch == record.producer_epoch else Error.PRODUCER_FENCED


def _check(transaction: Transaction, producer: Producer) -> Error:
    error = _check_producer(transaction, producer)
    if error is Error.NONE and transaction.is_busy:
        return Error.CONCURRENT_TRANSACTIONS
    return error
