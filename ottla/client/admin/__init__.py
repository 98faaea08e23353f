"""The administrator's part of the client: topics, partitions, configurations and the state of a cluster.

    async with connect("127.0.0.1:9092,127.0.0.1:9093") as kafka:
        await kafka.admin.create_topics([NewTopic("orders", partitions=3, replication_factor=3)])

A request for the controller is sent again to its successor if the controller changes meanwhile. After a broken
connection a request is sent again, although the first one may have been carried out: a creation can then report that
the topic exists.
"""

from ottla.client.admin.client import Admin
from ottla.client.admin.descriptions import (
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
from ottla.client.admin.groups import CommittedPosition, GroupDescription, GroupMember, ListedGroup
from ottla.client.admin.moves import Election
from ottla.client.admin.transactions import (
    FencedProducer,
    ListedTransaction,
    ProducerDescription,
    TransactionDescription,
)

__all__ = [
    "Admin",
    "Broker",
    "ClusterDescription",
    "CommittedPosition",
    "ConfigChange",
    "ConfigOperation",
    "ConfigResource",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigValue",
    "Election",
    "FencedProducer",
    "FoundOffset",
    "GroupDescription",
    "GroupMember",
    "ListedGroup",
    "ListedTransaction",
    "LogDirectory",
    "NewTopic",
    "PartitionDescription",
    "ProducerDescription",
    "Reassignment",
    "ReplicaOnDisk",
    "ResourceKind",
    "TopicDescription",
    "TransactionDescription",
]
