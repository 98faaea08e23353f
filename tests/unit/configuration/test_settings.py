"""The tables of settings: they can be parsed, agree with the typed attributes, and check values."""

import typing

import pytest

from cluster.configuration.catalogue import (
    broker_settings,
    dynamic_settings,
    nearest_name,
    topic_settings,
)
from cluster.configuration.errors import ConfigError
from cluster.configuration.listener_names import base_name, listener_name, own_setting
from cluster.configuration.served_values import ServedValues
from cluster.configuration.setting import Kind, Service, read_table
from cluster.configuration.synonyms import BROKER_SYNONYMS, TOPIC_DEFAULTS, synonyms_of
from storage.log_config import LogConfig

ALL = [*broker_settings().values(), *topic_settings().values(), *dynamic_settings().values()]


@pytest.mark.parametrize("setting", ALL, ids=lambda setting: setting.name)
def test_a_setting_is_whole(setting):
    assert setting.doc.endswith("."), "a text that says what it does"
    assert setting.importance in ("high", "medium", "low")
    if setting.default is not None:
        setting.parse(setting.default)
    if setting.service is Service.REFUSED:
        assert setting.reason


def test_every_served_setting_is_a_typed_attribute():
    types = {
        Kind.BOOLEAN: bool,
        Kind.STRING: str,
        Kind.INT: int,
        Kind.SHORT: int,
        Kind.LONG: int,
        Kind.DOUBLE: float,
        Kind.LIST: tuple[str, ...],
        Kind.CLASS: str,
        Kind.PASSWORD: str,
    }
    served = {
        name.replace(".", "_"): types[setting.kind]
        for name, setting in broker_settings().items()
        if setting.service is Service.SERVED
    }
    declared = typing.get_type_hints(ServedValues)
    assert declared.keys() == served.keys()
    for name, declared_type in declared.items():
        bare = [each for each in typing.get_args(declared_type) if each is not type(None)]
        found = bare[0] if bare and declared_type != tuple[str, ...] else declared_type
        assert getattr(found, "__supertype__", found) == served[name], name


def test_every_setting_of_a_log_has_its_table_entry_and_default():
    ours = LogConfig()
    for name, setting in topic_settings().items():
        value = getattr(ours, name.replace(".", "_"))
        default = setting.default_value
        assert (frozenset(default) if isinstance(value, frozenset) else default) == value, name


def test_topic_defaults_agree_with_the_settings_of_brokers():
    for topic, broker in TOPIC_DEFAULTS.items():
        ours, theirs = topic_settings()[topic], broker_settings()[broker]
        assert ours.kind == theirs.kind, topic
        if theirs.default is not None:
            assert ours.default_value == theirs.default_value, topic


def test_synonyms_are_settings():
    for name, sources in BROKER_SYNONYMS.items():
        assert name in broker_settings()
        assert all(source.name in broker_settings() for source in sources)
    assert synonyms_of("log.retention.hours") == (
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
    )
    assert synonyms_of("num.partitions") == ("num.partitions",)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("log.retention.hours", " 5 ", 5),
        ("auto.create.topics.enable", "FALSE", False),
        ("log.cleanup.policy", "compact, delete", ("compact", "delete")),
        ("log.cleaner.min.cleanable.ratio", "0.25", 0.25),
        ("compression.gzip.level", "-1", -1),
        ("compression.gzip.level", "9", 9),
        ("inter.broker.protocol.version", "3.9-IV0", "3.9-IV0"),
        ("log.local.retention.ms", "-2", -2),
        ("process.roles", "", ()),
    ],
)
def test_values_are_read(name, text, value):
    assert broker_settings()[name].parse(text) == value


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("num.partitions", "many", "a number of 1.."),
        ("num.partitions", "0", "a number of 1.."),
        ("num.partitions", "2147483648", "32 bits"),
        ("offsets.topic.replication.factor", "40000", "16 bits"),
        ("auto.create.topics.enable", "yes", "true or false"),
        ("log.cleanup.policy", "shred", "one of compact, delete"),
        ("compression.gzip.level", "0", "-1, 1..9"),
        ("compression.type", "brotli", "one of uncompressed"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "0..1"),
        ("inter.broker.protocol.version", "newest", "a release of Kafka"),
    ],
)
def test_wrong_values_are_told_with_what_was_expected(name, text, expected):
    with pytest.raises(ConfigError) as caught:
        broker_settings()[name].parse(text)
    assert caught.value.name == name
    assert text in str(caught.value)
    assert expected in str(caught.value)


def test_a_secret_is_not_shown():
    secret = broker_settings()["ssl.key.password"]
    assert secret.is_sensitive
    assert secret.shown("hunter2") == "[hidden]"
    assert secret.shown(None) is None


def test_the_nearest_name():
    assert nearest_name("log.retention.hour") == "log.retention.hours"
    assert nearest_name("zookeper.connect") == "zookeeper.connect"
    assert nearest_name("confluent.balancer.enable") is None


def test_a_listeners_own_setting_has_its_base():
    assert base_name("listener.name.internal.max.connections") == "max.connections"
    assert base_name("listener.name.x.ssl.keystore.location") == "ssl.keystore.location"
    assert base_name("listener.name.x.plain.sasl.jaas.config") == "sasl.jaas.config"
    assert base_name("max.connections") == "max.connections"
    assert base_name(own_setting("INTERNAL", "max.connections")) == "max.connections"


def test_a_listeners_name_has_no_case():
    assert listener_name(" Internal ") == listener_name("INTERNAL") == "INTERNAL"
    assert own_setting("INTERNAL", "max.connections") == "listener.name.internal.max.connections"


def test_a_table_is_read():
    (setting,) = read_table("x.y | list | null | low | read-only\n    valid: a, b\n    One.\n    Two.\n")
    assert setting.default is None
    assert setting.valid == "a, b"
    assert setting.doc == "One. Two."
    with pytest.raises(ConfigError):
        setting.parse("a,c")
