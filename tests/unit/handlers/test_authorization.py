"""Every API, allowed and denied: which rules it checks, in which order, and what it answers."""

from dataclasses import dataclass, replace

import pytest

from cluster.configuration.broker_config import BrokerConfig
from cluster.handlers.authorization.fetch_sessions import authorize_session
from cluster.handlers.authorization.table import GUARDS
from cluster.handlers.dispatch import Dispatcher
from cluster.handlers.metadata import MetadataHandler
from cluster.handlers.registry import Registry
from cluster.handlers.served import served_apis
from cluster.replication.leader.fetch_session import FetchSession
from cluster.replication.metadata_cache import ClusterSnapshot, LiveBroker, MetadataCache
from cluster.security.acl import AclRule, Operation, PatternType, Permission, ResourcePattern, ResourceType
from cluster.security.authorizer import Authorizer
from cluster.security.principal import KafkaPrincipal
from tests.unit.handlers.calls import Broker, Connection
from wire.apis import API_TABLE, ApiKey
from wire.errors import Error
from wire.frames import decode_response, encode_request
from wire.schema import Array

TOPIC_ID = bytes(range(16))
TOPIC, GROUP, ID = Error.TOPIC_AUTHORIZATION_FAILED, Error.GROUP_AUTHORIZATION_FAILED, 53
CLUSTER = Error.CLUSTER_AUTHORIZATION_FAILED
BATCH = bytes(22) + b"\x10" + bytes(60)

ON_TOPIC = "Topic:t"
ON_GROUP = "Group:g"
ON_ID = "TransactionalId:x"
ON_CLUSTER = "Cluster:kafka-cluster"


def build(cls, values):
    """Make a message from plain values: an array of structs is given as dicts."""
    made = {}
    for field in cls.__schema__.fields:
        if field.name not in values:
            continue
        value, kind = values[field.name], field.type
        if isinstance(kind, Array) and isinstance(kind.element, type) and value is not None:
            value = [build(kind.element, each) for each in value]
        made[field.name] = value
    assert made.keys() == values.keys(), values.keys() - made.keys()
    return cls(**made)


def at(value, path):
    for part in path.split("."):
        value = value[int(part)] if part.isdecimal() else getattr(value, part)
    return value


class Slot:
    def __init__(self, principal):
        self.connection = Connection(principal)
        self.answer = None
        self.closed = False

    def complete(self, answer):
        assert self.answer is None
        self.answer = bytes(answer)

    def close(self):
        self.closed = True


@dataclass(eq=False)
class Controller:
    is_active: bool


@dataclass(eq=False)
class Guarded(Broker):
    served: Registry
    controller: Controller
    config: BrokerConfig
    metadata: MetadataCache
    cluster_id: str = "c"
    nursery: None = None


