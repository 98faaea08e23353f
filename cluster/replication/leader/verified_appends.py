"""Appends of transactional producers, whose coordinators are asked before a transaction begins here (KIP-890).

Only the first batch of a transaction in a partition waits for the coordinator's answer. Later batches of its producer
for that partition wait in its queue, in the order of arrival: Kafka reads one request of a connection at a time, but
Ottla reads on, and without the queue a second batch would overtake the first or replace its question. Batches of other
producers and of other partitions are appended meanwhile.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from cluster.replication.leader.appends import Appends
from cluster.replication.leader.delayed_produce import OnProduced, ProduceResult, ProduceResults
from cluster.replication.roles.hosted_partitions import HostedPartitions
from storage.errors import InvalidProducerEpochError
from storage.verification import VerificationToken
from wire.errors import Error
from wire.records.batch import HEADER_SIZE, MAGIC, BatchHeader, read_header
from wire.records.errors import CorruptRecordError
from wire.types import ProducerEpoch, ProducerId, TopicPartition

if TYPE_CHECKING:
    from timing.clock import Clock

_MAGIC_AT: Final = 16
_FLAGS_AT: Final = 22
_TRANSACTIONAL: Final = 0x10

OnVerified = Callable[[Mapping[TopicPartition, Error]], None]
"""Called once with the coordinator's answer for each partition: within the call, or later from the loop."""
_Queue = deque["_Waiting"]


