"""Every znode's JSON against what Apache Kafka 3.9.1 wrote, and against invalid data."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from cluster.statemachines.leadership import PartitionAssignment, PartitionLeadership
from cluster.zookeeper.znodes import (
    PERSISTENT_PATHS,
    AclChangeZnode,
    AclEntry,
    AclResource,
    AclZnode,
    BrokerIdZnode,
    BrokerRegistration,
    ClusterIdZnode,
    ConfigChangeZnode,
    ConfigEntityZnode,
    ConsumersZnode,
    ControllerEpochZnode,
    ControllerRegistration,
    ControllerZnode,
    DeleteTopicsZnode,
    FeatureZnode,
    IsrChangeZnode,
    LogDirEventZnode,
    MalformedZnodeError,
    PartitionStateZnode,
    PreferredElectionZnode,
    ProducerIdBlock,
    ProducerIdBlockZnode,
    ReassignPartitionsZnode,
    RegisteredEndpoint,
    TopicAssignment,
    TopicZnode,
    desanitize,
    sanitize,
)
from wire.types import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    ProducerId,
    TopicPartition,
    WallMs,
    ZkVersion,
    parse_topic_id,
)

ONE = BrokerId(1)

# Read from a ZooKeeper after one Kafka 3.9.1 broker had started and its tools had been used.
KAFKA_BROKER = (
    b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT","SECOND":"PLAINTEXT"},'
    b'"endpoints":["PLAINTEXT://127.0.0.1:39192","SECOND://127.0.0.1:39193"],"rack":"r1","jmx_port":-1,'
    b'"port":39192,"host":"127.0.0.1","version":5,"timestamp":"1795258808879"}'
)
KAFKA_TOPIC = (
    b'{"partitions":{"0":[1],"1":[1]},"topic_id":"fb9QeL0QR-KSeVXuOjlyGA","adding_replicas":{},'
    b'"removing_replicas":{},"version":3}'
)
KAFKA_STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
KAFKA_CONTROLLER = b'{"version":2,"brokerid":1,"timestamp":"1795258808950","kraftControllerEpoch":-1}'
KAFKA_ACL = b'{"acls":[{"principal":"User:alice","permissionType":"Allow","host":"*","operation":"Read"}],"version":1}'

BROKER = BrokerRegistration(
    ONE,
    (
        RegisteredEndpoint("PLAINTEXT", "127.0.0.1", 39192, "PLAINTEXT"),
        RegisteredEndpoint("SECOND", "127.0.0.1", 39193, "PLAINTEXT"),
    ),
    rack="r1",
    epoch=BrokerEpoch(25),
    timestamp=WallMs(1795258808879),
)
TOPIC = TopicAssignment(
    parse_topic_id("fb9QeL0QR-KSeVXuOjlyGA"),
    {0: PartitionAssignment((ONE,)), 1: PartitionAssignment((ONE,))},
)
STATE = PartitionLeadership(ONE, LeaderEpoch(0), (ONE,), ControllerEpoch(1), ZkVersion(4))
RULES = frozenset({AclEntry("User:alice", "*", "Read", "Allow")})
GOLD = AclResource("PREFIXED", "TOPIC", "gold")
GOLDEN = AclResource("LITERAL", "TOPIC", "golden")


@pytest.mark.parametrize(
    ("written", "encoded"),
    [
        (BrokerIdZnode.encode(BROKER), KAFKA_BROKER),
        (TopicZnode.encode(TOPIC), KAFKA_TOPIC),
        (PartitionStateZnode.encode(STATE), KAFKA_STATE),
        (ControllerZnode.encode(ONE, WallMs(1795258808950)), KAFKA_CONTROLLER),
        (ControllerEpochZnode.encode(ControllerEpoch(1)), b"1"),
        (ClusterIdZnode.encode("fsn9UFJxTIm2cPEof6TXrQ"), b'{"version":"1","id":"fsn9UFJxTIm2cPEof6TXrQ"}'),
        (
            ConfigEntityZnode.encode({"retention.ms": "1000"}),
            b'{"version":1,"config":{"retention.ms":"1000"}}',
        ),
        (
            ConfigChangeZnode.encode(f"users/{sanitize('al ice~*')}"),
            b'{"version":2,"entity_path":"users/al%20ice%7E%2A"}',
        ),
        (FeatureZnode.encode({}), b'{"features":{},"version":2,"status":1}'),
        (AclZnode.encode(RULES), KAFKA_ACL),
        (AclChangeZnode.encode(GOLDEN), b"TOPIC:golden"),
        (
            AclChangeZnode.encode(GOLD),
            b'{"version":1,"resourceType":"TOPIC","name":"gold","patternType":"PREFIXED"}',
        ),
    ],
)
def test_what_is_written_is_what_kafka_writes(written: bytes, encoded: bytes) -> None:
    assert written == encoded


def test_what_kafka_writes_is_read() -> None:
    assert BrokerIdZnode.decode(ONE, KAFKA_BROKER, BrokerEpoch(25)) == BROKER
    assert TopicZnode.decode("golden", KAFKA_TOPIC) == TOPIC
    assert PartitionStateZnode.decode(KAFKA_STATE, ZkVersion(4)) == STATE
    assert ControllerZnode.decode(KAFKA_CONTROLLER) == ControllerRegistration(ONE, -1)
    assert ControllerEpochZnode.decode(b"17") == 17
    assert ClusterIdZnode.decode(b'{"version":"1","id":"x"}') == "x"
    assert AclZnode.decode(KAFKA_ACL) == RULES
    assert AclZnode.decode(b"") == frozenset()


def test_paths() -> None:
    tp = TopicPartition("golden", 3)
    assert BrokerIdZnode.path(ONE) == "/brokers/ids/1"
    assert TopicZnode.path("golden") == "/brokers/topics/golden"
    assert PartitionStateZnode.path(tp) == "/brokers/topics/golden/partitions/3/state"
    assert PartitionStateZnode.parent(tp) == "/brokers/topics/golden/partitions/3"
    assert ConfigEntityZnode.path("users", "a/clients/b") == "/config/users/a/clients/b"
    assert DeleteTopicsZnode.path("golden") == "/admin/delete_topics/golden"
    assert ConsumersZnode.offset_path("g", "golden", 3) == "/consumers/g/offsets/golden/3"
    assert AclZnode.path(GOLDEN) == "/kafka-acl/Topic/golden"
    assert AclZnode.path(GOLD) == "/kafka-acl-extended/prefixed/Topic/gold"
    assert AclChangeZnode.prefix("LITERAL") == "/kafka-acl-changes/acl_changes_"
    assert AclChangeZnode.prefix("PREFIXED") == "/kafka-acl-extended-changes/acl_changes_"


def test_kafkas_persistent_paths_are_ours() -> None:
    kafka = {
        "/consumers",
        "/brokers/ids",
        "/brokers/topics",
        "/config/changes",
        "/admin/delete_topics",
        "/brokers/seqid",
        "/isr_change_notification",
        "/latest_producer_id_block",
        "/log_dir_event_notification",
        "/config/topics",
        "/config/clients",
        "/config/users",
        "/config/brokers",
        "/config/ips",
    }
    assert kafka <= set(PERSISTENT_PATHS)


def test_a_reassignment_survives_the_topic_znode() -> None:
    moving = PartitionAssignment((ONE, BrokerId(2)), adding=(BrokerId(2),), removing=(ONE,))
    assignment = TopicAssignment(None, {5: moving, 6: PartitionAssignment((ONE,))})
    data = TopicZnode.encode(assignment)
    assert data == (
        b'{"partitions":{"5":[1,2],"6":[1]},"adding_replicas":{"5":[2]},"removing_replicas":{"5":[1]},"version":3}'
    )
    assert TopicZnode.decode("t", data) == assignment


def test_older_versions_are_read() -> None:
    assert TopicZnode.decode("t", b'{"version":1,"partitions":{"0":[1]}}') == TopicAssignment(
        None, {0: PartitionAssignment((ONE,))}
    )
    first = BrokerIdZnode.decode(
        ONE, b'{"version":1,"host":"h","port":9,"jmx_port":-1,"timestamp":"5"}', BrokerEpoch(1)
    )
    assert first.endpoints == (RegisteredEndpoint("PLAINTEXT", "h", 9, "PLAINTEXT"),)
    third = BrokerIdZnode.decode(
        ONE,
        b'{"version":3,"host":"h","port":9,"jmx_port":-1,"timestamp":"5","endpoints":["SSL://[::1]:9"],"rack":"r"}',
        BrokerEpoch(1),
    )
    assert third.endpoints == (RegisteredEndpoint("SSL", "::1", 9, "SSL"),)
    assert third.endpoints[0].text == "SSL://[::1]:9"
    assert third.rack == "r"
    assert ControllerZnode.decode(b'{"version":1,"brokerid":3,"timestamp":"1"}') == ControllerRegistration(
        BrokerId(3)
    )
    assert ConfigChangeZnode.decode(b'{"version":1,"entity_type":"topics","entity_name":"t"}') == "topics/t"


def test_a_recovery_state_is_kept() -> None:
    data = KAFKA_STATE[:-1] + b',"leader_recovery_state":1}'
    recovering = replace(STATE, recovering=True)
    assert PartitionStateZnode.decode(data, ZkVersion(4)) == recovering
    assert PartitionStateZnode.encode(recovering) == data


def test_a_kraft_controller_is_recognised() -> None:
    assert ControllerZnode.decode(b'{"version":2,"brokerid":3000,"kraftControllerEpoch":0}').is_kraft
    assert not ControllerZnode.decode(KAFKA_CONTROLLER).is_kraft


def test_a_broker_without_plaintext_has_no_old_address() -> None:
    registration = BrokerRegistration(ONE, (RegisteredEndpoint("SSL", "h", 9, "SSL"),))
    data = BrokerIdZnode.encode(registration)
    assert b'"port":-1,"host":null' in data
    assert b"rack" not in data
    assert BrokerIdZnode.decode(ONE, data, registration.epoch) == registration
    assert registration.endpoint("SSL") == registration.endpoints[0]
    assert registration.endpoint("PLAINTEXT") is None


def test_features() -> None:
    assert FeatureZnode.decode(FeatureZnode.encode({"f": 3})) == {"f": 3}
    assert FeatureZnode.decode(b'{"version":2,"status":0,"features":{"f":{"max_version_level":3}}}') == {}
    one = b'{"version":1,"status":1,"features":{"f":{"min_version_level":1,"max_version_level":3}}}'
    assert FeatureZnode.decode(one) == {"f": 3}


def test_producer_id_blocks() -> None:
    block = ProducerIdBlock(ONE, ProducerId(1000), ProducerId(1999))
    data = ProducerIdBlockZnode.encode(block)
    assert data == b'{"version":1,"broker":1,"block_start":"1000","block_end":"1999"}'
    assert ProducerIdBlockZnode.decode(data) == block
    assert block.size == 1000
    assert ProducerIdBlockZnode.decode(b"") is None


def test_notifications_and_requests() -> None:
    partitions = frozenset({TopicPartition("a", 0), TopicPartition("b", 1)})
    assert IsrChangeZnode.decode(IsrChangeZnode.encode(partitions)) == partitions
    assert PreferredElectionZnode.decode(PreferredElectionZnode.encode(partitions)) == partitions
    assert LogDirEventZnode.encode(ONE) == b'{"version":1,"broker":1,"event":1}'
    assert LogDirEventZnode.decode(LogDirEventZnode.encode(ONE)) == 1
    moves = {TopicPartition("a", 0): (ONE, BrokerId(2))}
    data = ReassignPartitionsZnode.encode(moves)
    assert data == b'{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1,2]}]}'
    assert ReassignPartitionsZnode.decode(data) == moves
    assert ReassignPartitionsZnode.decode(b'{"version":1}') == {}
    assert AclChangeZnode.decode(AclChangeZnode.encode(GOLD)) == GOLD
    assert AclChangeZnode.decode(AclChangeZnode.encode(GOLDEN)) == GOLDEN


def test_configurations() -> None:
    assert ConfigEntityZnode.decode(ConfigEntityZnode.encode({"a": "ü"})) == {"a": "ü"}
    assert ConfigEntityZnode.decode(b"") == {}
    assert ConfigEntityZnode.decode(b'{"version":1}') == {}


@pytest.mark.parametrize("name", ["plain", "al ice~*", "a/b:c", "ü+", "%41", "<default>"])
def test_sanitized_names_come_back(name: str) -> None:
    assert desanitize(sanitize(name)) == name
    assert "/" not in sanitize(name)


def test_consumer_offsets() -> None:
    assert ConsumersZnode.decode_offset(ConsumersZnode.encode_offset(Offset(12))) == 12
    assert ConsumersZnode.decode_offset(b"") is None


Decode = Callable[[bytes], object]


@pytest.mark.parametrize(
    "decode",
    [
        ControllerZnode.decode,
        ControllerEpochZnode.decode,
        lambda data: BrokerIdZnode.decode(ONE, data, BrokerEpoch(1)),
        lambda data: TopicZnode.decode("t", data),
        lambda data: PartitionStateZnode.decode(data, ZkVersion(0)),
        ClusterIdZnode.decode,
        FeatureZnode.decode,
        ConfigEntityZnode.decode,
        ConfigChangeZnode.decode,
        IsrChangeZnode.decode,
        LogDirEventZnode.decode,
        ReassignPartitionsZnode.decode,
        PreferredElectionZnode.decode,
        ProducerIdBlockZnode.decode,
        AclZnode.decode,
        AclChangeZnode.decode,
        ConsumersZnode.decode_offset,
    ],
)
@pytest.mark.parametrize("data", [b"x", b"\xff\xfe", b"[1]", b"{", b'"text"'])
def test_nonsense_is_one_error(decode: Decode, data: bytes) -> None:
    with pytest.raises(MalformedZnodeError):
        decode(data)


@pytest.mark.parametrize(
    ("decode", "data"),
    [
        (lambda data: TopicZnode.decode("t", data), b'{"partitions":[1]}'),
        (lambda data: TopicZnode.decode("t", data), b'{"partitions":{"x":[1]}}'),
        (lambda data: TopicZnode.decode("t", data), b'{"topic_id":"short","partitions":{}}'),
        (lambda data: PartitionStateZnode.decode(data, ZkVersion(0)), b'{"leader":1}'),
        (lambda data: BrokerIdZnode.decode(ONE, data, BrokerEpoch(1)), b'{"version":0}'),
        (
            lambda data: BrokerIdZnode.decode(ONE, data, BrokerEpoch(1)),
            b'{"version":5,"endpoints":["nonsense"],"listener_security_protocol_map":{}}',
        ),
        (IsrChangeZnode.decode, b'{"partitions":[{"topic":"a"}]}'),
        (ReassignPartitionsZnode.decode, b'{"partitions":[{"topic":"a","partition":0}]}'),
        (FeatureZnode.decode, b'{"version":3,"status":1,"features":{}}'),
        (AclZnode.decode, b'{"version":2,"acls":[]}'),
        (ConfigChangeZnode.decode, b'{"version":9}'),
        (ControllerZnode.decode, b'{"brokerid":null}'),
        (ProducerIdBlockZnode.decode, b'{"broker":1,"block_start":"x","block_end":"1"}'),
    ],
)
def test_what_lacks_a_member_is_the_same_error(decode: Decode, data: bytes) -> None:
    with pytest.raises(MalformedZnodeError):
        decode(data)
