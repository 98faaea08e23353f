"""A partition moves while producers write to it, and a broker is killed after each write to ZooKeeper in turn.

Every step of a move (KIP-455) is a write or follows one: the move is noted in the topic's znode, the leader epoch is
raised, a replica comes into sync, the leader moves, removed replicas leave the in-sync ones, the target is written.
"""

import json

import pytest
import trio

from cluster.zookeeper.znodes import TopicZnode
from tests.simulation.kill_at_every_write import CONTROLLER, TOPIC, Telling, tell_with_kills
from wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.records.batch import iter_headers
from wire.records.builder import build_batch
from wire.records.record import Record, iter_records

ORIGIN = [0, 1, 2]
TARGET = [3, 2, 1]
VICTIMS = {"controller": CONTROLLER, "source": 0, "target": 3, "stays": 1}


class Move(Telling):
    """From the origin to the target, with a producer that repeats what was not acknowledged."""

    def __init__(self, cluster) -> None:
        super().__init__(cluster)
        self.acknowledged: list[bytes] = []
        self.acknowledged_by = -1

    async def prepare(self, nursery: trio.Nursery) -> None:
        await self.create(ORIGIN)
        nursery.start_soon(self._produce)
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

    async def check(self) -> None:
        acknowledged = list(self.acknowledged)
        # By the leader that is read from: the high watermark of a new one lags for a moment.
        self.acknowledged_by = -1
        await self.cluster.wait(lambda: self.acknowledged_by == self.leader())
        # A producer that repeats itself may write twice, but never out of order.
        first_seen = list(dict.fromkeys(await self._read()))
        assert [value for value in first_seen if value in set(acknowledged)] == acknowledged

    def _assignment(self) -> dict:
        return json.loads(self.cluster.ensemble.tree.read(TopicZnode.path(TOPIC)).data)

    async def _produce(self) -> None:
        number = 0
        while True:
            value = b"record %d" % number
            record = Record(offset=0, timestamp=1, key=None, value=value, headers=[], sequence=-1)
            data = PartitionProduceData(index=0, records=bytearray(build_batch([record])))
            topics = [TopicProduceData(name=TOPIC, partition_data=[data])]
            request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics)
            leader = self.leader()
            response = await self.ask(leader, request, 9)
            if response is not None and not response.responses[0].partition_responses[0].error_code:
                self.acknowledged.append(value)
                self.acknowledged_by = leader
                number += 1
            await trio.sleep(0.02)

    async def _read(self) -> list[bytes]:
        leader = self.leader()
        values: list[bytes] = []
        offset, end = 0, self.partition(leader)["high_watermark"]
        while offset < end:
            partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
            topics = [FetchTopic(topic=TOPIC, partitions=[partition])]
            request = FetchRequest(max_wait_ms=10, min_bytes=1, max_bytes=1 << 20, topics=topics)
            (found,) = (await self.ask(leader, request, 12)).responses[0].partitions
            assert found.error_code == 0
            records = memoryview(bytes(found.records or b""))
            for position, header in iter_headers(records):
                values += [each.value for each in iter_records(records, position, header)]
                offset = header.base_offset + header.last_offset_delta + 1
        return values


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])
@pytest.mark.parametrize("victim", VICTIMS)
def test_a_broker_is_killed_at_each_step_of_a_move(victim: str, guarded: bool) -> None:
    tell_with_kills(Move, VICTIMS[victim], guarded=guarded, least_writes=5)