class Site:
    """A dispatcher with an authorizer, whose handlers record their requests."""

    def __init__(self, *rules, is_controller=True):
        self.begun = []
        self.authorizer = Authorizer(["User:root"])
        self.rules = {}
        for rule in rules:
            self.allow(rule)
        registry = Registry()
        for key, api in API_TABLE.items():
            if key in GUARDS:
                registry.add(key, api.min_version, api.max_version, self.begun.append)
        registry.protect(GUARDS)
        metadata = MetadataCache()
        metadata.snapshot = ClusterSnapshot(
            topics={"t": {0: None}, "secret": {0: None}},
            topic_names={TOPIC_ID: "t"},
            topic_ids={"t": TOPIC_ID},
            brokers={1: LiveBroker(1, None, {})},
            controller_id=1,
        )
        config = BrokerConfig({"zookeeper.connect": "x", "broker.id": "1"})
        self.broker = Guarded(
            registry, Controller(is_controller), config, metadata, authorizer=self.authorizer
        )
        self.dispatcher = Dispatcher(self.broker, registry)

    def allow(self, text):
        """Add a rule, given as `Operation Type:name`."""
        operation, _, resource = text.partition(" ")
        kind, _, name = resource.partition(":")
        kind = {each.name.replace("_", "").lower(): each for each in ResourceType}[kind.lower()]
        operation = {each.name.replace("_", "").lower(): each for each in Operation}[operation.lower()]
        pattern = ResourcePattern(kind, name, PatternType.LITERAL)
        rule = AclRule("User:alice", "*", operation, Permission.ALLOW)
        self.authorizer.table.set_rules(pattern, self.authorizer.table.rules_of(pattern) | {rule})

    def ask(self, key, values, version, user="alice"):
        slot = Slot(KafkaPrincipal("User", user))
        request = build(API_TABLE[key].request, values)
        frame = memoryview(bytes(encode_request(request, version, 7, "client")))[4:]
        before = len(self.begun)
        self.dispatcher.dispatch(frame, slot)
        call = self.begun[-1] if len(self.begun) > before else None
        if call is not None and slot.answer is None:
            call.respond(API_TABLE[key].response())
        response = None
        if slot.answer is not None:
            _, response = decode_response(API_TABLE[key].response, version, slot.answer, 4)
        return call, response, slot


PRODUCE = {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": b""}]}]}
RESOURCE = {"resource_name": "t", "resource_type": 2}
BROKER = {"resource_name": "1", "resource_type": 4}
TOPICS_0 = [{"name": "t", "partitions": [0]}]
COMMITS = {
    "group_id": "g",
    "topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_metadata": ""}]}],
}

