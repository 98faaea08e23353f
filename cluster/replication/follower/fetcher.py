"""Follows one leader: one task that fetches, appends, truncates and fetches again.

Rules of this file:

- An answer is applied to a partition only if that partition is still followed in the same epoch, and was fetched from
  exactly where its log ends now. Everything else in an answer is dropped.
- A fetch carries the epoch of the last record before its offset; where the logs diverge, the leader says so in the
  answer and the follower truncates. OffsetForLeaderEpoch is not needed from Fetch 12 on, which release 3.0 already
  supports.
- A failure of one partition delays or stops only that partition. The reason why it was stopped stays in ``failed``
  until the controller's next order.
- Records are appended from the receive buffer, before the next request is sent.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NoReturn

import trio

from cluster.metrics.registry import Counter
from cluster.network.broker_client import BrokerChannel, ConnectionFailedError
from cluster.replication.follower.fetch_state import FIRST_BACKOFF_S, FetchState
from cluster.replication.follower.follower_writes import FollowerWrites
from cluster.replication.follower.offset_reset import LeaderOffsets, reset_offset
from cluster.replication.follower.session import FollowerSession
from cluster.replication.roles.protocol_versions import FETCH_BY_NAME, InterBrokerVersions
from storage.errors import CorruptBatchError, LogError
from wire.errors import ApiError, Error, RemoteProtocolError
from wire.messages.fetch import FetchRequest, FetchResponse, PartitionData, ReplicaState
from wire.types import (
    BrokerEpoch,
    BrokerId,
    MonotonicSeconds,
    TopicId,
    TopicPartition,
)

if TYPE_CHECKING:
    from cluster.configuration.broker_config import BrokerConfig
    from cluster.replication.throttle import Throttle
    from storage.log import Log
    from timing.clock import Clock

logger = logging.getLogger(__name__)

_FENCED: Final = "the leader has a newer epoch; waiting for LeaderAndIsr"
_PARTITIONS_BEFORE_YIELD: Final = 64
_RETRIED: Final = frozenset(
    {
        Error.UNKNOWN_LEADER_EPOCH,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.UNKNOWN_TOPIC_ID,
        Error.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors of a leader that has not received the latest LeaderAndIsr or UpdateMetadata yet."""


