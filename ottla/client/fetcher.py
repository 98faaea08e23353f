"""Fetching ahead: a task per broker, a fetch session each, and batches that wait to be asked for.

A partition is fetched while its share of the room is free; a paused partition is not asked for. Records that arrive for
a position that has moved meanwhile are dropped. While some partitions of a broker have no room, its fetches wait only
briefly, so that one of them is not left out for a whole ``max_wait`` after its batches were taken.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ottla.client import runtime
from ottla.client.broker_link import BrokerLink
from ottla.client.broker_links import FETCH
from ottla.client.context import ClientContext
from ottla.client.epoch_ends import epoch_ends, must_be_asked
from ottla.client.errors import BrokerUnreachable, ClientError
from ottla.client.fetch_answers import FetchAnswers, Fetched, PartitionFetch
from ottla.client.fetch_requests import fetch_request
from ottla.client.fetch_sessions import FetchPlace, FetchSession
from ottla.client.fetch_settings import FetchSettings
from ottla.client.offset_lookup import look_up
from ottla.client.positions import Position, PositionState, Start
from wire.messages.fetch import FetchResponse
from wire.types import BrokerId, LeaderEpoch, TopicPartition

_log = logging.getLogger(__name__)

_BRIEF_WAIT_S: Final = 0.02


class Fetcher:
    """Fetches partitions, and hands out what came, a batch a partition in turn.

    Args:
        context: The client's connections.
        settings: How to fetch.

    Attributes:
        partitions: What is read.
        on_arrival: Called when there may be something to take.
    """

    def __init__(self, context: ClientContext, settings: FetchSettings) -> None:
        self.partitions: dict[TopicPartition, PartitionFetch] = {}
        self.on_arrival: Callable[[], None] = _ignore
        self._context = context
        self._settings = settings
        self._ready: deque[TopicPartition] = deque()
        self._arrived = runtime.new_event()
        self._nudged = False
        self._changed: dict[BrokerId, runtime.Event] = {}
        self._scope = runtime.cancel_scope()
        self._nursery: runtime.Nursery | None = None
        self._settle = runtime.new_event()
        self._answers = FetchAnswers(context, settings, self.partitions, self._announce, self.wake)

    async def run(self, *, task_status: Any = runtime.TASK_STATUS_IGNORED) -> None:
        """Fetch until cancelled."""
        self._context.refresh.on_update.append(self.wake)
        try:
            async with runtime.open_nursery() as nursery:
                self._nursery = nursery
                task_status.started()
                await self._settle_positions()
        finally:
            self._context.refresh.on_update.remove(self.wake)

    def assign(self, partition: TopicPartition) -> PartitionFetch:
        """Begin to read a partition; its position waits to be placed or started."""
        fetch = self.partitions[partition] = PartitionFetch(partition)
        self._context.refresh.pin(partition.topic)
        return fetch

    def start(self, partition: TopicPartition, start: Start) -> None:
        """Have a partition's start looked up."""
        self.partitions[partition].position.start = start
        self._settle.set()

    def seek(self, partition: TopicPartition, offset: int, epoch: LeaderEpoch = LeaderEpoch(-1)) -> None:  # noqa: B008 - a NewType call is the bare int
        """Read a partition from an offset on; what had come is forgotten."""
        fetch = self.partitions[partition]
        fetch.drop_waiting()
        fetch.position.place(offset, epoch)
        self.wake()

    def unassign(self, partition: TopicPartition) -> None:
        """Stop reading a partition; what comes for it is dropped."""
        if self.partitions.pop(partition, None) is not None:
            self._context.refresh.unpin(partition.topic)
            self.wake()

    def unassign_all(self) -> None:
        """Stop reading everything."""
        for partition in list(self.partitions):
            self.unassign(partition)

    async def wait_ready(self) -> None:
        """Wait until something can be taken by `take`."""
        while not self._ready and not self._nudged:
            if self._arrived.is_set():  # an unset event stays: another task may be waiting for it
                self._arrived = runtime.new_event()
            await self._arrived.wait()
        self._nudged = False

    def take(
        self, wanted: Callable[[TopicPartition], bool] | None = None
    ) -> tuple[TopicPartition, Fetched] | None:
        """Return the next partition's batch, None where none waits.

        Raises:
            ClientError: That partition has failed; it is raised once, and again after the next attempt.
        """
        for _ in range(len(self._ready)):
            partition = self._ready.popleft()
            fetch = self.partitions.get(partition)
            if fetch is None or not (fetch.waiting or fetch.error):
                continue
            if wanted is not None and not wanted(partition):
                self._ready.append(partition)
                continue
            if fetch.error is not None and not fetch.waiting:
                error, fetch.error = fetch.error, None
                # What failed is tried again, now that its error is known.
                self.wake()
                raise error
            fetched = fetch.waiting.popleft()
            fetch.held -= fetched.records.size
            if fetch.waiting or fetch.error:
                self._ready.append(partition)
            self._wake_reader_of(fetch.position)
            return partition, fetched
        return None

    def put_back(self, partition: TopicPartition, fetched: Fetched) -> None:
        """Undo `take`."""
        fetch = self.partitions.get(partition)
        if fetch is not None and fetch.position.number == fetched.position_number:
            fetch.waiting.appendleft(fetched)
            fetch.held += fetched.records.size
            self._announce(partition)

    def is_current(self, partition: TopicPartition, fetched: Fetched) -> bool:
        """Return whether the partition's position has not been moved since this was fetched."""
        fetch = self.partitions.get(partition)
        return fetch is not None and fetch.position.number == fetched.position_number

    def nudge(self) -> None:
        """Let a task in `wait_ready` look again."""
        self._nudged = True
        self._arrived.set()
        self.on_arrival()

    def _announce(self, partition: TopicPartition) -> None:
        if partition not in self._ready:
            self._ready.append(partition)
        self._arrived.set()
        self.on_arrival()

    def wake(self) -> None:
        """Decide anew what to fetch from which broker."""
        for event in self._changed.values():
            event.set()
        if self._nursery is None:
            return
        now = runtime.current_time()
        for fetch in self.partitions.values():
            broker_id = self._broker_of(fetch.position, now)
            if broker_id is None:
                # Without a leader no fetch can show that the metadata are old: ask for metadata until there is one.
                self._context.refresh.ask()
            elif broker_id not in self._changed:
                self._changed[broker_id] = runtime.new_event()
                self._nursery.start_soon(self._fetch_from, broker_id)
        if any(fetch.position.state is PositionState.WAITING for fetch in self.partitions.values()):
            self._settle.set()

    def _wake_reader_of(self, position: Position) -> None:
        broker_id = self._broker_of(position, runtime.current_time())
        event = None if broker_id is None else self._changed.get(broker_id)
        if event is not None:
            event.set()

    def _broker_of(self, position: Position, now: float) -> BrokerId | None:
        known = self._context.metadata.partition(position.partition)
        if known is None or known.leader < 0:
            return None
        return position.read_from(known.leader, self._context.metadata.brokers, now)

    async def _settle_positions(self) -> None:
        """Look up the starts of partitions that wait for one."""
        while True:
            waiting = {
                partition: fetch.position.start
                for partition, fetch in self.partitions.items()
                if fetch.position.state is PositionState.WAITING
                and fetch.position.start is not None
                and fetch.error is None
            }
            if not waiting:
                self._settle = runtime.new_event()
                await self._settle.wait()
                continue
            numbers = {partition: self.partitions[partition].position.number for partition in waiting}
            try:
                found = await look_up(self._context, waiting, self._settings.isolation)
            except* ClientError as group:
                error = group.exceptions[0]
                while isinstance(error, BaseExceptionGroup):
                    error = error.exceptions[0]
                found = {}
                for partition in waiting:
                    fetch = self.partitions.get(partition)
                    if fetch is not None and fetch.position.number == numbers[partition]:
                        self._answers.fail(fetch, error)
                await runtime.sleep(self._context.settings.retry_backoff_max)
            # The epoch that was found is that of the record at the offset, not of the one before it.
            for partition, (offset, _) in found.items():
                fetch = self.partitions.get(partition)
                if fetch is not None and fetch.position.number == numbers[partition]:
                    fetch.position.place(offset)
            self.wake()

    async def _fetch_from(self, broker_id: BrokerId) -> None:
        """Fetch from one broker for as long as it has partitions that we read."""
        session = FetchSession()
        failures = 0
        while True:
            self._changed[broker_id] = runtime.new_event()
            wanted, is_partial, has_any = self._wanted(broker_id)
            if not has_any:
                del self._changed[broker_id]
                return
            if not wanted:
                await self._changed[broker_id].wait()
                continue
            numbers = {partition: self.partitions[partition].position.number for partition in wanted}
            try:
                link = await self._context.links.get(broker_id, FETCH)
                unsure = self._unsure(link, wanted)
                if unsure:
                    ends = await epoch_ends(link, unsure)
                    failed = self._answers.take_epoch_ends(ends, unsure, numbers)
                    if failed:
                        await runtime.sleep(self._context.retry_backoff.delay_s(failures))
                    failures = failures + 1 if failed else 0
                    continue
                answer = await self._ask(link, session, wanted, is_partial)
            except BrokerUnreachable as error:
                _log.info("broker %d: %s", broker_id, error)
                session.reset()
                self._leave_followers(broker_id)
                self._context.refresh.ask()
                await runtime.sleep(self._context.retry_backoff.delay_s(failures))
                failures += 1
                continue
            except ClientError as error:
                for partition in wanted:
                    fetch = self.partitions.get(partition)
                    if fetch is not None:
                        self._answers.fail(fetch, error)
                await runtime.sleep(self._context.settings.retry_backoff_max)
                continue
            failed = await self._answers.take(answer, session, wanted, numbers)
            failures = failures + 1 if failed else 0
            if failed:
                await runtime.sleep(self._context.retry_backoff.delay_s(failures - 1))

    def _wanted(self, broker_id: BrokerId) -> tuple[dict[TopicPartition, FetchPlace], bool, bool]:
        """Return what to fetch from a broker, whether partitions without room are left out, and whether it has any."""
        now = runtime.current_time()
        share = max(1, self._settings.room // max(1, len(self.partitions)))
        share = max(share, 2 * self._settings.partition_bytes if len(self.partitions) <= 16 else share)
        wanted: dict[TopicPartition, FetchPlace] = {}
        has_any = is_partial = False
        for partition, fetch in self.partitions.items():
            position = fetch.position
            if self._broker_of(position, now) != broker_id:
                continue
            has_any = True
            if position.state is not PositionState.FETCHING or fetch.error is not None:
                continue
            if fetch.held >= share:
                is_partial = True
                continue
            known = self._context.metadata.partition(partition)
            assert known is not None
            wanted[partition] = position.fetch_place(known.leader_epoch, self._settings.partition_bytes)
        return wanted, is_partial, has_any

    def _unsure(
        self, link: BrokerLink, wanted: Mapping[TopicPartition, FetchPlace]
    ) -> dict[TopicPartition, FetchPlace]:
        """Return the partitions whose log may differ from what was read, since their leader epoch is new.

        From version 12 on a Fetch compares the epochs itself.
        """
        if not must_be_asked(link):
            return {}
        return {
            partition: place
            for partition, place in wanted.items()
            if min(place.leader_epoch, place.last_epoch) >= 0
            and self.partitions[partition].position.validated_in != place.leader_epoch
            and not self.partitions[partition].position.reads_from_follower
        }

    async def _ask(
        self,
        link: BrokerLink,
        session: FetchSession,
        wanted: Mapping[TopicPartition, FetchPlace],
        is_partial: bool,
    ) -> FetchResponse:
        settings = self._settings
        max_wait = min(_BRIEF_WAIT_S, settings.max_wait) if is_partial else settings.max_wait
        request, at_most = fetch_request(
            self._context, link, session.next_request(wanted), settings, max_wait
        )
        timeout = self._context.settings.request_timeout + max_wait
        self._context.metrics.add("request-total")
        answer: FetchResponse = await link.request(request, timeout_s=timeout, at_most=at_most)
        self._context.metrics.add("fetch-total")
        return answer

    def _leave_followers(self, broker_id: BrokerId) -> None:
        now = runtime.current_time()
        for fetch in self.partitions.values():
            if fetch.position.reads_from_follower and self._broker_of(fetch.position, now) == broker_id:
                fetch.position.leave_follower()
        self.wake()

    def positions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """Return the positions of those partitions that are read."""
        return {each: self.partitions[each].position for each in partitions if each in self.partitions}


def _ignore() -> None:
    return None