# API; versions; request; rules in the order of the checks, each with the field and the error that show its absence.
CASES = [
    (ApiKey.PRODUCE, (3, 11), PRODUCE, [
        (f"Write {ON_TOPIC}", {"responses.0.partition_responses.0.error_code": TOPIC,
                               "responses.0.partition_responses.0.base_offset": -1})]),
    (ApiKey.PRODUCE, (3, 11), PRODUCE | {"transactional_id": "x", "topic_data": [
        {"name": "t", "partition_data": [{"index": 0, "records": BATCH}]}]}, [
        (f"Write {ON_ID}", {"responses.0.partition_responses.0.error_code": ID}),
        (f"Write {ON_TOPIC}", {"responses.0.partition_responses.0.error_code": TOPIC})]),
    (ApiKey.LIST_OFFSETS, (1, 9), {"replica_id": -1, "topics": [
        {"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}]}, [
        (f"Describe {ON_TOPIC}", {"topics.0.partitions.0.error_code": TOPIC, "topics.0.partitions.0.offset": -1,
                                  "topics.0.partitions.0.timestamp": -1})]),
    (ApiKey.LEADER_AND_ISR, (5, 7), {"topic_states": [
        {"topic_name": "t", "topic_id": TOPIC_ID, "partition_states": [{"partition_index": 4}]}]}, [
        (f"ClusterAction {ON_CLUSTER}", {"error_code": CLUSTER, "topics.0.partition_errors.0.error_code": CLUSTER})]),
    (ApiKey.LEADER_AND_ISR, (2, 4), {"topic_states": [
        {"topic_name": "t", "partition_states": [{"partition_index": 4}]}]}, [
        (f"ClusterAction {ON_CLUSTER}", {"error_code": CLUSTER, "partition_errors.0.error_code": CLUSTER})]),
    (ApiKey.STOP_REPLICA, (3, 4), {"topic_states": [
        {"topic_name": "t", "partition_states": [{"partition_index": 4}]}]}, [
        (f"ClusterAction {ON_CLUSTER}", {"error_code": CLUSTER, "partition_errors.0.error_code": CLUSTER})]),
    (ApiKey.UPDATE_METADATA, (0, 8), {}, [(f"ClusterAction {ON_CLUSTER}", {"error_code": CLUSTER})]),
    (ApiKey.CONTROLLED_SHUTDOWN, (0, 3), {}, [(f"ClusterAction {ON_CLUSTER}", {"error_code": CLUSTER})]),
    (ApiKey.ALTER_PARTITION, (0, 3), {}, [(f"ClusterAction {ON_CLUSTER}", {"error_code": CLUSTER})]),
    (ApiKey.ALLOCATE_PRODUCER_IDS, (0, 0), {}, [(f"ClusterAction {ON_CLUSTER}", {"error_code": CLUSTER})]),
    (ApiKey.WATCH_SESSION, (0, 0), {}, [(f"ClusterAction {ON_CLUSTER}", {"error_code": CLUSTER})]),
    (ApiKey.REACH_BROKER, (0, 0), {}, [
        (f"ClusterAction {ON_CLUSTER}", {"error_code": CLUSTER, "is_reached": True})]),
    (ApiKey.OFFSET_COMMIT, (1, 9), COMMITS, [
        (f"Read {ON_GROUP}", {"topics.0.partitions.0.error_code": GROUP}),
        (f"Read {ON_TOPIC}", {"topics.0.partitions.0.error_code": TOPIC})]),
    (ApiKey.OFFSET_FETCH, (2, 7), {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}, [
        (f"Describe {ON_GROUP}", {"error_code": GROUP}),
        (f"Describe {ON_TOPIC}", {"topics.0.partitions.0.error_code": TOPIC,
                                  "topics.0.partitions.0.committed_offset": -1})]),
    (ApiKey.OFFSET_FETCH, (0, 0), {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}, [
        (f"Describe {ON_GROUP}", {"topics.0.partitions.0.error_code": GROUP})]),
    (ApiKey.OFFSET_FETCH, (1, 1), {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}, [
        (f"Describe {ON_GROUP}", {"topics": []})]),
    (ApiKey.OFFSET_FETCH, (8, 9), {"groups": [{"group_id": "g", "topics": None}]}, [
        (f"Describe {ON_GROUP}", {"groups.0.error_code": GROUP})]),
    (ApiKey.FIND_COORDINATOR, (1, 3), {"key": "g", "key_type": 0}, [
        (f"Describe {ON_GROUP}", {"error_code": GROUP, "node_id": -1})]),
    (ApiKey.FIND_COORDINATOR, (4, 6), {"coordinator_keys": ["g"], "key_type": 0}, [
        (f"Describe {ON_GROUP}", {"coordinators.0.error_code": GROUP, "coordinators.0.node_id": -1})]),
    (ApiKey.FIND_COORDINATOR, (4, 6), {"coordinator_keys": ["x"], "key_type": 1}, [
        (f"Describe {ON_ID}", {"coordinators.0.error_code": ID})]),
    (ApiKey.JOIN_GROUP, (0, 9), {"group_id": "g"}, [(f"Read {ON_GROUP}", {"error_code": GROUP})]),
    (ApiKey.HEARTBEAT, (0, 4), {"group_id": "g"}, [(f"Read {ON_GROUP}", {"error_code": GROUP})]),
    (ApiKey.LEAVE_GROUP, (0, 5), {"group_id": "g"}, [(f"Read {ON_GROUP}", {"error_code": GROUP})]),
    (ApiKey.SYNC_GROUP, (0, 5), {"group_id": "g", "protocol_type": "c", "protocol_name": "p"}, [
        (f"Read {ON_GROUP}", {"error_code": GROUP})]),
    (ApiKey.DESCRIBE_GROUPS, (0, 5), {"groups": ["g"]}, [
        (f"Describe {ON_GROUP}", {"groups.0.error_code": GROUP, "groups.0.group_id": "g"})]),
    (ApiKey.DELETE_GROUPS, (0, 2), {"groups_names": ["g"]}, [
        (f"Delete {ON_GROUP}", {"results.0.error_code": GROUP})]),
    (ApiKey.CREATE_TOPICS, (1, 7), {"topics": [{"name": "t"}]}, [
        (f"Create {ON_TOPIC}", {"topics.0.error_code": TOPIC})]),
    (ApiKey.DELETE_TOPICS, (0, 5), {"topic_names": ["t"]}, [
        (f"Delete {ON_TOPIC}", {"responses.0.error_code": TOPIC, "responses.0.name": "t"})]),
    (ApiKey.DELETE_TOPICS, (6, 6), {"topics": [{"name": None, "topic_id": TOPIC_ID}]}, [
        (f"Describe {ON_TOPIC}", {"responses.0.error_code": TOPIC, "responses.0.name": None}),
        (f"Delete {ON_TOPIC}", {"responses.0.error_code": TOPIC, "responses.0.name": "t"})]),
    (ApiKey.DELETE_RECORDS, (0, 2), {"topics": [
        {"name": "t", "partitions": [{"partition_index": 0, "offset": 5}]}]}, [
        (f"Delete {ON_TOPIC}", {"topics.0.partitions.0.error_code": TOPIC,
                                "topics.0.partitions.0.low_watermark": -1})]),
    (ApiKey.CREATE_PARTITIONS, (0, 3), {"topics": [{"name": "t", "count": 2, "assignments": None}]}, [
        (f"Alter {ON_TOPIC}", {"results.0.error_code": TOPIC})]),
    (ApiKey.INIT_PRODUCER_ID, (0, 5), {"transactional_id": "x"}, [
        (f"Write {ON_ID}", {"error_code": ID, "producer_id": -1})]),
    (ApiKey.INIT_PRODUCER_ID, (0, 5), {"transactional_id": None}, [
        (f"IdempotentWrite {ON_CLUSTER}", {"error_code": CLUSTER, "producer_id": -1})]),
    (ApiKey.INIT_PRODUCER_ID, (0, 5), {"transactional_id": None}, [
        ("Write Topic:any", {"error_code": CLUSTER})]),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, (0, 4), {"topics": [
        {"topic": "t", "partitions": [{"partition": 0, "leader_epoch": 1}]}]}, [
        (f"Describe {ON_TOPIC}", {"topics.0.partitions.0.error_code": TOPIC})]),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, (0, 4), {"topics": [
        {"topic": "t", "partitions": [{"partition": 0, "leader_epoch": 1}]}]}, [
        (f"ClusterAction {ON_CLUSTER}", {"topics.0.partitions.0.error_code": TOPIC})]),
    (ApiKey.ADD_PARTITIONS_TO_TXN, (0, 3), {
        "v3_and_below_transactional_id": "x", "v3_and_below_topics": [{"name": "t", "partitions": [0]}]}, [
        (f"Write {ON_ID}",
         {"results_by_topic_v3_and_below.0.results_by_partition.0.partition_error_code": ID}),
        (f"Write {ON_TOPIC}",
         {"results_by_topic_v3_and_below.0.results_by_partition.0.partition_error_code": TOPIC})]),
    (ApiKey.ADD_PARTITIONS_TO_TXN, (4, 5), {}, [(f"ClusterAction {ON_CLUSTER}", {"error_code": CLUSTER})]),
    (ApiKey.ADD_OFFSETS_TO_TXN, (0, 4), {"transactional_id": "x", "group_id": "g"}, [
        (f"Write {ON_ID}", {"error_code": ID}), (f"Read {ON_GROUP}", {"error_code": GROUP})]),
    (ApiKey.END_TXN, (0, 4), {"transactional_id": "x"}, [(f"Write {ON_ID}", {"error_code": ID})]),
    (ApiKey.WRITE_TXN_MARKERS, (0, 1), {"markers": [{"topics": [{"name": "t", "partition_indexes": [0]}]}]}, [
        (f"ClusterAction {ON_CLUSTER}", {"markers.0.topics.0.partitions.0.error_code": CLUSTER})]),
    (ApiKey.WRITE_TXN_MARKERS, (0, 1), {"markers": [{"topics": [{"name": "t", "partition_indexes": [0]}]}]}, [
        (f"Alter {ON_CLUSTER}", {"markers.0.topics.0.partitions.0.error_code": CLUSTER})]),
    (ApiKey.TXN_OFFSET_COMMIT, (0, 4), COMMITS | {"transactional_id": "x"}, [
        (f"Write {ON_ID}", {"topics.0.partitions.0.error_code": ID}),
        (f"Read {ON_GROUP}", {"topics.0.partitions.0.error_code": GROUP}),
        (f"Read {ON_TOPIC}", {"topics.0.partitions.0.error_code": TOPIC})]),
    (ApiKey.DESCRIBE_ACLS, (0, 3), {"operation": 1, "permission_type": 1, "resource_type_filter": 1}, [
        (f"Describe {ON_CLUSTER}", {"error_code": CLUSTER})]),
    (ApiKey.CREATE_ACLS, (0, 3), {"creations": [{"resource_type": 2}, {"resource_type": 2}]}, [
        (f"Alter {ON_CLUSTER}", {"results.0.error_code": CLUSTER, "results.1.error_code": CLUSTER})]),
    (ApiKey.DELETE_ACLS, (0, 3), {"filters": [{"resource_type_filter": 2}]}, [
        (f"Alter {ON_CLUSTER}", {"filter_results.0.error_code": CLUSTER})]),
    (ApiKey.DESCRIBE_CONFIGS, (0, 4), {"resources": [RESOURCE]}, [
        (f"DescribeConfigs {ON_TOPIC}", {"results.0.error_code": TOPIC, "results.0.configs": []})]),
    (ApiKey.DESCRIBE_CONFIGS, (0, 4), {"resources": [BROKER]}, [
        (f"DescribeConfigs {ON_CLUSTER}", {"results.0.error_code": CLUSTER})]),
    (ApiKey.ALTER_CONFIGS, (0, 2), {"resources": [RESOURCE]}, [
        (f"AlterConfigs {ON_TOPIC}", {"responses.0.error_code": TOPIC, "responses.0.error_message": None})]),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, (0, 1), {"resources": [BROKER]}, [
        (f"AlterConfigs {ON_CLUSTER}", {"responses.0.error_code": CLUSTER})]),
    (ApiKey.ALTER_REPLICA_LOG_DIRS, (0, 2), {"dirs": [{"path": "/d", "topics": TOPICS_0}]}, [
        (f"Alter {ON_CLUSTER}", {"results.0.partitions.0.error_code": CLUSTER})]),
    (ApiKey.DESCRIBE_LOG_DIRS, (3, 4), {"topics": None}, [
        (f"Describe {ON_CLUSTER}", {"error_code": CLUSTER, "results": []})]),
    (ApiKey.ELECT_LEADERS, (1, 2), {"topic_partitions": [{"topic": "t", "partitions": [0]}]}, [
        (f"Alter {ON_CLUSTER}", {"error_code": CLUSTER,
                                 "replica_election_results.0.partition_result.0.error_code": CLUSTER})]),
    (ApiKey.ALTER_PARTITION_REASSIGNMENTS, (0, 0), {"topics": [
        {"name": "t", "partitions": [{"partition_index": 0, "replicas": [1]}]}]}, [
        (f"Alter {ON_CLUSTER}", {"error_code": CLUSTER, "responses.0.partitions.0.error_code": CLUSTER})]),
    (ApiKey.LIST_PARTITION_REASSIGNMENTS, (0, 0), {"topics": None}, [
        (f"Describe {ON_CLUSTER}", {"error_code": CLUSTER})]),
    (ApiKey.OFFSET_DELETE, (0, 0), {"group_id": "g", "topics": [
        {"name": "t", "partitions": [{"partition_index": 0}]}]}, [
        (f"Delete {ON_GROUP}", {"error_code": GROUP}),
        (f"Read {ON_TOPIC}", {"topics.0.partitions.0.error_code": TOPIC})]),
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, (0, 1), {}, [
        (f"DescribeConfigs {ON_CLUSTER}", {"error_code": CLUSTER, "entries": None})]),
    (ApiKey.ALTER_CLIENT_QUOTAS, (0, 1), {"entries": [
        {"entity": [{"entity_type": "user", "entity_name": "u"}], "ops": []}]}, [
        (f"AlterConfigs {ON_CLUSTER}", {"entries.0.error_code": CLUSTER,
                                        "entries.0.entity.0.entity_name": "u"})]),
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, (0, 0), {"users": [{"name": "u"}]}, [
        (f"Describe {ON_CLUSTER}", {"error_code": CLUSTER, "results.0.error_code": CLUSTER})]),
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, (0, 0), {"users": None}, [
        (f"Describe {ON_CLUSTER}", {"error_code": CLUSTER})]),
    (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, (0, 0), {
        "deletions": [{"name": "v", "mechanism": 1}], "upsertions": [{"name": "u", "mechanism": 1}]}, [
        (f"Alter {ON_CLUSTER}", {"results.0.error_code": CLUSTER, "results.0.user": "u", "results.1.user": "v"})]),
    (ApiKey.UPDATE_FEATURES, (0, 1), {}, [(f"Alter {ON_CLUSTER}", {"error_code": CLUSTER})]),
    (ApiKey.DESCRIBE_PRODUCERS, (0, 0), {"topics": [{"name": "t", "partition_indexes": [0]}]}, [
        (f"Read {ON_TOPIC}", {"topics.0.partitions.0.error_code": TOPIC})]),
    (ApiKey.DESCRIBE_TRANSACTIONS, (0, 0), {"transactional_ids": ["x"]}, [
        (f"Describe {ON_ID}", {"transaction_states.0.error_code": ID})]),
]  # fmt: skip
BY_OWNERS_OR_IN_HANDLERS = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.FETCH,
    ApiKey.METADATA,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}
