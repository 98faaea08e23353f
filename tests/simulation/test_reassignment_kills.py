"""A partition moves while producers write to it, and one broker is killed after each write to ZooKeeper in turn.

Every step of a move (KIP-455) is a write or follows one: the move is noted in the topic's znode, the leader epoch is
raised, a replica comes into sync, the leader moves, removed replicas leave the in-sync ones, the target is written. The
first run counts the writes; then the story is told again for each of them, with the broker killed at that write before
its writer hears of it, and once more a moment later, when requests of that step are under way.
"""

import json
from typing import Any

import pytest
import trio
import trio.testing

from cluster.network.broker_client import ConnectionFailedError
from cluster.zookeeper.znodes import TopicZnode
from simulation.cluster import SimulatedCluster
from wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.records.batch import iter_headers
from wire.records.builder import build_batch
from wire.records.record import Record, iter_records
from wire.schema import Request

TOPIC = "t"
ORIGIN = [0, 1, 2]
TARGET = [3, 2, 1]
DELAYS_S = (0.0, 0.003)
SETTINGS = {"auto.leader.rebalance.enable": "false", "zookeeper.session.timeout.ms": "2000"}
VICTIMS = {"controller": -1, "source": 0, "target": 3, "stays": 1}
"""Which broker is killed; the controller is looked for when the time has come."""


