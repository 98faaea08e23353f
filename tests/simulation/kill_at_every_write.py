"""A story that is run again for each of its writes to ZooKeeper, with a broker killed at that write.

The first run counts the writes. In each other run a broker is killed at one of them, before the writer gets its answer
or a moment later, when requests of that step are under way; it comes back, and the story has to end as it should.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import trio
import trio.testing

from cluster.network.broker_client import ConnectionFailedError
from simulation.cluster import SimulatedCluster
from wire.errors import Error
from wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from wire.schema import Request

TOPIC = "t"
CONTROLLER = -1
"""As the victim: the controller at the time of the kill."""
BROKERS = 4
DELAYS_S = (0.0, 0.003, 0.01)
DOWN_S = 0.5
SETTINGS = {"auto.leader.rebalance.enable": "false", "zookeeper.session.timeout.ms": "2000"}
PATIENCE_S = 300.0
"""In simulated time, where hours cost nothing."""


class Telling(ABC):
    """One run of a story; a subclass says what happens.

    Attributes:
        cluster: Where it runs.
        writes: How many writes ZooKeeper has seen since `act` began.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.writes = 0
        self._wanted = 0
        self._reached = trio.Event()

    @abstractmethod
    async def prepare(self, nursery: trio.Nursery) -> None:
        """Prepare what the story changes."""

    @abstractmethod
    async def act(self) -> None:
        """Ask for the change, again until a broker has accepted it."""

    @abstractmethod
    def is_done(self) -> bool:
        """Whether the change is complete."""

    @abstractmethod
    async def check(self) -> None:
        """Check the outcome; what `prepare` started still runs."""

    async def tell(self, victim: int, kill_after: int, delay_s: float, *, guarded: bool) -> None:
        """Run the story; with ``kill_after`` 0 nobody is killed."""
        cluster = self.cluster
        await cluster.wait(self.has_controller)
        async with trio.open_nursery() as nursery:
            await self.prepare(nursery)
            self._wanted = kill_after
            cluster.ensemble.on_write = self._on_write
            nursery.start_soon(self.act)
            if kill_after:
                with trio.fail_after(PATIENCE_S):
                    await self._reached.wait()
                await trio.sleep(delay_s)
                dead = self.controller() if victim == CONTROLLER else victim
                await cluster.kill(dead, guarded=guarded)
                await trio.sleep(DOWN_S)
                await cluster.start(dead)
            await cluster.wait(lambda: self.has_controller() and self.is_done(), timeout_s=PATIENCE_S)
            cluster.ensemble.on_write = None
            await self.check()
            nursery.cancel_scope.cancel()

    def _on_write(self, _: object) -> None:
        self.writes += 1
        if self.writes == self._wanted:
            self._reached.set()

    def controller(self) -> int:
        """Return the controller's id, -1 while there is none."""
        for number, broker in self.cluster.running().items():
            if broker.describe().get("controller", {}).get("active"):
                return number
        return -1

    def has_controller(self) -> bool:
        """Whether all running brokers know each other and a controller."""
        ids = sorted(self.cluster.running())
        return all(
            broker.describe().get("live_brokers") == ids and broker.describe()["controller_id"] in ids
            for broker in self.cluster.running().values()
        )

    def partition(self, broker_id: int) -> dict[str, Any]:
        """Return a broker's description of its replica; empty if it has none."""
        broker = self.cluster.running().get(broker_id)
        for each in () if broker is None else broker.partition_descriptions():
            if each["topic"] == TOPIC:
                return each
        return {}

    def leader(self) -> int:
        """Return the broker that claims to lead in the highest epoch, -1 if none does."""
        leaders = [b for b in self.cluster.running() if self.partition(b).get("is_leader")]
        return max(leaders, key=lambda b: self.partition(b)["leader_epoch"], default=-1)

    async def create(self, replicas: list[int]) -> None:
        """Make the topic, and wait until all its replicas are in sync."""
        topic = CreatableTopic(
            name=TOPIC,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)],
            configs=[CreatableTopicConfig(name="min.insync.replicas", value="2")],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        response = await self.ask(self.controller(), request, 7)
        assert [each.error_code for each in response.topics] == [Error.NONE]
        await self.cluster.wait(lambda: set(self.partition(self.leader()).get("isr") or ()) == set(replicas))

    async def ask(self, broker_id: int, request: Request, version: int) -> Any:
        """Return a broker's response; None if it cannot be reached."""
        if broker_id not in self.cluster.running():
            return None
        client = self.cluster.client(broker_id, timeout_s=2.0)
        try:
            return await client.request(request, version)
        except ConnectionFailedError:
            return None
        finally:
            client.close()


def tell(
    story: Callable[[SimulatedCluster], Telling],
    seed: int,
    victim: int = CONTROLLER,
    kill_after: int = 0,
    delay_s: float = 0.0,
    *,
    guarded: bool = True,
) -> int:
    """Run a story once; return how many writes it took."""
    writes = 0

    async def main() -> None:
        nonlocal writes
        cluster = SimulatedCluster(seed, broker_count=BROKERS, settings=SETTINGS)
        async with trio.open_nursery() as nursery:
            await nursery.start(cluster.run)
            await cluster.start()
            telling = story(cluster)
            await telling.tell(victim, kill_after, delay_s, guarded=guarded)
            writes = telling.writes
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return writes


def tell_with_kills(
    story: Callable[[SimulatedCluster], Telling], victim: int, *, guarded: bool, least_writes: int
) -> None:
    """Run a story once without a death, and then for each of its writes and each delay."""
    writes = tell(story, 1)
    assert writes >= least_writes
    for number in range(1, writes + 1):
        for delay_s in DELAYS_S:
            try:
                tell(story, number, victim, number, delay_s, guarded=guarded)
            except BaseException as error:
                who = "the controller" if victim == CONTROLLER else f"broker {victim}"
                error.add_note(f"{who} killed {delay_s:g} s after write {number} of {writes}")
                raise