LISTS = {ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_CLUSTER}


def named(case):
    key, (low, high), _, checks = case
    return f"{key.name}-{low}-{high}-{checks[-1][0]}"


def test_every_api_has_a_guard_and_a_case():
    assert {route.key for route in served_apis()} <= GUARDS.keys()
    assert {case[0] for case in CASES} | BY_OWNERS_OR_IN_HANDLERS | LISTS == GUARDS.keys()


def test_a_route_without_a_guard_does_not_start():
    registry = Registry()
    registry.add(ApiKey.ENVELOPE, 0, 0, lambda call: None)
    with pytest.raises(ValueError, match="ENVELOPE has no guard"):
        registry.protect(GUARDS)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_each_check_and_its_answer(case):
    key, (low, high), values, checks = case
    api = API_TABLE[key]
    for version in range(max(low, api.min_version), high + 1):
        held = {
            name: value
            for name, value in values.items()
            if version in next(f for f in api.request.__schema__.fields if f.name == name).versions
        }
        for index, (_, places) in enumerate(checks):
            # All checks before this one pass, and those after it would.
            rules = [rule for position, (rule, _) in enumerate(checks) if position != index]
            call, response, _ = Site(*(rule for rule in rules if not implies(rule, checks[index][0]))).ask(
                key, held, version
            )
            for path, expected in places.items():
                assert at(response, path) == expected, (version, path, response)
            if call is not None:
                assert not shows(call.request, "t", "g", "x"), "the handler saw what is denied"
        call, _, _ = Site(*(rule for rule, _ in checks)).ask(key, held, version)
        assert call is not None, "allowed, and not begun"
        assert Site().ask(key, held, version, user="root")[0] is not None, "a super user is stopped"


