"""Kafka's old consumer: a consumer of a group that ZooKeeper coordinates."""

import logging
import random
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

import trio

from cluster.zookeeper.client import ZooKeeperError
from ottla.client import Codec, Kafka, Topic, connect, raw
from ottla.client.codecs import AnyTopic, as_topic
from ottla.client.task_scope import TaskScope
from ottla.old_consumer.assignment import ThreadId
from ottla.old_consumer.balance import Balance, RebalanceListener, Subscribed
from ottla.old_consumer.settings import OldConsumerSettings
from ottla.old_consumer.states import EndState
from ottla.old_consumer.streams import Stream
from ottla.old_consumer.subscription import TopicFilter, for_filter, for_topics
from ottla.old_consumer.zookeeper import GroupSession, make_session
from security.zookeeper_access import OPEN, ZooKeeperAccess
from timing.clock import Clock, SystemClock
from wire.types import TopicPartition

_log = logging.getLogger(__name__)
_CLOSE_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class ConnectorStatistics:
    """Where a consumer stands.

    Attributes:
        state: Its state.
        owned: Its partitions, with their threads.
        positions: The next offset to hand out, as far as known.
        lag: How far the end of each partition is ahead of that, as far as known.
        rebalances: How many rebalances ended with partitions claimed.
    """

    state: EndState
    owned: Mapping[TopicPartition, ThreadId]
    positions: Mapping[TopicPartition, int]
    lag: Mapping[TopicPartition, int]
    rebalances: int


SessionMaker = Callable[[str, float, float, ZooKeeperAccess], GroupSession]


