"""Reading a topic's records for a page: a page of them, one of them, or new ones as they come."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import datetime
from typing import Final

import trio

from ottla.client import Kafka
from ottla.client.admin import FoundOffset
from ottla.client.errors import ClientError
from ottla.client.positions import LATEST, Start
from ottla.client.reader_options import READ_COMMITTED, READ_UNCOMMITTED
from ottla.client.record_batch import Batch, Record
from ottla.client.registered_schemas import RegisteredSchema
from ottla.client.schema_registry import SchemaRegistry
from ottla.web.models.messages import Browse, Filter, Message, message_of
from ottla.web.models.values import Decode
from wire.types import TopicPartition

SCAN_S: Final = 3.0
"""How many seconds the search for a page of messages takes at most."""
_TAIL_ROWS_MAX: Final = 50
"""The most messages that a live tail shows at a time."""
_TAIL_PAUSE_S: Final = 0.25
_ROOM: Final = 16 * 1024 * 1024
_PARTITION_BYTES: Final = 256 * 1024
_NEVER_WRITTEN: Final = RegisteredSchema(0, "AVRO", '"null"')


class Registered:
    """Decodes values that have a schema in a registry.

    Args:
        registry: The registry.
    """

    def __init__(self, registry: SchemaRegistry) -> None:
        from ottla.client.avro import AvroCodec

        self._codec = AvroCodec(registry, _NEVER_WRITTEN, None)
        self.decode: Decode = self._codec.decode

    async def prepare(self, batch: Batch[bytes, bytes]) -> None:
        """Look up the schemas of a batch; values of unknown schemas are shown as bytes."""
        for data in (batch.keys(), batch.values()):
            try:
                await self._codec.prepare(data)
            except ClientError:
                return


class TopicBrowser:
    """Reads a topic.

    Args:
        kafka: The client.
        topic: Its name.
        shown_as: How values are shown.
        registered: Decodes Avro; None without a registry.
        committed_only: Whether to leave out records of transactions that are not committed.
    """

    def __init__(
        self,
        kafka: Kafka,
        topic: str,
        shown_as: str = "auto",
        registered: Registered | None = None,
        *,
        committed_only: bool = False,
    ) -> None:
        self._kafka = kafka
        self._topic = topic
        self._shown_as = shown_as
        self._registered = registered
        self._isolation = READ_COMMITTED if committed_only else READ_UNCOMMITTED

    async def bounds(self, partitions: list[int]) -> tuple[dict[int, int], dict[int, int]]:
        """Return the first offset of each partition, and the end of what can be read.

        Raises:
            ClientError: A leader does not say.
        """
        starts = await self._look_up(dict.fromkeys(partitions, -2))
        ends = await self._look_up(dict.fromkeys(partitions, -1))
        return starts, ends

    async def at_time(
        self, partitions: list[int], moment: datetime, ends: Mapping[int, int]
    ) -> dict[int, int]:
        """Return the first offsets at a time or later; a partition's end if it has none."""
        found = await self._look_up(dict.fromkeys(partitions, int(moment.timestamp() * 1000)))
        return {number: offset if offset >= 0 else ends[number] for number, offset in found.items()}

    async def _look_up(self, wanted: Mapping[int, int]) -> dict[int, int]:
        asked = {TopicPartition(self._topic, number): when for number, when in wanted.items()}
        found: dict[int, int] = {}
        is_committed = self._isolation is READ_COMMITTED
        for at, outcome in (await self._kafka.admin.list_offsets(asked, committed=is_committed)).items():
            if not isinstance(outcome, FoundOffset):
                raise outcome
            found[at.partition] = outcome.offset
        return found

    async def fill(self, browse: Browse) -> bool:
        """Read until a page is full; return False if the time was over before.

        Raises:
            ClientError: A partition cannot be read.
        """
        with trio.move_on_after(SCAN_S):
            while ranges := browse.ranges():
                messages: list[Message] = []
                starts: dict[int, Start] = {number: start for number, (start, _) in ranges.items()}
                stops: dict[int, Start] = {number: stop for number, (_, stop) in ranges.items()}
                async with self._kafka.reader(
                    self._topic,
                    start=starts,
                    stop=stops,
                    isolation=self._isolation,
                    partition_bytes=_PARTITION_BYTES,
                    room=_ROOM,
                ) as reader:
                    async for batch in reader:
                        messages += await self._shown(batch)
                browse.take(ranges, messages)
            return True
        return False

    async def one(self, partition: int, offset: int) -> Message | None:
        """Return the message at an offset, None where there is none."""
        found = await self.raw(partition, offset)
        return None if found is None else found[1]

    async def raw(self, partition: int, offset: int) -> tuple[Record[bytes, bytes], Message] | None:
        """Return the record at an offset, as it is and as it is shown; None where there is none."""
        with trio.move_on_after(SCAN_S):
            async with self._kafka.reader(
                self._topic,
                start={partition: offset},
                stop={partition: offset + 1},
                isolation=self._isolation,
            ) as reader:
                async for batch in reader:
                    for record, message in zip(batch, await self._shown(batch), strict=True):
                        return record, message
        return None

    async def _shown(self, batch: Batch[bytes, bytes]) -> list[Message]:
        if self._registered is not None:
            await self._registered.prepare(batch)
        await trio.lowlevel.checkpoint()
        return list(self._messages(batch))

    def _messages(self, batch: Batch[bytes, bytes]) -> Iterator[Message]:
        avro = None if self._registered is None else self._registered.decode
        for record in batch:
            yield message_of(
                batch.partition,
                record.offset,
                record.timestamp,
                record.raw_key,
                record.raw_value,
                record.headers,
                self._shown_as,
                avro,
            )

    async def follow(
        self,
        partitions: list[int] | None,
        wanted: Filter,
        on_messages: Callable[[list[Message], int], Awaitable[None]],
    ) -> None:
        """Hand on records that are written from now on, a few times a second, until cancelled.

        Args:
            partitions: Which ones; None for all.
            wanted: Which messages.
            on_messages: Takes the newest of them, the newest first, and how many more there were.

        Raises:
            ClientError: A partition cannot be read.
        """
        async with self._kafka.reader(
            self._topic,
            start=LATEST,
            partitions=partitions,
            isolation=self._isolation,
            partition_bytes=_PARTITION_BYTES,
            room=_ROOM,
        ) as reader:
            while True:
                found: list[Message] = []
                count = 0
                batch = await anext(reader)
                until = trio.current_time() + _TAIL_PAUSE_S
                while True:
                    matching = [each for each in await self._shown(batch) if wanted.takes(each)]
                    count += len(matching)
                    found = (found + matching)[-_TAIL_ROWS_MAX:]
                    with trio.move_on_at(until):
                        batch = await anext(reader)
                        continue
                    break
                if found:
                    await on_messages(found[::-1], count - len(found))
