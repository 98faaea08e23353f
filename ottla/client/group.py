"""Reading as a member of a group: batches in a loop, or a task per partition.

A partition is released only after the work on its batches has ended and its done offsets are committed, within the
rebalance timeout; nothing is committed for a lost partition. A batch is done when the next one is asked for, or, with
``done=EXPLICIT``, when `Batch.done` or `Record.done` says so.
"""

import logging
import re
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from ottla.client import runtime
from ottla.client.codecs import Topic
from ottla.client.context import ClientContext
from ottla.client.coordinator_link import GROUP, CoordinatorLink
from ottla.client.errors import ClientError, ClosedClient
from ottla.client.fetch_answers import Fetched
from ottla.client.fetch_settings import FetchSettings
from ottla.client.fetcher import Fetcher
from ottla.client.group_commits import GroupCommits
from ottla.client.group_partitions import OwnedPartition, Partition
from ottla.client.group_settings import Done, GroupSettings
from ottla.client.interceptors import notify
from ottla.client.membership import Membership, MemberState
from ottla.client.membership_task import MembershipTask
from ottla.client.offset_commits import fetch_committed
from ottla.client.positions import Endpoint, start_for
from ottla.client.record_batch import Batch
from ottla.client.stalls import Asking
from wire.types import TopicPartition

_log = logging.getLogger(__name__)

_COMMIT_PART: Final = 0.8
"""The part of ``close_timeout`` that the last commit may take."""

K = TypeVar("K")
V = TypeVar("V")


