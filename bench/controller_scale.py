"""The controller alone, with very many partitions: a real ZooKeeper, and brokers that only record and answer.

    python -m bench.controller_scale [--partitions 10000] [--brokers 3] [--rounds 3] [--profile FILE]

Measured, from the cause to the last request at the last broker:

- creation: topics are written to ZooKeeper, until every broker knows every leader.
- controlled shutdown: from a broker's request until the others know the new leaders.
- failover: the session of the controller ends; another is elected, reads everything, elects leaders, and sends them.
- return: the former one registers again, until it has received all of its roles.

Requests are encoded as they would be for a socket; deciding, encoding, and ZooKeeper are what is measured.
"""

import argparse
import cProfile
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from rich.console import Console
from rich.table import Table

from bench.systems import free_ports
from cluster.broker.process_limits import SWITCH_INTERVAL_S
from cluster.configuration.broker_config import BrokerConfig
from cluster.controller.controller import Controller
from cluster.statemachines.leadership import PartitionAssignment
from cluster.zookeeper.broker_store import BrokerStore
from cluster.zookeeper.controller_store import ControllerStore
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from cluster.zookeeper.znodes import BrokerRegistration, RegisteredEndpoint, TopicAssignment
from ottla.zookeeper_server import ZooKeeperServer
from timing.clock import SystemClock
from wire.frames import encode_request
from wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from wire.messages.stop_replica import StopReplicaResponse
from wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from wire.types import NO_BROKER_EPOCH, BrokerId, TopicId

PARTITIONS_PER_TOPIC = 100
SESSION_TIMEOUT_S = 10.0
_TIMEOUT_S = 300.0


class RecordingBroker:
    """A session, a registration, and what the controller has sent.

    Attributes:
        epoch: Its registration's.
        roles: The leader of each partition that LeaderAndIsr named.
        metadata: The leader of each partition that UpdateMetadata named.
        requests: How many it has received.
        news: Set by the next request, and then replaced.
    """

    def __init__(self, broker_id: int, zookeeper: KazooZooKeeper) -> None:
        self.broker_id = BrokerId(broker_id)
        self.zookeeper = zookeeper
        self.epoch = NO_BROKER_EPOCH
        self.session_scope = trio.CancelScope()
        self.office_scope = trio.CancelScope()
        self.roles: dict[tuple[str, int], int] = {}
        self.metadata: dict[tuple[str, int], int] = {}
        self.requests = 0
        self.news = trio.Event()

    async def register(self) -> None:
        endpoint = RegisteredEndpoint("PLAINTEXT", "127.0.0.1", 9092 + self.broker_id, "PLAINTEXT")
        registration = BrokerRegistration(self.broker_id, (endpoint,), None)
        store = BrokerStore(self.zookeeper)
        await store.create_persistent_paths()
        self.epoch = await store.register(registration)

    def hear(self, message: Any, version: int) -> Any:
        encode_request(message, version, self.requests, "bench")
        self.requests += 1
        self.news.set()
        self.news = trio.Event()
        if isinstance(message, LeaderAndIsrRequest):
            for topic in message.topic_states:
                for state in topic.partition_states:
                    self.roles[topic.topic_name, state.partition_index] = state.leader
            return LeaderAndIsrResponse(topics=[])
        if isinstance(message, UpdateMetadataRequest):
            for topic in message.topic_states:
                for state in topic.partition_states:
                    self.metadata[topic.topic_name, state.partition_index] = state.leader
            return UpdateMetadataResponse()
        return StopReplicaResponse(partition_errors=[])


class _Channel:
    def __init__(self, broker: RecordingBroker) -> None:
        self._broker = broker

    async def request(self, message: Any, version: int) -> Any:
        await trio.lowlevel.checkpoint()
        return self._broker.hear(message, version)

    def close(self) -> None:
        """Do nothing: nothing is open."""


