"""The trio admin client: topics, partitions, configurations and the state of a cluster.

    async with open_admin("127.0.0.1:9092,127.0.0.1:9093") as admin:
        await admin.create_topics([NewTopic("orders", partitions=3, replication_factor=3)])

What the controller must do is sent to it, and again to its successor where it has changed meanwhile. After a
broken connection a request is sent again: whether it was carried out the first time is unknown, so that a
creation may answer that the topic exists.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import trio

from ottla.connection import ConnectError, Connection, NoCommonVersionError, connect, parse_addresses
from wire.errors import ApiError, Error, RemoteProtocolError
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from wire.schema import Request
from wire.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition

REQUEST_TIMEOUT_S: Final = 30.0
CONNECT_TIMEOUT_S: Final = 5.0
BACKOFF_S: Final = (0.02, 0.05, 0.1, 0.2, 0.5)
"""Between attempts, the last one repeated: a controller's successor is elected within such a time."""

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
TOPIC_CONFIG_SOURCE: Final = 1


class BootstrapError(ConnectError):
    """None of the given addresses led to a cluster; the text has a line for each, with its reason."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create: counts of -1 leave them to the broker's defaults; an assignment rules out both."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignment: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Broker:
    """A live broker, as clients reach it."""

    broker_id: BrokerId
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition as the cluster sees it; the leader is -1 where there is none."""

    partition: int
    leader: BrokerId
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    offline: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic with its partitions, in order."""

    name: str
    topic_id: TopicId
    internal: bool
    partitions: tuple[PartitionDescription, ...]


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster's id, its controller (-1: none) and its live brokers, by id."""

    cluster_id: str | None
    controller_id: BrokerId
    brokers: Mapping[BrokerId, Broker]


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition on its way from some replicas to others."""

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]


@asynccontextmanager
async def open_admin(
    bootstrap_servers: str, *, client_id: str = "ottla-admin", timeout_s: float = REQUEST_TIMEOUT_S
) -> AsyncIterator["Admin"]:
    """Connect to a cluster by some of its brokers.

    Args:
        bootstrap_servers: ``host:port,host:port``; any that answers will do.
        client_id: What the brokers see us as.
        timeout_s: How long each call may take, its retries included.

    Raises:
        ValueError: the servers are not written as ``host:port``.
        BootstrapError: none of them answers.
    """
    admin = Admin(parse_addresses(bootstrap_servers), client_id, timeout_s)
    try:
        await admin.refresh()
        yield admin
    finally:
        await admin.close()


Connector = Callable[[str, int, str, float], Awaitable[Connection]]


class Admin:
    """Asks a cluster about its topics and changes them. Made by `open_admin`.

    Each call raises `ApiError` where the cluster refuses, `ConnectError` where it cannot be reached in time,
    and `NoCommonVersionError` where the broker does not serve what is asked.
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
        self._timeout_s = timeout_s
        self._connect = connector
        self._connections: dict[tuple[str, int], Connection] = {}
        self._cluster = ClusterDescription(None, BrokerId(-1), {})

    async def close(self) -> None:
        """Close every connection."""
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            await connection.close()

    async def refresh(self) -> ClusterDescription:
        """Learn anew which brokers live and which is the controller."""
        self._take(await self._metadata(MetadataRequest(topics=[])))
        return self._cluster

    async def list_topics(self, *, internal: bool = True) -> list[str]:
        """Give the names of all topics, sorted."""
        described = await self.describe_topics(None)
        return sorted(topic.name for topic in described if internal or not topic.internal)

    async def describe_topics(self, names: Iterable[str] | None) -> list[TopicDescription]:
        """Describe topics, by name; None describes all. Nothing is created by asking.

        Raises:
            ApiError: one of the named topics does not exist, or may not be seen.
        """
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        answer = await self._metadata(MetadataRequest(topics=topics, allow_auto_topic_creation=False))
        self._take(answer)
        found = []
        for topic in answer.topics:
            if topic.error_code and names is not None:
                error = Error.from_code(topic.error_code)
                raise ApiError(error, f"topic {topic.name!r}: {error.text}")
            if topic.error_code == 0 and topic.name is not None:
                found.append(_topic(topic))
        return sorted(found, key=lambda topic: topic.name)

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, Error]:
        """Create topics, and wait until the controller has.

        Returns:
            What became of each, by name: NONE, or TOPIC_ALREADY_EXISTS.

        Raises:
            ApiError: another error, of the first topic that has one; the topics before and after it may exist.
        """
        from wire.messages import create_topics as api

        request = api.CreateTopicsRequest(
            topics=[
                api.CreatableTopic(
                    name=topic.name,
                    num_partitions=-1 if topic.assignment else topic.partitions,
                    replication_factor=-1 if topic.assignment else topic.replication_factor,
                    assignments=[
                        api.CreatableReplicaAssignment(
                            partition_index=index, broker_ids=list(map(BrokerId, ids))
                        )
                        for index, ids in topic.assignment.items()
                    ],
                    configs=[
                        api.CreatableTopicConfig(name=name, value=value)
                        for name, value in topic.configs.items()
                    ],
                )
                for topic in topics
            ],
            timeout_ms=self._timeout_ms,
            validate_only=validate_only,
        )
        answer = await self._on_controller(request, lambda r: [t.error_code for t in r.topics])
        results = {}
        for result in answer.topics:
            if result.error_code != Error.TOPIC_ALREADY_EXISTS:
                _raise_for(result.error_code, result.error_message, f"topic {result.name!r}")
            results[result.name] = Error.from_code(result.error_code)
        return results

    async def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics; the controller finishes the deletion on its own.

        Raises:
            ApiError: the error of the first topic that has one; others may be deleted.
        """
        from wire.messages import delete_topics as api

        request = api.DeleteTopicsRequest(
            topics=[api.DeleteTopicState(name=name) for name in names],
            topic_names=list(names),
            timeout_ms=self._timeout_ms,
        )
        answer = await self._on_controller(request, lambda r: [t.error_code for t in r.responses])
        for result in answer.responses:
            _raise_for(result.error_code, result.error_message, f"topic {result.name!r}")

    async def create_partitions(
        self, counts: Mapping[str, int], assignments: Mapping[str, Sequence[Sequence[int]]] | None = None
    ) -> None:
        """Have topics grow to so many partitions.

        Args:
            counts: The new total of each topic.
            assignments: The replicas of the new partitions, in order; absent, the controller places them.

        Raises:
            ApiError: the error of the first topic that has one; others may have grown.
        """
        from wire.messages import create_partitions as api

        def placed(name: str) -> list[api.CreatePartitionsAssignment] | None:
            if not assignments or name not in assignments:
                return None
            return [
                api.CreatePartitionsAssignment(broker_ids=list(map(BrokerId, ids)))
                for ids in assignments[name]
            ]

        request = api.CreatePartitionsRequest(
            topics=[
                api.CreatePartitionsTopic(name=name, count=count, assignments=placed(name))
                for name, count in counts.items()
            ],
            timeout_ms=self._timeout_ms,
        )
        answer = await self._on_controller(request, lambda r: [t.error_code for t in r.results])
        for result in answer.results:
            _raise_for(result.error_code, result.error_message, f"topic {result.name!r}")

    async def describe_topic_configs(
        self, names: Sequence[str]
    ) -> dict[str, dict[str, tuple[str | None, bool]]]:
        """Give each topic's settings: by name, its value and whether the topic sets it itself.

        A sensitive value is None.
        """
        from wire.messages import describe_configs as api

        request = api.DescribeConfigsRequest(
            resources=[
                api.DescribeConfigsResource(
                    resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None
                )
                for name in names
            ]
        )
        answer = await self._on_any(request)
        described = {}
        for result in answer.results:
            _raise_for(result.error_code, result.error_message, f"topic {result.resource_name!r}")
            described[result.resource_name] = {
                config.name: (config.value, config.config_source == TOPIC_CONFIG_SOURCE)
                for config in result.configs
            }
        return described

    async def list_reassignments(self) -> dict[TopicPartition, Reassignment]:
        """Give the partitions that are being moved."""
        from wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

        request = ListPartitionReassignmentsRequest(topics=None, timeout_ms=self._timeout_ms)
        answer = await self._on_controller(request, lambda r: [r.error_code])
        _raise_for(answer.error_code, answer.error_message, "listing reassignments")
        return {
            TopicPartition(topic.name, partition.partition_index): Reassignment(
                tuple(partition.replicas),
                tuple(partition.adding_replicas),
                tuple(partition.removing_replicas),
            )
            for topic in answer.topics
            for partition in topic.partitions
        }

    @property
    def _timeout_ms(self) -> int:
        return int(self._timeout_s * 1000)

    def _take(self, answer: MetadataResponse) -> None:
        self._cluster = ClusterDescription(
            answer.cluster_id,
            answer.controller_id,
            {
                broker.node_id: Broker(broker.node_id, broker.host, broker.port, broker.rack)
                for broker in answer.brokers
            },
        )

    async def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        answer: MetadataResponse = await self._on_any(request)
        return answer

    async def _on_any(self, request: Request) -> Any:
        """Ask whichever broker answers: one we are connected to, a known one, then the bootstrap addresses."""
        problems: dict[str, None] = {}
        known = [(broker.host, broker.port) for broker in self._cluster.brokers.values()]
        open_ones = [address for address, connection in self._connections.items() if connection.is_open]
        for address in dict.fromkeys([*open_ones, *known, *self._bootstrap]):
            try:
                connection = await self._connection(address)
                return await connection.request(request, self._timeout_s)
            except (ConnectError, RemoteProtocolError) as error:
                problems[str(error)] = None
        lines = "\n  ".join(problems)
        raise BootstrapError(f"no broker of the cluster can be reached:\n  {lines}")

    async def _on_controller(self, request: Request, codes: Callable[[Any], Iterable[int]]) -> Any:
        """Ask the controller; where it has changed, or cannot be reached, ask its successor."""
        problem: Exception = ConnectError("the cluster has no controller")
        with trio.move_on_after(self._timeout_s):
            for attempt in range(1_000_000):
                if attempt:
                    await trio.sleep(BACKOFF_S[min(attempt, len(BACKOFF_S)) - 1])
                    await self.refresh()
                controller = self._cluster.brokers.get(self._cluster.controller_id)
                if controller is None:
                    continue
                try:
                    connection = await self._connection((controller.host, controller.port))
                    answer = await connection.request(request, self._timeout_s)
                except ConnectError as error:
                    problem = error
                    continue
                if Error.NOT_CONTROLLER not in codes(answer):
                    return answer
                problem = ApiError(Error.NOT_CONTROLLER)
        raise problem

    async def _connection(self, address: tuple[str, int]) -> Connection:
        connection = self._connections.get(address)
        if connection is None or not connection.is_open:
            connection = await self._connect(*address, self._client_id, CONNECT_TIMEOUT_S)
            self._connections[address] = connection
        return connection


def _raise_for(code: int, message: str | None, what: str) -> None:
    if code:
        error = Error.from_code(code)
        raise ApiError(error, f"{what}: {message or error.text}")


def _topic(topic: Any) -> TopicDescription:
    partitions = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    return TopicDescription(
        topic.name,
        topic.topic_id or NO_TOPIC_ID,
        topic.is_internal,
        tuple(
            PartitionDescription(
                partition.partition_index,
                partition.leader_id,
                partition.leader_epoch,
                tuple(partition.replica_nodes),
                tuple(partition.isr_nodes),
                tuple(partition.offline_replicas),
            )
            for partition in partitions
        ),
    )


__all__ = [
    "Admin",
    "ApiError",
    "BootstrapError",
    "Broker",
    "ClusterDescription",
    "ConnectError",
    "NewTopic",
    "NoCommonVersionError",
    "PartitionDescription",
    "Reassignment",
    "TopicDescription",
    "open_admin",
]