class Group(Generic[K, V]):
    """A member of a group; made by `Kafka.group`, used as ``async with`` and ``async for``, or by `run`.

    The end of the block lets nothing more be handed out, commits what is done and leaves the group, within
    ``close_timeout``. A batch whose loop ended by ``break`` is not done: it comes again.
    """

    def __init__(
        self,
        context: ClientContext,
        membership: Membership,
        topics: Sequence[Topic[Any, Any]],
        pattern: "re.Pattern[str] | None",
        fetching: FetchSettings,
        settings: GroupSettings,
    ) -> None:
        self._context = context
        self._member = membership
        self._topics = {topic.name: topic for topic in topics}
        self._pattern = pattern
        self._fetching = fetching
        self._settings = settings
        self._fetcher = Fetcher(context, fetching)
        self._coordinator = CoordinatorLink(context, GROUP, membership.group_id)
        self._task = MembershipTask(
            context,
            membership,
            self,
            coordinator=self._coordinator,
            session_timeout=settings.session_timeout,
            heartbeat_interval=settings.heartbeat_interval,
            rebalance_timeout=settings.rebalance_timeout,
        )
        self._owned: dict[TopicPartition, OwnedPartition] = {}
        self._turns: deque[TopicPartition] = deque()
        self._first_counts: dict[str, int] = {}
        self._subscribed: list[str] = []
        self._current: Batch[Any, Any] | None = None
        self._scope = runtime.cancel_scope()
        self._is_open = False
        self._failure: ClientError | None = None
        self._assigned = runtime.new_event()
        self._on_acquired: Callable[[OwnedPartition], None] | None = None
        self._commits = GroupCommits(context, membership, self._task, settings)
        self._asking = Asking()
        self._look = runtime.new_event()
        self._has_ended = False
        self._fetcher.on_arrival = self._look_again

    async def __aenter__(self) -> Self:
        if self._pattern is not None:
            self._context.refresh.pin_all()
            await self._context.refresh.wait_update()
        for name in self._topics:
            await self._context.refresh.topic(name, self._settings.topic_timeout)
            self._context.refresh.pin(name)
        self._context.refresh.on_update.append(self.look_for_changes)
        self._is_open = True
        await self._context.nursery.start(self._run_tasks)
        return self

    async def _run_tasks(self, *, task_status: Any) -> None:
        with self._scope:
            try:
                async with runtime.open_nursery() as nursery:
                    await nursery.start(self._fetcher.run)
                    nursery.start_soon(self._commits.run, self._owned.values())
                    if self._settings.stall_timeout is not None:
                        nursery.start_soon(self._watch_for_stalls, self._settings.stall_timeout)
                    nursery.start_soon(self._dispatch)
                    task_status.started()
                    await self._task.run()
            except* ClientError as group:
                # The reader raises it, from the call that waits for a batch.
                error: BaseException = group
                while isinstance(error, BaseExceptionGroup):
                    error = error.exceptions[0]
                assert isinstance(error, ClientError)
                self._failure = error
                self._has_ended = True
                self.lose()
                self._wake_all()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        self._context.refresh.on_update.remove(self.look_for_changes)
        deadline = runtime.current_time() + self._context.settings.close_timeout
        try:
            with runtime.cancel_scope(deadline=deadline, shield=True):
                try:
                    if self._failure is None:
                        # Also while members join. The rest of the time is for leaving the group.
                        with runtime.move_on_after(_COMMIT_PART * self._context.settings.close_timeout):
                            await self._commits.commit(self._owned.values())
                    # The member is no longer kept in the group while it leaves.
                    self._scope.cancel()
                    if self._leaves:
                        if self._member.state is not MemberState.STABLE:
                            # On a new connection: on this one it would queue behind our join.
                            self._coordinator.close()
                        await self._task.leave()
                except ClientError as failure:
                    _log.warning("group %r: leaving: %s", self._member.group_id, failure)
        finally:
            self._scope.cancel()
            self._fetcher.unassign_all()
            self._coordinator.close()
            self._commits.close()
            for name in self._topics:
                self._context.refresh.unpin(name)
            if self._pattern is not None:
                self._context.refresh.unpin_all()

    # What the membership asks.

    def subscription(self) -> Sequence[str]:
        """Return the subscribed topics: those named, or the existing ones that match the pattern."""
        if self._pattern is None:
            self._subscribed = list(self._topics)
        else:
            self._subscribed = self._matching()
        return self._subscribed

    def _matching(self) -> list[str]:
        assert self._pattern is not None
        return sorted(
            name
            for name, topic in self._context.metadata.topics.items()
            if not topic.is_internal and self._pattern.fullmatch(name)
        )

    def counts(self, topics: Sequence[str]) -> Mapping[str, int]:
        """Return the partition counts of those topics that are known."""
        return self._context.metadata.counts(topics)

    async def release(self, partitions: Sequence[TopicPartition]) -> None:
        """Wait until the work on partitions has ended, commit, and release them."""
        owned = [self._owned[place] for place in partitions if place in self._owned]
        for each in owned:
            each.draining = True
            each.parts.clear()
            each.arrived.set()
            each.check_idle()
        with runtime.move_on_after(self._settings.rebalance_timeout) as scope:
            for each in owned:
                await each.idle.wait()
        if scope.cancelled_caught:
            _log.warning(
                "group %r: work on %s did not end within the rebalance timeout",
                self._member.group_id,
                ", ".join(str(each.place) for each in owned if not each.idle.is_set()),
            )
        try:
            await self._commits.commit([each for each in owned if not each.lost])
        except ClientError as error:
            _log.warning("group %r: the commit before a release failed: %s", self._member.group_id, error)
        for each in owned:
            self._drop(each)

    def _drop(self, owned: OwnedPartition) -> None:
        owned.lost = True
        # A batch in hand counts no more: a release that waits for it would wait for the whole rebalance timeout.
        owned.progress.forget_work()
        owned.loss.set()
        owned.arrived.set()
        owned.check_idle()
        self._fetcher.unassign(owned.place)
        if self._owned.get(owned.place) is owned:
            del self._owned[owned.place]

    async def acquire(self, partitions: Sequence[TopicPartition]) -> None:
        """Begin to read partitions that were assigned: from the committed offset, else from the start."""
        generation = self._member.generation
        committed = await fetch_committed(
            self._context,
            self._coordinator,
            self._member.group_id,
            partitions,
            require_stable=bool(self._fetching.isolation),
        )
        if self._member.generation != generation:
            return  # lost meanwhile: others may have them
        for topic in {place.topic for place in partitions}:
            self._first_counts.setdefault(topic, self._context.metadata.partition_count(topic))
        for place in partitions:
            owned = self._owned[place] = OwnedPartition(place, self, self._changed)
            self._fetcher.assign(place)
            found = committed.get(place)
            if found is not None:
                owned.progress.position = owned.progress.committed = found.offset
                owned.progress.leader_epoch = found.leader_epoch
                self._fetcher.seek(place, found.offset, found.leader_epoch)
            else:
                start = start_for(self._settings.start, place)
                if start is None or place.partition >= self._first_counts[place.topic]:
                    # A partition that was added later: with LATEST its first records would be lost.
                    start = Endpoint.EARLIEST
                self._fetcher.start(place, start)
            if self._on_acquired is not None:
                self._on_acquired(owned)
        self._fetcher.wake()
        assigned, self._assigned = self._assigned, runtime.new_event()
        assigned.set()

    def lose(self) -> None:
        """Drop all partitions at once: other members may have them already."""
        for owned in list(self._owned.values()):
            self._drop(owned)

    def look_for_changes(self) -> None:
        """Join again if topics or partition counts have changed; racks are looked at when assigning."""
        member = self._member
        if member.state is not MemberState.STABLE:
            return
        if self._pattern is not None and self._matching() != self._subscribed:
            self._task.rejoin("the topics that match have changed")
        elif member.is_leader:
            known = self.counts(list(member.counts))
            if any(known.get(topic, 0) != count for topic, count in member.counts.items()):
                self._task.rejoin("partition counts have changed")

    # What is handed out.

    async def _dispatch(self) -> None:
        """Take what is fetched to the partitions that it belongs to."""
        while True:
            self._look = runtime.new_event()
            try:
                while (taken := self._fetcher.take(self._has_no_parts)) is not None:
                    await self._take_in(*taken)
            except ClientError as error:
                self._failure = self._failure or error
                self._wake_all()
                self._look.set()  # behind the partition that failed others may be ready
            await self._look.wait()

    def _look_again(self) -> None:
        self._look.set()

    async def _take_in(self, place: TopicPartition, fetched: Fetched) -> None:
        topic: Topic[Any, Any] = self._topics.get(place.topic) or Topic(place.topic)
        batch: Batch[Any, Any] = Batch(
            topic, place, fetched.records, fetched.high_watermark, self._settings.on_bad
        )
        if topic.needs_preparation and not await self._prepared(batch, fetched):
            return
        owned = self._owned.get(place)
        if owned is None or owned.draining:
            return
        if not fetched.records.may_have_records:
            owned.progress.skipped(fetched.records.next_offset, fetched.records.last_epoch)
            return
        if owned.progress.position < 0:
            owned.progress.position = batch.first_offset
        owned.parts.extend(batch.parts(self._settings.max_records or 0x7FFFFFFF))
        if place not in self._turns:
            self._turns.append(place)
        owned.arrived.set()
        self._assigned.set()

    async def _prepared(self, batch: Batch[Any, Any], fetched: Fetched) -> bool:
        """Look up a batch's schemas; return False if the batch is obsolete, or will come again later.

        Meanwhile no other batch is handed out: they most likely need the same.
        """
        try:
            await batch.prepare()
        except ClientError as error:
            _log.warning("group %r: %s", self._member.group_id, error)
            self._failure = self._failure or error
            self._wake_all()
            self._fetcher.put_back(batch.place, fetched)
            await runtime.sleep(self._context.settings.retry_backoff_max)
            return False
        return self._fetcher.is_current(batch.place, fetched)

    def _has_no_parts(self, place: TopicPartition) -> bool:
        owned = self._owned.get(place)
        return owned is None or not owned.parts

    def _wake_all(self) -> None:
        self._assigned.set()
        for owned in self._owned.values():
            owned.arrived.set()

    def _hand_out(self, owned: OwnedPartition) -> Batch[Any, Any] | None:
        """Return a partition's next batch, None where none is there."""
        if owned.draining or owned.lost:
            return None
        while owned.parts:
            batch = owned.parts.popleft()
            if not owned.parts:
                self._look.set()
            if not len(batch):
                owned.progress.skipped(batch.next_offset, batch.leader_epoch)
                continue
            batch.ownership = owned
            owned.progress.handed_out(batch)
            self._context.metrics.add("records-consumed-total", len(batch))
            notify(self._settings.on_batch, batch)
            return batch
        return None

    async def _watch_for_stalls(self, timeout_s: float) -> None:
        """Leave the group while nobody asks for batches, so that others get the partitions; come back after that."""
        while True:
            await self._asking.wait_ended()
            await runtime.sleep_until(self._asking.since + timeout_s)
            if self._asking.is_going_on or runtime.current_time() < self._asking.since + timeout_s:
                continue
            if not self._owned or self._member.state is not MemberState.STABLE:
                # Nothing to give up, or a rebalance is about to take it.
                self._asking.note()
                continue
            again = self._asking.next_time()
            await self._task.step_out(f"no batch was asked for within {timeout_s:g} s", leaves=self._leaves)
            await again.wait()
            self._task.come_back("batches are asked for again")

    @property
    def _leaves(self) -> bool:
        """Whether to send LeaveGroup at the end: as the option ``leave`` says, by default only for a dynamic member."""
        return self._member.instance_id is None if self._settings.leave is None else self._settings.leave

    def _changed(self, owned: OwnedPartition) -> None:
        owned.check_idle()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch[K, V]:
        """Return the next batch, of each partition in turn; asking for it says that the one before is done.

        Cancelled, nothing is lost: the batch comes at the next call.

        Raises:
            OffsetLost: Records before a position are gone or were replaced.
            FencedInstance: Another member has this one's instance id.
            GroupMismatch: The group's members use other assignors.
            NotAuthorized: The principal may not read a topic or use the group.
        """
        with self._asking:
            return await self._next_batch()

    async def _next_batch(self) -> Batch[K, V]:
        current, self._current = self._current, None
        if current is not None and self._settings.done is Done.BY_NEXT:
            current.done()
        await runtime.checkpoint()
        while True:
            self._check_open()
            for _ in range(len(self._turns)):
                place = self._turns.popleft()
                owned = self._owned.get(place)
                batch = None if owned is None else self._hand_out(owned)
                if owned is not None and owned.parts:
                    self._turns.append(place)
                if batch is not None:
                    self._current = batch
                    return batch
            if self._failure is not None:
                failure = self._failure
                if not self._has_ended:
                    self._failure = None  # of one partition, which is tried again
                raise failure
            await self._wait_assigned()

    async def wait_assigned(self) -> None:
        """Wait until this member has partitions; raises what fails until then, as ``__anext__`` does."""
        await runtime.checkpoint()
        while not self._owned:
            self._check_open()
            if self._failure is not None:
                raise self._failure
            await self._wait_assigned()

    async def _wait_assigned(self) -> None:
        """Wait until partitions were assigned, batches have come or something failed."""
        if self._assigned.is_set():  # an unset event stays: another task may be waiting for it
            self._assigned = runtime.new_event()
        await self._assigned.wait()

    async def run(
        self, work: Callable[[Partition[K, V]], Awaitable[None]], *, limit: int | None = None
    ) -> None:
        """Run a task for each partition, until cancelled or one fails.

        The task begins with the assignment. Its iteration ends when the partition must be released, and the release
        waits for the task's end; where the partition is lost, the task is cancelled.

        Args:
            work: What a task does.
            limit: How many tasks may have a batch in hand at a time; None for all.
        """
        self._check_open()
        limiter = None if limit is None else runtime.new_limiter(limit)
        async with runtime.open_nursery() as nursery:

            def begin(owned: OwnedPartition) -> None:
                owned.working = True
                nursery.start_soon(self._work_on, owned, work, limiter)

            self._on_acquired = begin
            try:
                for owned in list(self._owned.values()):
                    begin(owned)
                while self._failure is None:
                    await self._wait_assigned()
                raise self._failure
            finally:
                self._on_acquired = None

    async def _work_on(
        self,
        owned: OwnedPartition,
        work: Callable[[Partition[K, V]], Awaitable[None]],
        limiter: runtime.Limiter | None,
    ) -> None:
        partition: Partition[K, V] = Partition(
            owned,
            self._fetcher,
            self._hand_out,
            self.commit,
            limiter,
            self._asking,
            done_by_next=self._settings.done is Done.BY_NEXT,
        )
        with runtime.cancel_scope() as scope:
            async with runtime.open_nursery() as nursery:
                nursery.start_soon(_cancel_when_lost, owned, scope)
                try:
                    await work(partition)
                finally:
                    partition.end()
                    owned.working = False
                    self._asking.note()
                    if owned.draining or owned.lost:
                        owned.progress.forget_work()
                    owned.check_idle()
                nursery.cancel_scope.cancel()

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Read a partition that is held from an offset on; legal at any time.

        Raises:
            KeyError: The partition is not held.
        """
        owned = self._owned[TopicPartition(topic, partition)]
        owned.parts.clear()
        owned.progress.forget_work()
        owned.progress.position = offset
        self._fetcher.seek(owned.place, offset)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this member has now."""
        return frozenset(self._owned)

    @property
    def membership(self) -> Membership:
        """The member: its id and generation fence what a transaction commits for it."""
        return self._member

    @property
    def member_id(self) -> str:
        """What the coordinator calls this member, empty before it has joined."""
        return self._member.member_id

    @property
    def generation(self) -> int:
        """The generation that the member is in, -1 outside of any."""
        return self._member.generation

    def _check_open(self) -> None:
        if not self._is_open:
            raise ClosedClient("the group is used outside of its block")

    # Commits.

    async def commit(self) -> None:
        """Commit what is done, and wait for it. Cancelled, whether it was committed is unknown; the next repeats it.

        Raises:
            CommitFailed: Some partitions are another member's now; the others are committed.
        """
        self._check_open()
        await self._commits.commit(self._owned.values())


async def _cancel_when_lost(owned: OwnedPartition, scope: runtime.CancelScope) -> None:
    await owned.loss.wait()
    scope.cancel()
