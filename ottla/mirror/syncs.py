"""Offset syncs at the source: written as records are copied, and read back at the start."""

from collections.abc import Iterable

from ottla.client import EARLIEST, LATEST, Kafka, Producer
from ottla.mirror.formats import FormatError, OffsetSync
from ottla.mirror.offset_map import OffsetMap
from wire.types import TopicPartition


class OffsetSyncs:
    """The flow's syncs topic.

    Args:
        source: The cluster that has it.
        topic: Its name.
        offsets: The offsets of copied records.
        lag_max: How far the last sync of a partition may be behind, in records.
    """

    def __init__(self, source: Kafka, topic: str, offsets: OffsetMap, lag_max: int) -> None:
        self._source = source
        self._topic = topic
        self._offsets = offsets
        self._lag_max = lag_max
        self._written: dict[TopicPartition, tuple[int, int]] = {}

    async def read(self) -> int:
        """Read what earlier runs have written; return how many records that was."""
        count = 0
        async with self._source.reader(self._topic, start=EARLIEST, stop=LATEST) as reader:
            async for batch in reader:
                for record in batch:
                    try:
                        sync = OffsetSync.decode(record.raw_key, record.raw_value)
                    except FormatError:
                        continue  # a tombstone, or another's record
                    self._offsets.synced(sync)
                    self._written[sync.place] = (sync.upstream, sync.downstream)
                    count += 1
        return count

    def due(self) -> list[OffsetSync]:
        """Return the syncs to write: for partitions ``lag_max`` records on, or with a changed offset difference."""
        found = []
        for place in self._offsets.places:
            latest = self._offsets.last_record(place)
            before = self._written.get(place)
            if latest is None or latest == before:
                continue
            upstream, downstream = latest
            if (
                before is None
                or upstream - before[0] >= self._lag_max
                or upstream - before[0] != downstream - before[1]
            ):
                found.append(OffsetSync(place, upstream, downstream))
        return found

    async def write(self, out: Producer, syncs: Iterable[OffsetSync]) -> None:
        """Write syncs, and wait until they are acknowledged."""
        listed = list(syncs)
        for sync in listed:
            key, value = sync.encode()
            await out.post(self._topic, value, key=key, partition=0)
        await out.flush()
        self._written.update({sync.place: (sync.upstream, sync.downstream) for sync in listed})
