"""Describing and altering configurations against a ZooKeeper in memory, and applying changes."""

from dataclasses import dataclass
from typing import NamedTuple

import pytest
import trio
import trio.testing

from cluster.broker.live_configuration import LiveConfiguration
from cluster.configuration.broker_config import BrokerConfig, ConfigSource
from cluster.configuration.catalogue import broker_settings, topic_settings
from cluster.handlers import alter_configs, config_resources, describe_configs, incremental_alter_configs
from cluster.handlers.config_resources import ResourceType
from cluster.network.connection_limits import ConnectionLimits
from cluster.replication.metadata_cache import ClusterSnapshot, MetadataCache
from cluster.zookeeper.broker_store import BrokerStore
from cluster.zookeeper.config_changes import ConfigChanges
from cluster.zookeeper.znodes import BROKERS, DEFAULT_ENTITY, TOPICS
from simulation.zookeeper import FakeZooKeeper
from simulation.zookeeper_ensemble import FakeEnsemble
from tests.unit.handlers.calls import Broker, KeptCall
from wire.errors import Error
from wire.messages import alter_configs as alter_messages
from wire.messages import incremental_alter_configs as incremental_messages
from wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from wire.types import TopicPartition, WallMs

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, LOGGER = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER


async def at_once(work):
    await trio.lowlevel.checkpoint()
    return work()


def look_up(host):
    raise OSError(-2, "Name or service not known")


@dataclass(eq=False)
class Configured(Broker):
    config: BrokerConfig
    broker_id: int
    store: BrokerStore
    metadata: MetadataCache
    zookeeper: FakeZooKeeper
    connection_limits: ConnectionLimits
    key_stores: None = None


def in_broker(test):
    """Run a test with a broker 1 that knows the topic t, on a ZooKeeper in memory."""

    async def main():
        zookeeper = FakeZooKeeper(FakeEnsemble())
        zookeeper.connect()
        await zookeeper.renew_session()
        store = BrokerStore(zookeeper)
        await store.create_persistent_paths()
        config = BrokerConfig({"zookeeper.connect": "x", "broker.id": "1", "log.retention.hours": "1"})
        metadata = MetadataCache()
        metadata.snapshot = ClusterSnapshot(topics={"t": {}})
        limits = ConnectionLimits(config, at_once, look_up)
        broker = Configured(config, 1, store, metadata, zookeeper, limits)
        await test(broker)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def call(broker, request):
    return KeptCall(broker, request, 4)


async def describe(broker, kind, name, keys=None, *, synonyms=True, texts=True):
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=synonyms, include_documentation=texts
    )
    (result,) = (await describe_configs.handle(call(broker, request))).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    if result.error_code:
        return Error.from_code(result.error_code)
    return {config.name: config for config in result.configs}


async def incrementally(broker, kind, name, *changes, validate_only=False):
    configs = [
        incremental_messages.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = incremental_messages.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=configs
    )
    request = incremental_messages.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=validate_only
    )
    (response,) = (await incremental_alter_configs.handle(call(broker, request))).responses
    return Error.from_code(response.error_code)


async def stored(broker, entity_type, name):
    return dict((await broker.store.read_config(entity_type, name))[0])


def test_every_setting_of_a_topic_with_its_source():
    @in_broker
    async def _(broker):
        await incrementally(broker, TOPIC, "t", ("max.message.bytes", SET, "7"))
        found = await describe(broker, TOPIC, "t")
        assert found.keys() == topic_settings().keys()
        own, inherited, plain = (found[key] for key in ("max.message.bytes", "retention.ms", "segment.bytes"))
        assert (own.value, own.config_source) == ("7", ConfigSource.TOPIC)
        assert [(each.name, each.source) for each in own.synonyms] == [
            ("max.message.bytes", ConfigSource.TOPIC),
            ("message.max.bytes", ConfigSource.DEFAULT),
        ]
        assert (inherited.value, inherited.config_source) == ("3600000", ConfigSource.STATIC)
        assert (plain.value, plain.config_source) == (str(1 << 30), ConfigSource.DEFAULT)
        assert own.documentation
        assert own.config_type == 3
        assert not own.read_only


