"""Which broker a request goes to: any, the controller, a given one, or the leaders of partitions.

A request for one role is sent again if another broker has taken that role meanwhile. After a broken connection
a request is sent again: whether it was carried out the first time is unknown.

Requests have connections of their own: brokers answer in order, so that on a producer's connection a slow
administrative request would delay the producer's answers.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Final, TypeVar

from ottla.client import runtime
from ottla.client.admin.descriptions import Broker, ClusterDescription
from ottla.client.broker_link import BrokerLink
from ottla.client.context import ClientContext
from ottla.client.errors import BrokerUnreachable, ClientError, refusal
from ottla.client.waits import Waits
from wire.apis import API_TABLE
from wire.errors import Error
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from wire.schema import Request
from wire.types import BrokerId, TopicPartition

ADMIN: Final = "admin"
"""The default purpose of the connections."""
BACKOFF_S: Final = (0.02, 0.05, 0.1, 0.2, 0.5)
"""The waits between attempts, the last one repeated: about as long as the election of a controller takes."""

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
"""The errors answered while a partition changes its leader."""

MOVING: Final = frozenset(
    {Error.NOT_COORDINATOR, Error.COORDINATOR_NOT_AVAILABLE, Error.COORDINATOR_LOAD_IN_PROGRESS}
)
"""The errors answered while a group or transaction changes its coordinator, or its topic is being created."""

_GRACE_S: Final = 0.05
"""How much longer than its last attempt the retry loop lasts, so that the attempt's error is known."""
_SHOWN_MAX: Final = 5
"""The most partitions named in the text of a wait."""

T = TypeVar("T")


