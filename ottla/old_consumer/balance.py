"""Keeping a consumer's part of its group: one task registers, reads the group, claims, fetches and releases.

All of `states.TRANSITIONS` happens here. A watch begins a rebalance: it says that something may have changed, and the
view that is read then decides whether anything has.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import trio

from cluster.zookeeper.client import SessionEvent, SessionExpiredError, ZooKeeperError
from cluster.zookeeper.json_data import MalformedZnodeError
from ottla.client import ClientError, Kafka, Topic
from ottla.client.admin import Admin
from ottla.old_consumer.assignment import Assignment, AssignmentError, GroupView, ThreadId, assign
from ottla.old_consumer.consumption import Consumption
from ottla.old_consumer.group_znodes import GroupZnodes, bootstrap_addresses
from ottla.old_consumer.offsets import GroupOffsets, OffsetCommitFailed
from ottla.old_consumer.settings import OldConsumerSettings
from ottla.old_consumer.states import EndEvent, EndState, advance
from ottla.old_consumer.streams import Stream
from ottla.old_consumer.subscription import Registration
from ottla.old_consumer.zookeeper import GroupZooKeeper
from timing.clock import Clock
from wire.types import TopicPartition

_log = logging.getLogger(__name__)


class RebalanceFailed(Exception):
    """All attempts to claim partitions failed; the next change in the group begins another rebalance."""


class PartitionsTaken(Exception):
    """Another consumer has not released a partition yet: the attempt is repeated."""


class RebalanceListener(Protocol):
    """What is called at each rebalance; it must not block."""

    def before_releasing(self, owned: Mapping[TopicPartition, ThreadId]) -> None:
        """See the partitions that are about to be released; their positions are committed after this."""
        ...

    def before_starting(self, consumer_id: str, assignment: Assignment) -> None:
        """See the assignment of the whole group, before this consumer fetches."""
        ...


@dataclass(frozen=True, slots=True)
class Subscribed:
    """What a consumer subscribes to, and the streams that its partitions go to.

    Attributes:
        registration: As it is registered.
        topics: The codecs of a topic.
        by_topic: The streams of each named topic.
        by_filter: The streams that all topics of a filter share.
    """

    registration: Registration
    topics: Callable[[str], Topic[Any, Any]]
    by_topic: Mapping[str, list[Stream[Any, Any]]]
    by_filter: list[Stream[Any, Any]]

    @property
    def streams(self) -> list[Stream[Any, Any]]:
        """All of them."""
        return [*self.by_filter, *(each for listed in self.by_topic.values() for each in listed)]

    def stream_of(self, place: TopicPartition, thread: ThreadId) -> Stream[Any, Any]:
        """Return the stream of a partition that was assigned to a thread."""
        return (self.by_filter or self.by_topic[place.topic])[thread.number]


class Balance:
    """A consumer's place in its group.

    Args:
        consumer_id: The consumer's name.
        settings: How it works.
        subscribed: What it consumes.
        zookeeper: Its session.
        connect: Connects to the cluster at addresses, for as long as the consumer lives.
        security_protocol: Which of the addresses that brokers register is used.
        listener: Called at each rebalance.
        clock: The machine's clocks.
        nursery: For the tasks that fetch.

    Attributes:
        state: Where it stands.
        owned: What it has claimed.
        consumption: What it fetches at the moment.
        rebalances: How many rebalances ended with partitions claimed.
    """

    def __init__(
        self,
        consumer_id: str,
        settings: OldConsumerSettings,
        subscribed: Subscribed,
        zookeeper: GroupZooKeeper,
        connect: Callable[[str], Awaitable[Kafka]],
        *,
        security_protocol: str,
        listener: RebalanceListener | None,
        clock: Clock,
        nursery: trio.Nursery,
    ) -> None:
        self.state = advance(EndState.IDLE, EndEvent.SUBSCRIBED)
        self.owned: dict[TopicPartition, ThreadId] = {}
        self.consumption: Consumption | None = None
        self.rebalances = 0
        self._consumer_id = consumer_id
        self._settings = settings
        self._subscribed = subscribed
        self._zookeeper = zookeeper
        self._connect = connect
        self._security_protocol = security_protocol
        self._listener = listener
        self._clock = clock
        self._nursery = nursery
        self._changed = trio.Event()
        self._znodes = GroupZnodes(zookeeper, settings.group_id, self._look_again)
        self._offsets = GroupOffsets(self._znodes, settings)
        self._view: GroupView | None = None
        self._kafka: Kafka | None = None
        self._claiming: dict[TopicPartition, ThreadId] = {}
        self._scope = trio.CancelScope()
        self._working = trio.Lock()
        zookeeper.subscribe(self._on_session_event)

    async def commit(self, offsets: Mapping[TopicPartition, int] | None) -> None:
        """Commit, with retries.

        Args:
            offsets: The next offset of each partition; None for what was handed out.

        Raises:
            OffsetCommitFailed: Kafka refused some of them.
            SessionExpiredError: The session may be over: other consumers may have the partitions.
        """
        async with self._working:
            if not self._is_live():
                raise SessionExpiredError(f"{self._consumer_id}: the session may be over")
            if offsets is None:
                offsets = {} if self.consumption is None else dict(self.consumption.positions)
            await self._offsets.commit(self._admin(), offsets, retries=True)

    def _advance(self, event: EndEvent) -> None:
        self.state = advance(self.state, event)

    def _look_again(self) -> None:
        self._changed.set()

    def _on_session_event(self, event: SessionEvent) -> None:
        if event is SessionEvent.EXPIRED and self.state is not EndState.CLOSED:
            # Others may have its partitions by now: hand out and commit nothing more.
            self._advance(EndEvent.SESSION_LOST)
            self._stop_consuming()
            self.owned = self._claiming = {}
            self._view = None
            self._look_again()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Join the group, report that as started, and rebalance when needed until `leave`.

        Raises:
            RebalanceFailed: No attempt of the first rebalance succeeded; of later ones the streams raise it.
            AlreadyRegistered: Another session has this consumer's name.
        """
        with self._scope:
            await self._settle()
            task_status.started()
            async with trio.open_nursery() as nursery:
                if self._settings.auto_commit:
                    nursery.start_soon(self._commit_regularly)
                while True:
                    await self._changed.wait()
                    try:
                        await self._settle()
                    except RebalanceFailed as error:
                        _log.error("%s: %s", self._consumer_id, error)
                        for stream in self._subscribed.streams:
                            stream.fail(error)

    async def leave(self) -> None:
        """Commit, release what is owned, and delete the registration."""
        self._scope.cancel()
        async with self._working:
            await self._release()
            await self._znodes.deregister(self._consumer_id)

    def close(self) -> None:
        """End the streams."""
        self._advance(EndEvent.CLOSED)
        self._stop_consuming()
        for stream in self._subscribed.streams:
            stream.close()

    async def _settle(self) -> None:
        """Register if needed, and take this consumer's part of its group.

        Raises:
            RebalanceFailed: No attempt succeeded.
            AlreadyRegistered: Another session has this consumer's name.
        """
        while True:
            self._changed = trio.Event()
            try:
                async with self._working:
                    if self.state is EndState.UNREGISTERED:
                        await self._zookeeper.renew_session()
                        await self._znodes.register(self._consumer_id, self._subscribed.registration)
                        self._advance(EndEvent.REGISTERED)
                    await self._rebalance()
                return
            except SessionExpiredError:
                _log.warning("%s: the ZooKeeper session is over; registering again", self._consumer_id)

    async def _rebalance(self) -> None:
        failure: Exception | None = None
        for attempt in range(self._settings.rebalance_max_retries):
            if attempt:
                await trio.sleep(self._settings.rebalance_backoff)
                if self.state is EndState.UNREGISTERED:
                    raise SessionExpiredError("the session expired between two attempts")
                self._advance(EndEvent.BACKED_OFF)
            try:
                await self._attempt()
                return
            except SessionExpiredError:
                raise
            except (
                ZooKeeperError,
                ClientError,
                MalformedZnodeError,
                AssignmentError,
                PartitionsTaken,
            ) as error:
                _log.info("%s: attempt %d to rebalance: %s", self._consumer_id, attempt + 1, error)
                failure = error
            await self._release()
            if self.state is EndState.UNREGISTERED:
                raise SessionExpiredError("the session expired during an attempt")
            if self.state is not EndState.REBALANCING:
                self._advance(EndEvent.CHANGED)
            self._advance(EndEvent.ATTEMPT_FAILED)
        self._advance(EndEvent.RETRIES_EXHAUSTED)
        raise RebalanceFailed(
            f"{self._consumer_id} can't rebalance after {self._settings.rebalance_max_retries} attempts: {failure}"
        ) from failure

    async def _attempt(self) -> None:
        """Take this consumer's part once, unless it has it.

        Raises:
            PartitionsTaken: Another consumer has some of it.
        """
        excludes = self._settings.exclude_internal_topics
        view = await self._znodes.view(self._own_topics)
        if self._consumer_id not in view.registrations:
            await self._znodes.register(self._consumer_id, self._subscribed.registration)
            view = await self._znodes.view(self._own_topics)
        if (
            self.state in (EndState.CONSUMING, EndState.WAITING_FOR_BROKERS)
            and view.decides_like(self._view, exclude_internal=excludes)
            and await self._znodes.still_own(self.owned)
        ):
            return
        if self.state is not EndState.REBALANCING:
            self._advance(EndEvent.CHANGED)
        await self._release()
        if not view.has_brokers:
            _log.warning("%s: no broker is registered", self._consumer_id)
            self._view = view
            self._advance(EndEvent.NO_BROKERS)
            return
        kafka = await self._connected()
        assignment = assign(
            view, self._consumer_id, self._settings.assignment_strategy, exclude_internal=excludes
        )
        mine = assignment[self._consumer_id]
        self._claiming = mine
        taken = await self._znodes.claim(mine)
        if taken:
            raise PartitionsTaken(f"{', '.join(map(str, taken))} are still owned by another end")
        self.owned = mine
        # After the claim: until then the previous owner can still commit.
        offsets = await self._offsets.fetch(kafka.admin, mine)
        if self._listener is not None:
            self._listener.before_starting(self._consumer_id, assignment)
        if self.state is EndState.UNREGISTERED:
            raise SessionExpiredError("the session expired while partitions were claimed")
        self._view = view
        self.consumption = Consumption(
            kafka.context,
            self._settings,
            {place: self._subscribed.stream_of(place, thread) for place, thread in mine.items()},
            {place.topic: self._subscribed.topics(place.topic) for place in mine},
            offsets,
            self._is_live,
        )
        self._nursery.start_soon(self.consumption.run)
        self.rebalances += 1
        self._advance(EndEvent.CLAIMED)
        _log.info("%s: consumes %s", self._consumer_id, ", ".join(map(str, sorted(mine))) or "nothing")

    def _own_topics(self, _: Mapping[str, Registration], topics: frozenset[str]) -> list[str]:
        excludes = self._settings.exclude_internal_topics
        return list(self._subscribed.registration.topics(topics, exclude_internal=excludes))

    def _is_live(self) -> bool:
        return self._zookeeper.session_is_live(self._clock.monotonic())

    async def _connected(self) -> Kafka:
        if self._kafka is None:
            addresses = bootstrap_addresses(await self._znodes.brokers(), self._security_protocol)
            if not addresses:
                raise ClientError(f"no broker has registered an address for {self._security_protocol}")
            self._kafka = await self._connect(addresses)
        return self._kafka

    def _admin(self) -> Admin | None:
        return None if self._kafka is None else self._kafka.admin

    # Positions and ownership

    def _stop_consuming(self) -> dict[TopicPartition, int]:
        """Fetch and hand out no more; return the positions."""
        consumption, self.consumption = self.consumption, None
        if consumption is None:
            return {}
        consumption.stop()
        return consumption.positions

    async def _release(self) -> None:
        """Stop, commit, and release what this consumer owns: the next owner begins where it ended."""
        positions = self._stop_consuming()
        if self.owned and self._listener is not None:
            self._listener.before_releasing(dict(self.owned))
        if positions and self._settings.auto_commit:
            await self._commit(positions)
        await self._znodes.release(self._claiming)
        self.owned = self._claiming = {}

    async def _commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """Commit once; a failure is logged: the next commit has the positions, or records are read again."""
        if not self._is_live():
            _log.warning("%s: nothing is committed while the session may be over", self._consumer_id)
            return
        try:
            await self._offsets.commit(self._admin(), positions, retries=False)
        except (OffsetCommitFailed, ClientError) as error:
            _log.warning("%s: %s", self._consumer_id, error)

    async def _commit_regularly(self) -> None:
        while True:
            await trio.sleep(self._settings.auto_commit_interval)
            async with self._working:
                if self.consumption is not None:
                    try:
                        await self._commit(self.consumption.positions)
                    except ZooKeeperError as error:
                        _log.warning("%s: offsets were not committed: %s", self._consumer_id, error)
