"""Kafka's old consumer: its groups are coordinated by ZooKeeper. For clusters that have such groups, and to leave them.

Examples:
    >>> settings = OldConsumerSettings(group_id="billing", zookeeper_connect="localhost:2181")  # doctest: +SKIP
    >>> async with Connector(settings) as connector:
    ...     streams = await connector.create_message_streams({"orders": 1})
    ...     async for record in streams["orders"][0]:
    ...         print(record.partition, record.offset, record.value)
"""

from ottla.old_consumer.balance import RebalanceFailed, RebalanceListener
from ottla.old_consumer.connector import Connector, ConnectorStatistics
from ottla.old_consumer.group_znodes import AlreadyRegistered
from ottla.old_consumer.offsets import OffsetCommitFailed
from ottla.old_consumer.settings import OldConsumerSettings, Reset, Storage, parse_properties
from ottla.old_consumer.streams import ConsumerTimeout, Stream
from ottla.old_consumer.subscription import TopicFilter, black_list, white_list

__all__ = [
    "AlreadyRegistered",
    "Connector",
    "ConnectorStatistics",
    "ConsumerTimeout",
    "OffsetCommitFailed",
    "OldConsumerSettings",
    "RebalanceFailed",
    "RebalanceListener",
    "Reset",
    "Storage",
    "Stream",
    "TopicFilter",
    "black_list",
    "parse_properties",
    "white_list",
]
