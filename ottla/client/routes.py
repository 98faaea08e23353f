"""Where a producer's records go: each topic's queues and codecs, and the partition that records stick to."""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
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
"""How many keys a topic's partitions are remembered of."""


class Route:
    """One topic as a producer uses it.

    Attributes:
        name: The topic.
        encode_key: Makes bytes of a key, None where keys are bytes.
        encode_value: Makes bytes of a value, None where values are bytes.
        queues: The partitions' queues, by number.
        sticky: Where records without a key go at present.
        sticky_batch: The last batch that was opened there.
    """

    __slots__ = (
        "_batch_size",
        "_context",
        "_key_hash",
        "_number_by_key",
        "_stuck_bytes",
        "encode_key",
        "encode_value",
        "name",
        "queues",
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
        self._number_by_key: dict[bytes, int] = {}
        self.sticky = self._choose(None)

    def queue_for(self, key: bytes | None, partition: int | None) -> PartitionQueue:
        """Return the queue of a given partition, or of a key's.

        Raises:
            UnknownTopic: The topic has no such partition.
        """
        if partition is None:
            if key is None:
                return self.sticky
            number = self._number_by_key.get(key)
            return self.queues[self._number(key) if number is None else number]
        if not 0 <= partition < len(self.queues):
            raise UnknownTopic(
                f"the topic {self.name!r} has {len(self.queues)} partitions; there is no partition {partition}",
                topic=self.name,
                partition=partition,
            )
        return self.queues[partition]

    def _number(self, key: bytes) -> int:
        """Return a key's partition; keys that come again are not hashed again."""
        number = self._number_by_key.get(key)
        if number is None:
            number = self._key_hash(key) % len(self.queues)
            if len(self._number_by_key) >= _KEYS_KEPT:
                self._number_by_key.clear()
            self._number_by_key[key] = number
        return number

    def add_partitions(self, queues: list[PartitionQueue]) -> None:
        """Use partitions that were added: keys go elsewhere from now on."""
        self.queues = queues
        self._number_by_key.clear()

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
        metadata = self._context.metadata
        available = [
            number for number, queue in enumerate(self.queues) if metadata.leader(queue.partition) is not None
        ]
        available = available or list(range(len(self.queues)))
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
            number = -1 if key is None else self._number(key)
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

    def fit(
        self,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
        begin: int,
        left: int,
        *,
        at_least_one: bool,
    ) -> tuple[int, int]:
        """Return how many records from ``begin`` on fit into ``left`` bytes, and the most bytes that they take.

        With ``at_least_one`` the first counts, however large it is: an empty batch grows for it.
        """
        # No more than could fit if they were empty.
        end = min(len(values), begin + left // RECORD_OVERHEAD_MAX + 1)
        sizes = [RECORD_OVERHEAD_MAX + (0 if value is None else len(value)) for value in values[begin:end]]
        if keys is not None:
            sizes = [
                size + (0 if key is None else len(key))
                for size, key in zip(sizes, keys[begin:end], strict=True)
            ]
        count = taken = 0
        for total in accumulate(sizes):
            if total > left and (count or not at_least_one):
                break
            count += 1
            taken = total
        return count, taken


class Routes:
    """The topics that a producer has sent to.

    Attributes:
        by_topic: The routes, by name and by typed topic.
        batch_room: Bytes that an empty batch has for records.
    """

    def __init__(
        self, context: ClientContext, accumulator: Accumulator, key_hash: KeyHash, batch_size: int
    ) -> None:
        self.by_topic: dict[AnyTopic, Route] = {}
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

    def _queues(self, name: str) -> list[PartitionQueue]:
        count = self._context.metadata.partition_count(name)
        return [self._accumulator.queue(TopicPartition(name, number)) for number in range(count)]

    def update(self) -> None:
        """Take over changed metadata: added partitions, and topics that are gone."""
        for topic, route in list(self.by_topic.items()):
            count = self._context.metadata.partition_count(route.name)
            if count == 0:
                del self.by_topic[topic]
            elif count > len(route.queues):
                route.add_partitions(self._queues(route.name))

    def close(self) -> None:
        """Forget all routes, so that nothing is accepted any more."""
        self.by_topic.clear()
