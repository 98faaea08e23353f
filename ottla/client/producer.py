"""The producer: records in, acknowledgements out.

`post` appends to the open batch of a partition, and does not switch tasks: it checkpoints when there is no room, and
about once a millisecond, not for every record. That is an exception to the rule that every await checkpoints. Records
are encoded when their batch leaves.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar, overload

from ottla.client import runtime
from ottla.client.accumulator import Accumulator
from ottla.client.batch_encoding import RECORD_OVERHEAD_MAX, EncodedRecords
from ottla.client.codecs import AnyTopic, Topic
from ottla.client.context import ClientContext
from ottla.client.delivery import BatchDelivery, Delivery
from ottla.client.errors import ClientError, ClosedClient, DeliveryErrors, NoRoom
from ottla.client.intake import Intake
from ottla.client.interceptors import OnAcknowledged, OnSend, notify
from ottla.client.memory_budget import MemoryBudget
from ottla.client.partitioners import KeyHash
from ottla.client.producer_batch import Acknowledged, Place, ProducerBatch
from ottla.client.routes import Routes
from ottla.client.sender import Sender
from wire.records.record import Header

DEFAULT_ROOM: Final = 32 * 1024 * 1024
"""Bytes of records that one producer may hold without an outcome."""

K = TypeVar("K")
V = TypeVar("V")


class Producer:
    """Sends records; made by `Kafka.producer`, used as ``async with``.

    The end of the block flushes. Failures that nobody waited for are raised there, and by `flush`, as one
    `DeliveryErrors` group. Leaving on an exception or a cancellation takes at most ``close_timeout``.
    """

    def __init__(
        self,
        context: ClientContext,
        accumulator: Accumulator,
        budget: MemoryBudget,
        sender: Sender,
        key_hash: KeyHash,
        *,
        max_request_size: int,
        batch_size: int,
        topic_timeout: float,
        discard_on_failure: bool,
        on_send: Sequence[OnSend],
        on_acknowledged: Sequence[OnAcknowledged],
    ) -> None:
        self._context = context
        self._accumulator = accumulator
        self._budget = budget
        self._sender = sender
        self._topic_timeout = topic_timeout
        self._discard_on_failure = discard_on_failure
        self._on_acknowledged = on_acknowledged
        self._routes = Routes(context, accumulator, key_hash, batch_size)
        self._intake = Intake(
            self._routes,
            accumulator,
            budget,
            sender.wake,
            context.clock.wall_ms,
            max_request_size=max_request_size,
            on_send=on_send,
        )
        self._known = self._routes.by_topic
        # Where nothing has to see the records first, `post` appends them itself.
        self._direct = {} if on_send else self._routes.without_codecs
        self._is_open = False
        self._failed: list[ProducerBatch] = []
        self._scope = runtime.cancel_scope()
        self._wall_ms = context.clock.wall_ms
        self._wall_ns = context.clock.wall_ns
        self._yielded_ms = 0
        if not accumulator.is_transactional:
            accumulator.on_failed = self._note_failure
        if on_acknowledged:
            accumulator.on_finished = self._show_outcome

    async def __aenter__(self) -> Self:
        self._open()
        await runtime.checkpoint()
        return self

    def _open(self) -> None:
        self._is_open = True
        self._context.refresh.on_update.append(self._metadata_updated)
        self._context.nursery.start_soon(self._run_sender)

    async def _run_sender(self) -> None:
        with self._scope:
            await self._sender.run()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                await self._drain_while_it_moves()
            else:
                with runtime.cancel_scope(deadline=runtime.current_time() + self._close_timeout, shield=True):
                    if not self._discard_on_failure:
                        await self.wait_all()
        finally:
            self._close()
        if error is None:
            self._raise_failures()

    @property
    def _close_timeout(self) -> float:
        return self._context.settings.close_timeout

    async def _drain_while_it_moves(self) -> None:
        """Flush, for as long as a batch comes through every ``close_timeout``."""
        batches = self._accumulator.begin_flush()
        self._sender.wake()
        try:
            for batch in batches:
                with runtime.move_on_after(self._close_timeout) as scope:
                    await _finished(batch)
                if scope.cancelled_caught:
                    return
        finally:
            self._accumulator.end_flush()

    async def wait_all(self) -> None:
        """Wait until everything accepted so far has an outcome, without raising what failed."""
        batches = self._accumulator.begin_flush()
        self._sender.wake()
        try:
            for batch in batches:
                await _finished(batch)
        finally:
            self._accumulator.end_flush()

    def _close(self) -> None:
        self._is_open = False
        self._routes.close()
        self._context.refresh.on_update.remove(self._metadata_updated)
        self._accumulator.fail_all(ClosedClient("the producer's block has ended"))
        self._scope.cancel()

    def _metadata_updated(self) -> None:
        self._routes.update()
        self._sender.wake()

    @overload
    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Place: ...
    @overload
    async def send(
        self,
        topic: Topic[K, V],
        value: V | None,
        *,
        key: K | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Place: ...
    async def send(self, topic: AnyTopic, value: Any, **options: Any) -> Place:
        """Send a record and wait for its acknowledgement; arguments as `post`.

        Cancelled, the record stays accepted and will be sent; only its outcome is not known to the caller. (Taken
        back, it would leave a hole in the sequence, at which the partition would stop.)

        Returns:
            Where the record stands. One that an interceptor dropped stands in partition -1.

        Raises:
            DeliveryError: It was not acknowledged in time, or the broker refused it.
            UnknownTopic: The cluster does not know the topic within ``topic_timeout``.
            RecordTooLarge: It is larger than ``max_request_size`` or than the broker accepts.
        """
        delivery = await self.post(topic, value, **options)
        return await delivery.wait()

    @overload
    async def post(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Delivery: ...
    @overload
    async def post(
        self,
        topic: Topic[K, V],
        value: V | None,
        *,
        key: K | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Delivery: ...
    async def post(
        self,
        topic: AnyTopic,
        value: Any,
        *,
        key: Any = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Delivery:
        """Accept a record: wait for room and metadata only.

        Cancelled while it waits, the record is not accepted.

        Args:
            topic: A name, for bytes, or a typed `Topic`.
            value: The value; None is a tombstone.
            key: The key; records with one key go to one partition.
            headers: Names and values.
            partition: The partition; None lets the key decide, or without a key the partitioner.
            timestamp: Milliseconds since 1970; None for now.

        Returns:
            The delivery; its outcome may be waited for, or left to `flush`.

        Raises:
            UnknownTopic: The cluster does not know the topic within ``topic_timeout``, or not the partition.
            RecordTooLarge: It is larger than ``max_request_size``.
            ClosedClient: The block has ended.
        """
        route = self._direct.get(topic)
        if route is not None and partition is None and timestamp is None and not headers:
            # What nearly every record takes: no call but the lists'.
            queue = route.sticky if key is None else route.queues_by_key.get(key)
            batch = None if queue is None else queue.open
            if batch is not None and type(value) is bytes and (batch.keys is None) is (key is None):
                size = len(value) + RECORD_OVERHEAD_MAX
                if key is not None:
                    size += len(key)
                budget = self._budget
                if size <= batch.left and size <= budget.free:
                    budget.free -= size
                    batch.left -= size
                    values = batch.values
                    index = len(values)
                    values.append(value)
                    if key is not None:
                        batch.keys.append(key)  # type: ignore[union-attr]  # it has keys, as this record has
                    now_ms = self._wall_ns() // 1_000_000
                    batch.timestamps.append(now_ms)
                    if now_ms != self._yielded_ms:
                        self._yielded_ms = now_ms
                        await runtime.checkpoint()
                    return Delivery(batch, index)
        accepted = self._intake.accept(topic, value, key, headers, partition, timestamp, True)
        if isinstance(accepted, Delivery):
            now_ms = self._wall_ms()
            if now_ms != self._yielded_ms:
                self._yielded_ms = now_ms
                await runtime.checkpoint()
            return accepted
        if accepted is None:
            await self._learn(topic)
            return await self.post(
                topic, value, key=key, headers=headers, partition=partition, timestamp=timestamp
            )
        delivery = await self._intake.wait_for_room(accepted)
        self._check_open()
        return delivery

    def post_nowait(
        self,
        topic: AnyTopic,
        value: Any,
        *,
        key: Any = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Delivery:
        """Accept a record at once; arguments as `post`.

        Raises:
            NoRoom: There is no room, or the topic is not known yet.
        """
        accepted = self._intake.accept(topic, value, key, headers, partition, timestamp, False)
        if accepted is None:
            self._check_open()
            self._context.refresh.use(_name(topic))
            raise NoRoom(f"the topic {_name(topic)!r} is not known yet", topic=_name(topic))
        assert isinstance(accepted, Delivery)
        return accepted

    async def post_batch(
        self,
        topic: AnyTopic,
        values: Any,
        *,
        keys: Any = None,
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> BatchDelivery:
        """Accept many records at once; cheaper a record than `post`.

        They are accepted in their order, a piece at a time as there is room; cancelled, the pieces accepted so far
        stay accepted.

        Args:
            topic: A name, or a typed `Topic`.
            values: A list of values, or an Arrow array of binary type.
            keys: As many keys, or None.
            partition: The partition for all; None as in `post`.
            timestamp: Milliseconds for all; None for now.

        Returns:
            One delivery for all of them.

        Raises:
            ValueError: There are not as many keys as values.
        """
        self._check_open()
        values, keys = _as_list(values), None if keys is None else _as_list(keys)
        if keys is not None and len(keys) != len(values):
            raise ValueError(f"{len(values)} values and {len(keys)} keys")
        route = self._known.get(topic)
        while route is None:
            await self._learn(topic)
            route = self._known.get(topic)
        if self._intake.on_send:
            raise ValueError("post_batch passes no interceptors: use post")
        if route.encode_value is not None:
            values = [None if value is None else route.encode_value(value) for value in values]
        if keys is not None and route.encode_key is not None:
            keys = [None if key is None else route.encode_key(key) for key in keys]
        at = self._wall_ms() if timestamp is None else timestamp
        parts: list[tuple[ProducerBatch, int, int]] = []
        for queue, some_keys, some in route.divide(keys, values, partition):
            await self._intake.accept_some(route, queue, some_keys, some, at, parts)
            self._check_open()
        await runtime.checkpoint()
        return BatchDelivery(parts)

    async def post_encoded(self, topic: str, partition: int, records: EncodedRecords) -> BatchDelivery:
        """Accept a batch whose records are encoded already, and leave them as they are; see `Batch.whole_batches`.

        Args:
            topic: The topic's name.
            partition: The partition.
            records: The batch's records, with the codec that they are compressed by.

        Raises:
            UnknownTopic: The cluster does not know the topic within ``topic_timeout``, or not the partition.
            RecordTooLarge: The batch is larger than ``max_request_size``; it is not divided.
        """
        self._check_open()
        route = self._known.get(topic)
        while route is None:
            await self._learn(topic)
            route = self._known.get(topic)
        batch = await self._intake.accept_encoded(route, partition, records)
        self._check_open()
        await runtime.checkpoint()
        return BatchDelivery([(batch, 0, records.record_count)])

    async def flush(self) -> None:
        """Wait until everything accepted so far is acknowledged or has failed, without lingering.

        Raises:
            DeliveryErrors: Records failed that nobody waited for; each batch is reported once.
        """
        self._check_open()
        await self.wait_all()
        self._raise_failures()

    async def _learn(self, topic: AnyTopic) -> None:
        """Wait until a topic is known, and make its route."""
        self._check_open()
        await self._context.refresh.topic(_name(topic), self._topic_timeout)
        self._check_open()
        self._routes.add(topic)

    def _check_open(self) -> None:
        if not self._is_open:
            raise ClosedClient("the producer is used outside of its block")
        if self._accumulator.fatal is not None:
            raise self._accumulator.fatal

    def _note_failure(self, batch: ProducerBatch) -> None:
        self._context.metrics.add("record-error-total", len(batch.values))
        self._failed.append(batch)

    def _show_outcome(self, batch: ProducerBatch) -> None:
        notify(self._on_acknowledged, Acknowledged(batch), batch.error)

    def _raise_failures(self) -> None:
        failed, self._failed = self._failed, []
        errors: list[ClientError] = [
            batch.error for batch in failed if batch.error is not None and not batch.looked_at
        ]
        if errors:
            raise DeliveryErrors("records were not delivered", errors)


async def _finished(batch: ProducerBatch) -> None:
    """Wait for a batch and the pieces that it is split into, without counting that as having looked at it."""
    done = runtime.new_event()
    batch.when_done(done.set)
    try:
        await done.wait()
    finally:
        batch.cancel_when_done(done.set)
    for _, piece in batch.children:
        await _finished(piece)


def _name(topic: AnyTopic) -> str:
    return topic if isinstance(topic, str) else topic.name


def _as_list(values: Any) -> Any:
    return values.to_pylist() if hasattr(values, "to_pylist") else values
