"""The outcome of records that a producer has accepted."""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.client import runtime
from ottla.client.errors import ClientError
from ottla.client.producer_batch import Place, ProducerBatch


class Delivery:
    """One accepted record, to be waited for if its outcome matters."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: ProducerBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    def __repr__(self) -> str:
        return f"<Delivery of record {self._index} in {self._batch!r}>"

    @property
    def is_done(self) -> bool:
        """Whether the outcome is known."""
        return self._batch.locate(self._index)[0].done

    async def wait(self) -> Place:
        """Wait until the record is acknowledged, and return where it stands.

        Cancelled, it changes nothing: the record stays accepted, and may be waited for again.

        Raises:
            DeliveryError: It was not acknowledged within ``delivery_timeout``, or the broker refuses it;
                `maybe_written` says whether it may be in the log.
            RecordTooLarge: The broker accepts no record of this size.
            NotAuthorized: The principal may not write to the topic.
        """
        while True:
            batch, index = self._batch.locate(self._index)
            await _wait(batch)
            if not batch.children:
                break
        if batch.error is not None:
            raise batch.error
        return batch.place(index)


class Span(NamedTuple):
    """Records that stand one behind the other in one partition.

    Attributes:
        topic: The topic.
        partition: The partition.
        first_offset: The offset of the first, -1 where unknown.
        record_count: How many they are.
    """

    topic: str
    partition: int
    first_offset: int
    record_count: int


class BatchDelivery:
    """The records of one `post_batch`."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[tuple[ProducerBatch, int, int]]) -> None:
        self._parts = parts

    async def wait(self) -> list[Span]:
        """Wait until all records are acknowledged, and return where they stand; raises as `Delivery.wait`."""
        spans = []
        failure: ClientError | None = None
        for batch, begin, count in self._parts:
            index = begin
            while index < begin + count:
                leaf, at = batch.locate(index)
                await _wait(leaf)
                if leaf.children:
                    continue
                here = min(len(leaf.values) - at, begin + count - index)
                if leaf.error is not None:
                    failure = failure or leaf.error
                else:
                    place = leaf.place(at)
                    spans.append(Span(place.topic, place.partition, place.offset, here))
                index += here
        if failure is not None:
            raise failure
        return spans


async def _wait(batch: ProducerBatch) -> None:
    batch.looked_at = True
    if batch.done:
        await runtime.checkpoint()
        return
    done = runtime.new_event()
    batch.when_done(done.set)
    try:
        await done.wait()
    except runtime.cancelled():
        batch.looked_at = False
        raise
    finally:
        batch.cancel_when_done(done.set)