class Connector:
    """A consumer of a group; used as ``async with``.

    Leaving the block commits, releases the consumer's partitions and deletes its registration, in this order, for ten
    seconds at most. Killed, the consumer keeps its partitions until its session times out.

    Args:
        settings: How it works.
        connection: Further arguments of `ottla.client.connect`, such as ``tls`` and ``sasl``.
        security_protocol: Which of the addresses that brokers register to use.
        access: How ZooKeeper is reached.
        listener: Called at each rebalance.
        clock: The machine's clocks.
        source: For the consumer's id.
        session: Makes the session; tests make others.

    Attributes:
        consumer_id: The consumer's name in its group.
    """

    def __init__(
        self,
        settings: OldConsumerSettings,
        *,
        connection: Mapping[str, Any] | None = None,
        security_protocol: str = "PLAINTEXT",
        access: ZooKeeperAccess = OPEN,
        listener: RebalanceListener | None = None,
        clock: Clock | None = None,
        source: random.Random | None = None,
        session: SessionMaker = make_session,
    ) -> None:
        self._settings = settings
        self._connection = dict(connection or {})
        self._security_protocol = security_protocol
        self._listener = listener
        self._clock = clock or SystemClock()
        self.consumer_id = _consumer_id(settings, self._clock.wall_ms(), source or random.Random())
        timeout = settings.zookeeper_session_timeout
        self._zookeeper = session(
            settings.zookeeper_connect, timeout, settings.zookeeper_connection_timeout or timeout, access
        )
        self._balance: Balance | None = None
        self._scope = TaskScope()
        self._nursery: Any = None

    async def __aenter__(self) -> Self:
        self._nursery = await self._scope.open()
        try:
            await self._nursery.start(self._zookeeper.run)
        except BaseException as error:
            await self._scope.close(self._nursery, type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if self._balance is not None:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _CLOSE_TIMEOUT_S) as scope:
                try:
                    await self._balance.leave()
                except ZooKeeperError as failure:
                    _log.warning("%s: leaving: %s", self.consumer_id, failure)
            if scope.cancelled_caught:
                _log.warning("%s: leaving took longer than %.0f s", self.consumer_id, _CLOSE_TIMEOUT_S)
            self._balance.close()
        return await self._scope.close(self._nursery, kind, error, trace)

    async def create_message_streams(
        self, streams: Mapping[AnyTopic, int]
    ) -> dict[str, list[Stream[Any, Any]]]:
        """Consume topics; return their streams when this consumer has claimed its part. Possible once.

        Args:
            streams: How many streams each topic has, by name or typed.

        Raises:
            RebalanceFailed: No attempt succeeded.
            AlreadyRegistered: Another consumer has the configured ``consumer.id``.
            ValueError: There is no topic, or one without a stream.
        """
        topics = {topic.name: topic for topic in map(as_topic, streams)}
        counts = {as_topic(topic).name: count for topic, count in streams.items()}
        made = {
            name: [self._stream(f"{name} {number}") for number in range(count)]
            for name, count in counts.items()
        }
        registration = for_topics(counts, self._clock.wall_ms())
        await self._begin(Subscribed(registration, topics.__getitem__, made, []))
        return made

    async def create_message_streams_by_filter(
        self,
        topic_filter: TopicFilter,
        streams: int = 1,
        *,
        key: Codec[Any] = raw,
        value: Codec[Any] = raw,
    ) -> list[Stream[Any, Any]]:
        """Consume the topics that a filter takes, including those created later; see `create_message_streams`.

        Args:
            topic_filter: Made by `white_list` or `black_list`.
            streams: How many streams share all topics.
            key: The codec of keys.
            value: The codec of values.
        """
        made = [self._stream(str(number)) for number in range(streams)]
        registration = for_filter(topic_filter, streams, self._clock.wall_ms())
        await self._begin(Subscribed(registration, partial(Topic, key=key, value=value), {}, made))
        return made

    async def commit_offsets(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit, with the retries of ``offsets.commit.max.retries``.

        Args:
            offsets: The next offset of each partition; None for what was handed out.

        Raises:
            OffsetCommitFailed: Kafka refused some of them.
            SessionExpiredError: The session may be over: other consumers may have the partitions.
            ValueError: There are no streams.
        """
        if self._balance is None:
            raise ValueError("an end without streams has nothing to commit")
        await self._balance.commit(offsets)

    def statistics(self) -> ConnectorStatistics:
        """Return where the consumer stands."""
        balance = self._balance
        if balance is None:
            return ConnectorStatistics(EndState.IDLE, {}, {}, {}, 0)
        consumption = balance.consumption
        return ConnectorStatistics(
            balance.state,
            dict(balance.owned),
            {} if consumption is None else dict(consumption.positions),
            {} if consumption is None else consumption.lag(),
            balance.rebalances,
        )

    def _stream(self, name: str) -> Stream[Any, Any]:
        return Stream(f"{self.consumer_id} {name}", self._settings.consumer_timeout)

    async def _begin(self, subscribed: Subscribed) -> None:
        if self._balance is not None:
            raise ValueError("an end creates its streams once")
        self._balance = Balance(
            self.consumer_id,
            self._settings,
            subscribed,
            self._zookeeper,
            self._connect,
            security_protocol=self._security_protocol,
            listener=self._listener,
            clock=self._clock,
            nursery=self._nursery,
        )
        await self._nursery.start(self._balance.run)

    async def _connect(self, addresses: str) -> Kafka:
        kafka: Kafka = await self._nursery.start(self._hold_kafka, addresses)
        return kafka

    async def _hold_kafka(self, addresses: str, *, task_status: trio.TaskStatus[Kafka]) -> None:
        settings = self._settings
        async with connect(
            addresses,
            client_id=settings.client_id or settings.group_id,
            request_timeout=settings.socket_timeout,
            api_timeout=settings.socket_timeout,
            **self._connection,
        ) as kafka:
            task_status.started(kafka)
            await trio.sleep_forever()


def _consumer_id(settings: OldConsumerSettings, now_ms: int, source: random.Random) -> str:
    """Return ``<group>_<host>-<milliseconds>-<eight hex digits>``, or ``<group>_<configured name>``."""
    if settings.consumer_id is not None:
        return f"{settings.group_id}_{settings.consumer_id}"
    return f"{settings.group_id}_{socket.gethostname()}-{now_ms}-{source.getrandbits(32):08x}"
