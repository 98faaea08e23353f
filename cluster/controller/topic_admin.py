"""Creating, deleting and extending topics: what is written, and what is refused, with Kafka's error codes.

Any broker may write these: they are requests to the controller, which finds them by its watches and does the
rest. A topic exists once its znode is written; it can be used once its leaders are known.
"""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

from cluster.controller.topic_changes import new_topic_id
from cluster.statemachines.leadership import PartitionAssignment
from cluster.statemachines.replica_assignment import BrokerRack, assign_replicas, random_placement
from cluster.zookeeper.broker_store import BrokerStore
from cluster.zookeeper.client import BadVersionError, NodeExistsError, NoNodeError
from cluster.zookeeper.znodes import DeleteTopicsZnode, TopicAssignment, TopicZnode
from wire.errors import ApiError, Error
from wire.messages.create_partitions import CreatePartitionsTopic
from wire.messages.create_topics import CreatableTopic
from wire.types import BrokerId, TopicId

logger = logging.getLogger(__name__)

_PARTITION_BYTES_MIN: Final = len('"10000":[1],')
"""Bytes that one partition takes in the znode of a topic with many."""
UNSET: Final = -1
"""Stands for the broker's default where a number of partitions or replicas is expected."""
MAX_NAME_LENGTH: Final = 249
_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")

Replicas = Mapping[int, tuple[BrokerId, ...]]
CheckConfig = Callable[[Mapping[str, str]], None]
"""Raises if the settings cannot be those of a topic."""