class ReadyStates(Mapping[TopicPartition, FetchState]):
    """A view of the partitions that can be fetched now: thousands need not be copied because one is delayed.

    Args:
        states: All partitions.
        delayed: Those of them that are delayed.
    """

    __slots__ = ("_delayed", "_states")

    def __init__(
        self, states: Mapping[TopicPartition, FetchState], delayed: Mapping[TopicPartition, FetchState]
    ) -> None:
        self._states = states
        self._delayed = delayed

    def __getitem__(self, topic_partition: TopicPartition) -> FetchState:
        if topic_partition in self._delayed:
            raise KeyError(topic_partition)
        return self._states[topic_partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        return (key for key in self._states if key not in self._delayed)

    def __len__(self) -> int:
        return len(self._states) - len(self._delayed)


class Fetcher:
    """Fetches some partitions from one leader.

    Args:
        leader_id: The broker to fetch from.
        fetcher_id: The number of this fetcher, among those of this leader.
        broker_id: This broker.
        broker_epoch: Returns the epoch of its registration.
        config: Its settings.
        versions: The API versions that the other brokers understand.
        clock: Decides when a delayed partition may go on.
        connect: Returns a channel to a broker, or None while its address is not known.
        on_failed: Called with a partition that will not be fetched any more, and the reason.
        bytes_in: Counts the bytes that were appended.
        settle: Syncs truncations to disk, off the loop, before more is fetched.
        flush: Flushes logs to disk before the next fetch acknowledges them.
        flush_on_ack: Whether that is done for every append, ``log.flush.on.ack``.
        throttle: Limits what is copied while catching up; None for no limit.

    Attributes:
        states: The partitions by name.
        fetches: How many fetches were answered.
    """

    def __init__(
        self,
        leader_id: BrokerId,
        fetcher_id: int,
        *,
        broker_id: BrokerId,
        broker_epoch: Callable[[], BrokerEpoch],
        config: "BrokerConfig",
        versions: InterBrokerVersions,
        clock: "Clock",
        connect: Callable[[BrokerId, int], BrokerChannel | None],
        on_failed: Callable[[TopicPartition, str], None],
        bytes_in: Counter,
        settle: "Callable[[Iterable[Log]], Awaitable[None]]",
        flush: "Callable[[Iterable[Log]], Awaitable[None]]",
        flush_on_ack: bool = False,
        throttle: "Throttle | None" = None,
    ) -> None:
        self.leader_id = leader_id
        self.fetcher_id = fetcher_id
        self.states: dict[TopicPartition, FetchState] = {}
        self.fetches = 0
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._config = config
        self._versions = versions
        self._clock = clock
        self._connect = connect
        self._on_failed = on_failed
        self._settle = settle
        self._flush = flush
        self._flush_on_ack = flush_on_ack
        self._throttle = throttle
        self._writes = FollowerWrites(bytes_in, throttle)
        self._session = FollowerSession()
        self._changed: dict[TopicPartition, None] = {}
        self._dropped: dict[TopicPartition, None] = {}
        self._nameless: set[TopicPartition] = set()
        self._names: dict[TopicId, str] = {}
        self._backoff_s = FIRST_BACKOFF_S
        self._delayed: dict[TopicPartition, FetchState] = {}
        self._out_of_range: dict[TopicPartition, FetchState] = {}
        self._channel: BrokerChannel | None = None
        self._news = trio.Event()

    def add(self, state: FetchState) -> None:
        """Start to follow a partition, or follow it in a new epoch."""
        topic_partition = state.topic_partition
        self._delayed.pop(topic_partition, None)
        known = self.states.get(topic_partition)
        if known is not None and known.topic_id != state.topic_id:
            self._session.restart()
        self.states[topic_partition] = state
        self._changed[topic_partition] = None
        if state.has_topic_id:
            self._names[state.topic_id] = topic_partition.topic
            self._nameless.discard(topic_partition)
        else:
            self._nameless.add(topic_partition)
        self._news.set()

    def remove(self, topic_partition: TopicPartition) -> bool:
        """Stop following a partition; an answer under way for it is dropped when it comes."""
        self._changed.pop(topic_partition, None)
        self._delayed.pop(topic_partition, None)
        self._dropped[topic_partition] = None
        self._nameless.discard(topic_partition)
        return self.states.pop(topic_partition, None) is not None

    def log_start_moved(self, topic_partition: TopicPartition) -> None:
        """Tell the leader, with the next request, where the local log starts: DeleteRecords waits for it."""
        if topic_partition in self.states:
            self._changed[topic_partition] = None

    def reconnect(self) -> None:
        """Drop the connection: the leader's address has changed."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    async def run(self) -> NoReturn:
        """Fetch until cancelled; then close the connection. Logs end with a whole batch."""
        try:
            while True:
                await self._round()
        finally:
            self.reconnect()

    async def _round(self) -> None:
        self._resume(self._clock.monotonic())
        if self._throttle is not None and self._throttle.is_on:
            for topic_partition, state in self._throttle.hold_back(self.states).items():
                self._delayed[topic_partition] = state
                self._dropped[topic_partition] = None
                self._changed.pop(topic_partition, None)
        ready = self._ready()
        if not ready and self._session.is_empty:
            await self._wait_for_work()
            return
        channel = self._channel
        if channel is None:
            channel = self._channel = self._connect(self.leader_id, self.fetcher_id)
        if channel is None:
            await self._back_off()
            return
        try:
            response = await self._fetch(channel, ready)
            if response is not None:
                await self._apply(response)
                if self._writes.truncated:
                    truncated, self._writes.truncated = self._writes.truncated, {}
                    await self._settle(truncated)
                due = [log for log in self._writes.appended if self._flush_on_ack or log.is_flush_due]
                self._writes.appended.clear()
                if due:
                    await self._flush(due)
            await self._find_places(channel)
        except (ConnectionFailedError, RemoteProtocolError) as error:
            logger.warning("fetching from broker %d failed: %s", self.leader_id, error)
            self._session.restart()
            for state in self.states.values():
                state.asked = False
            # The next round looks the address up again: the broker may have come back elsewhere.
            self.reconnect()
            await self._back_off()

    async def _back_off(self) -> None:
        """Wait before the next attempt to connect, longer each time."""
        limit_s = self._config.replica_fetch_backoff_ms / 1000
        await trio.sleep(min(self._backoff_s, limit_s))
        self._backoff_s = min(self._backoff_s * 2, limit_s)

    async def _wait_for_work(self) -> None:
        self._news = trio.Event()
        deadline = min((state.resume_at for state in self._delayed.values() if state.resume_at), default=None)
        if deadline is None:
            await self._news.wait()
            return
        with trio.move_on_after(max(0.0, deadline - self._clock.monotonic())):
            await self._news.wait()

    def _resume(self, now: MonotonicSeconds) -> None:
        for topic_partition, state in tuple(self._delayed.items()):
            if state.resume_at is None or state.resume_at <= now:
                state.resume_at = None
                del self._delayed[topic_partition]
                self._changed[topic_partition] = None

    def _ready(self) -> Mapping[TopicPartition, FetchState]:
        return ReadyStates(self.states, self._delayed) if self._delayed else self.states

    # Asking

    async def _fetch(
        self, channel: BrokerChannel, ready: Mapping[TopicPartition, FetchState]
    ) -> FetchResponse | None:
        config = self._config
        version = self._versions.fetch
        for topic_partition in self._changed:
            state = ready.get(topic_partition)
            if state is not None and state.partition.log is not None:
                state.log_start_offset = state.partition.log.log_start_offset
        part = self._session.build(
            ready,
            self._changed,
            self._dropped,
            config.replica_fetch_max_bytes,
            by_id=version > FETCH_BY_NAME and not self._nameless,
        )
        self._changed, self._dropped = {}, {}
        if not part.by_id:
            version = min(version, FETCH_BY_NAME)
        identity: dict[str, object] = (
            {"replica_state": ReplicaState(replica_id=self._broker_id, replica_epoch=self._broker_epoch())}
            if version >= 15
            else {"replica_id": self._broker_id}
        )
        request = FetchRequest(
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=part.session_id,
            session_epoch=part.session_epoch,
            topics=part.topics,
            forgotten_topics_data=part.forgotten,
            **identity,  # type: ignore[arg-type]
        )
        response: FetchResponse = await channel.request(request, version)
        self.fetches += 1
        self._backoff_s = FIRST_BACKOFF_S
        if not self._session.answered(response):
            error = Error.from_code(response.error_code)
            logger.info("the fetch session with broker %d starts over: %s", self.leader_id, error.name)
            for state in self.states.values():
                state.asked = False
            return None
        return response

    # Applying

    async def _apply(self, response: FetchResponse) -> None:
        count = 0
        for topic in response.responses:
            name = topic.topic or self._names.get(topic.topic_id, "")
            for data in topic.partitions:
                self._apply_partition(TopicPartition(name, data.partition_index), data)
                count += 1
                if count % _PARTITIONS_BEFORE_YIELD == 0:
                    await trio.lowlevel.checkpoint()

    def _apply_partition(self, topic_partition: TopicPartition, data: PartitionData) -> None:
        state = self.states.get(topic_partition)
        if state is None or not state.asked or state.resume_at is not None:
            return
        error = Error.from_code(data.error_code)
        if error is Error.NONE:
            self._apply_data(state, data)
        elif error is Error.OFFSET_OUT_OF_RANGE:
            self._out_of_range[topic_partition] = state
        elif error is Error.FENCED_LEADER_EPOCH:
            self._stop_fetching(state, _FENCED)
        else:
            log = logger.debug if error in _RETRIED else logger.warning
            log("fetching %s from broker %d: %s", topic_partition, self.leader_id, error.name)
            self._delay(state)

    def _apply_data(self, state: FetchState, data: PartitionData) -> None:
        topic_partition = state.topic_partition
        log = state.partition.log
        if log is None or log.log_end_offset != state.fetch_offset:
            self._stop_fetching(state, f"its log ends at {None if log is None else log.log_end_offset}")
            return
        try:
            if self._writes.write(state, log, data):
                self._changed[topic_partition] = None
        except CorruptBatchError as error:
            # Perhaps torn by a truncation at the leader during the read: a second fetch will get it whole.
            logger.error(
                "%s at offset %d from broker %d: %s",
                topic_partition,
                state.fetch_offset,
                self.leader_id,
                error,
            )
            self._delay(state)
        except LogError as error:
            self._stop_fetching(state, str(error))

    # Out of range

    async def _find_places(self, channel: BrokerChannel) -> None:
        """Find the next fetch offsets of partitions whose offset the leader does not have."""
        while self._out_of_range:
            topic_partition, state = self._out_of_range.popitem()
            try:
                found = await reset_offset(
                    LeaderOffsets(channel, self._broker_id, self._versions.list_offsets),
                    state,
                    lambda key=topic_partition, asked=state: self.states.get(key) is asked,  # type: ignore[misc]
                )
                if found:
                    self._changed[topic_partition] = None
            except ApiError as error:
                if error.error is Error.FENCED_LEADER_EPOCH:
                    self._stop_fetching(state, _FENCED)
                else:
                    self._delay(state)
            except LogError as error:
                self._stop_fetching(state, str(error))

    # Errors

    def _delay(self, state: FetchState) -> None:
        if self.states.get(state.topic_partition) is not state:
            return  # meanwhile it is in another epoch, or elsewhere
        state.delay(self._clock.monotonic(), self._config.replica_fetch_backoff_ms / 1000)
        self._delayed[state.topic_partition] = state
        self._dropped[state.topic_partition] = None

    def _stop_fetching(self, state: FetchState, reason: str) -> None:
        topic_partition = state.topic_partition
        if self.states.get(topic_partition) is state:
            self.remove(topic_partition)
            self._on_failed(topic_partition, reason)
            logger.warning("stopped fetching %s: %s", topic_partition, reason)
