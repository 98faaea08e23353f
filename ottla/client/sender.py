"""The producer's shell around the accumulator: one task that sends what is due, and the answers that come back.

Answers are handled by the connections' readers, by direct call; the task wakes where something may leave, at the
time that the accumulator names. Batches above 64 KiB are compressed in a thread.
"""

import logging
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ottla.addresses import Address
from ottla.client import runtime
from ottla.client.accumulator import Accumulator, Answer
from ottla.client.batch_encoding import ProducerIdentity
from ottla.client.broker_link import BrokerLink
from ottla.client.context import ClientContext
from ottla.client.errors import ClientError, error_for
from ottla.client.metadata import BrokerNode
from ottla.client.partition_queue import PartitionQueue
from ottla.client.producer_batch import ProducerBatch
from wire.errors import Error
from wire.messages.init_producer_id import InitProducerIdRequest
from wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from wire.records.compression import Compression
from wire.types import BrokerId, LeaderEpoch, TopicPartition
from wire.uncopied import UncopiedRecords

_log = logging.getLogger(__name__)

REQUESTS_IN_FLIGHT_MAX: Final = 5
"""Unanswered Produce requests of one connection."""
COMPRESS_IN_THREAD_FROM: Final = 64 * 1024
"""Bytes from which the hop to a thread costs less than the stall of the loop."""


@dataclass(frozen=True, slots=True)
class SenderSettings:
    """How batches are sent; sizes in bytes, times in seconds."""

    acks: int
    request_timeout: float
    compression: Compression
    compression_level: int | None


class TransactionGate(Protocol):
    """What the sender asks a producer's transaction."""

    @property
    def transactional_id(self) -> str:
        """The id that batches are sent under."""
        ...

    def may_send(self, partition: TopicPartition) -> bool:
        """Return whether a partition is part of the transaction; have it added if it is not."""
        ...