class Router:
    """The brokers of a cluster, asked through a client's connections.

    Args:
        context: The client's connections and metadata.
        timeout_s: How long each call may take, its retries included.
        waits: Takes what is being waited for.
        purpose: What the connections are for: routers with the same one share them.

    Attributes:
        timeout_s: The same.
        waits: The same.
    """

    def __init__(
        self, context: ClientContext, timeout_s: float, waits: Waits | None = None, purpose: str = ADMIN
    ) -> None:
        self._context = context
        self.timeout_s = timeout_s
        self.waits = waits or Waits()
        self._purpose = purpose

    @property
    def timeout_ms(self) -> int:
        """The timeout in milliseconds."""
        return int(self.timeout_s * 1000)

    @property
    def _cluster(self) -> ClusterDescription:
        metadata = self._context.metadata
        return ClusterDescription(
            metadata.cluster_id,
            metadata.controller_id,
            {
                node.id: Broker(node.id, node.address.host, node.address.port, node.rack)
                for node in metadata.brokers.values()
            },
        )

    def apart(self, purpose: str, timeout_s: float) -> "Router":
        """Return a router whose connections are its own; `close` closes them."""
        return Router(self._context, timeout_s, self.waits, purpose)

    def close(self) -> None:
        """Close the connections of this router's purpose."""
        self._context.links.close_purpose(self._purpose)

    async def refresh(self) -> ClusterDescription:
        """Fetch anew which brokers are live and which is the controller."""
        await self.metadata(MetadataRequest(topics=[]))
        return self._cluster

    async def metadata(self, request: MetadataRequest, broker_id: BrokerId | None = None) -> MetadataResponse:
        """Ask one broker, or any, for metadata, and learn the live brokers from the answer."""
        answer: MetadataResponse = await (
            self.ask_any(request) if broker_id is None else self.ask_broker(broker_id, request)
        )
        # Of topics the client remembers only those that its producers and readers use.
        self._context.metadata.update_brokers(answer)
        self._context.links.metadata_changed()
        return answer

    async def ask_any(self, request: Request) -> Any:
        """Ask whichever broker answers: one we are connected to, a known one, then the bootstrap addresses.

        Raises:
            BootstrapError: None can be reached.
            BrokerUnreachable: Each one that could be reached broke the connection, or none answered in time.
        """
        problem = self._late("any broker", request)
        with (
            runtime.move_on_after(self.timeout_s),
            self.waits.on(f"a broker to answer {_name(request)}") as wait,
        ):
            for _ in range(1 + len(self._context.metadata.brokers)):
                link = await self._context.links.any()
                wait.text = f"{link.address} to answer {_name(request)}"
                try:
                    return await link.request(request, timeout_s=self.timeout_s)
                except BrokerUnreachable as error:
                    problem = error
        raise problem

    async def ask_controller(self, request: Request, codes: Callable[[Any], Iterable[int]]) -> Any:
        """Ask the controller; where it has changed, or cannot be reached, ask its successor."""
        problem: ClientError = BrokerUnreachable("the cluster has no controller")
        with runtime.move_on_after(self.timeout_s + _GRACE_S), self.waits.on("") as wait:
            for attempt in range(1_000_000):
                if attempt:
                    wait.text = f"the controller: {problem}"
                    await runtime.sleep(BACKOFF_S[min(attempt, len(BACKOFF_S)) - 1])
                    await self.refresh()
                controller = self._cluster.controller_id
                if controller not in self._cluster.brokers:
                    continue
                try:
                    answer = await self._ask(controller, request, "the controller, broker")
                except BrokerUnreachable as error:
                    problem = error
                    continue
                if Error.NOT_CONTROLLER not in codes(answer):
                    return answer
                problem = refusal(Error.NOT_CONTROLLER)
        raise problem

    async def ask_broker(self, broker_id: BrokerId, request: Request) -> Any:
        """Ask one broker.

        Raises:
            BrokerUnreachable: It is not among the live ones, or cannot be reached, or does not answer in time.
        """
        await self._require_live(broker_id)
        return await self._ask(broker_id, request)

    async def connection_to(self, broker_id: BrokerId) -> BrokerLink:
        """Return the connection to a broker, made where there is none.

        Raises:
            BrokerUnreachable: It is not among the live ones, or cannot be reached.
        """
        await self._require_live(broker_id)
        with (
            runtime.move_on_after(self.timeout_s),
            self.waits.on(f"broker {self._named(broker_id)} to accept a connection"),
        ):
            return await self._context.links.get(broker_id, self._purpose)
        raise BrokerUnreachable(
            f"broker {self._named(broker_id)} does not accept a connection within {self.timeout_s:g} s"
        )

    async def _require_live(self, broker_id: BrokerId) -> None:
        if broker_id not in self._cluster.brokers and broker_id not in (await self.refresh()).brokers:
            live = ", ".join(map(str, sorted(self._cluster.brokers)))
            raise BrokerUnreachable(f"broker {broker_id} is not alive; these are: {live}")

    async def _ask(self, broker_id: BrokerId, request: Request, what: str = "broker") -> Any:
        named = f"{what} {self._named(broker_id)}"
        with (
            runtime.move_on_after(self.timeout_s),
            self.waits.on(f"{named} to answer {_name(request)}"),
        ):
            link = await self._context.links.get(broker_id, self._purpose)
            return await link.request(request, timeout_s=self.timeout_s)
        raise self._late(named, request)

    async def ask_leaders(
        self,
        partitions: Collection[TopicPartition],
        request: Callable[[Collection[TopicPartition]], Request],
        results: Callable[[Any], Mapping[TopicPartition, "T | ClientError"]],
    ) -> dict[TopicPartition, "T | ClientError"]:
        """Ask the leaders of partitions, each for its own and all at once, and again where leaders have moved.

        Args:
            partitions: Which ones.
            request: Makes the request for some of them.
            results: Reads an answer: what was found for each, or its error.
        """
        found: dict[TopicPartition, T | ClientError] = {}
        left = set(partitions)

        async def ask(leader: BrokerId, led: Collection[TopicPartition]) -> None:
            try:
                found.update(results(await self.ask_broker(leader, request(led))))
            except BrokerUnreachable as error:
                for one in led:
                    text = f"the leader of {one} does not answer: {error}"
                    found[one] = refusal(Error.LEADER_NOT_AVAILABLE, text)

        with runtime.move_on_after(self.timeout_s + _GRACE_S), self.waits.on("") as wait:
            for attempt in range(1_000_000):
                if attempt:
                    wait.text = _waited_for(left, found)
                    await runtime.sleep(BACKOFF_S[min(attempt, len(BACKOFF_S)) - 1])
                led_by = await self._led_by(left, found)
                async with runtime.open_nursery() as nursery:
                    for leader, led in led_by.items():
                        nursery.start_soon(ask, leader, led)
                left = {one for one in left if _has_moved(found.get(one))}
                if not left:
                    break
        for one in partitions:
            found.setdefault(
                one, refusal(Error.REQUEST_TIMED_OUT, f"{one}: its leader did not answer in time")
            )
        return found

    async def find_coordinator(self, key_type: int, key: str, what: str) -> BrokerId:
        """Find the coordinator of a group (0) or a transactional id (1).

        Raises:
            ClientError: There is none now.
        """
        from wire.messages import find_coordinator as api

        request = api.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        answer: api.FindCoordinatorResponse = await self.ask_any(request)
        (found,) = answer.coordinators
        raise_for(found.error_code, found.error_message, f"the coordinator of {what}")
        return found.node_id

    async def until_settled(
        self, ask: Callable[[], Awaitable[T]], passing: Collection[Error] = frozenset()
    ) -> T:
        """Ask again while a coordinator moves or loads, or its broker has just gone.

        Args:
            ask: Asks once.
            passing: Further errors that pass without intervention.

        Raises:
            ClientError: It refuses, or is still moving when the time is over, or cannot be reached all that time.
        """
        problem: ClientError = BrokerUnreachable("no coordinator answers in time")
        with runtime.move_on_after(self.timeout_s + _GRACE_S), self.waits.on("") as wait:
            for attempt in range(1_000_000):
                if attempt:
                    wait.text = f"a coordinator: {problem}"
                    await runtime.sleep(BACKOFF_S[min(attempt, len(BACKOFF_S)) - 1])
                try:
                    return await ask()
                except BrokerUnreachable as error:
                    problem = error
                except ClientError as error:
                    if error.error not in MOVING and error.error not in passing:
                        raise
                    problem = error
        raise problem

    async def _led_by(
        self, partitions: Collection[TopicPartition], found: dict[TopicPartition, Any]
    ) -> dict[BrokerId, list[TopicPartition]]:
        """Group partitions by their leaders; a partition without one gets its error in ``found``."""
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
                found[partition] = refusal(
                    Error.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition}"
                )
            elif state.leader_id < 0:
                found[partition] = refusal(Error.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
            else:
                led.setdefault(state.leader_id, []).append(partition)
        return led

    def _named(self, broker_id: BrokerId) -> str:
        broker = self._context.metadata.brokers.get(broker_id)
        return str(broker_id) if broker is None else f"{broker_id} at {broker.address}"

    def _late(self, what: str, request: Request) -> BrokerUnreachable:
        return BrokerUnreachable(f"{what} did not answer {_name(request)} within {self.timeout_s:g} s")


def raise_for(code: int, message: str | None, what: str) -> None:
    """Raise the error that a code stands for; 0 stands for none."""
    if code:
        error = Error.from_code(code)
        raise refusal(error, f"{what}: {message or error.text}")


def _name(request: Request) -> str:
    return API_TABLE[request.__schema__.api_key].name


def _has_moved(result: object) -> bool:
    return isinstance(result, ClientError) and result.error in _MOVED


def _waited_for(partitions: Collection[TopicPartition], found: Mapping[TopicPartition, object]) -> str:
    """Name the partitions that are waited for, and why."""
    reasons: dict[str, None] = {}
    for partition in sorted(partitions):
        reason = str(found.get(partition, ""))
        reasons[reason if str(partition) in reason else f"{partition}: {reason}"] = None
    shown = list(reasons)[:_SHOWN_MAX]
    more = f"; and {len(reasons) - len(shown)} more" if len(reasons) > len(shown) else ""
    return "leaders: " + "; ".join(shown) + more
