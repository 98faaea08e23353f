"""Where a producer's records go: each topic's queues and codecs, and the partition that records stick to."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from operator import add
from typing import Any, Final

from ottla.client.accumulator import Accumulator
from ottla.client.batch_encoding import BATCH_OVERHEAD, RECORD_OVERHEAD_MAX
from ottla.client.codecs import AnyTopic, as_topic, raw
from ottla.client.context import ClientContext
from ottla.client.errors import UnknownTopic
from ottla.client.partition_queue import PartitionQueue
from ottla.client.partitioners import KeyHash, choose_sticky
from ottla.client.producer_batch import ProducerBatch
from wire.types import TopicPartition

_KEYS_KEPT: Final = 50_000
"""For how many keys of a topic the partition is remembered."""


class Route:
    """One topic as a producer uses it.

    Attributes:
        name: The topic.
        encode_key: Makes bytes of a key, None where keys are bytes.
        encode_value: Makes bytes of a value, None where values are bytes.
        queues: The partitions' queues, by number.
        queues_by_key: Those of the keys that were sent lately.
        sticky: Where records without a key go at present.
        sticky_batch: The last batch that was opened there.
    """

    __slots__ = (
        "_available",
        "_batch_size",
        "_context",
        "_key_hash",
        "_stuck_bytes",
        "encode_key",
        "encode_value",
        "name",
        "queues",
        "queues_by_key",
        "sticky",
        "sticky_batch",
    )

    def __init__(
        self,
        topic: AnyTopic,
        queues: list[PartitionQueue],
        context: ClientContext,
        key_hash: KeyHash,
        batch_size: int,
    ) -> None:
        typed = as_topic(topic)
        self.name = typed.name
        self.encode_key: Callable[[Any], bytes] | None = None if typed.key is raw else typed.key.encode
        self.encode_value: Callable[[Any], bytes] | None = None if typed.value is raw else typed.value.encode
        self.queues = queues
        self.sticky_batch: ProducerBatch | None = None
        self._context = context
        self._key_hash = key_hash
        self._batch_size = batch_size
        self._stuck_bytes = 0
        self._available: list[int] = []
        self.queues_by_key: dict[bytes, PartitionQueue] = {}
        self.metadata_changed()
        self.sticky = self._choose(None)

    def metadata_changed(self) -> None:
        """Look anew at which partitions have a leader: records without a key go to those, if there are any."""
        metadata = self._context.metadata
        numbers = range(len(self.queues))
        led = [number for number in numbers if metadata.leader(self.queues[number].partition) is not None]
        self._available = led or list(numbers)

    def queue_for(self, key: bytes | None, partition: int | None) -> PartitionQueue:
        """Return the queue of a given partition, or of a key's.

        Raises:
            UnknownTopic: The topic has no such partition.
        """
        if partition is None:
            if key is None:
                return self.sticky
            return self.queues_by_key.get(key) or self._queue_for_key(key)
        if not 0 <= partition < len(self.queues):
            raise UnknownTopic(
                f"the topic {self.name!r} has {len(self.queues)} partitions; there is no partition {partition}",
                topic=self.name,
                partition=partition,
            )
        return self.queues[partition]

    def _queue_for_key(self, key: bytes) -> PartitionQueue:
        """Return the queue of a key, which is not hashed again for a while."""
        queue = self.queues[self._key_hash(key) % len(self.queues)]
        if len(self.queues_by_key) >= _KEYS_KEPT:
            self.queues_by_key.clear()
        self.queues_by_key[key] = queue
        return queue

    def add_partitions(self, queues: list[PartitionQueue]) -> None:
        """Use partitions that were added: keys go elsewhere from now on."""
        self.queues = queues
        self.queues_by_key.clear()

    def next_sticky(self) -> PartitionQueue:
        """Return where the next record without a key goes: elsewhere once a batch's worth went here (KIP-794)."""
        if self.sticky_batch is not None:
            self._stuck_bytes += self._batch_size - self.sticky_batch.left
            self.sticky_batch = None
            if self._stuck_bytes >= self._batch_size // 2:
                self._stuck_bytes = 0
                self.sticky = self._choose(self.sticky.partition.partition)
        return self.sticky

    def _choose(self, previous: int | None) -> PartitionQueue:
        available = self._available
        depths = [self.queues[number].depth for number in available]
        return self.queues[choose_sticky(available, depths, self._context.source, previous)]

    def divide(
        self,
        keys: Sequence[bytes | None] | None,
        values: Sequence[bytes | None],
        partition: int | None,
    ) -> Iterator[tuple[PartitionQueue | None, Sequence[bytes | None] | None, Sequence[bytes | None]]]:
        """Yield the records of each partition; None as queue for those that stick."""
        if partition is not None or keys is None:
            yield None if partition is None else self.queue_for(None, partition), keys, values
            return
        parts: dict[int, tuple[list[bytes | None], list[bytes | None]]] = {}
        for key, value in zip(keys, values, strict=True):
            number = -1
            if key is not None:
                queue = self.queues_by_key.get(key) or self._queue_for_key(key)
                number = queue.partition.partition
            part = parts.get(number)
            if part is None:
                part = parts[number] = ([], [])
            part[0].append(key)
            part[1].append(value)
        for number, (some_keys, some) in parts.items():
            if number < 0:
                yield None, None, some
            else:
                yield self.queues[number], some_keys, some

    def ends(self, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None) -> list[int]:
        """Return, for each record, the most bytes that it and those before it take.

        Raises:
            TypeError: A key or value is neither bytes nor None.
        """
        sizes: Iterable[int] = map(RECORD_OVERHEAD_MAX.__add__, _sizes(values))
        if keys is not None:
            sizes = map(add, sizes, _sizes(keys))
        return list(accumulate(sizes))


