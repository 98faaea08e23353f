"""Verifying the replicas of many partitions, round by round: each broker is read from once a round."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import trio

from ottla.client.admin.replicas import ReplicaRead
from ottla.client.errors import BrokerUnreachable, ClientError
from ottla.replica_comparison import compare_bytes, compare_records
from wire.errors import Error
from wire.types import BrokerId, Offset, TopicId, TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin

_REST_S: Final = 0.2
"""Between rounds in which nothing could be compared."""


class Verification:
    """The replicas of some partitions, and how far they were found equal.

    Args:
        admin: The cluster.
        replicas: Where each partition's replicas are.
        topic_ids: The topics' identities.
        compacted: Topics whose replicas are compared by records.
        offsets: Where to begin.
        targets: Where to stop; None never stops.
        tell: Takes each line.

    Attributes:
        differences: How many were found.
        delayed: Partitions that could not be read in the last round, and why.
        cleaned: Records that only some replicas have, in compacted topics.
    """

    def __init__(
        self,
        admin: "Admin",
        replicas: Mapping[TopicPartition, Sequence[BrokerId]],
        topic_ids: Mapping[str, TopicId],
        compacted: frozenset[str],
        offsets: Mapping[TopicPartition, Offset],
        targets: Mapping[TopicPartition, Offset] | None,
        tell: Callable[[str], None],
    ) -> None:
        self._admin = admin
        self._replicas = replicas
        self._topic_ids = topic_ids
        self._compacted = compacted
        self._offsets = dict(offsets)
        self._targets = targets
        self._tell = tell
        self._open = set(self._offsets)
        self._high_watermarks: dict[TopicPartition, Offset] = {}
        self.differences = 0
        self.cleaned = 0
        self.delayed: dict[TopicPartition, str] = {}

    @property
    def is_done(self) -> bool:
        """Whether all was compared that was to be, or can be."""
        self._open -= {
            partition
            for partition in self._open
            if self._targets is not None and self._offsets[partition] >= self._targets[partition]
        }
        return not self._open

    def unverified(self) -> list[str]:
        """Return a line for each partition that was not compared to its target."""
        return [
            f"partition {partition} could not be verified beyond offset {self._offsets[partition]}: "
            + self.delayed.get(partition, "not all replicas have more below their high watermarks")
            for partition in sorted(self._open)
        ]

    async def round(self, *, partition_bytes: int, max_wait_ms: int) -> bool:
        """Read from every broker at once and compare the answers; return whether anything could be compared."""
        wanted: dict[BrokerId, dict[TopicPartition, Offset]] = {}
        for partition in self._open:
            for broker_id in self._replicas[partition]:
                wanted.setdefault(broker_id, {})[partition] = self._offsets[partition]
        reads: dict[BrokerId, dict[TopicPartition, ReplicaRead]] = {}
        problems: dict[BrokerId, str] = {}

        async def read(broker_id: BrokerId, offsets: Mapping[TopicPartition, Offset]) -> None:
            try:
                reads[broker_id] = await self._admin.read_replicas(
                    broker_id,
                    offsets,
                    self._topic_ids,
                    partition_bytes=partition_bytes,
                    max_wait_ms=max_wait_ms,
                )
            except ClientError as error:
                problems[broker_id] = str(error)

        await _each(read, wanted)
        before = dict(self._offsets)
        self.delayed = {}
        for partition in sorted(self._open):
            brokers = self._replicas[partition]
            gone = next((broker_id for broker_id in brokers if broker_id in problems), None)
            if gone is not None:
                self.delayed[partition] = problems[gone]
                continue
            await self._compare(
                partition,
                {
                    broker_id: reads[broker_id].get(partition, ReplicaRead(Error.UNKNOWN_SERVER_ERROR))
                    for broker_id in brokers
                },
            )
        if before == self._offsets:
            await trio.sleep(_REST_S)
            return False
        return True

    async def _compare(self, partition: TopicPartition, reads: Mapping[BrokerId, ReplicaRead]) -> None:
        for broker_id, read in reads.items():
            if read.error is Error.OFFSET_OUT_OF_RANGE:
                await self._follow_start(partition, broker_id)
                return
            if read.error is not Error.NONE:
                self.delayed[partition] = f"replica {broker_id}: {read.error.text}"
                return
        compare = compare_records if partition.topic in self._compacted else compare_bytes
        found = compare(reads, self._offsets[partition])
        for difference in found.differences:
            self._tell(f"partition {partition}: {difference}")
        self.differences += len(found.differences)
        self.cleaned += found.cleaned
        self._offsets[partition] = found.next_offset
        self._high_watermarks[partition] = max(read.high_watermark for read in reads.values())
        if found.parted:
            self._open.discard(partition)

    async def _follow_start(self, partition: TopicPartition, broker_id: BrokerId) -> None:
        """Go on where a replica starts that has let go of its front; one whose end is not that far is waited for."""
        try:
            start = await self._admin.replica_start(broker_id, partition)
        except BrokerUnreachable as error:
            self.delayed[partition] = str(error)
            return
        if start is not None and start > self._offsets[partition]:
            self._offsets[partition] = start
        else:
            self.delayed[partition] = (
                f"replica {broker_id} does not reach offset {self._offsets[partition]} yet"
            )

    def report(self) -> str:
        """Return how far the replicas lag what was verified, at most."""
        lags = [
            (self._high_watermarks.get(partition, offset) - offset, partition, offset)
            for partition, offset in self._offsets.items()
        ]
        lag, partition, offset = max(lags)
        return f"max lag is {lag} for partition {partition} at offset {offset} among {len(lags)} partitions"


async def _each(
    work: Callable[[BrokerId, Mapping[TopicPartition, Offset]], Awaitable[None]],
    wanted: Mapping[BrokerId, Mapping[TopicPartition, Offset]],
) -> None:
    async with trio.open_nursery() as nursery:
        for broker_id, offsets in wanted.items():
            nursery.start_soon(work, broker_id, offsets)
