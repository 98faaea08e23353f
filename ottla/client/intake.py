"""Accepting records: each into the open batch of its partition, where there is room; or in line for it."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from ottla.client import runtime
from ottla.client.accumulator import Accumulator
from ottla.client.batch_encoding import BATCH_OVERHEAD, RECORD_OVERHEAD_MAX, EncodedRecords, headers_bound
from ottla.client.codecs import AnyTopic
from ottla.client.delivery import Delivery
from ottla.client.errors import NoRoom, RecordTooLarge
from ottla.client.interceptors import OnSend, OutgoingRecord, intercept_send
from ottla.client.memory_budget import MemoryBudget
from ottla.client.partition_queue import PartitionQueue
from ottla.client.producer_batch import ProducerBatch
from ottla.client.routes import Route, Routes
from wire.records.record import Header
from wire.types import TopicPartition


class Parked:
    """A record that waits for room; it is appended at the moment when the room is there."""

    __slots__ = ("delivery", "number", "ready")

    def __init__(self) -> None:
        self.ready = runtime.new_event()
        self.delivery: Delivery | None = None
        self.number = 0


class Intake:
    """Accepts records into a producer's batches.

    Args:
        routes: The topics that were sent to.
        accumulator: Where the batches are.
        budget: The producer's room.
        wake: Lets the sender look again at what is due.
        wall_ms: The clock of the records' timestamps.
        max_request_size: The most bytes of a record.
        on_send: See each record first.
    """

    def __init__(
        self,
        routes: Routes,
        accumulator: Accumulator,
        budget: MemoryBudget,
        wake: Callable[[], None],
        wall_ms: Callable[[], int],
        *,
        max_request_size: int,
        on_send: Sequence[OnSend],
    ) -> None:
        self.on_send = on_send
        self._routes = routes
        self._known = routes.by_topic
        self._accumulator = accumulator
        self._budget = budget
        self._wake = wake
        self._wall_ms = wall_ms
        self._max_request_size = max_request_size

    def accept(
        self,
        topic: AnyTopic,
        value: Any,
        key: Any,
        headers: Sequence[Header],
        partition: int | None,
        timestamp: int | None,
        may_park: bool,
    ) -> Delivery | Parked | None:
        """Append a record; None while the topic is unknown, parked where there is no room."""
        route = self._known.get(topic)
        if route is None:
            return None
        if self.on_send:
            changed = intercept_send(
                self.on_send, OutgoingRecord(route.name, key, value, headers, partition, timestamp)
            )
            if changed is None:
                return _dropped(route.name)
            key, value, headers = changed.key, changed.value, changed.headers
            partition, timestamp = changed.partition, changed.timestamp
        if route.encode_value is not None and value is not None:
            value = route.encode_value(value)
        if route.encode_key is not None and key is not None:
            key = route.encode_key(key)
        value, key = _as_bytes(value), _as_bytes(key)
        size = RECORD_OVERHEAD_MAX if value is None else len(value) + RECORD_OVERHEAD_MAX
        if timestamp is None:
            timestamp = self._wall_ms()
        if key is not None:
            size += len(key)
        queue = route.queue_for(key, partition)
        if headers:
            size += headers_bound(headers)
        if size > self._max_request_size or size > self._budget.capacity:
            raise RecordTooLarge(
                f"a record of {size} bytes for {route.name!r}: max_request_size is {self._max_request_size} "
                f"and the producer's room {self._budget.capacity} bytes",
                topic=route.name,
            )
        if self._budget.take_nowait(size):
            return self._append(
                route, queue, partition is None and key is None, key, value, headers, timestamp, size
            )
        if not may_park:
            raise NoRoom(f"no room for {size} bytes", topic=route.name)
        parked = Parked()

        def grant() -> None:
            sticks = partition is None and key is None
            place = route.sticky if sticks else queue
            parked.delivery = self._append(route, place, sticks, key, value, headers, timestamp, size)
            parked.ready.set()

        parked.number = self._budget.take_later(size, grant)
        self._wake()
        return parked

    def _append(
        self,
        route: Route,
        queue: PartitionQueue,
        sticks: bool,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        timestamp: int,
        size: int,
    ) -> Delivery:
        batch = queue.open
        if batch is None or size > batch.left:
            if sticks:
                queue = route.next_sticky()
            batch = queue.open
            if batch is None or size > batch.left:
                batch = self._accumulator.open_batch(queue, size, runtime.current_time())
                self._wake()
                if sticks:
                    route.sticky_batch = batch
        return Delivery(batch, batch.append(key, value, headers, timestamp, size))

    async def wait_for_room(self, parked: Parked) -> Delivery:
        try:
            await parked.ready.wait()
        finally:
            if parked.delivery is None:
                self._budget.cancel(parked.number)
        assert parked.delivery is not None
        return parked.delivery

    async def accept_some(
        self,
        route: Route,
        queue: PartitionQueue | None,
        keys: Sequence[bytes | None] | None,
        values: Sequence[bytes | None],
        timestamp: int,
        parts: list[tuple[ProducerBatch, int, int]],
    ) -> None:
        ends = route.ends(values, keys)
        begin = taken = 0
        while begin < len(values):
            place = route.sticky if queue is None else queue
            batch = place.open
            end = begin if batch is None else bisect_right(ends, taken + batch.left, begin)
            size = ends[end - 1] - taken
            if end == begin:
                # Not one more fits: a new batch, in another partition where records stick.
                end = max(bisect_right(ends, taken + self._routes.batch_room, begin), begin + 1)
                size = ends[end - 1] - taken
                if size > self._max_request_size or size > self._budget.capacity:
                    raise RecordTooLarge(
                        f"a record of {size} bytes for {route.name!r} exceeds max_request_size or the room",
                        topic=route.name,
                    )
                place = route.next_sticky() if queue is None else queue
            if not self._budget.take_nowait(size):
                await self._take_room(size)
            batch = place.open
            if batch is None or size > batch.left:
                batch = self._accumulator.open_batch(place, size, runtime.current_time())
                self._wake()
                if queue is None:
                    route.sticky_batch = batch
            index = batch.extend(
                None if keys is None else keys[begin:end], values[begin:end], timestamp, size
            )
            parts.append((batch, index, end - begin))
            begin, taken = end, ends[end - 1]

    async def accept_encoded(self, route: Route, partition: int, records: EncodedRecords) -> ProducerBatch:
        """Accept a batch of encoded records; wait for room.

        Raises:
            RecordTooLarge: It is larger than a request may be, or than the room.
            UnknownTopic: The topic has no such partition.
        """
        queue = route.queue_for(None, partition)
        size = len(records.body) + BATCH_OVERHEAD
        if size > self._max_request_size or size > self._budget.capacity:
            raise RecordTooLarge(
                f"a batch of {size} bytes for {route.name!r} exceeds max_request_size or the room",
                topic=route.name,
            )
        if not self._budget.take_nowait(size):
            await self._take_room(size)
        batch = self._accumulator.open_batch(queue, size, runtime.current_time())
        batch.hold_encoded(records, size)
        queue.close_open()
        self._wake()
        return batch

    async def _take_room(self, size: int) -> None:
        granted = runtime.new_event()
        number = self._budget.take_later(size, granted.set)
        self._wake()
        try:
            await granted.wait()
        except runtime.cancelled():
            if granted.is_set():
                self._budget.release(size)
            raise
        finally:
            if not granted.is_set():
                self._budget.cancel(number)


def _as_bytes(field: Any) -> bytes | None:
    if field is None or type(field) is bytes:
        return field
    if isinstance(field, bytes | bytearray | memoryview):
        return bytes(field)
    raise TypeError(
        f"keys and values are bytes or None here, not {type(field).__name__}; a Topic with codecs encodes others"
    )


def _dropped(topic: str) -> Delivery:
    batch = ProducerBatch(TopicPartition(topic, -1), 0, 0, 0.0, 0.0)
    batch.append(None, None, (), -1, 0)
    batch.finish(None)
    return Delivery(batch, 0)