def test_every_setting_of_a_broker_and_no_secret():
    @in_broker
    async def _(broker):
        found = await describe(broker, BROKER, "1")
        assert found.keys() == broker_settings().keys()
        assert found["broker.id"].read_only
        assert not found["advertised.listeners"].read_only  # Kafka changes it while the broker runs
        assert found["ssl.key.password"].is_sensitive
        assert found["ssl.key.password"].value is None
        some = await describe(broker, BROKER, "1", ["broker.id"], synonyms=False, texts=False)
        assert some.keys() == {"broker.id"}
        assert some["broker.id"].synonyms == []
        assert some["broker.id"].documentation is None
        assert await describe(broker, BROKER, "") == {}


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "missing", Error.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", Error.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", Error.INVALID_REQUEST),
        (BROKER, "one", Error.INVALID_REQUEST),
        (ResourceType.CLIENT_METRICS, "x", Error.INVALID_REQUEST),
        (77, "x", Error.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_described_or_altered(kind, name, error):
    @in_broker
    async def _(broker):
        assert await describe(broker, kind, name) is error
        assert await incrementally(broker, kind, name, ("retention.ms", SET, "1")) is error


def test_single_settings_are_changed():
    @in_broker
    async def _(broker):
        ok = Error.NONE
        assert (
            await incrementally(broker, TOPIC, "t", ("retention.ms", SET, "1"), ("flush.ms", SET, "2")) is ok
        )
        assert await incrementally(broker, TOPIC, "t", ("flush.ms", DELETE, None)) is ok
        assert await incrementally(broker, TOPIC, "t", ("cleanup.policy", APPEND, "compact,delete")) is ok
        assert await stored(broker, TOPICS, "t") == {"retention.ms": "1", "cleanup.policy": "delete,compact"}
        assert await incrementally(broker, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete")) is ok
        assert (await stored(broker, TOPICS, "t"))["cleanup.policy"] == "compact"
        assert await incrementally(broker, TOPIC, "t", ("cleanup.policy", SUBTRACT, "compact")) is ok
        assert (await stored(broker, TOPICS, "t"))[
            "cleanup.policy"
        ] == ""  # as in Kafka: nothing is ever removed


def test_a_brokers_wrong_setting_is_a_wrong_request_as_in_kafka():
    @in_broker
    async def _(broker):
        assert (
            await incrementally(broker, BROKER, "1", ("zookeeper.connect", SET, "h:1"))
            is Error.INVALID_REQUEST
        )
        assert (
            await incrementally(broker, BROKER, "", ("message.max.bytes", SET, "much"))
            is Error.INVALID_REQUEST
        )


def test_a_resource_that_is_named_twice_is_refused_both_times():
    @in_broker
    async def _(broker):
        change = incremental_messages.AlterableConfig(name="retention.ms", config_operation=SET, value="1")
        twice = incremental_messages.AlterConfigsResource(
            resource_type=TOPIC, resource_name="t", configs=[change]
        )
        other = twice.replace(resource_type=BROKER, resource_name="")
        request = incremental_messages.IncrementalAlterConfigsRequest(resources=[twice, other, twice])
        response = await incremental_alter_configs.handle(call(broker, request))
        assert [each.error_message for each in response.responses] == [
            "Each resource must appear at most once.",
            response.responses[1].error_message,
            "Each resource must appear at most once.",
        ]
        assert "at most once" not in (response.responses[1].error_message or "")
        assert await stored(broker, TOPICS, "t") == {}


def test_a_setting_without_a_value_is_named_in_the_refusal():
    @in_broker
    async def _(broker):
        settings = [
            alter_messages.AlterableConfig(name="retention.ms", value="1"),
            alter_messages.AlterableConfig(name="segment.ms", value=None),
        ]
        resource = alter_messages.AlterConfigsResource(
            resource_type=TOPIC, resource_name="t", configs=settings
        )
        request = alter_messages.AlterConfigsRequest(resources=[resource])
        (response,) = (await alter_configs.handle(call(broker, request))).responses
        assert response.error_message == "Null value not supported for : segment.ms"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([("retention.ms", SET, "soon")], Error.INVALID_CONFIG),
        ([("nonsense", SET, "1")], Error.INVALID_CONFIG),
        ([("retention.ms", APPEND, "1")], Error.INVALID_CONFIG),
        ([("retention.ms", SET, None)], Error.INVALID_REQUEST),
        ([("retention.ms", 9, "1")], Error.INVALID_REQUEST),
        ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], Error.INVALID_REQUEST),
    ],
)
def test_a_wrong_change_leaves_what_is_stored(changes, error):
    @in_broker
    async def _(broker):
        assert await incrementally(broker, TOPIC, "t", *changes) is error
        assert await stored(broker, TOPICS, "t") == {}


def test_a_listeners_own_setting_is_described_where_it_is_given():
    @in_broker
    async def _(broker):
        name = "listener.name.inner.max.connections"
        broker.config.apply_dynamic({}, {name: "5"})
        entry = (await describe(broker, BROKER, "1"))[name]
        assert (entry.value, entry.config_source) == ("5", ConfigSource.DYNAMIC_DEFAULT)
        assert not entry.read_only


@pytest.mark.parametrize("text", ["nobody.example:1", "10.0.0.1", "10.0.0.1:many"])
def test_a_host_that_nobody_knows_gets_no_limit(text):
    @in_broker
    async def _(broker):
        name = "max.connections.per.ip.overrides"
        assert await incrementally(broker, BROKER, "", (name, SET, "10.0.0.1:5")) is Error.NONE
        assert await incrementally(broker, BROKER, "", (name, SET, text)) is Error.INVALID_CONFIG
        assert await stored(broker, BROKERS, DEFAULT_ENTITY) == {name: "10.0.0.1:5"}
        assert await incrementally(broker, BROKER, "", (name, DELETE, None)) is Error.NONE