def implies(rule, other):
    """Whether a rule also allows the other, which then cannot be denied beside it."""
    return rule.split(" ")[1] == other.split(" ")[1] and other.startswith("Describe ")


def shows(value, *names):
    if isinstance(value, str):
        return value in names
    if isinstance(value, list | tuple):
        return any(shows(each, *names) for each in value)
    fields = getattr(type(value), "__schema__", None)
    skipped = ("group_id", "transactional_id")
    return fields is not None and any(
        shows(getattr(value, f.name), *names) for f in fields.fields if f.name not in skipped
    )


def test_produce_without_acks_is_cut_off_where_a_part_was_refused():
    site = Site("Write Topic:other")
    values = PRODUCE | {"acks": 0}
    values["topic_data"] = [
        *PRODUCE["topic_data"],
        {"name": "other", "partition_data": [{"index": 0, "records": b""}]},
    ]
    slot = Slot(KafkaPrincipal("User", "alice"))
    request = build(API_TABLE[ApiKey.PRODUCE].request, values)
    site.dispatcher.dispatch(memoryview(bytes(encode_request(request, 9, 1, "c")))[4:], slot)
    (call,) = site.begun
    assert [topic.name for topic in call.request.topic_data] == ["other"]
    call.skip()
    assert slot.closed


