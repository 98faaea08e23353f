"""A broker's configuration: its layers, what it refuses, and how it changes while the broker runs."""

import logging

import pytest

from cluster.configuration.broker_config import UNLIMITED, BrokerConfig, ConfigSource
from cluster.configuration.catalogue import broker_settings
from cluster.configuration.errors import ConfigError
from cluster.configuration.properties import parse_overrides, read_properties
from cluster.configuration.topic_config import check_topic_config, read_topic_config
from storage.log_config import LogConfig

BASE = {"zookeeper.connect": "localhost:2181", "broker.id": "1"}
ACLS = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}


def config(**values):
    return BrokerConfig(BASE | {name.replace("_", "."): value for name, value in values.items()})


def test_defaults_are_kafkas():
    ours = config()
    assert ours.num_partitions == 1
    assert ours.log_retention_ms == 7 * 24 * 3600 * 1000
    assert ours.zookeeper_connection_timeout_ms == 18000
    assert ours.log_flush_interval_ms == UNLIMITED
    assert [str(path) for path in ours.log_directories] == ["/tmp/kafka-logs"]
    assert ours.log_config_defaults() == LogConfig()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"log.retention.hours": "2"}, 2 * 3600 * 1000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 3 * 60 * 1000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_the_finest_unit_holds(values, expected):
    assert BrokerConfig(BASE | values).log_retention_ms == expected


def test_node_id_is_broker_id():
    assert BrokerConfig({"zookeeper.connect": "x", "node.id": "4"}).broker_id == 4
    with pytest.raises(ConfigError, match=r"node\.id=4: expected the value of broker\.id, which is 1"):
        config(node_id="4")


def test_directories_are_split():
    ours = BrokerConfig(BASE | {"log.dirs": "/a, /b,/a"})
    assert [str(path) for path in ours.log_directories] == ["/a", "/b"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"zookeeper.connect": ""}, "zookeeper.connect: expected the ZooKeeper servers"),
        ({"process.roles": "broker"}, "process.roles=broker: expected no value"),
        ({"remote.log.storage.system.enable": "true"}, "expected false"),
        ({"authorizer.class.name": "org.example.Authorizer"}, "kafka.security.authorizer.AclAuthorizer"),
        ({**ACLS, "super.users": "alice"}, "Type:name"),
        ({**ACLS, "authorizer.zookeeper.url": "elsewhere:2181"}, "own ZooKeeper"),
        ({**ACLS, "allow.everyone.if.no.acl.found": "maybe"}, "true or false"),
        ({"broker.id": "2000"}, r"0 to 1000"),
        ({"broker.id": "-1", "broker.id.generation.enable": "false"}, "at least 0"),
        ({"replica.fetch.wait.max.ms": "60000"}, r"replica.lag.time.max.ms"),
        ({"log.retention.ms": "0"}, "at least 1, or -1"),
        ({"queued.max.request.bytes": "10"}, "at least socket.request.max.bytes"),
        ({"max.connections.per.ip": "0"}, "at least 1"),
        ({"offsets.commit.required.acks": "4"}, "-1 to"),
        ({"inter.broker.protocol.version": "2.8"}, "3.0 to 3.9"),
        ({"leader.replication.throttled.rate": "1"}, "set at run time"),
        ({"security.inter.broker.protocol": "TLS"}, "one of PLAINTEXT"),
    ],
)
def test_what_cannot_be_is_refused_by_name_and_value(values, message):
    with pytest.raises(ConfigError, match=message):
        BrokerConfig(BASE | values)


def test_a_secret_is_not_shown():
    setting = broker_settings()["delegation.token.secret.key"]
    assert setting.shown("hunter2") == "[hidden]"
    assert BrokerConfig(BASE | {setting.name: "hunter2"}).delegation_token_secret_key == "hunter2"


def test_an_unknown_name_is_warned_about_with_the_nearest(caplog):
    with caplog.at_level(logging.WARNING):
        BrokerConfig(BASE | {"log.retention.hour": "1", "acme.thing": "x"})
    assert [record.getMessage() for record in caplog.records] == [
        "unknown setting log.retention.hour: did you mean log.retention.hours?",
        "unknown setting acme.thing",
    ]


