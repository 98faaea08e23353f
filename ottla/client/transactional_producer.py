"""A producer whose records, and the offsets of what it consumed, become visible together or not at all."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, TypeVar

from ottla.client import runtime
from ottla.client.accumulator import Accumulator
from ottla.client.batch_encoding import EncodedRecords
from ottla.client.codecs import AnyTopic
from ottla.client.context import ClientContext
from ottla.client.delivery import BatchDelivery, Delivery
from ottla.client.errors import ClientError, ClosedClient, TransactionAborted, TransactionUnknown
from ottla.client.group import Group
from ottla.client.group_partitions import OwnedPartition
from ottla.client.membership import Membership
from ottla.client.offset_commits import CommittedOffset
from ottla.client.producer import Producer
from ottla.client.producer_batch import Place, ProducerBatch
from ottla.client.record_batch import Batch
from ottla.client.sender import Sender
from ottla.client.transaction_requests import TransactionRequests
from ottla.client.transactions import TransactionMachine, TransactionPhase
from wire.types import TopicPartition

K = TypeVar("K")
V = TypeVar("V")
Consumed = Batch[Any, Any] | Sequence[Batch[Any, Any]]
_PAUSE_S: Final = 0.1


class TransactionalProducer:
    """Made by `Kafka.producer` with a ``transactional_id``, used as ``async with``; records go by `transaction`.

    Entering it fences earlier producers of the same id, and ends what they left open.
    """

    def __init__(
        self,
        context: ClientContext,
        producer: Producer,
        accumulator: Accumulator,
        sender: Sender,
        machine: TransactionMachine,
        requests: TransactionRequests,
    ) -> None:
        self._context = context
        self._producer = producer
        self._accumulator = accumulator
        self._sender = sender
        self._machine = machine
        self._requests = requests
        self._scope = runtime.cancel_scope()
        self._wanted = runtime.new_event()
        self._doubt = runtime.new_event()
        self._is_open = False
        machine.on_wanted = self._want
        machine.on_doubt = self._doubted

    async def __aenter__(self) -> Self:
        self._accumulator.set_identity(await self._requests.init(self._accumulator.identity))
        self._accumulator.on_failed = self._batch_failed
        self._accumulator.on_doubt = self._machine.doubt
        await self._producer.__aenter__()
        self._context.nursery.start_soon(self._add_partitions)
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        self._scope.cancel()
        await self._producer.__aexit__(kind, error, trace)
        self._requests.close()

    def transaction(self, *, consumed: Consumed | None = None) -> "Transaction":
        """Begin a transaction, as ``async with``.

        The end of the block commits; an exception or a cancellation aborts, and steps the group back to what was
        consumed, so that it comes again.

        Args:
            consumed: A group's batch, or several: their offsets are committed with the records.

        Raises:
            TransactionAborted: From the end of the block: nothing of it will be seen; it may be tried again.
            ProducerFenced: Another producer has taken over the id.
            TransactionUnknown: Cancelled while it was committed, and the coordinator did not answer in time.
        """
        if not self._is_open:
            raise ClosedClient("the producer is used outside of its block")
        if consumed is None:
            batches: list[Batch[Any, Any]] = []
        else:
            batches = [consumed] if isinstance(consumed, Batch) else list(consumed)
        return Transaction(self, batches)

    async def process(
        self, group: Group[K, V], work: Callable[["Transaction", Batch[K, V]], Awaitable[None]]
    ) -> None:
        """Run ``work`` in a transaction for each batch of a group, again where a transaction is aborted; for ever.

        Raises:
            ProducerFenced: Another producer has taken over the id.
            Exception: Whatever ``work`` raises; its transaction is aborted.
        """
        async for batch in group:
            try:
                async with self.transaction(consumed=batch) as transaction:
                    await work(transaction, batch)
            except TransactionAborted:
                await runtime.sleep(_PAUSE_S)

    def _want(self) -> None:
        self._wanted.set()

    def _doubted(self) -> None:
        self._doubt.set()

    def _batch_failed(self, batch: ProducerBatch) -> None:
        if batch.error is not None:
            self._machine.doubt(batch.error)

    async def _add_partitions(self) -> None:
        """Make partitions part of the transaction when they have something to send."""
        with self._scope:
            while True:
                await self._wanted.wait()
                self._wanted = runtime.new_event()
                wanted = set(self._machine.wanted)
                if not wanted or self._machine.phase is not TransactionPhase.OPEN:
                    continue
                try:
                    await self._requests.add_partitions(self._accumulator.identity, sorted(wanted))
                except ClientError:
                    continue  # the machine knows; the transaction's end raises it
                self._machine.partitions_added(wanted)
                self._sender.wake()

    async def begin(self) -> None:
        """Begin; called by the transaction."""
        self._doubt = runtime.new_event()
        self._machine.begin()
        await runtime.checkpoint()

    async def commit(
        self,
        batches: Sequence[Batch[Any, Any]],
        positions: Mapping[str, Mapping[TopicPartition, CommittedOffset]] = MappingProxyType({}),
    ) -> None:
        """Send everything, add the offsets, and commit; called by the transaction."""
        await self._flush_or_doubt()
        if self._machine.phase is not TransactionPhase.OPEN:
            raise self._machine.aborted_error()
        for group, offsets in _by_group(batches).items():
            await self._requests.add_offsets(self._accumulator.identity, group.membership, offsets)
        for group_id, simple in positions.items():
            # Without a member: what fences is the producer's epoch.
            member = Membership(group_id, None, (), None)
            await self._requests.add_offsets(self._accumulator.identity, member, simple)
        if not self._machine.is_empty:
            await self._end_commit()
        self._machine.ended()
        for batch in batches:
            if isinstance(batch.ownership, OwnedPartition):
                batch.done()
                batch.ownership.progress.committed = batch.ownership.progress.position

    async def _end_commit(self) -> None:
        identity = self._accumulator.identity
        try:
            await self._requests.end(identity, committed=True)
        except runtime.cancelled():
            # The answer may be on its way: learn the outcome, or say that it is unknown.
            with runtime.cancel_scope(deadline=self._deadline(), shield=True):
                await self._requests.end(identity, committed=True)
                return
            unknown = TransactionUnknown("cancelled while committing; the coordinator did not answer in time")
            self._machine.fail(unknown)
            raise unknown from None

    def _deadline(self) -> float:
        return runtime.current_time() + self._context.settings.close_timeout

    async def _flush_or_doubt(self) -> None:
        """Wait until everything is acknowledged, or the transaction cannot be committed any more."""
        async with runtime.open_nursery() as nursery:

            async def flush() -> None:
                await self._producer.wait_all()
                nursery.cancel_scope.cancel()

            nursery.start_soon(flush)
            await self._doubt.wait()
            nursery.cancel_scope.cancel()

    async def abort(self, batches: Sequence[Batch[Any, Any]]) -> None:
        """Drop what is unsent, abort, and step back; called by the transaction."""
        self._machine.doubt(TransactionAborted("the transaction's block was left by an exception"))
        with runtime.cancel_scope(deadline=self._deadline(), shield=True) as scope:
            self._accumulator.fail_all(TransactionAborted("the transaction was aborted"))
            await self._sender.wait_answered()
            is_fatal = self._machine.phase is TransactionPhase.FATAL
            try:
                if not is_fatal and not self._machine.is_empty:
                    await self._requests.end(self._accumulator.identity, committed=False)
                if not is_fatal and (not self._machine.is_empty or self._machine.wanted):
                    # Under a raised epoch nothing late can be taken for the next transaction's; it also ends one
                    # that a partition was just being added to.
                    self._accumulator.set_identity(await self._requests.init(self._accumulator.identity))
                    self._accumulator.reset_numbers()
            except ClientError:
                pass  # fatal, and noted in the machine: the next transaction raises it
        if scope.cancelled_caught:
            self._machine.fail(
                TransactionUnknown("the transaction was not aborted in time: the coordinator is away")
            )
        self._machine.ended()
        for batch in batches:
            if isinstance(batch.ownership, OwnedPartition) and not batch.ownership.lost:
                group = batch.ownership.group
                group.seek(batch.topic, batch.partition, batch.first_offset)

    @property
    def machine(self) -> TransactionMachine:
        """The state of its transactions."""
        return self._machine

    @property
    def producer(self) -> Producer:
        """What sends the records."""
        return self._producer


def _by_group(
    batches: Sequence[Batch[Any, Any]],
) -> dict[Group[Any, Any], dict[TopicPartition, CommittedOffset]]:
    found: dict[Group[Any, Any], dict[TopicPartition, CommittedOffset]] = {}
    for batch in batches:
        owned = batch.ownership
        if not isinstance(owned, OwnedPartition):
            raise ValueError(f"{batch!r} is no batch of a group: a reader has no offsets to commit")
        if owned.lost:
            raise TransactionAborted(f"{batch.place} is another member's now", topic=batch.topic)
        found.setdefault(owned.group, {})[batch.place] = CommittedOffset(
            batch.next_offset, batch.leader_epoch
        )
    return found


class Transaction:
    """One transaction; made by `TransactionalProducer.transaction`."""

    def __init__(self, producer: TransactionalProducer, consumed: Sequence[Batch[Any, Any]]) -> None:
        self._producer = producer
        self._consumed = consumed
        self._positions: dict[str, dict[TopicPartition, CommittedOffset]] = {}

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit offsets of a group without members together with the records, whatever the offsets stand for."""
        self._positions.setdefault(group_id, {}).update(offsets)

    async def __aenter__(self) -> Self:
        await self._producer.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            await self._producer.abort(self._consumed)
            return
        try:
            await self._producer.commit(self._consumed, self._positions)
        except BaseException:
            await self._producer.abort(self._consumed)
            raise

    async def send(self, topic: AnyTopic, value: Any, **options: Any) -> Place:
        """Send a record and wait until the brokers have it; see `Producer.send`. It is visible after the commit."""
        return await self._producer.producer.send(topic, value, **options)

    async def post(self, topic: AnyTopic, value: Any, **options: Any) -> Delivery:
        """Accept a record; see `Producer.post`."""
        return await self._producer.producer.post(topic, value, **options)

    async def post_encoded(self, topic: str, partition: int, records: EncodedRecords) -> BatchDelivery:
        """Accept an encoded batch; see `Producer.post_encoded`."""
        return await self._producer.producer.post_encoded(topic, partition, records)

    async def post_batch(self, topic: AnyTopic, values: Any, **options: Any) -> BatchDelivery:
        """Accept many records; see `Producer.post_batch`."""
        return await self._producer.producer.post_batch(topic, values, **options)
