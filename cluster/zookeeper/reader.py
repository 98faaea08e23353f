"""Typed, pipelined reads for any broker: the base of both stores.

A node that does not exist reads as nothing. A malformed node among many is logged and left out, so that one bad node,
written by an operator, does not stop a failover.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from cluster.statemachines.leadership import PartitionLeadership
from cluster.zookeeper.client import NoNodeError, Stat, Watcher, ZooKeeper
from cluster.zookeeper.znodes import (
    CLIENTS,
    USERS,
    BrokerIdsZnode,
    BrokerIdZnode,
    BrokerRegistration,
    ConfigEntityZnode,
    ControllerRegistration,
    ControllerZnode,
    FeatureZnode,
    MalformedZnodeError,
    MigrationZnode,
    PartitionStateZnode,
    TopicAssignment,
    TopicsZnode,
    TopicZnode,
)
from wire.types import BrokerEpoch, BrokerId, TopicPartition, ZkVersion

logger = logging.getLogger(__name__)

_STATES_PER_TURN: Final = 1000
"""How many partition states are decoded before the loop turns: about 10 ms."""


class ZnodeReader:
    """Typed reads of Kafka's znodes."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self.zookeeper = zookeeper

    async def read_node(self, path: str, watch: Watcher | None = None) -> tuple[bytes, Stat] | None:
        """Read a node that may not exist; a watch is left in either case."""
        while True:
            if await self.zookeeper.exists(path, watch) is None:
                return None
            try:
                return await self.zookeeper.get(path)
            except NoNodeError:
                # It was deleted between the two reads: `exists` must watch for its return.
                continue

    async def read_children(self, path: str, watch: Watcher | None = None) -> list[str]:
        """Return the names of a node's children; none where the node does not exist (then unwatched)."""
        try:
            return await self.zookeeper.children(path, watch)
        except NoNodeError:
            return []

    async def read_controller(
        self, watch: Watcher | None = None
    ) -> tuple[ControllerRegistration, Stat] | None:
        """Read which broker is controller, and watch for changes.

        Raises:
            MalformedZnodeError: `/controller` is malformed.
        """
        found = await self.read_node(ControllerZnode.PATH, watch)
        if found is None:
            return None
        data, stat = found
        return ControllerZnode.decode(data), stat

    async def migration_was_begun(self) -> bool:
        """Return whether a migration to KRaft was begun, in which we must take no part."""
        return await self.zookeeper.exists(MigrationZnode.PATH) is not None

    async def read_brokers(self, watch: Watcher | None = None) -> dict[BrokerId, BrokerRegistration]:
        """Read the registrations of all live brokers, and watch for brokers that come and go."""
        names = await self.read_children(BrokerIdsZnode.PATH, watch)
        broker_ids = sorted(BrokerId(int(name)) for name in names if name.isdecimal())
        nodes = await self.zookeeper.get_many([BrokerIdZnode.path(broker_id) for broker_id in broker_ids])
        registrations = {}
        for broker_id, node in zip(broker_ids, nodes, strict=True):
            if node is None:
                continue
            try:
                registrations[broker_id] = BrokerIdZnode.decode(
                    broker_id, node[0], BrokerEpoch(node[1].czxid)
                )
            except MalformedZnodeError:
                logger.exception("broker %d is taken as not registered", broker_id)
        return registrations

    async def read_topics(self, watch: Watcher | None = None) -> list[str]:
        """Return the names of all topics, sorted, and watch for topics that come and go."""
        return await self.read_children(TopicsZnode.PATH, watch)

    async def read_topic(self, topic: str) -> tuple[TopicAssignment, ZkVersion] | None:
        """Read one topic's assignment and the znode version to write it back at.

        Raises:
            MalformedZnodeError: the topic's node is malformed.
        """
        try:
            data, stat = await self.zookeeper.get(TopicZnode.path(topic))
        except NoNodeError:
            return None
        return TopicZnode.decode(topic, data), stat.version

    async def read_assignments(
        self, topics: Sequence[str], watch: Watcher | None = None
    ) -> dict[str, tuple[TopicAssignment, ZkVersion]]:
        """Read many topics' assignments with their znode versions, and watch each for changes."""
        nodes = await self.zookeeper.get_many([TopicZnode.path(topic) for topic in topics], watch)
        assignments = {}
        for topic, node in zip(topics, nodes, strict=True):
            if node is None:
                continue
            try:
                assignments[topic] = (TopicZnode.decode(topic, node[0]), node[1].version)
            except MalformedZnodeError:
                logger.exception("topic %s is left alone", topic)
        return assignments

    async def read_partition_state(self, partition: TopicPartition) -> PartitionLeadership | None:
        """Read one partition's leader and ISR.

        Raises:
            MalformedZnodeError: the node holds nonsense.
        """
        try:
            data, stat = await self.zookeeper.get(PartitionStateZnode.path(partition))
        except NoNodeError:
            return None
        return PartitionStateZnode.decode(data, stat.version)

    async def read_partition_states(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, PartitionLeadership]:
        """Read many partitions' leaders and ISRs; those that have never been online are left out."""
        states = {}
        # In slices, so that the loop turns between them.
        for start in range(0, max(1, len(partitions)), _STATES_PER_TURN):
            part = partitions[start : start + _STATES_PER_TURN]
            nodes = await self.zookeeper.get_many([PartitionStateZnode.path(tp) for tp in part])
            for partition, node in zip(part, nodes, strict=True):
                if node is None:
                    continue
                try:
                    states[partition] = PartitionStateZnode.decode(node[0], node[1].version)
                except MalformedZnodeError:
                    logger.exception("partition %s is left alone", partition)
        return states

    async def read_state_births(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the transaction in which each partition first got a leader; those that never had one are left out."""
        nodes = await self.zookeeper.get_many([PartitionStateZnode.path(tp) for tp in partitions])
        return {
            partition: node[1].czxid
            for partition, node in zip(partitions, nodes, strict=True)
            if node is not None
        }

    async def read_configs(self, entity_type: str, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Read the dynamic configurations of entities; an entity without one has an empty one.

        Args:
            entity_type: One of `znodes.ENTITY_TYPES`.
            names: Sanitized entity names.
        """
        wanted = list(names)
        nodes = await self.zookeeper.get_many([ConfigEntityZnode.path(entity_type, n) for n in wanted])
        configs: dict[str, dict[str, str]] = {}
        for name, node in zip(wanted, nodes, strict=True):
            try:
                configs[name] = {} if node is None else ConfigEntityZnode.decode(node[0])
            except MalformedZnodeError:
                logger.exception("the configuration of %s %s is taken as empty", entity_type, name)
                configs[name] = {}
        return configs

    async def read_config(self, entity_type: str, name: str) -> tuple[dict[str, str], ZkVersion | None]:
        """Read one configuration and its znode version, which is ``None`` if it does not exist.

        Raises:
            MalformedZnodeError: the node holds nonsense.
        """
        try:
            data, stat = await self.zookeeper.get(ConfigEntityZnode.path(entity_type, name))
        except NoNodeError:
            return {}, None
        return ConfigEntityZnode.decode(data), stat.version

    async def read_config_names(self, entity_type: str) -> list[str]:
        """Return the sanitized names of the entities of a type that have a node."""
        return await self.read_children(ConfigEntityZnode.parent(entity_type))

    async def read_config_paths(self, entity_type: str) -> list[str]:
        """Return the paths below a type that may have a configuration: `<name>`, and `<user>/clients/<client>`."""
        names = await self.read_config_names(entity_type)
        if entity_type != USERS:
            return names
        paths = list(names)
        for name in names:
            clients = await self.read_children(f"{ConfigEntityZnode.path(USERS, name)}/{CLIENTS}")
            paths += [f"{name}/{CLIENTS}/{client}" for client in clients]
        return paths

    async def read_features(self) -> dict[str, int] | None:
        """Read the finalized features, ``None`` if no controller has written them yet.

        Raises:
            MalformedZnodeError: `/feature` is malformed.
        """
        found = await self.read_node(FeatureZnode.PATH)
        return None if found is None else FeatureZnode.decode(found[0])
