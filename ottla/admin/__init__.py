"""The trio admin client: topics, partitions, configurations and the state of a cluster.

    async with open_admin("127.0.0.1:9092,127.0.0.1:9093") as admin:
        await admin.create_topics([NewTopic("orders", partitions=3, replication_factor=3)])

What the controller must do is sent to it, and again to its successor where it has changed meanwhile. After a
broken connection a request is sent again: whether it was carried out the first time is unknown, so that a
creation may answer that the topic exists.
"""

from ottla.admin.client import Admin, open_admin
from ottla.admin.descriptions import (
    Broker,
    ClusterDescription,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    ConfigValue,
    FoundOffset,
    LogDirectory,
    NewTopic,
    PartitionDescription,
    Reassignment,
    ReplicaOnDisk,
    ResourceKind,
    TopicDescription,
)
from ottla.admin.groups import CommittedPosition, GroupDescription, GroupMember, ListedGroup
from ottla.admin.moves import Election
from ottla.admin.router import BootstrapError
from ottla.admin.transactions import ListedTransaction, ProducerDescription, TransactionDescription
from ottla.connection import ConnectError, NoCommonVersionError
from wire.errors import ApiError

__all__ = [
    "Admin",
    "ApiError",
    "BootstrapError",
    "Broker",
    "ClusterDescription",
    "CommittedPosition",
    "ConfigChange",
    "ConfigOperation",
    "ConfigResource",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigValue",
    "ConnectError",
    "Election",
    "FoundOffset",
    "GroupDescription",
    "GroupMember",
    "ListedGroup",
    "ListedTransaction",
    "LogDirectory",
    "NewTopic",
    "NoCommonVersionError",
    "PartitionDescription",
    "ProducerDescription",
    "Reassignment",
    "ReplicaOnDisk",
    "ResourceKind",
    "TopicDescription",
    "TransactionDescription",
    "open_admin",
]
