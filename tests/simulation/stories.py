"""Changes to a topic while brokers die, as stories that `tests.simulation.deaths` runs."""

from typing import ClassVar

import trio

from cluster.coordinator.offsets_log import CONSUMER_OFFSETS
from tests.simulation.kill_at_every_write import BROKERS, TOPIC, Telling
from tests.simulation.producing import Producing
from tests.simulation.test_deletion_kills import Deletion
from tests.simulation.test_reassignment_kills import Move
from wire.errors import Error
from wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.messages.heartbeat import HeartbeatRequest
from wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from wire.types import TopicPartition

REPLICAS = [0, 1, 2]
LATER = [[1, 2, 3], [2, 3, 0]]
"""The replicas of the partitions that are added."""
RETENTION_MS = 123_456
GROUP = "group"
MEMBERS = ("first", "second")
"""Each commits offsets of a topic of its name."""
PREFERRED = 0
SET = 0
TOPICS = 2


class Creation(Producing):
    """A topic comes into being, and is written to as soon as it can be."""

    async def prepare(self, nursery: trio.Nursery) -> None:
        nursery.start_soon(self.produce)

    async def act(self) -> None:
        topic = CreatableTopic(
            name=TOPIC,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=REPLICAS)],
            configs=[CreatableTopicConfig(name="min.insync.replicas", value="2")],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=1_000)
        while True:
            response = await self.ask(self.controller(), request, 7)
            if response is not None and response.topics[0].error_code in (
                Error.NONE,
                Error.TOPIC_ALREADY_EXISTS,
            ):
                return
            await trio.sleep(0.05)

    def is_done(self) -> bool:
        return self.is_settled(0, REPLICAS)

    def is_settled(self, index: int, replicas: list[int]) -> bool:
        """Whether a partition is led, by one broker, with all its replicas in sync."""
        found = [self.replica(broker, index) for broker in replicas]
        leaders = [each for each in found if each.get("is_leader")]
        return len(leaders) == 1 and set(leaders[0]["isr"]) == set(replicas) and all(found)

    def replica(self, broker_id: int, index: int) -> dict:
        """Return a broker's description of its replica of a partition; empty if it has none."""
        broker = self.cluster.running().get(broker_id)
        for each in () if broker is None else broker.partition_descriptions():
            if (each["topic"], each["partition"]) == (TOPIC, index):
                return each
        return {}

    def partition(self, broker_id: int) -> dict:
        return self.replica(broker_id, 0)


class Addition(Creation):
    """A topic gets more partitions, while its first one is written to."""

    async def prepare(self, nursery: trio.Nursery) -> None:
        await self.create(REPLICAS)
        nursery.start_soon(self.produce)
        await self.cluster.wait(lambda: len(self.acknowledged) >= 3)

    async def act(self) -> None:
        assignments = [CreatePartitionsAssignment(broker_ids=replicas) for replicas in LATER]
        topic = CreatePartitionsTopic(name=TOPIC, count=1 + len(LATER), assignments=assignments)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=1_000)
        while not self.is_done():
            await self.ask(self.controller(), request, 3)
            await trio.sleep(0.05)

    def is_done(self) -> bool:
        return all(self.is_settled(index, each) for index, each in enumerate([REPLICAS, *LATER]))


class DirectoryMove(Addition):
    """A replica, the leader's, moves between the directories of its broker, while it is written to."""

    settings: ClassVar = {"log.dirs": "/logs,/more"}

    async def act(self) -> None:
        topic = AlterReplicaLogDirTopic(name=TOPIC, partitions=[0])
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=self.target, topics=[topic])])
        while not self.is_done():
            await self.ask(PREFERRED, request, 2)
            await trio.sleep(0.05)

    async def prepare(self, nursery: trio.Nursery) -> None:
        await super().prepare(nursery)
        self.target = "/more" if self._directory() == "/logs" else "/logs"

    def is_done(self) -> bool:
        return self.is_settled(0, REPLICAS) and self._directory() == self.target

    def _directory(self) -> str:
        broker = self.cluster.running().get(PREFERRED)
        if broker is None:
            return ""
        log = broker._logs.get(TopicPartition(TOPIC, 0))
        return "" if log is None else log.log_directory.path


class Election(Addition):
    """The preferred leader is elected again, while the partition is written to."""

    async def prepare(self, nursery: trio.Nursery) -> None:
        await super().prepare(nursery)
        await self.cluster.stop(PREFERRED)
        await self.cluster.wait(lambda: self.leader() not in (-1, PREFERRED))
        await self.cluster.start(PREFERRED)
        await self.cluster.wait(lambda: self.is_settled(0, REPLICAS))

    async def act(self) -> None:
        partitions = [TopicPartitions(topic=TOPIC, partitions=[0])]
        request = ElectLeadersRequest(election_type=0, topic_partitions=partitions, timeout_ms=1_000)
        while not self.is_done():
            await self.ask(self.controller(), request, 2)
            await trio.sleep(0.05)

    def is_done(self) -> bool:
        return self.leader() == PREFERRED and self.is_settled(0, REPLICAS)


