"""A partition moves while producers write to it, and a broker is killed after each write to ZooKeeper in turn.

Every step of a move (KIP-455) is a write or follows one: the move is noted in the topic's znode, the leader epoch is
raised, a replica comes into sync, the leader moves, removed replicas leave the in-sync ones, the target is written.
"""

import json

import pytest
import trio

from cluster.zookeeper.znodes import PartitionStateZnode, TopicZnode
from simulation.cluster import SimulatedCluster
from tests.simulation.kill_at_every_write import CONTROLLER, DOWN_S, TOPIC, Telling, tell, tell_with_kills
from tests.simulation.producing import Producing
from wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from wire.types import TopicPartition

ORIGIN = [0, 1, 2]
TARGET = [3, 2, 1]
VICTIMS = {"controller": CONTROLLER, "source": 0, "target": 3, "stays": 1}


class Move(Producing):
    """A move from the origin to the target, with a producer that repeats what was not acknowledged."""

    async def prepare(self, nursery: trio.Nursery) -> None:
        await self.create(ORIGIN)
        nursery.start_soon(self.produce)
        await self.cluster.wait(lambda: len(self.acknowledged) >= 3)

    async def act(self) -> None:
        move = ReassignablePartition(partition_index=0, replicas=TARGET)
        topics = [ReassignableTopic(name=TOPIC, partitions=[move])]
        while self._assignment()["partitions"] == {"0": ORIGIN}:
            response = await self.ask(self.controller(), AlterPartitionReassignmentsRequest(topics=topics), 0)
            if response is not None and response.error_code == 0:
                assert [each.error_code for each in response.responses[0].partitions] == [0]
                return
            await trio.sleep(0.05)

    def is_done(self) -> bool:
        assigned = self._assignment()
        if assigned["partitions"] != {"0": TARGET} or assigned["adding_replicas"]:
            return False
        leader = self.leader()
        return (
            not assigned["removing_replicas"]
            and leader in TARGET
            and set(self.partition(leader)["isr"]) == set(TARGET)
            and all(self.partition(broker) for broker in TARGET)
            and not self.partition(ORIGIN[0])
        )

    def _assignment(self) -> dict:
        return json.loads(self.cluster.ensemble.tree.read(TopicZnode.path(TOPIC)).data)


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])
@pytest.mark.parametrize("victim", VICTIMS)
def test_a_broker_is_killed_at_each_step_of_a_move(victim: str, guarded: bool) -> None:
    tell_with_kills(Move, VICTIMS[victim], guarded=guarded, least_writes=5)


class UnreachedSource(Telling):
    """While it completes the move the controller cannot reach the broker that has to leave, and then it dies."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster)
        self.source = self.target = self.stays = self.first = -1

    async def prepare(self, nursery: trio.Nursery) -> None:
        self.first = self.controller()
        self.source, self.stays, self.target = sorted(self.cluster.running().keys() - {self.first})
        await self.create([self.source, self.stays])

    async def act(self) -> None:
        move = ReassignablePartition(partition_index=0, replicas=[self.target, self.stays])
        topics = [ReassignableTopic(name=TOPIC, partitions=[move])]
        await self.ask(self.first, AlterPartitionReassignmentsRequest(topics=topics), 0)
        await self._reached.wait()
        await trio.sleep(DOWN_S / 2)
        self.cluster.network.heal_all()

    def _on_write(self, written: object) -> None:
        super()._on_write(written)
        tree = self.cluster.ensemble.tree
        state = json.loads(tree.read(PartitionStateZnode.path(TopicPartition(TOPIC, 0))).data)
        topic = json.loads(tree.read(TopicZnode.path(TOPIC)).data)
        if topic["adding_replicas"] and self.target in state["isr"]:
            self.cluster.network.cut(f"broker-{self.first}", f"broker-{self.source}")
        if topic["partitions"] == {"0": [self.target, self.stays]}:
            self._reached.set()

    def is_done(self) -> bool:
        return self._reached.is_set() and self.leader() == self.target and not self.partition(self.source)

    async def check(self) -> None:
        assert self.cluster.running().keys() >= {self.source, self.first}


def test_a_replica_that_a_dead_controller_could_not_stop_gives_its_role_back() -> None:
    tell(UnreachedSource, 1, CONTROLLER, 1 << 30)
