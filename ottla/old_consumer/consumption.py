"""Fetching what a consumer owns, from one rebalance to the next."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import trio

from ottla.client import EARLIEST, LATEST, ClientError, Topic
from ottla.client.context import ClientContext
from ottla.client.fetch_settings import READ_UNCOMMITTED, FetchSettings
from ottla.client.fetcher import Fetcher
from ottla.client.offset_lookup import look_up
from ottla.client.record_batch import Batch
from ottla.old_consumer.settings import OldConsumerSettings, Reset
from ottla.old_consumer.streams import Stream
from wire.types import Offset, TopicPartition

_log = logging.getLogger(__name__)
_ROOM_MIN = 1 << 20


class Consumption:
    """The partitions of a consumer between two rebalances: a `Source` of its streams.

    Args:
        context: The cluster's connections.
        settings: How to fetch.
        shares: The stream of each partition.
        topics: The codecs of each topic.
        offsets: Where the group is; partitions without an offset begin by `auto_offset_reset`.
        is_live: Whether the consumer's session is known to live.

    Attributes:
        positions: The next offset to hand out, of the partitions whose start is known.
    """

    def __init__(
        self,
        context: ClientContext,
        settings: OldConsumerSettings,
        shares: Mapping[TopicPartition, Stream[Any, Any]],
        topics: Mapping[str, Topic[Any, Any]],
        offsets: Mapping[TopicPartition, Offset],
        is_live: Callable[[], bool],
    ) -> None:
        self.positions: dict[TopicPartition, int] = dict(offsets)
        self._context = context
        self._settings = settings
        self._shares = dict(shares)
        self._topics = topics
        self._is_live = is_live
        self._is_stopped = False
        self._scope = trio.CancelScope()
        self._reset = EARLIEST if settings.auto_offset_reset is Reset.SMALLEST else LATEST
        size = settings.fetch_message_max_bytes
        room = max(_ROOM_MIN, settings.queued_max_message_chunks * size * len(self._shares))
        self._fetcher = Fetcher(
            context,
            FetchSettings(
                isolation=READ_UNCOMMITTED,
                min_bytes=settings.fetch_min_bytes,
                max_wait=settings.fetch_wait_max,
                partition_bytes=size,
                room=room,
                on_offset_lost=self._reset,
            ),
        )
        self._fetcher.on_arrival = self._wake

    async def run(self) -> None:
        """Fetch until stopped."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._fetcher.run)
                if self._is_stopped:
                    return
                for place, offset in self.positions.items():
                    self._fetcher.assign(place)
                    self._fetcher.seek(place, offset)
                for stream in set(self._shares.values()):
                    stream.attach(self)
                await self._start_others()

    async def _start_others(self) -> None:
        """Begin where the group has no offset."""
        starts = {place: self._reset for place in self._shares if place not in self.positions}
        while starts:
            found: dict[TopicPartition, tuple[int, Any]] = {}
            try:
                found |= await look_up(self._context, starts, READ_UNCOMMITTED)
            except* ClientError as group:
                places = ", ".join(map(str, sorted(starts)))
                _log.warning("where to begin in %s: %s", places, group.exceptions[0])
                await trio.sleep(self._settings.refresh_leader_backoff)
            if self._is_stopped:  # while the answer was on its way: nothing fetches any more
                return
            for place, (offset, _) in found.items():
                del starts[place]
                self.positions[place] = offset
                self._fetcher.assign(place)
                self._fetcher.seek(place, offset)

    def stop(self) -> None:
        """Stop fetching, and drop what the streams have not handed out."""
        if self._is_stopped:
            return
        self._is_stopped = True
        self._scope.cancel()
        self._fetcher.unassign_all()
        for stream in set(self._shares.values()):
            stream.detach()

    def lag(self) -> dict[TopicPartition, int]:
        """Return how many offsets each partition's end is ahead of what was handed out, if that is known."""
        found = {}
        for place, fetch in self._fetcher.partitions.items():
            end = fetch.position.high_watermark
            if end >= 0 and place in self.positions:
                found[place] = max(0, end - self.positions[place])
        return found

    def may_hand_out(self) -> bool:
        """Return whether the consumer surely owns its partitions now."""
        return not self._is_stopped and self._is_live()

    async def take(self, stream: Stream[Any, Any]) -> Batch[Any, Any] | None:
        """Return the next batch for a stream, None where none waits."""
        while True:
            taken = self._fetcher.take(lambda place: self._shares.get(place) is stream)
            if taken is None:
                return None
            place, fetched = taken
            batch: Batch[Any, Any] = Batch(
                self._topics[place.topic], place, fetched.records, fetched.high_watermark, "raise"
            )
            if batch.codecs.needs_preparation:
                try:
                    await batch.prepare()
                except BaseException:
                    self._fetcher.put_back(place, fetched)
                    raise
                if not self._fetcher.is_current(place, fetched):
                    continue
            return batch

    def _wake(self) -> None:
        for stream in self._shares.values():
            stream.wake()
