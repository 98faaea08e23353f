"""Moving the records of some topics, with transactions at the target or without.

With transactions, records and the positions behind them are committed together at the target: the positions as offsets
of the flow's group there, of the target's partitions, holding the source's offsets. Whatever dies, what is committed is
neither repeated nor missing. One flow at a time has the transactional id; another flow that starts takes it over, and
ends the first with `ProducerFenced`.

Without transactions, a group at the source shares the partitions among the flows that run, and a batch is done when the
target has acknowledged it: after a crash some records come again.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import trio

from ottla.client import EXPLICIT, LATEST, READ_COMMITTED, Batch, Kafka, Partition, TransactionAborted
from ottla.client.coordinator_link import GROUP, CoordinatorLink
from ottla.client.offset_commits import CommittedOffset, fetch_committed
from ottla.client.offset_lookup import look_up
from ottla.client.positions import Endpoint
from ottla.mirror.counters import MirrorCounters
from ottla.mirror.forwarding import Copied, Forwarder
from ottla.mirror.selection import Selection
from wire.types import TopicPartition

_PRODUCER: Final = {"linger": 0.0, "max_request_size": 64 * 1024 * 1024, "delivery_timeout": 300.0}
_TRANSACTION_BYTES: Final = 32 * 1024 * 1024
"""A transaction is committed when it has this many bytes, or when its time is over."""
_ROOM: Final = 32 * 1024 * 1024
_LAG_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySettings:
    """How records are moved; times in seconds.

    Attributes:
        group: The group that has the positions; also the transactional id.
        start: Where partitions without a position begin.
        exactly_once: Whether to use transactions.
        transaction_interval: How long a transaction lasts.
        commit_interval: How often positions are committed without transactions.
        streams: How many members read, without transactions.
        until_end: Whether to stop at the ends that the source had at the start.
        producer: Arguments of `Kafka.producer`.
        consumer: Arguments of `Kafka.reader` and `Kafka.group`.
    """

    group: str
    start: Endpoint
    exactly_once: bool
    transaction_interval: float
    commit_interval: float
    streams: int
    until_end: bool
    producer: Mapping[str, Any]
    consumer: Mapping[str, Any]


class Copying:
    """Moves the records of one flow.

    Args:
        source: Where they come from.
        target: Where they go.
        selection: Names the topics at the target.
        forwarder: Sends them on.
        counters: Takes the lag.
        settings: How.
    """

    def __init__(
        self,
        source: Kafka,
        target: Kafka,
        selection: Selection,
        forwarder: Forwarder,
        counters: MirrorCounters,
        settings: CopySettings,
    ) -> None:
        self._source = source
        self._target = target
        self._selection = selection
        self._forwarder = forwarder
        self._counters = counters
        self._settings = settings
        reading = {"packed": True, "room": _ROOM, "on_offset_lost": settings.start}
        self._reading: dict[str, Any] = {**reading, **settings.consumer}
        self._producing: dict[str, Any] = {**_PRODUCER, **settings.producer}

    async def run(self, topics: Mapping[str, int]) -> None:
        """Move the records of topics until cancelled, or until their end.

        Args:
            topics: The partitions of each topic of the source; the target has as many.

        Raises:
            ProducerFenced: Another flow has taken over.
            ClientError: The target refuses records, or the source cannot be read.
        """
        places = [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]
        if self._settings.exactly_once:
            while not await self._run_transactions(places):
                self._counters.aborted += 1
        else:
            await self._run_group(places)

    # With transactions.

    def _called(self, place: TopicPartition) -> TopicPartition:
        return TopicPartition(self._selection.target_name(place.topic), place.partition)

    async def _positions(self, places: list[TopicPartition]) -> dict[TopicPartition, Any]:
        context = self._target.context
        coordinator = CoordinatorLink(context, GROUP, self._settings.group)
        try:
            found = await fetch_committed(
                context,
                coordinator,
                self._settings.group,
                [self._called(place) for place in places],
                require_stable=True,
            )
        finally:
            coordinator.close()
        return {
            place: found[self._called(place)].offset if self._called(place) in found else self._settings.start
            for place in places
        }

    async def _run_transactions(self, places: list[TopicPartition]) -> bool:
        """Move records; return False if a transaction was aborted, so that its records are read again."""
        settings = self._settings
        reading = {"isolation": READ_COMMITTED, **self._reading}
        async with self._target.producer(transactional_id=settings.group, **self._producing) as out:
            starts = await self._positions(places)
            async with self._source.reader(
                sorted({place.topic for place in places}),
                start=starts,
                stop=LATEST if settings.until_end else None,
                **reading,
            ) as reader:
                self._counters.lag = reader.lag()
                ended = False
                while not ended:
                    try:
                        batch = await anext(reader)
                    except StopAsyncIteration:
                        return True
                    copied: list[Copied] = []
                    try:
                        async with out.transaction() as transaction:
                            ended = await self._fill(transaction, reader, batch, copied)
                    except TransactionAborted:
                        return False
                    self._counters.transactions += 1
                    await self._forwarder.note(copied)
                    self._counters.lag = reader.lag()
        return True

    async def _fill(
        self, transaction: Any, reader: Any, batch: Batch[bytes, bytes], copied: list[Copied]
    ) -> bool:
        """Post batches and their positions for the duration of a transaction; return whether the reader has ended."""
        until = trio.current_time() + self._settings.transaction_interval
        positions: dict[TopicPartition, CommittedOffset] = {}
        size = 0
        ended = False
        following: Batch[bytes, bytes] | None = batch
        while following is not None:
            copied += await self._forwarder.post(following, transaction)
            size += following.size
            offset = CommittedOffset(following.next_offset, following.leader_epoch)
            positions[self._called(following.place)] = offset
            following = None
            if size < _TRANSACTION_BYTES:
                with trio.move_on_at(until):
                    try:
                        following = await anext(reader)
                    except StopAsyncIteration:
                        ended = True
        transaction.commit_offsets(self._settings.group, positions)
        return ended

    # Without transactions.

    async def _run_group(self, places: list[TopicPartition]) -> None:
        ends = await self._ends(places) if self._settings.until_end else {}
        async with self._target.producer(**self._producing) as out, trio.open_nursery() as nursery:
            work = _Work(self._forwarder, out, ends, nursery.cancel_scope, until_end=self._settings.until_end)
            work.check_ends()
            for _ in range(self._settings.streams):
                nursery.start_soon(self._run_member, sorted({place.topic for place in places}), work)
            nursery.start_soon(self._watch_lag, places)

    async def _run_member(self, topics: list[str], work: "_Work") -> None:
        settings = self._settings
        async with self._source.group(
            settings.group,
            topics,
            start=settings.start,
            done=EXPLICIT,
            commit_interval=settings.commit_interval,
            **self._reading,
        ) as group:
            await group.run(work.run)

    async def _committed(self, places: list[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        context = self._source.context
        coordinator = CoordinatorLink(context, GROUP, self._settings.group)
        try:
            return await fetch_committed(
                context, coordinator, self._settings.group, places, require_stable=False
            )
        finally:
            coordinator.close()

    async def _ends(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the ends of the partitions that the group has not reached."""
        ends = await look_up(self._source.context, dict.fromkeys(places, LATEST), 0)
        starts = await look_up(self._source.context, dict.fromkeys(places, self._settings.start), 0)
        committed = await self._committed(places)
        return {
            place: end
            for place, (end, _) in ends.items()
            if (committed[place].offset if place in committed else starts[place][0]) < end
        }

    async def _watch_lag(self, places: list[TopicPartition]) -> None:
        while True:
            await trio.sleep(_LAG_S)
            ends = await look_up(self._source.context, dict.fromkeys(places, LATEST), 0)
            committed = await self._committed(places)
            self._counters.lag = {
                place: max(0, end - committed[place].offset) if place in committed else -1
                for place, (end, _) in ends.items()
            }


class _Work:
    """The work on the partitions of all members in this process."""

    def __init__(
        self,
        forwarder: Forwarder,
        out: Any,
        ends: Mapping[TopicPartition, int],
        scope: trio.CancelScope,
        *,
        until_end: bool,
    ) -> None:
        self._forwarder = forwarder
        self._out = out
        self._left = dict(ends)
        self._scope = scope
        self._until_end = until_end

    def check_ends(self) -> None:
        """End once every partition has reached the end that it had at the start."""
        if self._until_end and not self._left:
            self._scope.cancel()

    async def run(self, partition: Partition[bytes, bytes]) -> None:
        """Send the batches of a partition on; each is done once the target has acknowledged it."""
        async for batch in partition:
            await self._forwarder.settle(await self._forwarder.post(batch, self._out))
            batch.done()
            if batch.next_offset >= self._left.get(batch.place, math.inf):
                del self._left[batch.place]
                self.check_ends()
