"""Kafka 3.9's error codes, and the few exceptions of the wire layer.

One line an error: code, what a client does about it, text. A client tries again after a ``R`` error; after an
``M`` error it fetches metadata first, since a leader or its address has changed; ``-`` is final.
"""

from enum import IntEnum
from typing import Self


class Error(IntEnum):
    """An error code of a response.

    Attributes:
        retriable: the same request may succeed later.
        refresh_metadata: it needs fresh metadata first.
        text: what it means, for people; empty for ``NONE``.
    """

    retriable: bool
    refresh_metadata: bool
    text: str

    def __new__(cls, code: int, reaction: str, text: str) -> Self:
        error = int.__new__(cls, code)
        error._value_ = code
        error.retriable = reaction in ("R", "M")
        error.refresh_metadata = reaction == "M"
        error.text = text
        return error

    @classmethod
    def from_code(cls, code: int) -> "Error":
        """Return the error with this code; an unknown code counts as ``UNKNOWN_SERVER_ERROR``."""
        return _BY_CODE.get(code, cls.UNKNOWN_SERVER_ERROR)

    UNKNOWN_SERVER_ERROR = (-1, "-", "the broker failed in a way that has no error code")
    NONE = (0, "-", "")
    OFFSET_OUT_OF_RANGE = (1, "-", "the partition does not hold this offset")
    CORRUPT_MESSAGE = (2, "R", "a record batch is damaged: checksum, size or content are wrong")
    UNKNOWN_TOPIC_OR_PARTITION = (3, "M", "this broker hosts no such topic or partition")
    INVALID_FETCH_SIZE = (4, "-", "the fetch size is not usable")
    LEADER_NOT_AVAILABLE = (5, "M", "the partition has no leader at the moment")
    NOT_LEADER_OR_FOLLOWER = (6, "M", "this broker does not lead the partition, or holds no replica of it")
    REQUEST_TIMED_OUT = (7, "R", "the request did not complete within its time")
    BROKER_NOT_AVAILABLE = (8, "-", "the broker is not available")
    REPLICA_NOT_AVAILABLE = (9, "M", "the replica is not available here")
    MESSAGE_TOO_LARGE = (10, "-", "a record batch is larger than the topic accepts")
    STALE_CONTROLLER_EPOCH = (11, "-", "a newer controller has been elected")
    OFFSET_METADATA_TOO_LARGE = (12, "-", "the metadata string of an offset commit is too long")
    NETWORK_EXCEPTION = (13, "M", "the connection broke before the answer came")
    COORDINATOR_LOAD_IN_PROGRESS = (14, "R", "the coordinator is still reading its state")
    COORDINATOR_NOT_AVAILABLE = (15, "R", "no coordinator is available")
    NOT_COORDINATOR = (16, "R", "another broker is the coordinator")
    INVALID_TOPIC_EXCEPTION = (17, "-", "the topic name is invalid, or the topic is reserved")
    RECORD_LIST_TOO_LARGE = (18, "-", "the record batches together exceed a segment")
    NOT_ENOUGH_REPLICAS = (19, "R", "fewer replicas are in sync than required; nothing was written")
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (20, "R", "written, but fewer replicas are in sync than required")
    INVALID_REQUIRED_ACKS = (21, "-", "acks is none of -1, 0 and 1")
    ILLEGAL_GENERATION = (22, "-", "the group is in another generation")
    INCONSISTENT_GROUP_PROTOCOL = (23, "-", "the member shares no protocol with the group")
    INVALID_GROUP_ID = (24, "-", "the group id is invalid")
    UNKNOWN_MEMBER_ID = (25, "-", "the group knows no such member")
    INVALID_SESSION_TIMEOUT = (26, "-", "the session timeout is outside of what the broker allows")
    REBALANCE_IN_PROGRESS = (27, "-", "the group is rebalancing: join it again")
    INVALID_COMMIT_OFFSET_SIZE = (28, "-", "the offset commit is too large to be stored")
    TOPIC_AUTHORIZATION_FAILED = (29, "-", "not authorised for the topic")
    GROUP_AUTHORIZATION_FAILED = (30, "-", "not authorised for the group")
    CLUSTER_AUTHORIZATION_FAILED = (31, "-", "not authorised for the cluster")
    INVALID_TIMESTAMP = (32, "-", "a record's timestamp is outside of what the topic accepts")
    UNSUPPORTED_SASL_MECHANISM = (33, "-", "the broker does not offer this SASL mechanism")
    ILLEGAL_SASL_STATE = (34, "-", "this request does not fit the state of the SASL exchange")
    UNSUPPORTED_VERSION = (35, "-", "this version of the API is not served")
    TOPIC_ALREADY_EXISTS = (36, "-", "a topic of this name exists")
    INVALID_PARTITIONS = (37, "-", "the number of partitions is invalid")
    INVALID_REPLICATION_FACTOR = (38, "-", "the replication factor is below 1 or above the number of brokers")
    INVALID_REPLICA_ASSIGNMENT = (39, "-", "the replica assignment is invalid")
    INVALID_CONFIG = (40, "-", "a configuration value is invalid")
    NOT_CONTROLLER = (41, "R", "this broker is not the controller")
    INVALID_REQUEST = (42, "-", "the request contradicts itself or the protocol")
    UNSUPPORTED_FOR_MESSAGE_FORMAT = (43, "-", "the log's message format does not support this")
    POLICY_VIOLATION = (44, "-", "refused by a policy of the cluster")
    OUT_OF_ORDER_SEQUENCE_NUMBER = (45, "-", "the producer's sequence number leaves a gap")
    DUPLICATE_SEQUENCE_NUMBER = (46, "-", "the producer's sequence number was already seen")
    INVALID_PRODUCER_EPOCH = (47, "-", "the producer's epoch is old")
    INVALID_TXN_STATE = (48, "-", "the transaction's state does not allow this")
    INVALID_PRODUCER_ID_MAPPING = (49, "-", "the transactional id belongs to another producer id")
    INVALID_TRANSACTION_TIMEOUT = (50, "-", "the transaction timeout is above what the broker allows")
    CONCURRENT_TRANSACTIONS = (51, "R", "the producer's previous transaction is still completing")
    TRANSACTION_COORDINATOR_FENCED = (52, "-", "the transaction coordinator has been succeeded")
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = (53, "-", "not authorised for the transactional id")
    SECURITY_DISABLED = (54, "-", "the broker has no authoriser")
    OPERATION_NOT_ATTEMPTED = (55, "-", "not tried, because of another part of the request")
    KAFKA_STORAGE_ERROR = (56, "M", "the disk under the partition failed")
    LOG_DIR_NOT_FOUND = (57, "-", "the broker has no such log directory")
    SASL_AUTHENTICATION_FAILED = (58, "-", "authentication failed")
    UNKNOWN_PRODUCER_ID = (59, "-", "the partition remembers nothing of this producer id")
    REASSIGNMENT_IN_PROGRESS = (60, "-", "the partition is being reassigned")
    DELEGATION_TOKEN_AUTH_DISABLED = (61, "-", "delegation tokens are switched off")
    DELEGATION_TOKEN_NOT_FOUND = (62, "-", "no such delegation token")
    DELEGATION_TOKEN_OWNER_MISMATCH = (63, "-", "the delegation token belongs to another principal")
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (64, "-", "this connection may not ask for delegation tokens")
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = (65, "-", "not authorised for the delegation token")
    DELEGATION_TOKEN_EXPIRED = (66, "-", "the delegation token has expired")
    INVALID_PRINCIPAL_TYPE = (67, "-", "this type of principal is not supported")
    NON_EMPTY_GROUP = (68, "-", "the group has members")
    GROUP_ID_NOT_FOUND = (69, "-", "no such group")
    FETCH_SESSION_ID_NOT_FOUND = (70, "R", "the fetch session is gone")
    INVALID_FETCH_SESSION_EPOCH = (71, "R", "the fetch session is at another epoch")
    LISTENER_NOT_FOUND = (72, "M", "the leader has no listener of the name that was asked on")
    TOPIC_DELETION_DISABLED = (73, "-", "topic deletion is switched off")
    FENCED_LEADER_EPOCH = (74, "M", "the leader epoch in the request is old")
    UNKNOWN_LEADER_EPOCH = (75, "R", "the leader epoch in the request is newer than the broker's")
    UNSUPPORTED_COMPRESSION_TYPE = (76, "-", "this version of the API cannot carry the compression codec")
    STALE_BROKER_EPOCH = (77, "-", "the broker epoch in the request is old")
    OFFSET_NOT_AVAILABLE = (78, "R", "the new leader cannot tell its high watermark yet")
    MEMBER_ID_REQUIRED = (79, "-", "join again with the member id that was given")
    PREFERRED_LEADER_NOT_AVAILABLE = (80, "M", "the preferred leader is not available")
    GROUP_MAX_SIZE_REACHED = (81, "-", "the group is full")
    FENCED_INSTANCE_ID = (82, "-", "another member has taken over this group instance id")
    ELIGIBLE_LEADERS_NOT_AVAILABLE = (83, "M", "no replica can be elected")
    ELECTION_NOT_NEEDED = (84, "M", "the wanted leader leads already")
    NO_REASSIGNMENT_IN_PROGRESS = (85, "-", "the partition is not being reassigned")
    GROUP_SUBSCRIBED_TO_TOPIC = (86, "-", "the group is subscribed to the topic, so its offsets stay")
    INVALID_RECORD = (87, "-", "a record failed the broker's validation")
    UNSTABLE_OFFSET_COMMIT = (88, "R", "a transaction with offset commits is still open")
    THROTTLING_QUOTA_EXCEEDED = (89, "R", "over quota")
    PRODUCER_FENCED = (90, "-", "a newer producer uses the same transactional id")
    RESOURCE_NOT_FOUND = (91, "-", "the named resource does not exist")
    DUPLICATE_RESOURCE = (92, "-", "a resource is named more than once")
    UNACCEPTABLE_CREDENTIAL = (93, "-", "the credential does not meet the requirements")
    INCONSISTENT_VOTER_SET = (94, "-", "the sets of voters of sender and receiver differ")
    INVALID_UPDATE_VERSION = (95, "-", "the version that the update builds on is not the current one")
    FEATURE_UPDATE_FAILED = (96, "-", "the finalised features could not be changed")
    PRINCIPAL_DESERIALIZATION_FAILURE = (97, "-", "the forwarded principal could not be read")
    SNAPSHOT_NOT_FOUND = (98, "-", "no such snapshot")
    POSITION_OUT_OF_RANGE = (99, "-", "the position lies outside of the snapshot")
    UNKNOWN_TOPIC_ID = (100, "M", "this broker knows no topic of this id")
    DUPLICATE_BROKER_REGISTRATION = (101, "-", "the broker id is registered by a live broker")
    BROKER_ID_NOT_REGISTERED = (102, "-", "no broker is registered under this id")
    INCONSISTENT_TOPIC_ID = (103, "M", "the log on disk belongs to another topic id")
    INCONSISTENT_CLUSTER_ID = (104, "-", "the request is meant for another cluster")
    TRANSACTIONAL_ID_NOT_FOUND = (105, "-", "no such transactional id")
    FETCH_SESSION_TOPIC_ID_ERROR = (106, "R", "the fetch session mixes topic ids with topic names")
    INELIGIBLE_REPLICA = (107, "-", "a replica may not join the ISR now")
    NEW_LEADER_ELECTED = (108, "-", "the ISR change made the controller elect another leader")
    OFFSET_MOVED_TO_TIERED_STORAGE = (109, "-", "the offset is no longer on this broker's disk")
    FENCED_MEMBER_EPOCH = (110, "-", "the coordinator has fenced the member's epoch: join again")
    UNRELEASED_INSTANCE_ID = (111, "-", "the group instance id is still held by a member")
    UNSUPPORTED_ASSIGNOR = (112, "-", "the group cannot use this assignor")
    STALE_MEMBER_EPOCH = (113, "-", "the member's epoch is old: heartbeat first")
    MISMATCHED_ENDPOINT_TYPE = (114, "-", "sent to a broker what a controller answers, or the reverse")
    UNSUPPORTED_ENDPOINT_TYPE = (115, "-", "this type of endpoint cannot be described here")
    UNKNOWN_CONTROLLER_ID = (116, "-", "no controller of this id")
    UNKNOWN_SUBSCRIPTION_ID = (117, "-", "the telemetry subscription has changed")
    TELEMETRY_TOO_LARGE = (118, "-", "the pushed telemetry exceeds the limit")
    INVALID_REGISTRATION = (119, "-", "the broker registration is invalid")
    TRANSACTION_ABORTABLE = (120, "-", "the transaction met an error and can only be aborted")
    INVALID_RECORD_STATE = (121, "-", "the acknowledged record is not in a state for it")
    SHARE_SESSION_NOT_FOUND = (122, "R", "the share session is gone")
    INVALID_SHARE_SESSION_EPOCH = (123, "R", "the share session is at another epoch")
    FENCED_STATE_EPOCH = (124, "-", "the share state's epoch is old")
    INVALID_VOTER_KEY = (125, "-", "the voter's directory id is not the receiver's")
    DUPLICATE_VOTER = (126, "-", "the voter is already in the set")
    VOTER_NOT_FOUND = (127, "-", "the voter is not in the set")


_BY_CODE = {int(error): error for error in Error}
if len(_BY_CODE) != len(Error.__members__):  # IntEnum makes an alias of a repeated code
    raise RuntimeError("two errors share a code")


class ApiError(Exception):
    """A failure that the cluster answers with an error code; handlers turn it into the code at the border.

    Attributes:
        error: the code.
        message: the text sent to the client with it; None for the code's own text.
    """

    def __init__(self, error: Error, message: str | None = None) -> None:
        super().__init__(f"{error.name}: {message or error.text}")
        self.error = error
        self.message = message


class RemoteProtocolError(Exception):
    """A peer sent bytes that are not Kafka's protocol: the connection is closed, the broker keeps running."""


class UnsupportedVersionError(RemoteProtocolError):
    """A peer used an API or a version of it that we have no schema for."""
