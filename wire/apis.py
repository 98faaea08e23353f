"""Kafka's API keys, and what we have schemas for: one line an API.

The table is apart from the message classes, so that reading it imports none of them.
"""

from collections.abc import Mapping
from enum import IntEnum
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from wire.schema import Request, Response


class ApiKey(IntEnum):
    """Every API key of Kafka 3.9, those of other roles than a ZooKeeper-mode broker's included, and our own."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CLIENT_METRICS_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    # Ottla's own, between its brokers only: not listed to anyone else.
    WATCH_SESSION = 20_000
    REACH_BROKER = 20_001


ENTRIES_MAX: Final = 90_000
"""How many entries the arrays of a request may have together: more than clients need, and few enough for a broker."""
UNBOUNDED_ENTRIES: Final = frozenset({ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA})
"""Requests of the controller, whose entries are limited only by the frame's size: they may name all partitions."""

FIRST_OWN_KEY: Final = ApiKey.WATCH_SESSION
"""From this key on APIs are Ottla's own."""


class Api:
    """One API that a broker in ZooKeeper mode serves.

    Attributes:
        key: the API key.
        name: Kafka's name for it.
        min_version: the lowest version with a schema.
        max_version: the highest version with a schema.
        flexible_since: the first version with compact lengths and tagged fields; None where there is none.
    """

    __slots__ = ("flexible_since", "key", "max_version", "min_version", "name")

    def __init__(
        self, key: ApiKey, name: str, min_version: int, max_version: int, flexible_since: int | None
    ) -> None:
        self.key = key
        self.name = name
        self.min_version = min_version
        self.max_version = max_version
        self.flexible_since = flexible_since

    def __repr__(self) -> str:
        return f"<{self.name} {self.min_version}-{self.max_version}>"

    @property
    def module(self) -> str:
        """The module that declares its messages."""
        return f"{__package__}.messages.{self.key.name.lower()}"

    @property
    def request_name(self) -> str:
        return self.name + "Request"

    @property
    def response_name(self) -> str:
        return self.name + "Response"

    @property
    def request(self) -> "type[Request]":
        """The request's class; imports its module on first use."""
        found: type[Request] = getattr(import_module(self.module), self.request_name)
        return found

    @property
    def response(self) -> "type[Response]":
        """The response's class; imports its module on first use."""
        found: type[Response] = getattr(import_module(self.module), self.response_name)
        return found

    @property
    def entries_max(self) -> int | None:
        """How many entries the arrays of a request may have together; None where only its size limits them."""
        if self.key in UNBOUNDED_ENTRIES:
            return None
        return ENTRIES_MAX

    def serves(self, version: int) -> bool:
        """Whether there is a schema for this version."""
        return self.min_version <= version <= self.max_version

    def is_flexible(self, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields, in its header too."""
        return self.flexible_since is not None and version >= self.flexible_since


_APIS = (
    Api(ApiKey.PRODUCE, "Produce", 0, 11, 9),
    Api(ApiKey.FETCH, "Fetch", 0, 17, 12),
    Api(ApiKey.LIST_OFFSETS, "ListOffsets", 0, 9, 6),
    Api(ApiKey.METADATA, "Metadata", 0, 12, 9),
    Api(ApiKey.LEADER_AND_ISR, "LeaderAndIsr", 0, 7, 4),
    Api(ApiKey.STOP_REPLICA, "StopReplica", 0, 4, 2),
    Api(ApiKey.UPDATE_METADATA, "UpdateMetadata", 0, 8, 6),
    Api(ApiKey.CONTROLLED_SHUTDOWN, "ControlledShutdown", 0, 3, 3),
    Api(ApiKey.OFFSET_COMMIT, "OffsetCommit", 0, 9, 8),
    Api(ApiKey.OFFSET_FETCH, "OffsetFetch", 0, 9, 6),
    Api(ApiKey.FIND_COORDINATOR, "FindCoordinator", 0, 6, 3),
    Api(ApiKey.JOIN_GROUP, "JoinGroup", 0, 9, 6),
    Api(ApiKey.HEARTBEAT, "Heartbeat", 0, 4, 4),
    Api(ApiKey.LEAVE_GROUP, "LeaveGroup", 0, 5, 4),
    Api(ApiKey.SYNC_GROUP, "SyncGroup", 0, 5, 4),
    Api(ApiKey.DESCRIBE_GROUPS, "DescribeGroups", 0, 5, 5),
    Api(ApiKey.LIST_GROUPS, "ListGroups", 0, 5, 3),
    Api(ApiKey.SASL_HANDSHAKE, "SaslHandshake", 0, 1, None),
    Api(ApiKey.API_VERSIONS, "ApiVersions", 0, 4, 3),
    Api(ApiKey.CREATE_TOPICS, "CreateTopics", 0, 7, 5),
    Api(ApiKey.DELETE_TOPICS, "DeleteTopics", 0, 6, 4),
    Api(ApiKey.DELETE_RECORDS, "DeleteRecords", 0, 2, 2),
    Api(ApiKey.INIT_PRODUCER_ID, "InitProducerId", 0, 5, 2),
    Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", 0, 4, 4),
    Api(ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", 0, 5, 3),
    Api(ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", 0, 4, 3),
    Api(ApiKey.END_TXN, "EndTxn", 0, 4, 3),
    Api(ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", 0, 1, 1),
    Api(ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", 0, 4, 3),
    Api(ApiKey.DESCRIBE_ACLS, "DescribeAcls", 0, 3, 2),
    Api(ApiKey.CREATE_ACLS, "CreateAcls", 0, 3, 2),
    Api(ApiKey.DELETE_ACLS, "DeleteAcls", 0, 3, 2),
    Api(ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", 0, 4, 4),
    Api(ApiKey.ALTER_CONFIGS, "AlterConfigs", 0, 2, 2),
    Api(ApiKey.ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", 0, 2, 2),
    Api(ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", 0, 4, 2),
    Api(ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", 0, 2, 2),
    Api(ApiKey.CREATE_PARTITIONS, "CreatePartitions", 0, 3, 2),
    Api(ApiKey.CREATE_DELEGATION_TOKEN, "CreateDelegationToken", 0, 3, 2),
    Api(ApiKey.RENEW_DELEGATION_TOKEN, "RenewDelegationToken", 0, 2, 2),
    Api(ApiKey.EXPIRE_DELEGATION_TOKEN, "ExpireDelegationToken", 0, 2, 2),
    Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, "DescribeDelegationToken", 0, 3, 2),
    Api(ApiKey.DELETE_GROUPS, "DeleteGroups", 0, 2, 2),
    Api(ApiKey.ELECT_LEADERS, "ElectLeaders", 0, 2, 2),
    Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", 0, 1, 1),
    Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", 0, 0, 0),
    Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", 0, 0, 0),
    Api(ApiKey.OFFSET_DELETE, "OffsetDelete", 0, 0, None),
    Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", 0, 1, 1),
    Api(ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", 0, 1, 1),
    Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", 0, 0, 0),
    Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", 0, 0, 0),
    Api(ApiKey.ALTER_PARTITION, "AlterPartition", 0, 3, 0),
    Api(ApiKey.UPDATE_FEATURES, "UpdateFeatures", 0, 1, 0),
    Api(ApiKey.ENVELOPE, "Envelope", 0, 0, 0),
    Api(ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", 0, 1, 0),
    Api(ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", 0, 0, 0),
    Api(ApiKey.DESCRIBE_TRANSACTIONS, "DescribeTransactions", 0, 0, 0),
    Api(ApiKey.LIST_TRANSACTIONS, "ListTransactions", 0, 1, 0),
    Api(ApiKey.ALLOCATE_PRODUCER_IDS, "AllocateProducerIds", 0, 0, 0),
    Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", 0, 0, 0),
    Api(ApiKey.CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", 0, 0, 0),
    Api(ApiKey.WATCH_SESSION, "WatchSession", 0, 0, 0),
    Api(ApiKey.REACH_BROKER, "ReachBroker", 0, 0, 0),
)

API_TABLE: Final[Mapping[int, Api]] = MappingProxyType({api.key: api for api in _APIS})
"""The APIs that Kafka 3.9 serves on a ZooKeeper-mode broker, and our own, by key. The handlers decide which we
serve.
"""