class Question(NamedTuple):
    """A question to a coordinator: whether these partitions belong to a producer's present transaction."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partitions: tuple[TopicPartition, ...]


def no_coordinator(question: Question, on_verified: OnVerified) -> None:
    """Answer a question if no coordinator can be reached."""
    on_verified(dict.fromkeys(question.partitions, Error.COORDINATOR_NOT_AVAILABLE))


class VerifiedAppends:
    """The transactional batches that wait for their coordinators.

    Args:
        hosted: The partitions.
        appends: Where batches go once they are verified.
        clock: Measures the age of questions.

    Attributes:
        ask: Asks a transaction's coordinator.
    """

    __slots__ = ("_appends", "_clock", "_hosted", "_queues", "ask")

    def __init__(self, hosted: HostedPartitions, appends: Appends, clock: "Clock") -> None:
        self._hosted = hosted
        self._appends = appends
        self._clock = clock
        self._queues: dict[tuple[TopicPartition, ProducerId], _Queue] = {}
        self.ask: Callable[[Question, OnVerified], None] = no_coordinator

    @property
    def waiting(self) -> int:
        """How many batches wait for an answer."""
        return sum(map(len, self._queues.values()))

    def append(
        self,
        transactional_id: str,
        batches: Iterable[tuple[TopicPartition, memoryview | bytearray | None]],
        required_acks: int,
        timeout_ms: int,
        on_done: OnProduced,
        *,
        internal_topics_allowed: bool = False,
    ) -> None:
        """Append a transactional producer's batches, each when its transaction is known to be under way.

        The arguments are those of `Appends.append`; batches that have to wait are copied.
        """
        by_partition = dict(batches)
        request = _Request(
            transactional_id, required_acks, timeout_ms, internal_topics_allowed, len(by_partition), on_done
        )
        ready: list[tuple[TopicPartition, memoryview | bytearray | None]] = []
        to_ask: dict[tuple[ProducerId, ProducerEpoch], list[TopicPartition]] = {}
        for at, records in by_partition.items():
            header = _transactional_header(records)
            if header is None or records is None:
                ready.append((at, records))
                continue
            key = (at, header.producer_id)
            queue = self._queues.get(key)
            if queue is None:
                if not self._must_ask(at, header):
                    ready.append((at, records))
                    continue
                queue = self._queues[key] = deque()
                to_ask.setdefault((header.producer_id, header.producer_epoch), []).append(at)
            queue.append(_Waiting(request, at, header, bytearray(records)))
        if ready:
            self._appends.append(
                ready,
                required_acks,
                timeout_ms,
                request.settle,
                internal_topics_allowed=internal_topics_allowed,
            )
        for (producer_id, epoch), places in to_ask.items():
            self._ask(Question(transactional_id, producer_id, epoch, tuple(places)))

    def verify(
        self,
        transactional_id: str,
        at: TopicPartition,
        producer_id: ProducerId,
        epoch: ProducerEpoch,
        on_verified: Callable[[Error, VerificationToken | None], None],
    ) -> None:
        """Verify one partition for records that a coordinator is about to write on a producer's behalf.

        Args:
            transactional_id: The producer's.
            at: Where the records are to be appended.
            producer_id: The producer.
            epoch: Its epoch.
            on_verified: Called once with the coordinator's error and the token for the append.
        """
        partition = self._hosted.get(at)
        log = None if partition is None else partition.leader_log
        if log is None:
            on_verified(self._hosted.absence(at) if partition is None else Error.NOT_LEADER_OR_FOLLOWER, None)
            return
        state = log.producer_state
        entry = state.entries.get(producer_id)
        is_open = entry is not None and entry.epoch == epoch and entry.transaction_first_offset is not None
        if is_open or not self._appends.verifies():
            on_verified(Error.NONE, None)
            return
        token = state.verifications.begin(producer_id, epoch, 0, self._clock.wall_ms())
        question = Question(transactional_id, producer_id, epoch, (at,))
        self.ask(question, lambda answers: on_verified(answers[at], token))

    def _must_ask(self, at: TopicPartition, header: BatchHeader) -> bool:
        """Whether a batch would begin a transaction here; a batch that cannot be appended at all need not wait."""
        partition = self._hosted.get(at)
        log = None if partition is None else partition.leader_log
        if log is None or not self._appends.verifies() or log.producer_state.is_open_for(header):
            return False
        try:
            # Before the question: the client must learn that it is fenced, not that a transaction is gone
            # (KAFKA-19690).
            log.producer_state.check_epoch(header, log.log_end_offset)
        except InvalidProducerEpochError:
            return False
        return True

    def _ask(self, question: Question) -> None:
        now = self._clock.wall_ms()
        tokens: dict[TopicPartition, VerificationToken] = {}
        for at in question.partitions:
            partition = self._hosted.get(at)
            log = None if partition is None else partition.leader_log
            if log is not None:
                head = self._queues[at, question.producer_id][0].header
                tokens[at] = log.producer_state.verifications.begin(
                    head.producer_id, head.producer_epoch, head.base_sequence, now
                )

        def answered(answers: Mapping[TopicPartition, Error]) -> None:
            for at in question.partitions:
                error = answers.get(at, Error.UNKNOWN_SERVER_ERROR)
                self._answered(question, at, error, tokens.get(at))

        self.ask(question, answered)

    def _answered(
        self, question: Question, at: TopicPartition, error: Error, token: VerificationToken | None
    ) -> None:
        """Append or refuse the batches that waited for an answer; those behind them in another epoch ask again."""
        key = (at, question.producer_id)
        queue = self._queues[key]
        tokens = {} if token is None else {at: token}
        # The queue stays in place meanwhile: an answer to a client can bring its next batch at once.
        while queue:
            waiting = queue[0]
            if waiting.header.producer_epoch != question.producer_epoch:
                if self._must_ask(at, waiting.header):
                    self._ask(
                        Question(
                            waiting.request.transactional_id,
                            question.producer_id,
                            waiting.header.producer_epoch,
                            (at,),
                        )
                    )
                    return
                self._pass_on(waiting, {})
            elif error is Error.NONE:
                self._pass_on(waiting, tokens)
            else:
                self._refuse(waiting, error)
            queue.popleft()
        del self._queues[key]

    def _pass_on(self, waiting: "_Waiting", tokens: Mapping[TopicPartition, VerificationToken]) -> None:
        request = waiting.request
        self._appends.append(
            [(waiting.at, waiting.records)],
            request.required_acks,
            request.timeout_ms,
            request.settle,
            internal_topics_allowed=request.internal_topics_allowed,
            tokens=tokens,
        )

    def _refuse(self, waiting: "_Waiting", error: Error) -> None:
        partition = self._hosted.get(waiting.at)
        log = None if partition is None else partition.leader_log
        refusal = _REFUSALS.get(error, error)
        if log is not None:
            try:
                log.producer_state.check_epoch(waiting.header, log.log_end_offset)
            except InvalidProducerEpochError:
                refusal = Error.INVALID_PRODUCER_EPOCH
        self._appends.refused.note(waiting.at, waiting.records, refusal)
        waiting.request.settle({waiting.at: ProduceResult(refusal)})


class _Request:
    """A produce whose partitions are settled one by one; the last one answers it."""

    __slots__ = (
        "_expected",
        "_on_done",
        "_results",
        "internal_topics_allowed",
        "required_acks",
        "timeout_ms",
        "transactional_id",
    )

    def __init__(
        self,
        transactional_id: str,
        required_acks: int,
        timeout_ms: int,
        internal_topics_allowed: bool,
        expected: int,
        on_done: OnProduced,
    ) -> None:
        self.transactional_id = transactional_id
        self.required_acks = required_acks
        self.timeout_ms = timeout_ms
        self.internal_topics_allowed = internal_topics_allowed
        self._expected = expected
        self._on_done = on_done
        self._results: ProduceResults = {}

    def settle(self, results: ProduceResults) -> None:
        """Record the outcome of some partitions."""
        self._results.update(results)
        if len(self._results) == self._expected:
            self._on_done(self._results)


class _Waiting(NamedTuple):
    """A batch that waits for an answer, its own or that of a batch in front of it."""

    request: _Request
    at: TopicPartition
    header: BatchHeader
    records: bytearray


def _transactional_header(records: memoryview | bytearray | None) -> BatchHeader | None:
    """Return the header of a transactional batch; None for any other bytes."""
    if records is None or len(records) < HEADER_SIZE or records[_MAGIC_AT] != MAGIC:
        return None
    if not records[_FLAGS_AT] & _TRANSACTIONAL:
        return None
    try:
        return read_header(records)
    except CorruptRecordError:
        return None


_REFUSALS: Final = {
    # A producer resends the batch without looking for the partition's leader (KAFKA-16386).
    Error.COORDINATOR_NOT_AVAILABLE: Error.NOT_ENOUGH_REPLICAS,
    Error.NOT_COORDINATOR: Error.NOT_ENOUGH_REPLICAS,
    Error.NETWORK_EXCEPTION: Error.NOT_ENOUGH_REPLICAS,
    Error.CONCURRENT_TRANSACTIONS: Error.NOT_ENOUGH_REPLICAS,
    Error.COORDINATOR_LOAD_IN_PROGRESS: Error.NOT_ENOUGH_REPLICAS,
    Error.PRODUCER_FENCED: Error.INVALID_PRODUCER_EPOCH,
}
"""The error for a producer by the coordinator's error; other errors are passed on."""