class Story:
    """One telling of the move.

    Attributes:
        writes: How many writes ZooKeeper has seen since the move was asked for.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.writes = 0
        self.acknowledged: list[bytes] = []
        self._wanted = -1
        self._reached = trio.Event()

    async def tell(self, victim: int, kill_after: int, delay_s: float, *, guarded: bool) -> None:
        cluster = self.cluster
        await cluster.wait(self._has_controller)
        await self._create()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._produce)
            await cluster.wait(lambda: len(self.acknowledged) >= 3)
            self._wanted = kill_after
            cluster.ensemble.on_write = self._on_write
            nursery.start_soon(self._move)
            if kill_after:
                await self._reached.wait()
                await trio.sleep(delay_s)
                victim = self._controller() if victim < 0 else victim
                await cluster.kill(victim, guarded=guarded)
                await trio.sleep(0.5)
                await cluster.start(victim)
            await cluster.wait(self._is_done, timeout_s=300)
            before = len(self.acknowledged)
            await cluster.wait(lambda: len(self.acknowledged) > before)
            nursery.cancel_scope.cancel()
        await self._check()

    def _on_write(self, _: object) -> None:
        self.writes += 1
        if self.writes == self._wanted:
            self._reached.set()

    def _controller(self) -> int:
        for number, broker in self.cluster.running().items():
            if broker.describe()["controller"]["active"]:
                return number
        return -1

    def _has_controller(self) -> bool:
        # After a death without a guardian nobody is, until its session is over: then any broker will do.
        ids = sorted(self.cluster.running())
        return all(
            broker.describe().get("live_brokers") == ids and broker.describe()["controller_id"] in ids
            for broker in self.cluster.running().values()
        )

    def _partition(self, broker_id: int) -> dict:
        broker = self.cluster.running().get(broker_id)
        for each in () if broker is None else broker.describe_partitions():
            if each["topic"] == TOPIC:
                return each
        return {}

    def _leader(self) -> int:
        leaders = [b for b in self.cluster.running() if self._partition(b).get("is_leader")]
        return max(leaders, key=lambda b: self._partition(b)["leader_epoch"], default=-1)

    def _assignment(self) -> dict:
        return json.loads(self.cluster.ensemble.tree.read(TopicZnode.path(TOPIC)).data)

    def _is_done(self) -> bool:
        assigned = self._assignment()
        if (
            assigned["partitions"] != {"0": TARGET}
            or assigned["adding_replicas"]
            or assigned["removing_replicas"]
        ):
            return False
        leader = self._leader()
        ends = [self._partition(b).get("log_end") for b in TARGET]
        return (
            self._has_controller()
            and leader in TARGET
            and set(self._partition(leader)["isr"]) == set(TARGET)
            and None not in ends
            and not self._partition(ORIGIN[0])
        )

    async def _create(self) -> None:
        topic = CreatableTopic(
            name=TOPIC,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=ORIGIN)],
            configs=[CreatableTopicConfig(name="min.insync.replicas", value="2")],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        response = await self._ask(self._controller(), request, 7)
        assert [each.error_code for each in response.topics] == [0]
        await self.cluster.wait(lambda: set(self._partition(0).get("isr") or ()) == set(ORIGIN))

    async def _move(self) -> None:
        """Ask for the move until a controller has it: one that dies may not have heard of it."""
        move = ReassignablePartition(partition_index=0, replicas=TARGET)
        topics = [ReassignableTopic(name=TOPIC, partitions=[move])]
        while self._assignment()["partitions"] == {"0": ORIGIN}:
            response = await self._ask(
                self._controller(), AlterPartitionReassignmentsRequest(topics=topics), 0
            )
            if response is not None and response.error_code == 0:
                assert [each.error_code for each in response.responses[0].partitions] == [0]
                return
            await trio.sleep(0.05)

    async def _produce(self) -> None:
        number = 0
        while True:
            value = b"record %d" % number
            batch = build_batch(
                [Record(offset=0, timestamp=1, key=None, value=value, headers=[], sequence=-1)]
            )
            data = PartitionProduceData(index=0, records=bytearray(batch))
            topics = [TopicProduceData(name=TOPIC, partition_data=[data])]
            request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics)
            response = await self._ask(self._leader(), request, 9)
            if response is not None and not response.responses[0].partition_responses[0].error_code:
                self.acknowledged.append(value)
                number += 1
            await trio.sleep(0.02)

    async def _ask(self, broker_id: int, request: Request, version: int) -> Any:
        """Give a broker's answer; None where it cannot be asked."""
        if broker_id not in self.cluster.running():
            return None
        client = self.cluster.client(broker_id, timeout_s=2.0)
        try:
            return await client.request(request, version)
        except ConnectionFailedError:
            return None
        finally:
            client.close()

    async def _check(self) -> None:
        leader = self._leader()
        values: list[bytes] = []
        offset, end = 0, self._partition(leader)["high_watermark"]
        while offset < end:
            partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
            topics = [FetchTopic(topic=TOPIC, partitions=[partition])]
            request = FetchRequest(max_wait_ms=10, min_bytes=1, max_bytes=1 << 20, topics=topics)
            (found,) = (await self._ask(leader, request, 12)).responses[0].partitions
            assert found.error_code == 0
            records = memoryview(bytes(found.records or b""))
            for position, header in iter_headers(records):
                values += [each.value for each in iter_records(records, position, header)]
                offset = header.base_offset + header.last_offset_delta + 1
        # A producer that repeats what was not acknowledged may write it twice, but never out of order.
        first_seen = list(dict.fromkeys(values))
        assert [value for value in first_seen if value in set(self.acknowledged)] == self.acknowledged


def tell(
    seed: int, victim: int = 0, kill_after: int = 0, delay_s: float = 0.0, *, guarded: bool = True
) -> int:
    """Tell the story once; gives how many writes the move took."""
    writes = 0

    async def main() -> None:
        nonlocal writes
        cluster = SimulatedCluster(seed, broker_count=4, settings=SETTINGS)
        async with trio.open_nursery() as nursery:
            await nursery.start(cluster.run)
            await cluster.start()
            story = Story(cluster)
            await story.tell(victim, kill_after, delay_s, guarded=guarded)
            writes = story.writes
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return writes


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])
@pytest.mark.parametrize("victim", VICTIMS)
def test_a_broker_is_killed_at_each_step_of_a_move(victim: str, guarded: bool) -> None:
    writes = tell(1)
    assert writes >= 5
    for number in range(1, writes + 1):
        for delay_s in DELAYS_S:
            try:
                tell(number, VICTIMS[victim], number, delay_s, guarded=guarded)
            except BaseException as error:
                error.add_note(f"{victim} killed {delay_s:g} s after write {number} of {writes}")
                raise