def test_sources_stand_in_the_order_in_which_they_hold():
    ours = BrokerConfig(BASE | {"log.retention.hours": "5"})
    ours.apply_dynamic({"log.retention.ms": "7"}, {"log.retention.ms": "8"})
    found = [(each.name, each.text, each.source) for each in ours.sources_of("log.retention.ms")]
    assert found == [
        ("log.retention.ms", "7", ConfigSource.DYNAMIC_BROKER),
        ("log.retention.ms", "8", ConfigSource.DYNAMIC_DEFAULT),
        ("log.retention.hours", "5", ConfigSource.STATIC),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    ]


def test_a_dynamic_change_is_told_and_taken_back():
    ours = config(num_io_threads="3")
    changes = []
    ours.on_change(changes.append)
    assert ours.apply_dynamic({"message.max.bytes": "100"}, {"log.retention.ms": "9"}) == {
        "message.max.bytes",
        "log.retention.ms",
    }
    assert (ours.message_max_bytes, ours.log_retention_ms) == (100, 9)
    assert ours.log_config_defaults().max_message_bytes == 100
    assert ours.apply_dynamic({}, {"log.retention.ms": "9"}) == {"message.max.bytes"}
    assert ours.message_max_bytes == 1048588
    assert len(changes) == 2
    ours.apply_dynamic({}, {"log.retention.ms": "9"})
    assert len(changes) == 2, "nothing changed, nothing told"


def test_a_stored_value_that_cannot_be_is_left_out(caplog):
    ours = config()
    with caplog.at_level(logging.WARNING):
        ours.apply_dynamic({"message.max.bytes": "huge", "follower.replication.throttled.rate": "5"}, {})
    assert ours.message_max_bytes == 1048588
    assert ours.follower_replication_throttled_rate == 5
    assert ours.leader_replication_throttled_rate == UNLIMITED
    assert "message.max.bytes=huge" in caplog.text


@pytest.mark.parametrize(
    ("values", "per_broker", "message"),
    [
        ({"broker.rack": "b"}, True, "no change at run time"),
        ({"message.max.bytes": "-5"}, False, "a number of 0.."),
        (
            {"listeners": "PLAINTEXT://:1"},
            True,
            "no change at run time: Ottla reads it when the broker starts",
        ),
    ],
)
def test_dynamic_values_are_checked_before_they_are_stored(values, per_broker, message):
    with pytest.raises(ConfigError, match=message):
        config().check_dynamic(values, per_broker=per_broker)


def test_dynamic_values_that_may_change_pass():
    config().check_dynamic({"message.max.bytes": "5", "acme": "x"}, per_broker=False)
    config().check_dynamic({"leader.replication.throttled.rate": "5"}, per_broker=True)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"acme": "1"}, "the name of a topic setting$"),
        ({"retentoin.ms": "1"}, "the name of a topic setting: did you mean retention.ms?"),
        ({"segment.bytes": "1"}, "14.."),
        ({"remote.storage.enable": "true"}, "local disks"),
        ({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"}, "at most"),
        ({"leader.replication.throttled.replicas": "0-1"}, "partition:broker"),
    ],
)
def test_a_topics_settings_are_checked(values, message):
    with pytest.raises(ConfigError, match=message):
        check_topic_config(values)


def test_a_topics_settings_stand_over_the_defaults(caplog):
    check_topic_config({"leader.replication.throttled.replicas": "0:1,1:2", "retention.ms": "-1"})
    defaults = LogConfig(retention_ms=5, segment_bytes=100)
    with caplog.at_level(logging.WARNING):
        found = read_topic_config("t", {"retention.ms": "6", "flush.ms": "soon", "acme": "x"}, defaults)
    assert (found.retention_ms, found.segment_bytes) == (6, 100)
    assert "flush.ms=soon" in caplog.text


def test_properties_are_read_in_javas_format(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text("# a comment\n! another\n\nbroker.id=1\n a.b : c d \nempty=\nkey value\nurl=x=y\n")
    assert read_properties(path) == {
        "broker.id": "1",
        "a.b": "c d",
        "empty": "",
        "key": "value",
        "url": "x=y",
    }
    path.write_text("log.dirs=/a,\\\n   /b\npath=C\\:\\\\x\\u0041\n")
    assert read_properties(path) == {"log.dirs": "/a,/b", "path": "C:\\xA"}


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.properties: expected a readable properties file"):
        read_properties(tmp_path / "nowhere.properties")


def test_overrides():
    assert parse_overrides(["a=1", "b = x=y", "a=2"]) == {"a": "2", "b": "x=y"}
    with pytest.raises(ConfigError, match="key=value"):
        parse_overrides(["a"])
