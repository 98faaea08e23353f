"""A topic is deleted, and a broker is killed after each write to ZooKeeper in turn: all of the topic goes."""

import pytest
import trio

from cluster.zookeeper.znodes import TopicZnode
from tests.simulation.kill_at_every_write import BROKERS, CONTROLLER, TOPIC, Telling, tell_with_kills
from wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

REPLICAS = [0, 1, 2]
VICTIMS = {"controller": CONTROLLER, "leader": 0, "follower": 2}


class Deletion(Telling):
    """Nothing of the topic is left: not in ZooKeeper, not in a broker, not on a disk under its name."""

    async def prepare(self, nursery: trio.Nursery) -> None:
        await self.create(REPLICAS)

    async def act(self) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)], timeout_ms=1_000)
        while TopicZnode.path(TOPIC) in self.cluster.ensemble.tree.nodes:
            await self.ask(self.controller(), request, 6)
            await trio.sleep(0.05)

    def is_done(self) -> bool:
        return not self._znodes() and not any(self.partition(broker) for broker in range(BROKERS))

    async def check(self) -> None:
        for machine in self.cluster.machines.values():
            names = [entry.name for entry in machine.disk.list_directory("/logs")]
            assert f"{TOPIC}-0" not in names
        await self.create(REPLICAS)
        assert self.partition(self.leader())["log_end"] == 0

    def _znodes(self) -> list[str]:
        return [path for path in self.cluster.ensemble.tree.nodes if TOPIC in path.split("/")]


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])
@pytest.mark.parametrize("victim", VICTIMS)
def test_a_broker_is_killed_at_each_step_of_a_deletion(victim: str, guarded: bool) -> None:
    tell_with_kills(Deletion, VICTIMS[victim], guarded=guarded, least_writes=3)
