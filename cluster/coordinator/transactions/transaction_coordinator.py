"""The transaction coordinator: the shell around the machine of a transactional id.

It finds the id, asks the machine, and writes the decision; decision and append are one step, with no suspension
between. An answer that depends on a record is sent when every in-sync replica has it, and we still lead the partition.
Markers, too, are sent only then: otherwise another coordinator could still decide differently.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from cluster.coordinator.transactions.hosted_transactions import HostedPartition, HostedTransactions
from cluster.coordinator.transactions.parked_requests import ParkedRequests
from cluster.coordinator.transactions.state_log import StateLog, coordinator_error
from cluster.coordinator.transactions.state_records import state_value
from cluster.coordinator.transactions.transaction_settings import TransactionSettings
from cluster.replication.leader.verified_appends import Question
from cluster.statemachines import transaction_requests
from cluster.statemachines.transaction import Pending, Transaction, TransactionState
from cluster.statemachines.transaction_requests import Answer, NeedsProducerId, Producer
from timing.clock import Clock
from timing.timing_wheel import CallTimer, Timer
from wire.errors import Error
from wire.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerId, TopicPartition, WallMs

if TYPE_CHECKING:
    from cluster.coordinator.transactions.marker_sender import MarkerSender

logger = logging.getLogger(__name__)

COMPLETE_RETRY_MS: Final = 100
"""The pause before a COMPLETE record that could not be written is tried again."""

_TOMBSTONES_MAX: Final = 256 * 1024
"""Bytes in a batch of tombstones: well below any topic's limit (KAFKA-13099)."""
_TOMBSTONE_OVERHEAD_MAX: Final = 32

OnAnswered = Callable[[Error], None]


class InitAnswer(NamedTuple):
    """The answer to InitProducerId."""

    error: Error
    producer: Producer = Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


OnInitialised = Callable[[InitAnswer], None]
TakeProducerId = Callable[[], Awaitable[ProducerId | Error]]


