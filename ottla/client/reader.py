"""Reading topics without a group: batches from a start on, to a stop or for ever."""

from collections import deque
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from ottla.client import runtime
from ottla.client.codecs import Topic
from ottla.client.context import ClientContext
from ottla.client.errors import ClosedClient, UnknownTopic
from ottla.client.fetch_settings import FetchSettings
from ottla.client.fetcher import Fetcher
from ottla.client.interceptors import notify
from ottla.client.offset_lookup import look_up
from ottla.client.positions import Starts, start_for
from ottla.client.record_batch import Batch, OnBad
from wire.types import TopicPartition

K = TypeVar("K")
V = TypeVar("V")


class Reader(Generic[K, V]):
    """Reads partitions; made by `Kafka.reader`, used as ``async with`` and ``async for``.

    The loop is fair: a batch a partition in turn. It ends when every partition has reached its stop, where there is
    one. Cancelled while it waits, nothing is lost: the batch comes at the next call.
    """

    def __init__(
        self,
        context: ClientContext,
        topics: Sequence[Topic[Any, Any]],
        settings: FetchSettings,
        *,
        starts: Starts,
        stops: Starts | None,
        partitions: Iterable[int] | None,
        max_records: int | None,
        on_bad: OnBad,
        on_batch: Sequence[Any],
        topic_timeout: float,
    ) -> None:
        self._context = context
        self._topics = {topic.name: topic for topic in topics}
        self._settings = settings
        self._starts = starts
        self._stops = stops
        self._partitions = None if partitions is None else sorted(set(partitions))
        self._max_records = max_records
        self._on_bad = on_bad
        self._on_batch = on_batch
        self._topic_timeout = topic_timeout
        self._fetcher = Fetcher(context, settings)
        self._scope = runtime.cancel_scope()
        self._parts: deque[Batch[Any, Any]] = deque()
        self._stop_at: dict[TopicPartition, int] = {}
        self._left: set[TopicPartition] | None = None
        self._is_open = False

    async def __aenter__(self) -> Self:
        places = await self._places()
        for topic in self._topics:
            self._context.refresh.pin(topic)
        try:
            if self._stops is not None:
                ends = {
                    place: stop for place in places if (stop := start_for(self._stops, place)) is not None
                }
                found = await look_up(self._context, ends, self._settings.isolation)
                self._stop_at = {place: offset for place, (offset, _) in found.items()}
                self._left = set(places)
            await self._context.nursery.start(self._run)
        except BaseException:
            self._unpin()
            raise
        self._is_open = True
        for place in places:
            start = start_for(self._starts, place)
            self._fetcher.assign(place)
            if isinstance(start, int):
                self._fetcher.seek(place, start)
            else:
                assert start is not None
                self._fetcher.start(place, start)
        self._fetcher.wake()
        await self._leave_out_empty(places)
        return self

    async def _leave_out_empty(self, places: Iterable[TopicPartition]) -> None:
        """End at once the partitions that begin at or behind their stop: no batch would ever come."""
        if self._left is None:
            return
        starts = {place: start for place in places if (start := start_for(self._starts, place)) is not None}
        found = await look_up(self._context, starts, self._settings.isolation)
        for place, (offset, _) in found.items():
            if place in self._stop_at and offset >= self._stop_at[place]:
                self._end(place)

    async def _run(self, *, task_status: Any) -> None:
        with self._scope:
            await self._fetcher.run(task_status=task_status)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        self._fetcher.unassign_all()
        self._scope.cancel()
        self._unpin()

    def _unpin(self) -> None:
        for topic in self._topics:
            self._context.refresh.unpin(topic)

    async def _places(self) -> list[TopicPartition]:
        places: list[TopicPartition] = []
        for name in self._topics:
            count = len((await self._context.refresh.topic(name, self._topic_timeout)).partitions)
            numbers = range(count) if self._partitions is None else self._partitions
            for number in numbers:
                place = TopicPartition(name, number)
                if not 0 <= number < count:
                    raise UnknownTopic(
                        f"the topic {name!r} has {count} partitions; there is no partition {number}",
                        topic=name,
                        partition=number,
                    )
                if start_for(self._starts, place) is not None:
                    places.append(place)
        return places

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch[K, V]:
        """Return the next batch.

        Raises:
            OffsetLost: Records before a position are gone or were replaced, and ``on_offset_lost`` says nothing.
            CorruptData: Fetched bytes are damaged; asked again, they are fetched again.
            ClientError: A partition cannot be read; asked again, it is tried again.
        """
        if not self._is_open:
            raise ClosedClient("the reader is used outside of its block")
        await runtime.checkpoint()
        while True:
            if self._parts:
                return self._parts.popleft()
            taken = self._fetcher.take()
            if taken is None:
                if self._left is not None and not self._left:
                    raise StopAsyncIteration
                await self._wait()
                continue
            place, fetched = taken
            topic = self._topics[place.topic]
            batch: Batch[Any, Any] = Batch(
                topic, place, fetched.records, fetched.high_watermark, self._on_bad
            )
            if topic.needs_preparation:
                try:
                    await batch.prepare()
                except BaseException:
                    self._fetcher.put_back(place, fetched)
                    raise
                if not self._fetcher.is_current(place, fetched):
                    continue
            stop = self._stop_at.get(place)
            if stop is not None and fetched.records.next_offset >= stop:
                self._end(place)
            if not fetched.records.may_have_records:
                continue
            parts = batch.cut(stop).parts(self._max_records or 0x7FFFFFFF)
            self._parts.extend(part for part in parts if len(part))
            if self._parts:
                self._context.metrics.add("records-consumed-total", sum(map(len, self._parts)))
                notify(self._on_batch, batch)

    async def _wait(self) -> None:
        await self._fetcher.wait_ready()

    def _end(self, place: TopicPartition) -> None:
        if self._left is not None:
            self._left.discard(place)
            self._fetcher.unassign(place)
            self._fetcher.nudge()

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Read a partition from an offset on; what had been fetched of it is forgotten."""
        place = TopicPartition(topic, partition)
        self._parts = deque(part for part in self._parts if part.place != place)
        self._fetcher.seek(place, offset)

    def position(self, topic: str, partition: int) -> int:
        """Return the offset that is fetched next, -1 while the start is being looked up."""
        return self._fetcher.partitions[TopicPartition(topic, partition)].position.offset

    def lag(self) -> dict[TopicPartition, int]:
        """Return how many offsets each partition's fetches are behind what can be read; -1 while unknown."""
        found = {}
        for place, fetch in self._fetcher.partitions.items():
            position = fetch.position
            end = position.last_stable_offset if self._settings.isolation else position.high_watermark
            found[place] = -1 if end < 0 or position.offset < 0 else max(0, end - position.offset)
        return found
