"""A transactional id, as its coordinator holds it: its producer, and the open transaction, if any.

Rules:

- A record is written for every transition, and the transition takes place when all in-sync replicas have the record.
  Until then it is *pending*, and nothing else may begin. A write that fails leaves the state as it was.
- PREPARE_COMMIT and PREPARE_ABORT are decisions: once one is replicated, markers leave, and only the COMPLETE state of
  the same kind can follow.
- A fence is one transition: from ONGOING to PREPARE_ABORT with the next epoch, which no producer is given, so that
  the producer that had the transaction open can write no more. If it cannot be written, its epoch stays in memory,
  and the next fence uses the same one; otherwise retries would use up the epochs (KAFKA-9666).

The table is the only statement of what is legal: tests and documents are derived from it. The decisions on requests are
in `transaction_requests`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from cluster.statemachines.transition import IllegalTransition
from wire.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    WallMs,
)

EPOCH_MAX: Final = 32_767
"""The last epoch of a producer id; only a fence may use it."""


class TransactionState(Enum):
    """Where a transactional id stands; the value is its number on disk."""

    EMPTY = 0
    """No transaction since the last InitProducerId. The first AddPartitionsToTxn moves us on."""
    ONGOING = 1
    """Partitions have been added. EndTxn, a timeout or a fence moves us on."""
    PREPARE_COMMIT = 2
    """Decided: commit markers are on their way. Answers CONCURRENT_TRANSACTIONS; the last marker moves us on."""
    PREPARE_ABORT = 3
    """Decided: abort markers are on their way. Answers CONCURRENT_TRANSACTIONS; the last marker moves us on."""
    COMPLETE_COMMIT = 4
    """Committed everywhere. The next AddPartitionsToTxn or InitProducerId moves us on."""
    COMPLETE_ABORT = 5
    """Aborted everywhere. The next AddPartitionsToTxn or InitProducerId moves us on."""
    DEAD = 6
    """Expired: its tombstone is being written. Never on disk."""

    @property
    def kafka_name(self) -> str:
        """The name that Kafka's tools show."""
        return _KAFKA_NAMES[self]

    @property
    def is_prepared(self) -> bool:
        """Whether the transaction's end is decided, and markers are on their way."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


_KAFKA_NAMES: Final = {
    state: "".join(part.capitalize() for part in state.name.split("_")) for state in TransactionState
}


@dataclass(frozen=True, slots=True)
class Initialised:
    """A producer is given an id and an epoch."""


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """Partitions join the transaction; the first of them begin it."""


@dataclass(frozen=True, slots=True)
class CommitDecided:
    """The transaction is to be committed."""


@dataclass(frozen=True, slots=True)
class AbortDecided:
    """The transaction is to be aborted: by its producer, by a fence or by its timeout."""


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """Every partition has its marker."""


@dataclass(frozen=True, slots=True)
class Expired:
    """The id has been out of use for ``transactional.id.expiration.ms``."""


TransactionEvent = Initialised | PartitionsAdded | CommitDecided | AbortDecided | MarkersWritten | Expired

_S = TransactionState
TRANSITIONS: Mapping[tuple[TransactionState, type[TransactionEvent]], TransactionState] = {
    (_S.EMPTY, Initialised): _S.EMPTY,
    (_S.EMPTY, PartitionsAdded): _S.ONGOING,
    (_S.EMPTY, Expired): _S.DEAD,
    (_S.ONGOING, PartitionsAdded): _S.ONGOING,
    (_S.ONGOING, CommitDecided): _S.PREPARE_COMMIT,
    (_S.ONGOING, AbortDecided): _S.PREPARE_ABORT,
    (_S.PREPARE_COMMIT, MarkersWritten): _S.COMPLETE_COMMIT,
    (_S.PREPARE_ABORT, MarkersWritten): _S.COMPLETE_ABORT,
    (_S.COMPLETE_COMMIT, Initialised): _S.EMPTY,
    (_S.COMPLETE_COMMIT, PartitionsAdded): _S.ONGOING,
    (_S.COMPLETE_COMMIT, Expired): _S.DEAD,
    (_S.COMPLETE_ABORT, Initialised): _S.EMPTY,
    (_S.COMPLETE_ABORT, PartitionsAdded): _S.ONGOING,
    (_S.COMPLETE_ABORT, Expired): _S.DEAD,
}


def allows(state: TransactionState, event: type[TransactionEvent]) -> bool:
    """Whether ``event`` is legal in ``state``."""
    return (state, event) in TRANSITIONS


def step(state: TransactionState, event: TransactionEvent) -> TransactionState:
    """Return the state after ``event``.

    Raises:
        IllegalTransition: the table does not name the pair.
    """
    try:
        return TRANSITIONS[state, type(event)]
    except KeyError:
        raise IllegalTransition(state, event) from None


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """A transactional id as the log has it.

    Attributes:
        producer_id: Its producer.
        producer_epoch: That producer's epoch; -1 before the first is given.
        timeout_ms: How long a transaction may be open.
        state: Where it stands.
        partitions: What the transaction has written to; empty except in ONGOING and the PREPARE states.
        updated_at: Wall time of the last transition.
        started_at: Wall time of the transaction's start, -1 if there was none.
    """

    producer_id: ProducerId
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    updated_at: WallMs = NO_TIMESTAMP
    started_at: WallMs = NO_TIMESTAMP


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """A transition whose record is being written; two are the same only if they are one object.

    Attributes:
        record: What the id becomes; its state is DEAD for a tombstone.
        previous_producer_id: The producer id that a retried InitProducerId may name (KIP-360).
        previous_epoch: The epoch that it may name; -1 for none.
        is_fence: Whether a failure to write it keeps the record's epoch.
    """

    record: TransactionRecord
    previous_producer_id: ProducerId = NO_PRODUCER_ID
    previous_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    is_fence: bool = False


@dataclass(slots=True, eq=False)
class Transaction:
    """A transactional id at its coordinator.

    Attributes:
        transactional_id: The id.
        record: As the log has it on all in-sync replicas, except for the epoch of a fence that failed.
        previous_producer_id: See `Pending`; not in the log, so that a failover forgets it.
        previous_epoch: Likewise.
        pending: The transition under way.
        fence_failed: Whether the record's epoch is one that a fence could not write.
        unmarked: In the PREPARE states, the partitions that have not acknowledged their markers.
    """

    transactional_id: str
    record: TransactionRecord
    previous_producer_id: ProducerId = NO_PRODUCER_ID
    previous_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    pending: Pending | None = None
    fence_failed: bool = False
    unmarked: set[TopicPartition] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.record.state.is_prepared:
            self.unmarked = set(self.record.partitions)

    @property
    def state(self) -> TransactionState:
        """Where it stands."""
        return self.record.state

    @property
    def is_busy(self) -> bool:
        """Whether a transition is under way, or due as soon as the markers are written."""
        return self.pending is not None or self.record.state.is_prepared

    def next(
        self,
        event: TransactionEvent,
        now: WallMs,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        started_at: WallMs | None = None,
        producer_epoch: ProducerEpoch | None = None,
        is_fence: bool = False,
    ) -> Pending:
        """Return the transition of an event that keeps the producer id; arguments left out keep their values.

        Raises:
            IllegalTransition: the event is not legal now.
        """
        record = self.record
        return Pending(
            replace(
                record,
                state=step(record.state, event),
                partitions=record.partitions if partitions is None else frozenset(partitions),
                started_at=record.started_at if started_at is None else started_at,
                producer_epoch=record.producer_epoch if producer_epoch is None else producer_epoch,
                updated_at=now,
            ),
            self.previous_producer_id,
            NO_PRODUCER_EPOCH if is_fence else self.previous_epoch,
            is_fence,
        )

    def begin(self, pending: Pending) -> None:
        """Note that a transition's record has been handed to the log.

        Raises:
            IllegalTransition: another one is under way.
        """
        if self.pending is not None:
            raise IllegalTransition(self.pending, pending)
        self.pending = pending

    def succeed(self, pending: Pending) -> None:
        """Carry out a transition whose record all in-sync replicas have.

        Raises:
            IllegalTransition: it is not the one under way.
        """
        self._finish(pending)
        self.record = pending.record
        self.previous_producer_id = pending.previous_producer_id
        self.previous_epoch = pending.previous_epoch
        if pending.record.state.is_prepared:
            self.fence_failed = False
        self.unmarked = set(pending.record.partitions) if pending.record.state.is_prepared else set()

    def fail(self, pending: Pending) -> None:
        """Drop a transition whose write failed, or has an unknown outcome; the epoch of a fence stays.

        Raises:
            IllegalTransition: it is not the one under way.
        """
        self._finish(pending)
        if pending.is_fence:
            self.record = replace(self.record, producer_epoch=pending.record.producer_epoch)
            self.previous_epoch = NO_PRODUCER_EPOCH
            self.fence_failed = True

    def _finish(self, pending: Pending) -> None:
        if self.pending is not pending:
            raise IllegalTransition(self.pending, pending)
        self.pending = None
