"""A topic is created, and a broker is killed after each write to ZooKeeper: the topic exists, and takes records.

Between the partition's state in ZooKeeper and the LeaderAndIsr that makes replicas create their logs there is a moment
in which the controller, or a replica, can die; its successor does not know that the partition is new.
"""

from typing import ClassVar

import pytest
import trio

from tests.simulation.kill_at_every_write import CONTROLLER, TOPIC, Telling, tell_with_kills
from wire.errors import Error
from wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.records.builder import build_batch
from wire.records.record import Record

VICTIMS = {"controller": CONTROLLER, "leader": 0, "follower": 2}
HEARD = (Error.NONE, Error.TOPIC_ALREADY_EXISTS)


class Creation(Telling):
    """All assigned replicas are in sync, and a record is acknowledged."""

    replicas: ClassVar = [0, 1, 2]

    async def prepare(self, nursery: trio.Nursery) -> None:
        """Nothing is needed before the creation."""

    async def act(self) -> None:
        assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=self.replicas)
        topic = CreatableTopic(name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=[assignment])
        request = CreateTopicsRequest(topics=[topic], timeout_ms=1_000)
        while True:
            response = await self.ask(self.controller(), request, 7)
            if response is not None and response.topics[0].error_code in HEARD:
                return
            await trio.sleep(0.05)

    def is_done(self) -> bool:
        return set(self.partition(self.leader()).get("isr") or ()) == set(self.replicas)

    async def check(self) -> None:
        record = Record(offset=0, timestamp=1, key=None, value=b"first", headers=[], sequence=-1)
        data = PartitionProduceData(index=0, records=bytearray(build_batch([record])))
        topics = [TopicProduceData(name=TOPIC, partition_data=[data])]
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics)
        response = await self.ask(self.leader(), request, 9)
        assert response.responses[0].partition_responses[0].error_code == Error.NONE


class LoneCreation(Creation):
    """A topic of one replica: nobody else could lead it."""

    replicas: ClassVar = [0]


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])
@pytest.mark.parametrize("victim", VICTIMS)
def test_a_broker_is_killed_at_each_step_of_a_creation(victim: str, guarded: bool) -> None:
    tell_with_kills(Creation, VICTIMS[victim], guarded=guarded, least_writes=3)


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])
@pytest.mark.parametrize("victim", ["controller", "leader"])
def test_a_broker_is_killed_at_each_step_of_the_creation_of_one_replica(victim: str, guarded: bool) -> None:
    tell_with_kills(LoneCreation, VICTIMS[victim], guarded=guarded, least_writes=3)