class Configuration(Addition):
    """A topic's setting is changed, and every replica applies it."""

    async def act(self) -> None:
        config = AlterableConfig(name="retention.ms", config_operation=SET, value=str(RETENTION_MS))
        resource = AlterConfigsResource(resource_type=TOPICS, resource_name=TOPIC, configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        while True:
            response = await self.ask(self.controller(), request, 1)
            if response is not None and response.responses[0].error_code == Error.NONE:
                return
            await trio.sleep(0.05)

    def is_done(self) -> bool:
        return self.is_settled(0, REPLICAS) and all(
            self._retention(each) == RETENTION_MS for each in REPLICAS
        )

    def _retention(self, broker_id: int) -> int:
        broker = self.cluster.running().get(broker_id)
        log = None if broker is None else broker._logs.get(TopicPartition(TOPIC, 0))
        return -1 if log is None else log.config.retention_ms


class Rebalance(Telling):
    """A second member joins a group, and both commit offsets; what was committed is never forgotten."""

    settings: ClassVar = {
        "offsets.topic.num.partitions": "2",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "500",
    }

    def __init__(self, cluster) -> None:
        super().__init__(cluster)
        self.generations: dict[str, int] = {}
        self.committed: dict[str, int] = {}

    async def prepare(self, nursery: trio.Nursery) -> None:
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=3) for name in MEMBERS]
        await self.ask(self.controller(), CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
        nursery.start_soon(self._be_member, MEMBERS[0])
        await self.cluster.wait(lambda: self.committed.get(MEMBERS[0], 0) > 2)
        await self.cluster.wait(self._is_settled)

    async def act(self) -> None:
        await self._be_member(MEMBERS[1])

    def is_done(self) -> bool:
        return len(set(self.generations.values())) == 1 < len(self.generations) and self._is_settled()

    async def check(self) -> None:
        expected = dict(self.committed)
        topics = [OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in expected]
        request = OffsetFetchRequest(group_id=GROUP, topics=topics)
        response = None
        while response is None or response.error_code:
            response = await self.ask(await self._coordinator(), request, 3)
            await trio.sleep(0.05)
        found = {topic.name: topic.partitions[0].committed_offset for topic in response.topics}
        assert all(found[name] >= offset for name, offset in expected.items()), (found, expected)

    def _is_settled(self) -> bool:
        led: set[tuple[str, int]] = set()
        for broker in self.cluster.running().values():
            for each in broker.partition_descriptions():
                if each["is_leader"]:
                    led.add((each["topic"], each["partition"]))
                    if set(each["isr"]) != set(each["replicas"]):
                        return False
        return led == {*((name, 0) for name in MEMBERS), *((CONSUMER_OFFSETS, index) for index in (0, 1))}

    async def _coordinator(self) -> int:
        for broker in sorted(self.cluster.running()):
            response = await self.ask(broker, FindCoordinatorRequest(key=GROUP, key_type=0), 3)
            if response is not None and response.error_code == Error.NONE:
                return response.node_id
        return -1

    async def _be_member(self, name: str) -> None:
        member_id = ""
        while True:
            coordinator = await self._coordinator()
            protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
            request = JoinGroupRequest(
                group_id=GROUP,
                session_timeout_ms=1_000,
                rebalance_timeout_ms=1_000,
                member_id=member_id,
                protocol_type="consumer",
                protocols=protocols,
            )
            joined = await self.ask(coordinator, request, 2)
            if joined is not None and joined.error_code == Error.UNKNOWN_MEMBER_ID:
                member_id = ""
            elif joined is not None and joined.error_code == Error.NONE:
                member_id = joined.member_id
                await self._serve(name, coordinator, joined)
                self.generations.pop(name, None)
            await trio.sleep(0.05)

    async def _serve(self, name: str, coordinator: int, joined: JoinGroupResponse) -> None:
        """Commit for as long as the generation lasts."""
        identity = {"group_id": GROUP, "generation_id": joined.generation_id, "member_id": joined.member_id}
        assignments = [
            SyncGroupRequestAssignment(member_id=each.member_id, assignment=b"") for each in joined.members
        ]
        synced = await self.ask(coordinator, SyncGroupRequest(assignments=assignments, **identity), 1)
        while synced is not None and synced.error_code == Error.NONE:
            offset = self.committed.get(name, 0) + 1
            partition = OffsetCommitRequestPartition(
                partition_index=0, committed_offset=offset, committed_metadata=""
            )
            commit = OffsetCommitRequest(
                group_id=GROUP,
                generation_id_or_member_epoch=joined.generation_id,
                member_id=joined.member_id,
                topics=[OffsetCommitRequestTopic(name=name, partitions=[partition])],
            )
            response = await self.ask(coordinator, commit, 3)
            if response is None or response.topics[0].partitions[0].error_code:
                return
            self.committed[name] = offset
            self.generations[name] = joined.generation_id
            await trio.sleep(0.05)
            synced = await self.ask(coordinator, HeartbeatRequest(**identity), 1)


STORIES = {
    "rebalance": (Rebalance, (0, 1)),
    "creation": (Creation, (0, 2)),
    "addition": (Addition, (1, 3)),
    "deletion": (Deletion, (0, 2)),
    "reassignment": (Move, (0, 3)),
    "directory move": (DirectoryMove, (PREFERRED,)),
    "election": (Election, (PREFERRED, 1)),
    "configuration": (Configuration, (0, 2)),
}
"""By name: a story, and who dies in it besides the controller."""

assert all(victim < BROKERS for _, victims in STORIES.values() for victim in victims)
