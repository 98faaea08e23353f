"""Sending a batch of the source to the target: its bytes as they are if possible, else encoded anew."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol

import trio

from ottla.client import Batch, BatchDelivery, ClientError, Delivery, OutgoingRecord, Record
from ottla.client.batch_encoding import EncodedRecords, encode_records
from ottla.mirror.counters import MirrorCounters
from ottla.mirror.offset_map import OffsetMap
from ottla.mirror.selection import Selection
from ottla.mirror.throttle import Throttle
from wire.records.compression import Compression
from wire.types import TopicPartition

_PIECE_BYTES: Final = 512 * 1024

Handler = Callable[[Record[bytes, bytes]], Sequence[OutgoingRecord]]
"""Makes the records to send to the target from one record of the source."""


class Out(Protocol):
    """A producer, or a transaction of one."""

    async def post_encoded(self, topic: str, partition: int, records: EncodedRecords) -> BatchDelivery: ...

    async def post(self, topic: str, value: Any, **options: Any) -> Delivery: ...


class Copied(NamedTuple):
    """Records on their way.

    Attributes:
        place: The partition, as called at the source.
        offsets: Their offsets there; empty if a handler made the records, so that the offsets are not known.
        size: Bytes.
        record_count: How many.
        delivery: Their outcome.
    """

    place: TopicPartition
    offsets: Sequence[int]
    size: int
    record_count: int
    delivery: BatchDelivery | Delivery


class Forwarder:
    """Sends batches on, and notes where their records stand.

    Args:
        selection: Names the topics at the target.
        offsets: Takes the offsets of copied records.
        counters: Counts what was done.
        throttle: Says how long to wait.
        handler: Makes the records; None copies them.
        abort_on_failure: Whether a refused record is raised, or else counted and skipped.
    """

    def __init__(
        self,
        selection: Selection,
        offsets: OffsetMap,
        counters: MirrorCounters,
        throttle: Throttle,
        handler: Handler | None,
        *,
        abort_on_failure: bool,
    ) -> None:
        self._selection = selection
        self._offsets = offsets
        self._counters = counters
        self._throttle = throttle
        self._handler = handler
        self._abort_on_failure = abort_on_failure

    async def post(self, batch: Batch[bytes, bytes], out: Out) -> list[Copied]:
        """Hand a batch to the producer; return the records that are on their way then."""
        delay_s = self._throttle.delay_s(batch.size, trio.current_time())
        if delay_s:
            await trio.sleep(delay_s)
        name = self._selection.target_name(batch.topic)
        if self._handler is not None:
            return await self._post_handled(self._handler, batch, name, out)
        copied = []
        whole = batch.whole_batches()
        pieces = _whole(whole) if whole is not None else _encoded(batch)
        for offsets, records in pieces:
            delivery = await out.post_encoded(name, batch.partition, records)
            size = len(records.body)
            copied.append(Copied(batch.place, offsets, size, records.record_count, delivery))
        return copied

    async def _post_handled(
        self, handler: Handler, batch: Batch[bytes, bytes], name: str, out: Out
    ) -> list[Copied]:
        copied = []
        for record in batch:
            for made in handler(record):
                delivery = await out.post(
                    made.topic or name,
                    made.value,
                    key=made.key,
                    headers=made.headers,
                    partition=made.partition,
                    timestamp=made.timestamp,
                )
                size = len(made.key or b"") + len(made.value or b"")
                copied.append(Copied(batch.place, (), size, 1, delivery))
        return copied

    async def settle(self, copied: Sequence[Copied]) -> None:
        """Wait for the outcome of what was posted, without a transaction around it.

        Raises:
            ClientError: Records were refused, and that ends the flow.
        """
        for each in copied:
            try:
                await each.delivery.wait()
            except ClientError:
                if self._abort_on_failure:
                    raise
                self._counters.dropped += each.record_count
            else:
                await self.note([each])

    async def note(self, copied: Sequence[Copied]) -> None:
        """Note records that were acknowledged and, with transactions, committed."""
        for each in copied:
            self._counters.records += each.record_count
            self._counters.byte_count += each.size
            if not each.offsets or not isinstance(each.delivery, BatchDelivery):
                continue
            at = 0
            for span in await each.delivery.wait():
                if span.first_offset >= 0:
                    _note_runs(
                        self._offsets,
                        each.place,
                        each.offsets[at : at + span.record_count],
                        span.first_offset,
                    )
                at += span.record_count


def _note_runs(known: OffsetMap, place: TopicPartition, offsets: Sequence[int], first: int) -> None:
    """Note records with consecutive offsets at the target, a run at a time where the source has gaps."""
    if offsets[-1] - offsets[0] + 1 == len(offsets):
        known.copied(place, offsets[0], first, len(offsets))
        return
    begin = 0
    for index in range(1, len(offsets) + 1):
        if index == len(offsets) or offsets[index] != offsets[index - 1] + 1:
            known.copied(place, offsets[begin], first + begin, index - begin)
            begin = index


def _whole(
    batches: Sequence[tuple[int, EncodedRecords]],
) -> Iterator[tuple[Sequence[int], EncodedRecords]]:
    for first, records in batches:
        yield range(first, first + records.record_count), records


def _encoded(batch: Batch[bytes, bytes]) -> Iterator[tuple[Sequence[int], EncodedRecords]]:
    """Encode the records of a batch anew, in pieces of a bounded size."""
    records = list(batch)
    begin = size = 0
    for index, record in enumerate(records):
        size += 64 + len(record.raw_key or b"") + len(record.raw_value or b"")
        if size >= _PIECE_BYTES or index + 1 == len(records):
            piece = records[begin : index + 1]
            keys = [each.raw_key for each in piece]
            yield (
                [each.offset for each in piece],
                encode_records(
                    [each.raw_value for each in piece],
                    None if keys.count(None) == len(keys) else keys,
                    {at: each.headers for at, each in enumerate(piece) if each.headers},
                    [each.timestamp for each in piece],
                    Compression.NONE,
                ),
            )
            begin, size = index + 1, 0
