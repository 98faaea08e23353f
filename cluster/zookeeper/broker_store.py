"""What any broker writes in ZooKeeper: its registration, its partitions' ISRs, topics, configurations.

None of these writes is the controller's, so none is fenced by its epoch; each is conditional on its node's
version.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from cluster.statemachines.leadership import PartitionLeadership
from cluster.zookeeper.client import (
    ANY_VERSION,
    BadVersionError,
    ConnectionLossError,
    Create,
    NodeExistsError,
    NoNodeError,
    Operation,
    SetData,
    Watcher,
    ZooKeeper,
)
from cluster.zookeeper.producer_ids import next_producer_id_block
from cluster.zookeeper.reader import ZnodeReader
from cluster.zookeeper.registration import register
from cluster.zookeeper.znodes import (
    PERSISTENT_PATHS,
    TOPICS,
    BrokerIdZnode,
    BrokerRegistration,
    BrokerSequenceIdZnode,
    ClusterIdZnode,
    ConfigChangeZnode,
    ConfigEntityZnode,
    ConsumersZnode,
    DeleteTopicsZnode,
    IsrChangeZnode,
    LogDirEventZnode,
    PartitionStateZnode,
    ProducerIdBlock,
    TopicAssignment,
    TopicZnode,
)
from wire.types import BrokerEpoch, BrokerId, Offset, TopicPartition, ZkVersion

logger = logging.getLogger(__name__)

_PARTITIONS_PER_NOTIFICATION: Final = 2000
"""The most partitions in one ISR change notification: with the longest names a little more than half a megabyte."""


class BrokerStore(ZnodeReader):
    """ZooKeeper as any broker uses it."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        super().__init__(zookeeper)

    async def create_persistent_paths(self) -> None:
        """Create every persistent node that Kafka expects, unless it exists, as each broker does when it starts."""
        for path in PERSISTENT_PATHS:
            await self._ensure(path)

    async def cluster_id(self, proposed: str) -> str:
        """Return the cluster's id, which is ``proposed`` if this is the cluster's first broker.

        Raises:
            MalformedZnodeError: `/cluster/id` is malformed.
        """
        while True:
            try:
                data, _ = await self.zookeeper.get(ClusterIdZnode.PATH)
                return ClusterIdZnode.decode(data)
            except NoNodeError:
                await self._ensure(ClusterIdZnode.PATH, ClusterIdZnode.encode(proposed))

    async def generate_broker_id(self) -> int:
        """Return a number that no broker got before, from 1 on, to add to `reserved.broker.max.id` for a broker id."""
        while True:
            try:
                return (await self.zookeeper.set(BrokerSequenceIdZnode.PATH, b"", ANY_VERSION)).version
            except NoNodeError:
                await self._ensure(BrokerSequenceIdZnode.PATH)
            except ConnectionLossError:
                continue  # a number may be skipped

    async def register(self, registration: BrokerRegistration) -> BrokerEpoch:
        """Open the session for use and create this broker's ephemeral node in it: see `registration`.

        Raises:
            BrokerIdTakenError: another live broker has this id.
        """
        return await register(self.zookeeper, registration)

    async def update_registration(self, registration: BrokerRegistration) -> None:
        """Rewrite our registration, keeping its epoch: what changed listeners need.

        Raises:
            NoNodeError: we are not registered.
        """
        path = BrokerIdZnode.path(registration.broker_id)
        while True:
            _, stat = await self.zookeeper.get(path)
            try:
                await self.zookeeper.set(path, BrokerIdZnode.encode(registration), stat.version)
            except (BadVersionError, ConnectionLossError):
                continue
            return

    async def next_producer_id_block(self, broker_id: BrokerId) -> ProducerIdBlock:
        """Take a block of producer ids: see `producer_ids`."""
        return await next_producer_id_block(self.zookeeper, broker_id)

    async def write_isr(
        self, partition: TopicPartition, leadership: PartitionLeadership, expected_version: ZkVersion
    ) -> ZkVersion:
        """Write the ISR that we, the partition's leader, decided; return the node's new version.

        If the connection was lost, or the version is stale, the node is read back: if it holds this very decision, it
        counts as written.

        Args:
            partition: The partition.
            leadership: The whole state with the new ISR; leader epoch and controller epoch as they were.
            expected_version: The node's version as far as we know.

        Raises:
            BadVersionError: another writer, presumably the controller, was faster; wait for its LeaderAndIsr.
            NoNodeError: the state is gone.
        """
        path = PartitionStateZnode.path(partition)
        data = PartitionStateZnode.encode(leadership)
        while True:
            try:
                return (await self.zookeeper.set(path, data, expected_version)).version
            except (ConnectionLossError, BadVersionError):
                stored, stat = await self.zookeeper.get(path)
                if PartitionStateZnode.decode(stored, stat.version) == leadership.at_version(stat.version):
                    return stat.version
                if stat.version != expected_version:
                    raise BadVersionError(f"{partition} is at version {stat.version}") from None

    async def propagate_isr_changes(self, partitions: Iterable[TopicPartition]) -> None:
        """Tell the controller which partitions' ISRs we wrote, split into notifications that ZooKeeper accepts."""
        ordered = sorted(partitions)
        for start in range(0, len(ordered), _PARTITIONS_PER_NOTIFICATION):
            part = ordered[start : start + _PARTITIONS_PER_NOTIFICATION]
            await self._notify(IsrChangeZnode.PREFIX, IsrChangeZnode.encode(part))

    async def propagate_log_dir_event(self, broker_id: BrokerId) -> None:
        """Tell the controller that one of our log directories failed."""
        await self._notify(LogDirEventZnode.PREFIX, LogDirEventZnode.encode(broker_id))

    async def create_topic(self, topic: str, assignment: TopicAssignment, config: Mapping[str, str]) -> None:
        """Create a topic and its configuration in one transaction; the controller does the rest.

        Raises:
            NodeExistsError: the topic exists.
        """
        path = TopicZnode.path(topic)
        data = TopicZnode.encode(assignment)
        config_path = ConfigEntityZnode.path(TOPICS, topic)
        config_data = ConfigEntityZnode.encode(config)
        while True:
            # A configuration may exist already, left over or created beforehand: it is replaced, as Kafka does.
            stat = await self.zookeeper.exists(config_path)
            write_config: Operation = (
                Create(config_path, config_data)
                if stat is None
                else SetData(config_path, config_data, stat.version)
            )
            try:
                result = await self.zookeeper.multi([Create(path, data), write_config])
            except ConnectionLossError:
                found = await self.read_node(path)
                if found is not None and found[0] == data:
                    return
                continue
            if result.failure is None:
                return
            if result.failure[0] == 0:
                raise result.failure[1]
            if isinstance(result.failure[1], NoNodeError) and stat is None:
                await self._ensure(ConfigEntityZnode.parent(TOPICS))

    async def set_topic_assignment(
        self, topic: str, assignment: TopicAssignment, expected_version: ZkVersion
    ) -> ZkVersion:
        """Rewrite a topic's assignment, to add partitions; return the node's new version.

        Raises:
            BadVersionError: it was written in the meantime: read and decide again.
            NoNodeError: the topic is gone.
        """
        path = TopicZnode.path(topic)
        data = TopicZnode.encode(assignment)
        while True:
            try:
                return (await self.zookeeper.set(path, data, expected_version)).version
            except ConnectionLossError:
                stored, stat = await self.zookeeper.get(path)
                if stat.version == expected_version + 1 and stored == data:
                    return stat.version
                if stat.version != expected_version:
                    raise BadVersionError(f"{path} was written meanwhile") from None

    async def mark_topic_for_deletion(self, topic: str) -> None:
        """Ask the controller to delete a topic; idempotent."""
        await self._ensure(DeleteTopicsZnode.path(topic))

    async def change_config(
        self, entity_type: str, name: str, change: Callable[[dict[str, str]], Mapping[str, str]]
    ) -> None:
        """Change an entity's configuration by compare-and-set, then have every broker read it.

        Cancelled between the two, the change is written and not announced; brokers see it when they restart.

        Args:
            entity_type: One of `znodes.ENTITY_TYPES`.
            name: Sanitized; of a user's client: `<user>/clients/<client>`.
            change: Returns the new configuration from the present one. Called again after a conflicting write.
        """
        path = ConfigEntityZnode.path(entity_type, name)
        while True:
            config, version = await self.read_config(entity_type, name)
            data = ConfigEntityZnode.encode(change(config))
            try:
                if version is None:
                    await self.zookeeper.create(path, data, make_parents=True)
                else:
                    await self.zookeeper.set(path, data, version)
            except (BadVersionError, NodeExistsError, NoNodeError, ConnectionLossError):
                continue
            break
        await self.announce_config_change(f"{entity_type}/{name}")

    async def announce_config_change(self, entity_path: str) -> None:
        """Have every broker read a configuration: `topics/<t>`, `brokers/<id>`, `users/<u>/clients/<c>`."""
        await self._notify(ConfigChangeZnode.PREFIX, ConfigChangeZnode.encode(entity_path))

    async def read_topic_deletions(self, watch: Watcher | None = None) -> list[str]:
        """Return the topics that are marked for deletion."""
        return await self.read_children(DeleteTopicsZnode.PATH, watch)

    async def read_consumer_offset(self, group: str, partition: TopicPartition) -> Offset | None:
        """Read an offset that OffsetCommit 0 stored, ``None`` if there is none.

        Raises:
            MalformedZnodeError: the node's data is not a number.
        """
        found = await self.read_node(ConsumersZnode.offset_path(group, *partition))
        return None if found is None else ConsumersZnode.decode_offset(found[0])

    async def write_consumer_offset(self, group: str, partition: TopicPartition, offset: Offset) -> None:
        """Store an offset for OffsetCommit 0. The last writer wins, as in Kafka: a group has one per partition."""
        path = ConsumersZnode.offset_path(group, *partition)
        data = ConsumersZnode.encode_offset(offset)
        while True:
            try:
                await self.zookeeper.set(path, data, ANY_VERSION)
            except ConnectionLossError:
                continue
            except NoNodeError:
                await self._ensure(path, data)
                continue
            return

    async def _ensure(self, path: str, data: bytes | None = None) -> None:
        """Create a persistent node and those above it, unless it exists."""
        while True:
            try:
                await self.zookeeper.create(path, data, make_parents=True)
            except NodeExistsError:
                return
            except ConnectionLossError:
                continue
            return

    async def _notify(self, prefix: str, data: bytes) -> None:
        """Create a sequential notification; twice if the connection is lost, perhaps, which does no harm."""
        while True:
            try:
                await self.zookeeper.create(prefix, data, sequence=True, make_parents=True)
            except ConnectionLossError:
                continue
            return
