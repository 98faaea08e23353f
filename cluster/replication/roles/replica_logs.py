"""Finds or creates the logs of the replicas that the controller orders, and puts them into use."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from cluster.replication.roles.controller_orders import RoleOrder
from cluster.replication.roles.hosted_partitions import HostedPartitions
from storage.errors import InconsistentTopicIdError, LogError, StorageError
from wire.errors import Error
from wire.types import NO_TOPIC_ID, BrokerId, Offset, TopicPartition

if TYPE_CHECKING:
    from storage.log import Log
    from storage.log_config import LogConfig
    from storage.store import LogStore

logger = logging.getLogger(__name__)

MADE_AT_ONCE: Final = 64
"""How many logs are created in one call of a thread."""
Errors = dict[TopicPartition, Error]


class ReplicaLogs:
    """Provides each order with its log.

    Args:
        broker_id: This broker.
        store: The logs.
        hosted: The partitions that have theirs.
        high_watermarks: As checkpointed at the last stop; each is used once.
        log_configs: Returns topics' settings.
        state_births: Returns the ZooKeeper transaction in which each partition first got a leader.
        offload: Runs slow file operations beside the loop.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        store: "LogStore",
        hosted: HostedPartitions,
        high_watermarks: dict[TopicPartition, Offset],
        log_configs: "Callable[[Iterable[str]], Awaitable[Mapping[str, LogConfig]]]",
        state_births: Callable[[Sequence[TopicPartition]], Awaitable[Mapping[TopicPartition, int]]],
        offload: Callable[[Callable[[], object]], Awaitable[object]],
    ) -> None:
        self._broker_id = broker_id
        self._store = store
        self._hosted = hosted
        self._high_watermarks = high_watermarks
        self._log_configs = log_configs
        self._state_births = state_births
        self._offload = offload

    async def refuse_lost(self, orders: list[RoleOrder], errors: Errors) -> None:
        """Take out the orders whose log should be on disk and is not, with an error for each.

        A member of the ISR has a log that others rely on, unless it was never told to create one: the controller that
        created the topic, or this broker, died before. In that case the partition's state in ZooKeeper is younger than
        our directories, and no checkpoint of ours names it.

        Raises:
            ZooKeeperError: the age of the partitions cannot be read.
        """
        store = self._store
        doubtful = [
            order
            for order in orders
            if not order.state.is_new
            and store.get(order.topic_partition) is None
            and (self._broker_id in order.state.isr or store.offline_directories)
        ]
        if not doubtful:
            return
        lost = {order.topic_partition for order in doubtful}
        formatted, made = store.identity.formatted_at, self._high_watermarks
        if formatted is not None and not store.offline_directories:
            births = await self._state_births([order.topic_partition for order in doubtful])
            lost = {key for key in lost if key in made or births.get(key, formatted + 1) <= formatted}
        for key in lost:
            logger.error("%s should be on disk here, and is not: it takes no role", key)
            errors[key] = Error.KAFKA_STORAGE_ERROR
        orders[:] = [order for order in orders if order.topic_partition not in lost]

    async def provide(self, orders: Sequence[RoleOrder], errors: Errors) -> None:
        """Find or create the log of each order; those that fail get an error and no log.

        Raises:
            ZooKeeperError: topics' settings cannot be read; nothing was created.
        """
        missing: list[RoleOrder] = []
        for order in orders:
            order.log = self._store.get(order.topic_partition)
            if order.log is None:
                missing.append(order)
        if missing:
            await self._make_all(missing, errors)
        for order in orders:
            if order.log is not None and not self._adopt(order, order.log, errors):
                order.log = None

    async def _make_all(self, orders: Sequence[RoleOrder], errors: Errors) -> None:
        topics = {order.topic_partition.topic for order in orders}
        changes = self._store.config_changes
        configs = await self._log_configs(topics)
        for start in range(0, len(orders), MADE_AT_ONCE):
            some = orders[start : start + MADE_AT_ONCE]
            await self._offload(lambda some=some: self._make(some, configs, errors))  # type: ignore[misc]
        while changes != self._store.config_changes:
            # Settings that changed since they were read were not applied to these logs, which did not exist yet.
            changes = self._store.config_changes
            configs = await self._log_configs(topics)
            for order in orders:
                if order.log is not None:
                    order.log.update_config(configs[order.topic_partition.topic])

    def _make(self, orders: Sequence[RoleOrder], configs: "Mapping[str, LogConfig]", errors: Errors) -> None:
        """Create logs, in a thread."""
        store = self._store
        for order in orders:
            key = order.topic_partition
            try:
                order.log = store.create(key, order.topic_id, configs.get(key.topic), sync_parent=False)
            except LogError as failure:
                logger.error("the log of %s cannot be made: %s", key, failure)
                errors[key] = failure.kafka_error
        try:
            store.sync_directories()
        except StorageError as failure:
            for order in orders:
                if order.log is not None and order.log.log_directory.is_offline:
                    logger.error("the log of %s cannot be made: %s", order.topic_partition, failure)
                    errors[order.topic_partition] = failure.kafka_error
                    order.log = None

    def _adopt(self, order: RoleOrder, log: "Log", errors: Errors) -> bool:
        """Put a log into use: set its topic id and, the first time, its high watermark."""
        key = order.topic_partition
        try:
            log.log_directory.check_online()
            if order.topic_id != NO_TOPIC_ID:
                log.assign_topic_id(order.topic_id)
        except InconsistentTopicIdError as failure:
            errors[key] = failure.kafka_error
            return False
        except StorageError as failure:
            errors[key] = failure.kafka_error
            self._hosted.offline[key] = None
            return False
        if key not in self._hosted.online:
            checkpointed = self._high_watermarks.pop(key, Offset(0))
            log.set_high_watermark(max(checkpointed, log.high_watermark))
        return True