class Site:
    """Brokers and controllers on one ZooKeeper."""

    def __init__(self, hosts: str, nursery: trio.Nursery, brokers: int, partitions: int) -> None:
        self._hosts = hosts
        self._nursery = nursery
        self.count = brokers
        self.partitions = partitions
        self.brokers: dict[int, RecordingBroker] = {}

    async def connect(self, broker_id: int) -> RecordingBroker:
        """Begin a broker's session, and register it."""
        zookeeper = KazooZooKeeper(self._hosts, SESSION_TIMEOUT_S, SystemClock().monotonic)
        broker = RecordingBroker(broker_id, zookeeper)

        async def run(task_status: trio.TaskStatus[None]) -> None:
            with broker.session_scope:
                await zookeeper.run(task_status=task_status)

        await self._nursery.start(run)
        await broker.register()
        self.brokers[broker_id] = broker
        return broker

    async def stand(self, broker_id: int) -> Controller:
        """Let a broker stand for election."""
        broker = self.brokers[broker_id]
        controller = Controller(
            broker.broker_id,
            broker.zookeeper,
            ControllerStore(broker.zookeeper, broker.broker_id),
            lambda registration: _Channel(self.brokers[registration.broker_id]),
            BrokerConfig({"auto.leader.rebalance.enable": "false", "zookeeper.connect": self._hosts}),
            SystemClock(),
        )

        async def run() -> None:
            with broker.office_scope:
                await controller.run()

        self._nursery.start_soon(run)
        return controller

    def end(self, broker_id: int) -> None:
        """End a broker, and close its session at once, as a guardian would."""
        broker = self.brokers.pop(broker_id)
        broker.office_scope.cancel()
        broker.session_scope.cancel()

    async def create(self) -> None:
        """Write the topics, as any broker would that serves CreateTopics."""
        store = BrokerStore(self.brokers[0].zookeeper)
        for number in range(self.partitions // PARTITIONS_PER_TOPIC):
            assigned = {
                p: PartitionAssignment(
                    tuple(BrokerId((p + r) % self.count) for r in range(min(3, self.count)))
                )
                for p in range(PARTITIONS_PER_TOPIC)
            }
            topic_id = TopicId((number + 1).to_bytes(16, "big"))
            await store.create_topic(f"bench-{number}", TopicAssignment(topic_id, assigned), {})

    async def wait(self, broker_id: int, condition: Callable[[RecordingBroker], bool]) -> None:
        """Wait until a condition holds for a broker."""
        broker = self.brokers[broker_id]
        with trio.fail_after(_TIMEOUT_S):
            while not condition(broker):
                await broker.news.wait()


@asynccontextmanager
async def site(brokers: int, partitions: int, folder: Path) -> AsyncIterator[Site]:
    """Start ZooKeeper and brokers; broker 0 is the controller, and all topics are there."""
    server = ZooKeeperServer.launch(folder, free_ports(1))
    try:
        await trio.to_thread.run_sync(server.wait_serving)
        async with trio.open_nursery() as nursery:
            found = Site(server.address, nursery, brokers, partitions)
            for broker_id in range(brokers):
                await found.connect(broker_id)
            yield found
            nursery.cancel_scope.cancel()
    finally:
        server.stop()


async def measure(found: Site, report: Callable[[str, float, int], None]) -> None:
    """Go through a controller's life once."""

    def received() -> int:
        return sum(broker.requests for broker in found.brokers.values())

    async def timed(what: str, work: Callable[[], Awaitable[None]]) -> None:
        before, began = received(), time.perf_counter()
        await work()
        report(what, time.perf_counter() - began, received() - before)

    all_partitions = found.partitions
    last = found.count - 1
    controller = await found.stand(0)

    async def create() -> None:
        await found.create()
        for broker_id in found.brokers:
            await found.wait(broker_id, lambda broker: len(broker.metadata) == all_partitions)

    await timed("creation", create)

    async def shut_down() -> None:
        left = await controller.controlled_shutdown(BrokerId(last), found.brokers[last].epoch)
        assert not left, left[:5]
        await found.wait(1, lambda broker: last not in broker.metadata.values())

    await timed("controlled shutdown", shut_down)
    await found.stand(1)

    async def fail_over() -> None:
        found.end(0)
        for broker_id in found.brokers:
            await found.wait(broker_id, lambda broker: 0 not in broker.metadata.values())

    await timed("failover", fail_over)

    async def come_back() -> None:
        await found.connect(0)
        await found.wait(0, lambda broker: len(broker.roles) == all_partitions)

    await timed("return", come_back)


async def rounds(options: argparse.Namespace) -> dict[str, list[tuple[float, int]]]:
    """Measure as often as asked."""
    figures: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="bench-controller-") as folder:
            async with site(options.brokers, options.partitions, Path(folder)) as found:
                await measure(found, lambda what, took, asked: figures[what].append((took, asked)))
    return figures


def main() -> None:
    """Parse the command line, run, report."""
    parser = argparse.ArgumentParser(prog="python -m bench.controller_scale", description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", type=Path, help="write a profile of it all to this file")
    options = parser.parse_args()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    profile = cProfile.Profile() if options.profile else None
    if profile:
        profile.enable()
    figures = trio.run(rounds, options)
    if profile:
        profile.disable()
        profile.dump_stats(options.profile)
    table = Table(title=f"{options.partitions:,} partitions on {options.brokers} brokers; medians")
    for column in ("what", "s", "requests", "rounds"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for what, values in figures.items():
        took = [value for value, _ in values]
        each = " ".join(f"{value:.2f}" for value in took)
        table.add_row(what, f"{statistics.median(took):.2f}", str(values[-1][1]), each)
    Console().print(table)


if __name__ == "__main__":
    main()