def _sizes(fields: Sequence[bytes | None]) -> Iterable[int]:
    kinds = set(map(type, fields))
    if kinds == {bytes}:
        return map(len, fields)  # type: ignore[arg-type]  # none is None
    if not kinds <= {bytes, type(None)}:
        names = ", ".join(sorted(kind.__name__ for kind in kinds - {bytes, type(None)}))
        raise TypeError(
            f"keys and values are bytes or None here, not {names}; a Topic with codecs encodes others"
        )
    return [0 if each is None else len(each) for each in fields]


class Routes:
    """The topics that a producer has sent to.

    Attributes:
        by_topic: The routes, by name and by typed topic.
        without_codecs: Those of them whose keys and values are bytes.
        batch_room: Bytes that an empty batch has for records.
    """

    def __init__(
        self, context: ClientContext, accumulator: Accumulator, key_hash: KeyHash, batch_size: int
    ) -> None:
        self.by_topic: dict[AnyTopic, Route] = {}
        self.without_codecs: dict[AnyTopic, Route] = {}
        self.batch_room = batch_size - BATCH_OVERHEAD
        self._context = context
        self._accumulator = accumulator
        self._key_hash = key_hash
        self._batch_size = batch_size

    def add(self, topic: AnyTopic) -> None:
        """Make the route of a topic that the metadata know."""
        name = as_topic(topic).name
        queues = self._queues(name)
        route = Route(topic, queues, self._context, self._key_hash, self._batch_size)
        self.by_topic[topic] = route
        if route.encode_key is None and route.encode_value is None:
            self.without_codecs[topic] = route

    def _queues(self, name: str) -> list[PartitionQueue]:
        count = self._context.metadata.partition_count(name)
        return [self._accumulator.queue(TopicPartition(name, number)) for number in range(count)]

    def update(self) -> None:
        """Take over changed metadata: added partitions, and topics that are gone."""
        for topic, route in list(self.by_topic.items()):
            count = self._context.metadata.partition_count(route.name)
            if count == 0:
                del self.by_topic[topic]
                self.without_codecs.pop(topic, None)
            elif count > len(route.queues):
                route.add_partitions(self._queues(route.name))
            route.metadata_changed()

    def close(self) -> None:
        """Forget all routes, so that nothing is accepted any more."""
        self.by_topic.clear()
        self.without_codecs.clear()