def test_validation_stores_nothing():
    @in_broker
    async def _(broker):
        right, wrong = ("retention.ms", SET, "1"), ("retention.ms", SET, "x")
        assert await incrementally(broker, TOPIC, "t", right, validate_only=True) is Error.NONE
        assert await incrementally(broker, TOPIC, "t", wrong, validate_only=True) is Error.INVALID_CONFIG
        assert await stored(broker, TOPICS, "t") == {}


def test_alter_configs_replaces_everything():
    @in_broker
    async def _(broker):
        await incrementally(broker, TOPIC, "t", ("flush.ms", SET, "2"))
        configs = [alter_messages.AlterableConfig(name="retention.ms", value="1")]
        resources = [
            alter_messages.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=configs)
            for name in ("t", "missing")
        ]
        request = alter_messages.AlterConfigsRequest(resources=resources)
        response = await alter_configs.handle(call(broker, request))
        assert [each.error_code for each in response.responses] == [0, Error.UNKNOWN_TOPIC_OR_PARTITION]
        assert await stored(broker, TOPICS, "t") == {"retention.ms": "1"}


def test_levels_of_loggers_are_a_configuration():
    @in_broker
    async def _(broker):
        name = "cluster.broker.live_configuration"
        assert (await describe(broker, LOGGER, "1"))[name].value
        assert await incrementally(broker, LOGGER, "1", (name, SET, "DEBUG")) is Error.NONE
        assert (await describe(broker, LOGGER, "1"))[name].value == "DEBUG"
        assert await incrementally(broker, LOGGER, "1", (name, DELETE, None)) is Error.NONE
        assert await incrementally(broker, LOGGER, "1", (name, SET, "LOUD")) is Error.INVALID_CONFIG
        assert await incrementally(broker, LOGGER, "1", ("no.such", SET, "INFO")) is Error.INVALID_CONFIG
        assert await incrementally(broker, LOGGER, "1", ("root", DELETE, None)) is Error.INVALID_REQUEST


class HostedLog(NamedTuple):
    topic_partition: TopicPartition


class Logs:
    """Stands in for the log store: records its calls."""

    def __init__(self, topic):
        self.topics = {}
        self.default = None
        self._log = HostedLog(TopicPartition(topic, 0))

    def all_logs(self):
        return [self._log]

    def update_topic_configs(self, configs):
        self.topics |= configs

    def update_default_config(self, config):
        self.default = config


def test_changes_are_taken_over_while_the_broker_runs():
    @in_broker
    async def _(broker):
        live = LiveConfiguration(
            broker.config, broker.store, ConfigChanges(broker.zookeeper, lambda: WallMs(0))
        )
        unclean = []
        live.on_unclean_election = unclean.append
        await incrementally(broker, TOPIC, "t", ("retention.ms", SET, "5"))
        loaded = await live.load()
        assert loaded["t"].retention_ms == 5
        logs = Logs("t")
        live.attach(logs)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.follow)
            await incrementally(broker, TOPIC, "t", ("segment.bytes", SET, "100"))
            await trio.testing.wait_all_tasks_blocked()
            assert (logs.topics["t"].segment_bytes, logs.topics["t"].retention_ms) == (100, 5)
            await incrementally(broker, BROKER, "", ("message.max.bytes", SET, "9"))
            await trio.testing.wait_all_tasks_blocked()
            assert broker.config.message_max_bytes == 9
            assert logs.default.max_message_bytes == 9
            assert (logs.topics["t"].max_message_bytes, logs.topics["t"].retention_ms) == (9, 5)
            await incrementally(broker, BROKER, "1", ("unclean.leader.election.enable", SET, "true"))
            await incrementally(broker, TOPIC, "t", ("unclean.leader.election.enable", SET, "true"))
            await trio.testing.wait_all_tasks_blocked()
            assert unclean == [None, "t"]
            nursery.cancel_scope.cancel()


def test_many_changes_are_looked_through_once(monkeypatch):
    compared = 0

    class Name(str):
        __hash__ = str.__hash__

        def __eq__(self, other):
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    changes = [
        incremental_messages.AlterableConfig(name=Name(f"k{number}"), value="1", config_operation=SET)
        for number in range(2000)
    ]
    config_resources.check_entries([change.name for change in changes], [])
    incremental_alter_configs._check_operations(changes)
    assert compared < 10_000
    added = ",".join(f"e{number}" for number in range(5))
    change = incremental_messages.AlterableConfig(
        name="cleanup.policy", value=f"{added},e1,compact", config_operation=APPEND
    )
    changed = incremental_alter_configs.changed({"cleanup.policy": "compact"}, [change], of_topic=True)
    assert changed == {"cleanup.policy": f"compact,{added}"}
