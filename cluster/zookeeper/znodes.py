"""All znodes of Kafka 3.9, gathered here; each is declared once, with path, encode and decode together."""

from typing import Final

from cluster.zookeeper.acl_znodes import (
    EXTENDED_ACL_PATH,
    EXTENDED_CHANGES_PATH,
    LITERAL_ACL_PATH,
    LITERAL_CHANGES_PATH,
    AclChangeZnode,
    AclEntry,
    AclResource,
    AclZnode,
)
from cluster.zookeeper.admin_znodes import DeleteTopicsZnode, PreferredElectionZnode, ReassignPartitionsZnode
from cluster.zookeeper.broker_znodes import (
    BrokerIdsZnode,
    BrokerIdZnode,
    BrokerRegistration,
    BrokerSequenceIdZnode,
    RegisteredEndpoint,
)
from cluster.zookeeper.cluster_znodes import (
    ClusterIdZnode,
    ConsumersZnode,
    FeatureZnode,
    MigrationZnode,
    ProducerIdBlock,
    ProducerIdBlockZnode,
)
from cluster.zookeeper.config_znodes import (
    BROKERS,
    CLIENTS,
    DEFAULT_ENTITY,
    ENTITY_TYPES,
    IPS,
    TOPICS,
    USERS,
    ConfigEntityZnode,
    desanitize,
    sanitize,
)
from cluster.zookeeper.controller_znodes import ControllerEpochZnode, ControllerRegistration, ControllerZnode
from cluster.zookeeper.json_data import MalformedZnodeError
from cluster.zookeeper.notification_znodes import ConfigChangeZnode, IsrChangeZnode, LogDirEventZnode
from cluster.zookeeper.topic_znodes import (
    PartitionStateZnode,
    TopicAssignment,
    TopicPartitionsZnode,
    TopicsZnode,
    TopicZnode,
)

DELEGATION_TOKEN_PATHS: Final = ("/delegation_token/token_changes", "/delegation_token/tokens")

PERSISTENT_PATHS: Final = (
    ConsumersZnode.PATH,
    BrokerIdsZnode.PATH,
    TopicsZnode.PATH,
    ConfigChangeZnode.PARENT,
    DeleteTopicsZnode.PATH,
    BrokerSequenceIdZnode.PATH,
    IsrChangeZnode.PARENT,
    ProducerIdBlockZnode.PATH,
    LogDirEventZnode.PARENT,
    *(ConfigEntityZnode.parent(entity_type) for entity_type in ENTITY_TYPES),
    LITERAL_ACL_PATH,
    EXTENDED_ACL_PATH,
    LITERAL_CHANGES_PATH,
    EXTENDED_CHANGES_PATH,
    *DELEGATION_TOKEN_PATHS,
)
"""The persistent nodes that every broker creates when it starts, unless they exist: parents included, without data."""

__all__ = [
    "PERSISTENT_PATHS",
    "MalformedZnodeError",
    "ControllerZnode",
    "ControllerRegistration",
    "ControllerEpochZnode",
    "BrokerIdsZnode",
    "BrokerIdZnode",
    "BrokerRegistration",
    "RegisteredEndpoint",
    "BrokerSequenceIdZnode",
    "TopicsZnode",
    "TopicZnode",
    "TopicAssignment",
    "TopicPartitionsZnode",
    "PartitionStateZnode",
    "IsrChangeZnode",
    "LogDirEventZnode",
    "ConfigChangeZnode",
    "ConfigEntityZnode",
    "ENTITY_TYPES",
    "TOPICS",
    "CLIENTS",
    "USERS",
    "BROKERS",
    "IPS",
    "DEFAULT_ENTITY",
    "sanitize",
    "desanitize",
    "DeleteTopicsZnode",
    "ReassignPartitionsZnode",
    "PreferredElectionZnode",
    "ClusterIdZnode",
    "ProducerIdBlock",
    "ProducerIdBlockZnode",
    "FeatureZnode",
    "MigrationZnode",
    "ConsumersZnode",
    "AclZnode",
    "AclEntry",
    "AclResource",
    "AclChangeZnode",
    "DELEGATION_TOKEN_PATHS",
]
