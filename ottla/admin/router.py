"""Which broker a request goes to: any, the controller, a given one, or the leaders of partitions.

What must go to one broker is sent again where another has taken its place meanwhile. After a broken connection
a request is sent again: whether it was carried out the first time is unknown.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import trio

from ottla.admin.descriptions import Broker, ClusterDescription
from ottla.connection import ConnectError, Connection, connect
from wire.errors import ApiError, Error, RemoteProtocolError
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from wire.schema import Request
from wire.types import BrokerId, TopicPartition

CONNECT_TIMEOUT_S: Final = 5.0
BACKOFF_S: Final = (0.02, 0.05, 0.1, 0.2, 0.5)
"""Between attempts, the last one repeated: a controller's successor is elected within such a time."""

_MOVED: Final = frozenset(
    {
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.LEADER_NOT_AVAILABLE,
        Error.FENCED_LEADER_EPOCH,
        Error.UNKNOWN_LEADER_EPOCH,
        Error.OFFSET_NOT_AVAILABLE,
        Error.KAFKA_STORAGE_ERROR,
    }
)
"""What is answered while a partition changes its leader."""

MOVING: Final = frozenset(
    {Error.NOT_COORDINATOR, Error.COORDINATOR_NOT_AVAILABLE, Error.COORDINATOR_LOAD_IN_PROGRESS}
)
"""What is answered while a group or transaction changes its coordinator, or its topic is being created."""

T = TypeVar("T")
Connector = Callable[[str, int, str, float], Awaitable[Connection]]


class BootstrapError(ConnectError):
    """None of the given addresses led to a cluster; the text has a line for each, with its reason."""