class TransactionCoordinator:
    """Coordinates the transactions whose ids belong to partitions that this broker leads.

    Args:
        settings: The configuration.
        hosted: The ids on this broker; the loader fills it.
        log: Where they are written.
        take_producer_id: Returns an id that no other producer has, or the error that clients get.
        timer: Ends pauses.
        clock: Wall time, by which transactions time out.

    Attributes:
        markers: Sends markers; set by the composition root.
        parked: Requests that wait for markers.
    """

    markers: "MarkerSender"

    def __init__(
        self,
        settings: TransactionSettings,
        hosted: HostedTransactions,
        log: StateLog,
        take_producer_id: TakeProducerId,
        timer: Timer,
        clock: Clock,
    ) -> None:
        self.settings = settings
        self.hosted = hosted
        self._log = log
        self._take_producer_id = take_producer_id
        self._timer = timer
        self._clock = clock
        self.parked = ParkedRequests(timer)

    # Requests

    async def initialise(
        self, transactional_id: str, timeout_ms: int, expected: Producer | None, on_done: OnInitialised
    ) -> None:
        """Handle InitProducerId of a transactional producer.

        Returns when the decision has been made; ``on_done`` is called once, perhaps later.
        """
        if not transactional_id:
            on_done(InitAnswer(Error.INVALID_REQUEST))
            return
        if not 0 < timeout_ms <= self.settings.max_timeout_ms:
            on_done(InitAnswer(Error.INVALID_TRANSACTION_TIMEOUT))
            return
        new_id: ProducerId | None = None
        while True:
            partition = self.hosted.partition_of(transactional_id)
            if isinstance(partition, Error):
                on_done(InitAnswer(partition))
                return
            transaction = partition.find(transactional_id)
            if transaction is None and new_id is not None:
                transaction = partition.make(transactional_id, new_id, self._clock.wall_ms())
            if transaction is not None:
                decision = transaction_requests.initialise(
                    transaction, expected, timeout_ms, self._clock.wall_ms(), new_id
                )
                if not isinstance(decision, NeedsProducerId):
                    self._initialise(partition, transaction, decision, on_done)
                    return
            # Anything can happen while we wait for an id: check everything again.
            taken = await self._take_producer_id()
            if isinstance(taken, Error):
                on_done(InitAnswer(taken))
                return
            new_id = taken

    def _initialise(
        self,
        partition: HostedPartition,
        transaction: Transaction,
        decision: Answer | Pending,
        on_done: OnInitialised,
    ) -> None:
        if isinstance(decision, Answer):
            on_done(InitAnswer(decision.error))
            return
        record = decision.record

        def written(error: Error) -> None:
            if error is not Error.NONE:
                on_done(InitAnswer(error))
            elif decision.is_fence:
                # No producer gets the epoch of a fence: the client asks again when the old transaction is aborted.
                on_done(InitAnswer(Error.CONCURRENT_TRANSACTIONS))
            else:
                on_done(InitAnswer(Error.NONE, Producer(record.producer_id, record.producer_epoch)))

        self._write(partition, transaction, decision, written)

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Iterable[TopicPartition],
        on_done: OnAnswered,
    ) -> None:
        """Handle AddPartitionsToTxn and AddOffsetsToTxn; ``on_done`` is called once.

        While the markers of the preceding transaction are being written, it waits for them briefly.
        """
        self._add_partitions(transactional_id, producer, tuple(partitions), on_done, may_wait=True)

    def _add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Sequence[TopicPartition],
        on_done: OnAnswered,
        *,
        may_wait: bool,
    ) -> None:
        found = self._find(transactional_id)
        if isinstance(found, Error):
            on_done(found)
            return
        partition, transaction = found
        now = self._clock.wall_ms()
        decision = transaction_requests.add_partitions(transaction, producer, partitions, now)
        if may_wait and transaction.state.is_prepared and decision == Answer(Error.CONCURRENT_TRANSACTIONS):
            self.parked.park(
                transaction,
                lambda: self._add_partitions(transactional_id, producer, partitions, on_done, may_wait=False),
            )
            return
        self._decide(partition, transaction, decision, on_done)

    def end(self, transactional_id: str, producer: Producer, *, commit: bool, on_done: OnAnswered) -> None:
        """Handle EndTxn; ``on_done`` is called once, when the decision is replicated; the markers follow."""
        found = self._find(transactional_id)
        if isinstance(found, Error):
            on_done(found)
            return
        partition, transaction = found
        now = self._clock.wall_ms()
        decision = transaction_requests.end(transaction, producer, commit=commit, now=now)
        self._decide(partition, transaction, decision, on_done)

    def verify(self, question: Question) -> Mapping[TopicPartition, Error]:
        """Answer a leader that is about to append (KIP-890)."""
        found = self._find(question.transactional_id)
        if isinstance(found, Error):
            return dict.fromkeys(question.partitions, found)
        producer = Producer(question.producer_id, question.producer_epoch)
        answer = transaction_requests.verify(found[1], producer, question.partitions)
        return dict.fromkeys(question.partitions, answer) if isinstance(answer, Error) else answer

    def describe(self, transactional_id: str) -> Transaction | Error:
        """Return an id's state, for DescribeTransactions."""
        partition = self.hosted.partition_of(transactional_id)
        if isinstance(partition, Error):
            return partition
        transaction = partition.find(transactional_id)
        return Error.TRANSACTIONAL_ID_NOT_FOUND if transaction is None else transaction

    def _find(self, transactional_id: str) -> tuple[HostedPartition, Transaction] | Error:
        partition = self.hosted.partition_of(transactional_id)
        if isinstance(partition, Error):
            return partition
        transaction = partition.find(transactional_id)
        return Error.INVALID_PRODUCER_ID_MAPPING if transaction is None else (partition, transaction)

    def _decide(
        self,
        partition: HostedPartition,
        transaction: Transaction,
        decision: Answer | Pending,
        on_done: OnAnswered,
    ) -> None:
        if isinstance(decision, Answer):
            on_done(decision.error)
        else:
            self._write(partition, transaction, decision, on_done)

    # Writing

    def _write(
        self, partition: HostedPartition, transaction: Transaction, pending: Pending, on_done: OnAnswered
    ) -> None:
        """Write a transition, and carry it out when it is replicated; ``on_done`` is called with the answer."""
        transaction.begin(pending)

        def written(error: Error) -> None:
            if not self.hosted.led.is_current(partition):
                # Whatever the log now holds, the next coordinator follows it.
                on_done(Error.NOT_COORDINATOR)
                return
            if error is Error.NONE:
                transaction.succeed(pending)
            else:
                transaction.fail(pending)
                logger.info(
                    "%s stays in %s: the log of partition %d says %s",
                    transaction.transactional_id,
                    transaction.state.kafka_name,
                    partition.number,
                    error.name,
                )
            on_done(coordinator_error(error))
            if error is Error.NONE and pending.record.state.is_prepared:
                self.markers.send(partition, transaction)

        values = {transaction.transactional_id: state_value(pending.record)}
        self._log.append(partition, values, max(pending.record.timeout_ms, 1), written)

    def marked(self, partition: HostedPartition, transaction: Transaction) -> None:
        """Complete a transaction whose partitions all have their markers; retried until it is written."""
        if (
            not self.hosted.led.is_current(partition)
            or not transaction.state.is_prepared
            or transaction.pending
        ):
            return

        def written(error: Error) -> None:
            if error in (Error.NONE, Error.NOT_COORDINATOR):
                self.parked.release(transaction)
                return
            self._timer.add(CallTimer(lambda: self.marked(partition, transaction)), COMPLETE_RETRY_MS)

        self._write(
            partition, transaction, transaction_requests.complete(transaction, self._clock.wall_ms()), written
        )

    # Timeouts

    def abort_timed_out(self, partition: HostedPartition, transactions: Sequence[Transaction]) -> int:
        """Fence and abort the transactions that have been open for too long; return how many."""
        if partition.is_loading or not self.hosted.led.is_current(partition):
            return 0
        count = 0
        now = self._clock.wall_ms()
        for transaction in transactions:
            if transaction_requests.is_timed_out(transaction, now):
                count += 1
                logger.info("the transaction of %s has timed out", transaction.transactional_id)
                self._write(partition, transaction, transaction_requests.fence(transaction, now), _ignore)
        return count

    def expire(self, partition: HostedPartition, ids: Sequence[str]) -> int:
        """Forget the ids that have expired, with tombstones in batches that fit; return how many."""
        if partition.is_loading or not self.hosted.led.is_current(partition):
            return 0
        now = self._clock.wall_ms()
        count = size = 0
        expired: list[tuple[Transaction, Pending]] = []
        for transactional_id in ids:
            transaction = partition.find(transactional_id)
            if transaction is None:
                continue
            pending = transaction_requests.expire(transaction, now, self.settings.id_expiration_ms)
            if pending is None:
                continue
            length = len(transactional_id.encode()) + _TOMBSTONE_OVERHEAD_MAX
            if expired and size + length > _TOMBSTONES_MAX:
                self._write_tombstones(partition, expired)
                expired, size = [], 0
            transaction.begin(pending)
            expired.append((transaction, pending))
            size += length
            count += 1
        if expired:
            self._write_tombstones(partition, expired)
        return count

    def _write_tombstones(
        self, partition: HostedPartition, expired: list[tuple[Transaction, Pending]]
    ) -> None:
        def written(error: Error) -> None:
            if not self.hosted.led.is_current(partition):
                return
            for transaction, pending in expired:
                if error is Error.NONE:
                    transaction.succeed(pending)
                    partition.forget(transaction)
                else:
                    transaction.fail(pending)

        tombstones = dict.fromkeys((each.transactional_id for each, _ in expired), None)
        self._log.append(partition, tombstones, self.settings.request_timeout_ms, written)

    # Loading and describing

    def loaded(self, partition: HostedPartition) -> None:
        """Send the markers of the decided transactions in a partition that has just been loaded."""
        for transaction in tuple(partition.transactions.values()):
            if transaction.state.is_prepared:
                self.markers.send(partition, transaction)

    def oldest_prepare(self, now: WallMs) -> float:
        """Return how long the oldest decided transaction has waited for its markers, in seconds; 0 if none waits."""
        return max(
            (
                (now - each.record.updated_at) / 1000
                for each in self.hosted.open_transactions()
                if each.state is not TransactionState.ONGOING
            ),
            default=0.0,
        )


def _ignore(error: Error) -> None:
    """Ignore the outcome: nobody asked, and the next pass tries again."""
    del error