def test_refusals_stand_beside_what_the_handler_answers():
    site = Site("Describe Topic:t")
    topics = [
        {"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]} for name in ("secret", "t")
    ]
    call, response, _ = site.ask(ApiKey.LIST_OFFSETS, {"replica_id": -1, "topics": topics}, 5)
    assert [topic.name for topic in call.request.topics] == ["t"]
    assert [topic.name for topic in response.topics] == ["secret"]


def test_not_controller_comes_before_the_rules():
    for key, values in (
        (ApiKey.CREATE_TOPICS, {"topics": [{"name": "t"}]}),
        (ApiKey.CREATE_PARTITIONS, {"topics": [{"name": "t", "count": 2, "assignments": None}]}),
        (ApiKey.DELETE_TOPICS, {"topic_names": ["t"]}),
        (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, {"deletions": [{"name": "v", "mechanism": 1}]}),
    ):
        version = 0 if key is ApiKey.ALTER_USER_SCRAM_CREDENTIALS else 3
        call, _, _ = Site(is_controller=False).ask(key, values, version)
        assert call is not None


def test_configurations_of_a_new_topic_are_shown_to_those_who_may_see_them():
    from wire.messages.create_topics import CreatableTopicResult

    for rules, error in (((), TOPIC), (("DescribeConfigs Topic:t",), 0)):
        call, _, slot = Site("Create Topic:t", *rules).ask(
            ApiKey.CREATE_TOPICS, {"topics": [{"name": "t"}]}, 7
        )
        slot.answer = None
        response = API_TABLE[ApiKey.CREATE_TOPICS].response
        call.respond(response(topics=[CreatableTopicResult(name="t", num_partitions=3, configs=[])]))
        _, answered = decode_response(response, 7, slot.answer, 4)
        (topic,) = answered.topics
        assert (topic.topic_config_error_code, topic.num_partitions) == (error, -1 if error else 3)


def test_lists_leave_out_what_may_not_be_described():
    from wire.messages.list_groups import ListedGroup

    response_class = API_TABLE[ApiKey.LIST_GROUPS].response
    groups = [ListedGroup(group_id=name, protocol_type="") for name in ("g", "h")]
    for rules, expected in (
        ((), []),
        (("Describe Group:g",), ["g"]),
        (("Describe Cluster:kafka-cluster",), ["g", "h"]),
    ):
        call, _, slot = Site(*rules).ask(ApiKey.LIST_GROUPS, {}, 4)
        slot.answer = None
        call.respond(response_class(groups=groups))
        _, answered = decode_response(response_class, 4, slot.answer, 4)
        assert [group.group_id for group in answered.groups] == expected


def metadata(site, topics, version, **values):
    slot = Slot(KafkaPrincipal("User", "alice"))
    handler = MetadataHandler()
    registry = Registry()
    registry.add(ApiKey.METADATA, 0, 12, handler.begin)
    registry.protect(GUARDS)
    site.broker.served = registry
    named = None if topics is None else [{"name": name} for name in topics]
    request = build(API_TABLE[ApiKey.METADATA].request, {"topics": named, **values})
    frame = memoryview(bytes(encode_request(request, version, 7, "c")))[4:]
    Dispatcher(site.broker, registry).dispatch(frame, slot)
    _, response = decode_response(API_TABLE[ApiKey.METADATA].response, version, slot.answer, 4)
    return response


@pytest.fixture
def site():
    site = Site("Describe Topic:t")
    metadata = site.broker.metadata
    metadata.snapshot = replace(metadata.snapshot, topics={"t": {}, "secret": {}})
    return site


def test_metadata_of_all_topics_leaves_out_what_may_not_be_described(site):
    assert [topic.name for topic in metadata(site, None, 5).topics] == ["t"]
    site.allow("Read Topic:secret")
    assert [topic.name for topic in metadata(site, None, 5).topics] == ["secret", "t"]


def test_metadata_by_name_does_not_tell_whether_a_topic_exists(site):
    response = metadata(site, ["secret", "absent", "t"], 9, allow_auto_topic_creation=False)
    errors = {topic.name: topic.error_code for topic in response.topics}
    assert errors == {"secret": TOPIC, "absent": TOPIC, "t": 0}


def test_metadata_does_not_create_what_the_client_may_not_create(site):
    site.allow("Describe Topic:absent")
    (topic,) = metadata(site, ["absent"], 9).topics
    assert topic.error_code == TOPIC


def test_the_operations_of_a_topic_are_the_clients_own(site):
    response = metadata(
        site,
        ["t"],
        9,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    assert response.topics[0].topic_authorized_operations == 1 << Operation.DESCRIBE
    assert response.cluster_authorized_operations == 0
    site.allow("Describe Cluster:kafka-cluster")
    response = metadata(site, ["t"], 9, include_cluster_authorized_operations=True)
    assert response.cluster_authorized_operations == 1 << Operation.DESCRIBE


@dataclass(eq=False)
class Item:
    topic: str
    topic_partition: tuple[str, int]


def session_of(*topics, is_follower=False):
    session = FetchSession(0.0, is_follower=is_follower, uses_topic_ids=False)
    for topic in topics:
        session.items[topic, 0] = Item(topic=topic, topic_partition=(topic, 0))
    return session


def fetch_call(site, user="alice"):
    slot = Slot(KafkaPrincipal("User", user))
    request = build(API_TABLE[ApiKey.FETCH].request, {})
    site.dispatcher.dispatch(memoryview(bytes(encode_request(request, 4, 7, "c")))[4:], slot)
    return site.begun[-1]


def test_a_session_loses_a_topic_when_its_client_loses_read():
    site = Site("Read Topic:t", "Read Topic:u")
    session = session_of("t", "u")
    authorize_session(fetch_call(site), session)
    assert session.denied == frozenset()
    assert not session.dirty
    pattern = ResourcePattern(ResourceType.TOPIC, "t", PatternType.LITERAL)
    site.authorizer.table.set_rules(pattern, ())
    authorize_session(fetch_call(site), session)
    assert session.denied == {"t"}
    assert [item.topic for item in session.dirty] == ["t"], "a clean partition has to be answered again"
    authorize_session(fetch_call(site, user="root"), session)
    assert session.denied == frozenset(), "what was decided for one client does not hold for another"


def test_followers_need_cluster_action_and_no_rule_of_topics():
    site = Site("Read Topic:t")
    session = session_of("t", is_follower=True)
    authorize_session(fetch_call(site), session)
    assert session.denied == {"t"}
    site.allow(f"ClusterAction {ON_CLUSTER}")
    authorize_session(fetch_call(site), session)
    assert session.denied == frozenset()