class Router:
    """Connections to the brokers of a cluster, made when first needed.

    Attributes:
        timeout_s: How long each call may take, its retries included.
    """

    def __init__(
        self,
        bootstrap: Sequence[tuple[str, int]],
        client_id: str,
        timeout_s: float,
        connector: Connector = connect,
    ) -> None:
        self._bootstrap = bootstrap
        self._client_id = client_id
        self.timeout_s = timeout_s
        self._connect = connector
        self._connections: dict[tuple[str, int], Connection] = {}
        self._cluster = ClusterDescription(None, BrokerId(-1), {})

    @property
    def connector(self) -> Connector:
        """What makes the connections, for others that are to connect alike."""
        return self._connect

    async def close(self) -> None:
        """Close every connection."""
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            await connection.close()

    async def refresh(self) -> ClusterDescription:
        """Learn anew which brokers live and which is the controller."""
        await self.metadata(MetadataRequest(topics=[]))
        return self._cluster

    @property
    def timeout_ms(self) -> int:
        """The same in milliseconds."""
        return int(self.timeout_s * 1000)

    async def metadata(self, request: MetadataRequest, broker_id: BrokerId | None = None) -> MetadataResponse:
        """Ask one broker, or any, for metadata, and learn from the answer which brokers live."""
        answer: MetadataResponse = await (
            self.ask_any(request) if broker_id is None else self.ask_broker(broker_id, request)
        )
        self._cluster = ClusterDescription(
            answer.cluster_id,
            answer.controller_id,
            {
                broker.node_id: Broker(broker.node_id, broker.host, broker.port, broker.rack)
                for broker in answer.brokers
            },
        )
        return answer

    async def ask_any(self, request: Request) -> Any:
        """Ask whichever broker answers: one we are connected to, a known one, then the bootstrap addresses."""
        problems: dict[str, None] = {}
        known = [(broker.host, broker.port) for broker in self._cluster.brokers.values()]
        open_ones = [address for address, connection in self._connections.items() if connection.is_open]
        for address in dict.fromkeys([*open_ones, *known, *self._bootstrap]):
            try:
                connection = await self._connection(address)
                return await connection.request(request, self.timeout_s)
            except (ConnectError, RemoteProtocolError) as error:
                problems[str(error)] = None
        lines = "\n  ".join(problems)
        raise BootstrapError(f"no broker of the cluster can be reached:\n  {lines}")

    async def ask_controller(self, request: Request, codes: Callable[[Any], Iterable[int]]) -> Any:
        """Ask the controller; where it has changed, or cannot be reached, ask its successor."""
        problem: Exception = ConnectError("the cluster has no controller")
        with trio.move_on_after(self.timeout_s):
            for attempt in range(1_000_000):
                if attempt:
                    await trio.sleep(BACKOFF_S[min(attempt, len(BACKOFF_S)) - 1])
                    await self.refresh()
                controller = self._cluster.brokers.get(self._cluster.controller_id)
                if controller is None:
                    continue
                try:
                    connection = await self._connection((controller.host, controller.port))
                    answer = await connection.request(request, self.timeout_s)
                except ConnectError as error:
                    problem = error
                    continue
                if Error.NOT_CONTROLLER not in codes(answer):
                    return answer
                problem = ApiError(Error.NOT_CONTROLLER)
        raise problem

    async def ask_broker(self, broker_id: BrokerId, request: Request) -> Any:
        """Ask one broker.

        Raises:
            ConnectError: it is not among the live ones, or cannot be reached.
        """
        connection = await self.connection_to(broker_id)
        return await connection.request(request, self.timeout_s)

    async def connection_to(self, broker_id: BrokerId) -> Connection:
        broker = self._cluster.brokers.get(broker_id) or (await self.refresh()).brokers.get(broker_id)
        if broker is None:
            live = ", ".join(map(str, sorted(self._cluster.brokers)))
            raise ConnectError(f"broker {broker_id} is not alive; these are: {live}")
        return await self._connection((broker.host, broker.port))

    async def ask_leaders(
        self,
        partitions: Collection[TopicPartition],
        request: Callable[[Collection[TopicPartition]], Request],
        results: Callable[[Any], Mapping[TopicPartition, "T | ApiError"]],
    ) -> dict[TopicPartition, "T | ApiError"]:
        """Ask the leaders of partitions, each for its own, and again where leaders have moved.

        Args:
            partitions: Which ones.
            request: Makes the request for some of them.
            results: Reads an answer: what was found for each, or its error.
        """
        found: dict[TopicPartition, T | ApiError] = {}
        left = set(partitions)
        with trio.move_on_after(self.timeout_s):
            for attempt in range(1_000_000):
                if attempt:
                    await trio.sleep(BACKOFF_S[min(attempt, len(BACKOFF_S)) - 1])
                for leader, led in (await self._led_by(left, found)).items():
                    try:
                        answer = await self.ask_broker(leader, request(led))
                    except ConnectError as error:
                        found.update(dict.fromkeys(led, ApiError(Error.LEADER_NOT_AVAILABLE, str(error))))
                        continue
                    found.update(results(answer))
                left = {one for one in left if _has_moved(found.get(one))}
                if not left:
                    break
        for one in partitions:
            found.setdefault(one, ApiError(Error.REQUEST_TIMED_OUT, f"{one}: no leader in time"))
        return found

    async def find_coordinator(self, key_type: int, key: str, what: str) -> BrokerId:
        """Find the coordinator of a group (0) or a transactional id (1).

        Raises:
            ApiError: there is none now.
        """
        from wire.messages import find_coordinator as api

        request = api.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        answer: api.FindCoordinatorResponse = await self.ask_any(request)
        (found,) = answer.coordinators
        raise_for(found.error_code, found.error_message, f"the coordinator of {what}")
        return found.node_id

    async def until_settled(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask again while a coordinator moves or loads, or its broker has just gone.

        Raises:
            ApiError: it refuses, or is still moving when the time is over.
            ConnectError: it cannot be reached all that time.
        """
        problem: Exception = ConnectError("no coordinator answers in time")
        with trio.move_on_after(self.timeout_s):
            for attempt in range(1_000_000):
                if attempt:
                    await trio.sleep(BACKOFF_S[min(attempt, len(BACKOFF_S)) - 1])
                try:
                    return await ask()
                except ConnectError as error:
                    problem = error
                except ApiError as error:
                    if error.error not in MOVING:
                        raise
                    problem = error
        raise problem

    async def _led_by(
        self, partitions: Collection[TopicPartition], found: dict[TopicPartition, Any]
    ) -> dict[BrokerId, list[TopicPartition]]:
        """Group partitions by their leaders; what has none gets its error in ``found``."""
        names = sorted({partition.topic for partition in partitions})
        answer = await self.metadata(
            MetadataRequest(
                topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
            )
        )
        states = {
            TopicPartition(topic.name or "", partition.partition_index): partition
            for topic in answer.topics
            for partition in topic.partitions
        }
        led: dict[BrokerId, list[TopicPartition]] = {}
        for partition in sorted(partitions):
            state = states.get(partition)
            if state is None:
                found[partition] = ApiError(
                    Error.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition}"
                )
            elif state.leader_id < 0:
                found[partition] = ApiError(Error.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
            else:
                led.setdefault(state.leader_id, []).append(partition)
        return led

    async def _connection(self, address: tuple[str, int]) -> Connection:
        connection = self._connections.get(address)
        if connection is None or not connection.is_open:
            connection = await self._connect(*address, self._client_id, CONNECT_TIMEOUT_S)
            self._connections[address] = connection
        return connection


def raise_for(code: int, message: str | None, what: str) -> None:
    """Raise the error that a code stands for; 0 stands for none."""
    if code:
        error = Error.from_code(code)
        raise ApiError(error, f"{what}: {message or error.text}")


def _has_moved(result: object) -> bool:
    return isinstance(result, ApiError) and result.error in _MOVED