class Sender:
    """Sends a producer's batches.

    Args:
        context: The client's connections.
        accumulator: What there is to send.
        settings: How.
        transaction: The state of the producer's transactions, None for a producer without.
    """

    def __init__(
        self,
        context: ClientContext,
        accumulator: Accumulator,
        settings: SenderSettings,
        transaction: TransactionGate | None,
    ) -> None:
        self._context = context
        self._accumulator = accumulator
        self._settings = settings
        self._transaction = transaction
        self._wakeup = runtime.new_event()
        self._requests: dict[BrokerLink, int] = {}
        self._answer_came = runtime.new_event()
        self._fetching_identity = False
        self._next_at = 0.0

    def wake(self) -> None:
        """Look again at what is due."""
        self._wakeup.set()

    async def wait_answered(self) -> None:
        """Wait until no batch is on the wire."""
        while self._accumulator.on_wire:
            if self._answer_came.is_set():  # an unset event stays: another task may be waiting for it
                self._answer_came = runtime.new_event()
            await self._answer_came.wait()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            self._wakeup = runtime.new_event()
            while self._drain(runtime.current_time()):
                pass
            with runtime.cancel_scope(deadline=self._next_at):
                await self._wakeup.wait()
            await runtime.checkpoint()

    def _drain(self, now: float) -> bool:
        """Send what is due, in one round; return whether something was sent."""
        accumulator = self._accumulator
        self._next_at = accumulator.expire(now, self._why_waiting)
        if accumulator.wants_identity and self._transaction is None:
            self._fetch_identity_soon()
        by_leader: dict[BrokerId, list[PartitionQueue]] = {}
        for queue, due in accumulator.due(now):
            if due > now:
                self._next_at = min(self._next_at, due)
            elif self._may_leave(queue):
                leader = self._context.metadata.leader(queue.partition)
                if leader is None:
                    self._context.refresh.use(queue.partition.topic)
                    accumulator.wants_metadata = True
                else:
                    by_leader.setdefault(leader.id, []).append(queue)
        sent = False
        for broker_id, queues in by_leader.items():
            sent = self._send_to(broker_id, queues, now) or sent
        if accumulator.wants_metadata:
            accumulator.wants_metadata = False
            self._context.refresh.ask()
        return sent

    def _may_leave(self, queue: PartitionQueue) -> bool:
        """Whether a partition is part of the transaction, where there is one, and its batch is encoded."""
        if self._transaction is not None and not self._transaction.may_send(queue.partition):
            return False
        if not self._settings.compression:
            return True
        if not queue.waiting:
            queue.close_open()
        batch = queue.waiting[0]
        if batch.is_encoding:
            return False
        if batch.encoded is None and batch.taken >= COMPRESS_IN_THREAD_FROM:
            batch.is_encoding = True
            self._context.nursery.start_soon(self._encode_in_thread, batch)
            return False
        return True

    async def _encode_in_thread(self, batch: ProducerBatch) -> None:
        settings = self._settings
        batch.encoded = await runtime.in_thread(
            batch.encode, settings.compression, settings.compression_level
        )
        batch.is_encoding = False
        self.wake()

    def _send_to(self, broker_id: BrokerId, queues: list[PartitionQueue], now: float) -> bool:
        links = self._context.links
        link = links.ready(broker_id)
        if link is None:
            if links.dial_error(broker_id) is not None:
                self._accumulator.wants_metadata = True
            links.dial_soon(broker_id, then=self.wake)
            return False
        if link.throttled_until > now:
            self._next_at = min(self._next_at, link.throttled_until)
            return False
        sent = False
        while queues and self._requests.get(link, 0) < REQUESTS_IN_FLIGHT_MAX:
            taken, queues = self._accumulator.next_for_leader(queues)
            if not taken:
                break
            self._send(link, [batch for _, batch in taken])
            sent = True
        return sent

    def _send(self, link: BrokerLink, batches: list[ProducerBatch]) -> None:
        settings = self._settings
        metrics = self._context.metrics
        is_transactional = self._transaction is not None
        topics: dict[str, list[PartitionProduceData]] = {}
        for batch in batches:
            if batch.encoded is None:
                batch.encoded = batch.encode(settings.compression, settings.compression_level)
            frame = batch.frame(transactional=is_transactional)
            topic, partition = batch.partition
            topics.setdefault(topic, []).append(
                PartitionProduceData(index=partition, records=UncopiedRecords(frame))
            )
            self._context.refresh.use(topic)
            metrics.add("byte-send-total", len(frame))
            if batch.attempts > 1:
                metrics.add("record-retry-total", len(batch.values))
        request = ProduceRequest(
            transactional_id=None if self._transaction is None else self._transaction.transactional_id,
            acks=settings.acks,
            timeout_ms=int(settings.request_timeout * 1000),
            topic_data=[TopicProduceData(name=name, partition_data=data) for name, data in topics.items()],
        )
        metrics.add("request-total")
        self._requests[link] = self._requests.get(link, 0) + 1

        def done(result: Any) -> None:
            self._answered(link, batches, result)

        try:
            link.start(request, done, timeout_s=settings.request_timeout, answered=settings.acks != 0)
        except ClientError as error:
            # Nothing was sent, or the connection broke while sending: the broker may have a part of the frame, never
            # all.
            self._lost(link, batches, error, in_doubt=False)

    def _answered(self, link: BrokerLink, batches: list[ProducerBatch], result: Any) -> None:
        if isinstance(result, ClientError):
            self._lost(link, batches, result, in_doubt=self._settings.acks != 0)
            return
        self._count_down(link)
        now = runtime.current_time()
        if result is None:
            for batch in batches:
                self._take(batch, Answer(Error.NONE), now)
        else:
            self._take_response(result, batches, now)
        self._answer_came.set()
        self.wake()

    def _take_response(self, response: ProduceResponse, batches: list[ProducerBatch], now: float) -> None:
        waiting = {batch.partition: batch for batch in batches}
        nodes = [
            BrokerNode(node.node_id, Address(node.host, node.port), node.rack)
            for node in response.node_endpoints
        ]
        for topic in response.responses:
            for answered in topic.partition_responses:
                partition = TopicPartition(topic.name, answered.index)
                batch = waiting.pop(partition, None)
                if batch is None:
                    continue
                hint = answered.current_leader
                if hint.leader_id >= 0 and self._context.metadata.apply_leader_hint(
                    partition, hint.leader_id, LeaderEpoch(hint.leader_epoch), nodes
                ):
                    batch.attempts = min(batch.attempts, 1)
                errors = tuple(
                    (each.batch_index, each.batch_index_error_message or "refused")
                    for each in answered.record_errors
                )
                answer = Answer(
                    Error.from_code(answered.error_code),
                    answered.base_offset,
                    answered.log_append_time_ms,
                    answered.error_message,
                    errors,
                )
                self._take(batch, answer, now)
        for batch in waiting.values():
            self._take(batch, Answer(Error.UNKNOWN_SERVER_ERROR, message="the answer lacks it"), now)

    def _take(self, batch: ProducerBatch, answer: Answer, now: float) -> None:
        if answer.error is not Error.NONE:
            _log.debug("%s: %s", batch, answer.error.name)
        count = len(batch.values)
        self._accumulator.answered(batch, answer, now)
        if batch.done and batch.error is None and not batch.children:
            self._context.metrics.add("record-send-total", count)

    def _lost(
        self, link: BrokerLink, batches: list[ProducerBatch], error: ClientError, *, in_doubt: bool
    ) -> None:
        self._count_down(link)
        now = runtime.current_time()
        for batch in batches:
            self._accumulator.lost(batch, error, now, in_doubt=in_doubt)
        self._answer_came.set()
        self.wake()

    def _count_down(self, link: BrokerLink) -> None:
        left = self._requests.get(link, 1) - 1
        if left:
            self._requests[link] = left
        else:
            self._requests.pop(link, None)

    def _why_waiting(self, partition: TopicPartition) -> str:
        """Say what a partition's records wait for, for the error of their timeout."""
        known = self._context.metadata.partition(partition)
        if known is None:
            return "the partition is unknown to the cluster"
        leader = self._context.metadata.leader(partition)
        if leader is None:
            return "the partition has no leader"
        error = self._context.links.dial_error(leader.id)
        if error is not None:
            return f"its leader cannot be reached: {error}"
        if self._accumulator.identity.producer_id < 0 and self._accumulator.wants_identity:
            return "no broker gave a producer id"
        return f"its leader, broker {leader.id} at {leader.address}, answers errors or not at all"

    def _fetch_identity_soon(self) -> None:
        if not self._fetching_identity:
            self._fetching_identity = True
            self._context.nursery.start_soon(self._fetch_identity)

    async def _fetch_identity(self) -> None:
        """Get a producer id, asking until a broker gives one or says that it never will."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFFFFFF)
        failures = 0
        try:
            while True:
                try:
                    answer = await self._context.links.ask_any(request)
                    error = Error.from_code(answer.error_code)
                    if error is Error.NONE:
                        identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)
                        self._accumulator.set_identity(identity)
                        break
                    if not error.retriable:
                        raise error_for(error, "a producer id")
                except ClientError as error:
                    if not error.retriable:
                        self._accumulator.fatal = error
                        self._accumulator.fail_all(error)
                        break
                    _log.warning("no producer id: %s", error)
                await runtime.sleep(self._context.retry_backoff.delay_s(failures))
                failures += 1
        finally:
            self._fetching_identity = False
        self.wake()