class TopicDefaults(Protocol):
    """The defaults for topics that do not set these values."""

    @property
    def num_partitions(self) -> int:
        """How many partitions."""
        ...

    @property
    def default_replication_factor(self) -> int:
        """How many replicas each."""
        ...


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic that was created, or could be.

    Attributes:
        topic_id: Its id; one that is never used if the request only validates.
        replicas: By partition.
        configs: Its own settings.
    """

    topic_id: TopicId
    replicas: Replicas
    configs: Mapping[str, str]

    @property
    def replication_factor(self) -> int:
        """How many replicas each partition has."""
        return len(self.replicas[0])


class TopicAdmin:
    """Writes the znodes that request topics, partitions and deletions from the controller."""

    def __init__(
        self, store: BrokerStore, defaults: TopicDefaults, check_config: CheckConfig, random: Random
    ) -> None:
        """Make it.

        Args:
            store: This broker's view of ZooKeeper.
            defaults: Its configuration.
            check_config: Checks the settings of a topic; what it raises goes to the caller.
            random: Decides where assignments start.
        """
        self._store = store
        self._defaults = defaults
        self._check_config = check_config
        self._random = random

    async def create_topic(self, topic: CreatableTopic, *, validate_only: bool = False) -> CreatedTopic:
        """Create a topic, with the assignment it names or one over the live brokers.

        Cancelled, it has created the whole topic or nothing.

        Args:
            topic: What is asked for.
            validate_only: Only see whether it could be created.

        Raises:
            ApiError: TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST, INVALID_CONFIG,
                INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR or INVALID_REPLICA_ASSIGNMENT.
        """
        name = topic.name
        nulls = [config.name for config in topic.configs if config.value is None]
        if nulls:
            raise ApiError(
                Error.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}"
            )
        if topic.assignments and (topic.num_partitions, topic.replication_factor) != (UNSET, UNSET):
            raise ApiError(
                Error.INVALID_REQUEST,
                "Both numPartitions or replicationFactor and replicasAssignments were set. "
                "Both cannot be used at the same time.",
            )
        check_topic_name(name)
        await self._check_is_new(name)
        if topic.assignments:
            replicas: Replicas = {a.partition_index: tuple(a.broker_ids) for a in topic.assignments}
            _check_assignment(replicas, len(topic.assignments))
        else:
            replicas = await self._assign(topic.num_partitions, topic.replication_factor)
        configs = {config.name: config.value for config in topic.configs if config.value is not None}
        self._check_config(configs)
        created = CreatedTopic(new_topic_id(), replicas, configs)
        if not validate_only:
            await self._write(name, created)
        return created

    async def delete_topic(self, name: str) -> None:
        """Request the deletion of a topic; repeating the request is no error.

        Raises:
            ApiError: UNKNOWN_TOPIC_OR_PARTITION.
        """
        if await self._store.zookeeper.exists(TopicZnode.path(name)) is None:
            raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"Topic `{name}` to delete does not exist")
        await self._store.mark_topic_for_deletion(name)

    async def create_partitions(
        self, topic: CreatePartitionsTopic, *, validate_only: bool = False
    ) -> Replicas:
        """Add partitions to a topic, with the assignments it names or some over the live brokers.

        Args:
            topic: The topic and the number of partitions that it shall have.
            validate_only: Only see whether they could be added.

        Returns:
            The replicas of the added partitions.

        Raises:
            ApiError: UNKNOWN_TOPIC_OR_PARTITION, REASSIGNMENT_IN_PROGRESS, INVALID_PARTITIONS,
                INVALID_REPLICA_ASSIGNMENT or BROKER_NOT_AVAILABLE.
        """
        missing = ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic.name}' does not exist.")
        while True:
            found = await self._store.read_topic(topic.name)
            if found is None or not found[0].partitions:
                raise missing
            existing, version = found
            added = await self._plan_partitions(topic, existing.partitions)
            if validate_only:
                return added
            partitions = {
                **existing.partitions,
                **{partition: PartitionAssignment(replicas) for partition, replicas in added.items()},
            }
            try:
                await self._store.set_topic_assignment(
                    topic.name, TopicAssignment(existing.topic_id, partitions), version
                )
            except BadVersionError:
                continue
            except NoNodeError:
                raise missing from None
            logger.info("topic %s gets partitions %s", topic.name, dict(added))
            return added

    async def _check_is_new(self, name: str) -> None:
        exists = self._store.zookeeper.exists
        if await exists(DeleteTopicsZnode.path(name)) is not None:
            raise ApiError(Error.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
        if await exists(TopicZnode.path(name)) is not None:
            raise ApiError(Error.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if "_" not in name and "." not in name:
            return
        # Metrics show both characters as one, so two topics that differ in nothing else would be one there.
        unified = name.replace(".", "_")
        others = [
            topic
            for topic in await self._store.read_topics()
            if topic != name and topic.replace(".", "_") == unified
        ]
        if others:
            raise ApiError(
                Error.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topics: {', '.join(others)}",
            )

    async def _assign(self, partition_count: int, replication_factor: int) -> Replicas:
        if partition_count == UNSET:
            partition_count = self._defaults.num_partitions
        if replication_factor == UNSET:
            replication_factor = self._defaults.default_replication_factor
        self._check_partition_count(partition_count)
        brokers = await self._live_brokers()
        start, shift = random_placement(max(1, len(brokers)), self._random)
        return assign_replicas(brokers, partition_count, replication_factor, start=start, shift=shift)

    def _check_partition_count(self, count: int) -> None:
        """Refuse more partitions than a znode holds before time is spent on where they go.

        Raises:
            ApiError: INVALID_PARTITIONS.
        """
        most = self._store.zookeeper.write_bytes_max // _PARTITION_BYTES_MIN
        if count > most:
            raise ApiError(
                Error.INVALID_PARTITIONS,
                f"{count} partitions do not fit into the znode of a topic, which holds {most} at the most "
                "(ottla.zookeeper.write.bytes.max)",
            )

    async def _write(self, name: str, created: CreatedTopic) -> None:
        assignment = TopicAssignment(
            created.topic_id,
            {partition: PartitionAssignment(replicas) for partition, replicas in created.replicas.items()},
        )
        try:
            await self._store.create_topic(name, assignment, created.configs)
        except NodeExistsError:
            raise ApiError(Error.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.") from None
        logger.info("topic %s is created with %d partitions", name, len(created.replicas))

    async def _plan_partitions(
        self, topic: CreatePartitionsTopic, existing: Mapping[int, PartitionAssignment]
    ) -> Replicas:
        if any(assignment.is_being_reassigned for assignment in existing.values()):
            raise ApiError(
                Error.REASSIGNMENT_IN_PROGRESS,
                f"A partition reassignment is in progress for the topic '{topic.name}'.",
            )
        count = len(existing)
        if topic.count < count:
            raise ApiError(
                Error.INVALID_PARTITIONS,
                f"Topic currently has {count} partitions, which is higher than the requested {topic.count}.",
            )
        if topic.count == count:
            raise ApiError(Error.INVALID_PARTITIONS, f"Topic already has {count} partitions.")
        first = existing.get(0)
        if first is None or not first.replicas:
            raise ApiError(
                Error.UNKNOWN_SERVER_ERROR,
                f"Unexpected existing replica assignment for topic '{topic.name}', partition id 0 is missing.",
            )
        brokers = await self._live_brokers()
        if topic.assignments is not None:
            lists = [tuple(BrokerId(b) for b in a.broker_ids) for a in topic.assignments]
            return _named_partitions(lists, count, topic.count - count, len(first.replicas), brokers)
        self._check_partition_count(topic.count)
        # The assignment continues from the position of the topic's first leader in the ring of brokers.
        ids = [broker.broker_id for broker in brokers]
        start = next((index for index, broker in enumerate(ids) if broker >= first.replicas[0]), 0)
        return assign_replicas(
            brokers,
            topic.count - count,
            len(first.replicas),
            start=start,
            shift=start,
            first_partition=count,
        )

    async def _live_brokers(self) -> list[BrokerRack]:
        registrations = await self._store.read_brokers()
        return [BrokerRack(broker_id, broker.rack) for broker_id, broker in sorted(registrations.items())]


def check_topic_name(name: str) -> None:
    """Check the name of a topic.

    Raises:
        ApiError: INVALID_TOPIC_EXCEPTION.
    """
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME_LENGTH:
        reason = f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    elif _LEGAL_NAME.fullmatch(name) is None:
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise ApiError(Error.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def _check_assignment(replicas: Replicas, count: int) -> None:
    wrong = Error.INVALID_REPLICA_ASSIGNMENT
    if len({len(brokers) for brokers in replicas.values()}) != 1:
        raise ApiError(wrong, "All partitions should have the same number of replicas")
    if any(not brokers or len(set(brokers)) < len(brokers) for brokers in replicas.values()):
        raise ApiError(wrong, f"Duplicate replica assignment found: {dict(replicas)}")
    if sorted(replicas) != list(range(count)):
        raise ApiError(wrong, "partitions should be a consecutive 0-based integer sequence")


def _named_partitions(
    lists: Sequence[tuple[BrokerId, ...]],
    first_partition: int,
    added: int,
    replication_factor: int,
    brokers: Sequence[BrokerRack],
) -> Replicas:
    """Check assignments that a caller named for added partitions."""
    wrong = Error.INVALID_REPLICA_ASSIGNMENT
    known = {broker.broker_id for broker in brokers}
    unknown = sorted({broker for replicas in lists for broker in replicas} - known)
    if unknown:
        raise ApiError(wrong, f"Unknown broker(s) in replica assignment: {', '.join(map(str, unknown))}.")
    if len(lists) != added:
        raise ApiError(
            wrong,
            f"Increasing the number of partitions by {added} but {len(lists)} assignments provided.",
        )
    named = dict(enumerate(lists, first_partition))
    for partition, replicas in named.items():
        if not replicas:
            raise ApiError(wrong, f"Cannot have replication factor of 0 for partition id {partition}.")
        if len(set(replicas)) < len(replicas):
            raise ApiError(
                wrong,
                f"Duplicate brokers not allowed in replica assignment: {', '.join(map(str, replicas))} "
                f"for partition id {partition}.",
            )
    bad = {
        partition: len(replicas)
        for partition, replicas in named.items()
        if len(replicas) != replication_factor
    }
    if bad:
        raise ApiError(
            wrong,
            f"Inconsistent replication factor between partitions, partition 0 has {replication_factor} while "
            f"partitions {list(bad)} have replication factors {list(bad.values())}, respectively.",
        )
    return named
