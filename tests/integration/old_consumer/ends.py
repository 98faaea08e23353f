"""Ends of the old consumer on a fake ensemble, whose faults a test decides, over real brokers."""

from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio

from cluster.statemachines.leadership import PartitionAssignment
from cluster.zookeeper.broker_znodes import BrokerIdZnode, BrokerRegistration, RegisteredEndpoint
from cluster.zookeeper.client import Create, Delete, Operation
from cluster.zookeeper.topic_znodes import TopicAssignment, TopicZnode
from ottla.old_consumer import Connector, ConsumerTimeout, OldConsumerSettings, Reset, Stream
from ottla.old_consumer.states import EndState
from simulation.zookeeper import FakeEnsemble, FakeZooKeeper
from timing.clock import SystemClock
from wire.types import BrokerId, TopicPartition

GROUP = "billing"
CLOCK = SystemClock()


class World:
    """An ensemble that knows brokers and topics, and the ends that use it.

    Attributes:
        ensemble: The ensemble.
        sessions: The session of each end, in their order.
        history: Each claim and release of a partition, as written to the znodes: path, and whether it is a claim.
    """

    def __init__(self, servers: str) -> None:
        self.ensemble = FakeEnsemble()
        self.sessions: list[FakeZooKeeper] = []
        self.history: list[tuple[str, bool]] = []
        self._servers = servers
        self._operator = FakeZooKeeper(self.ensemble)
        self._operator.connect()
        self.ensemble.on_write = self._note

    def _note(self, operations: Sequence[Operation]) -> None:
        for each in operations:
            if isinstance(each, Create | Delete) and "/owners/" in each.path and each.path[-1].isdecimal():
                self.history.append((each.path, isinstance(each, Create)))

    async def register_brokers(self) -> None:
        for number, server in enumerate(self._servers.split(",")):
            host, _, port = server.rpartition(":")
            endpoint = RegisteredEndpoint("PLAINTEXT", host, int(port), "PLAINTEXT")
            data = BrokerIdZnode.encode(BrokerRegistration(BrokerId(number), (endpoint,)))
            await self._operator.create(BrokerIdZnode.path(BrokerId(number)), data, make_parents=True)

    async def put_topic(self, name: str, partitions: int) -> None:
        made = TopicAssignment(None, {n: PartitionAssignment((BrokerId(0),)) for n in range(partitions)})
        data = TopicZnode.encode(made)
        path = TopicZnode.path(name)
        if await self._operator.exists(path) is None:
            await self._operator.create(path, data, make_parents=True)
        else:
            await self._operator.set(path, data, -1)

    async def put(self, path: str, data: bytes) -> None:
        await self._operator.create(path, data, make_parents=True)

    async def remove(self, path: str) -> None:
        await self._operator.delete(path, -1)

    async def read(self, path: str) -> bytes:
        return (await self._operator.get(path))[0]

    def has(self, path: str) -> bool:
        return path in self.ensemble.tree.nodes

    async def names(self, path: str) -> list[str]:
        return await self._operator.children(path)

    def connector(self, **settings: Any) -> Connector:
        values: dict[str, Any] = {
            "group_id": GROUP,
            "zookeeper_connect": "fake",
            "auto_offset_reset": Reset.SMALLEST,
            "rebalance_backoff": 0.05,
            "consumer_timeout": 10.0,
        }

        def session(_connect: str, timeout_s: float, _connect_timeout_s: float, _access: object) -> Any:
            self.sessions.append(FakeZooKeeper(self.ensemble, timeout_s, CLOCK.monotonic))
            return self.sessions[-1]

        return Connector(OldConsumerSettings(**{**values, **settings}), session=session)


@asynccontextmanager
async def world(servers: str, **topics: int):
    made = World(servers)
    await made.register_brokers()
    for name, partitions in topics.items():
        await made.put_topic(name, partitions)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.ensemble.run)
        with trio.fail_after(60):
            yield made
        nursery.cancel_scope.cancel()


async def take(stream: Stream, count: int) -> list[tuple[TopicPartition, int, bytes]]:
    """Return the next records of a stream; only the world's own timeout limits the wait."""
    found = []
    while len(found) < count:
        try:
            record = await anext(stream)
        except ConsumerTimeout:
            continue
        found.append((TopicPartition(record.topic, record.partition), record.offset, record.value))
    return found


async def eventually(is_true: Callable[[], bool]) -> None:
    """Wait until something is true."""
    while not is_true():  # noqa: ASYNC110 - the ends send no event
        await trio.sleep(0.01)


async def until_owned(connector: Connector, count: int) -> None:
    """Wait until an end consumes a number of partitions."""

    def owns() -> bool:
        found = connector.statistics()
        return len(found.owned) == count and found.state is EndState.CONSUMING

    await eventually(owns)


def overlaps(history: Sequence[tuple[str, bool]]) -> list[str]:
    """Return the owner znodes of partitions that were claimed while another end had them."""
    owned: set[str] = set()
    found = []
    for path, is_claim in history:
        if is_claim and path in owned:
            found.append(path)
        (owned.add if is_claim else owned.discard)(path)
    return found
