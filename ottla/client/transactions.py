"""A transactional producer's state, and what each of the coordinators' answers means for it. No I/O.

    READY       --Begun-->     OPEN
    OPEN        --Doubted-->   ABORTABLE   a batch has failed, or a coordinator says so
    OPEN        --Ended-->     READY       committed, or aborted
    ABORTABLE   --Ended-->     READY       aborted
    any         --Fenced-->    FATAL       another producer has the id, or the coordinator refuses it

Partitions are added to a transaction before the first batch for them leaves (KIP-98).
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from ottla.client.errors import ClientError, ProducerFenced, TransactionAborted, error_for
from wire.errors import Error
from wire.types import TopicPartition


class TransactionPhase(Enum):
    """Where a transactional producer stands."""

    READY = "ready"
    OPEN = "open"
    ABORTABLE = "abortable"
    FATAL = "fatal"


class TransactionEvent(Enum):
    """What happens to it."""

    BEGUN = "begun"
    DOUBTED = "doubted"
    ENDED = "ended"
    FENCED = "fenced"


TRANSITIONS: Final[Mapping[tuple[TransactionPhase, TransactionEvent], TransactionPhase]] = {
    (TransactionPhase.READY, TransactionEvent.BEGUN): TransactionPhase.OPEN,
    (TransactionPhase.OPEN, TransactionEvent.DOUBTED): TransactionPhase.ABORTABLE,
    (TransactionPhase.ABORTABLE, TransactionEvent.DOUBTED): TransactionPhase.ABORTABLE,
    (TransactionPhase.OPEN, TransactionEvent.ENDED): TransactionPhase.READY,
    (TransactionPhase.ABORTABLE, TransactionEvent.ENDED): TransactionPhase.READY,
    (TransactionPhase.READY, TransactionEvent.FENCED): TransactionPhase.FATAL,
    (TransactionPhase.OPEN, TransactionEvent.FENCED): TransactionPhase.FATAL,
    (TransactionPhase.ABORTABLE, TransactionEvent.FENCED): TransactionPhase.FATAL,
    (TransactionPhase.FATAL, TransactionEvent.FENCED): TransactionPhase.FATAL,
}


class IllegalTransition(Exception):
    """A transaction cannot do this in its state: a defect of the client, or nested transactions."""

    def __init__(self, phase: TransactionPhase, event: TransactionEvent) -> None:
        super().__init__(f"{event.value} in state {phase.value}")


class Verdict(Enum):
    """What an answer of a coordinator means."""

    DONE = "done"
    RETRY = "ask again"
    FIND = "ask again, at another coordinator"
    ABORT = "the transaction can only be aborted"
    FATAL = "the producer cannot go on"


_RETRIES: Final = frozenset(
    {
        Error.CONCURRENT_TRANSACTIONS,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.REQUEST_TIMED_OUT,
        Error.NOT_ENOUGH_REPLICAS,
        Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
_FINDS: Final = frozenset({Error.NOT_COORDINATOR, Error.COORDINATOR_NOT_AVAILABLE})
_FATAL: Final = frozenset(
    {
        Error.PRODUCER_FENCED,
        Error.INVALID_PRODUCER_EPOCH,
        Error.INVALID_TXN_STATE,
        Error.INVALID_PRODUCER_ID_MAPPING,
        Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        Error.TRANSACTION_COORDINATOR_FENCED,
        Error.INVALID_TRANSACTION_TIMEOUT,
        Error.CLUSTER_AUTHORIZATION_FAILED,
        Error.UNSUPPORTED_VERSION,
        Error.INVALID_REQUEST,
    }
)


def verdict_on(error: Error) -> Verdict:
    """Return what a coordinator's answer means; an error that is not known to be repairable aborts."""
    if error is Error.NONE:
        return Verdict.DONE
    if error in _RETRIES:
        return Verdict.RETRY
    if error in _FINDS:
        return Verdict.FIND
    return Verdict.FATAL if error in _FATAL else Verdict.ABORT


def fatal_error(error: Error, transactional_id: str) -> ClientError:
    """Return the exception for an error after which the producer cannot go on."""
    if error in (Error.PRODUCER_FENCED, Error.INVALID_PRODUCER_EPOCH):
        return ProducerFenced(
            f"another producer uses the transactional id {transactional_id!r} now", error=error
        )
    return error_for(error, f"transactional id {transactional_id!r}")


class TransactionMachine:
    """A producer's transactions, one after the other.

    Args:
        transactional_id: The producer's id.

    Attributes:
        transactional_id: Likewise.
        phase: Where it stands.
        reason: Why the transaction can only be aborted, or the producer cannot go on.
        added: The partitions that are part of the transaction.
        wanted: Those that have something to send, and are not.
        has_offsets: Whether offsets of a group are part of it.
        on_wanted: Called when a partition is to be added.
        on_doubt: Called when the transaction can only be aborted.
    """

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.phase = TransactionPhase.READY
        self.reason: ClientError | None = None
        self.added: set[TopicPartition] = set()
        self.wanted: set[TopicPartition] = set()
        self.has_offsets = False
        self.on_wanted: Callable[[], None] = _nothing
        self.on_doubt: Callable[[], None] = _nothing

    def _move(self, event: TransactionEvent) -> None:
        following = TRANSITIONS.get((self.phase, event))
        if following is None:
            raise IllegalTransition(self.phase, event)
        self.phase = following

    @property
    def is_empty(self) -> bool:
        """Whether the coordinator knows nothing of the transaction, so that it need not be ended there."""
        return not self.added and not self.has_offsets

    def begin(self) -> None:
        """Begin a transaction.

        Raises:
            ClientError: The producer cannot go on.
            IllegalTransition: One is open.
        """
        if self.phase is TransactionPhase.FATAL and self.reason is not None:
            raise self.reason
        self._move(TransactionEvent.BEGUN)
        self.reason = None

    def may_send(self, partition: TopicPartition) -> bool:
        """Return whether a partition is part of the transaction; have it added where it is not."""
        if self.phase is not TransactionPhase.OPEN:
            return False
        if partition in self.added:
            return True
        if partition not in self.wanted:
            self.wanted.add(partition)
            self.on_wanted()
        return False

    def partitions_added(self, partitions: set[TopicPartition]) -> None:
        """Note partitions that are part of the transaction now."""
        self.added |= partitions
        self.wanted -= partitions

    def doubt(self, reason: ClientError) -> None:
        """Note that the transaction must not be committed; without one it means nothing."""
        if self.phase in (TransactionPhase.OPEN, TransactionPhase.ABORTABLE):
            self._move(TransactionEvent.DOUBTED)
            self.reason = self.reason or reason
            self.on_doubt()

    def fail(self, reason: ClientError) -> None:
        """Note that the producer cannot go on."""
        self._move(TransactionEvent.FENCED)
        self.reason = reason
        self.on_doubt()

    def aborted_error(self) -> ClientError:
        """Return what to raise for a transaction that could not be committed."""
        if self.phase is TransactionPhase.FATAL and self.reason is not None:
            return self.reason
        aborted = TransactionAborted(f"transaction of {self.transactional_id!r}: {self.reason}")
        aborted.__cause__ = self.reason
        return aborted

    def ended(self) -> None:
        """Note that the transaction is committed or aborted."""
        if self.phase is not TransactionPhase.FATAL:
            self._move(TransactionEvent.ENDED)
        self.added.clear()
        self.wanted.clear()
        self.has_offsets = False


def _nothing() -> None:
    return None
