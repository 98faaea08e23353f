"""One broker's life on a real machine: what stops it from starting, sessions lost, settings changed, a clean end."""

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from struct import unpack

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, NewTopic, ResourceType

from cluster.broker.exit_codes import ExitCode
from cluster.configuration.catalogue import broker_settings, topic_settings
from cluster.zookeeper.session_closer import close_session
from cluster.zookeeper.session_record import read_session_record
from ottla.management_client import ManagementClient
from ottla.testing import Cluster
from ottla.testing.ports import free_port_block
from storage.names import CLEAN_SHUTDOWN
from tests.patience import until
from wire.errors import Error
from wire.frames import decode_response, encode_request
from wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

OTTLA = str(Path(sys.executable).parent / "ottla")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    data = tmp_path_factory.mktemp("one") / "data"
    with Cluster.up(data, brokers=1, overrides={"ottla.metrics.port": "0"}) as running:
        yield running


@pytest.fixture
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


def logs_of(cluster: Cluster) -> Path:
    return Path(cluster.broker(0)["directory"]) / "logs"


def management(cluster: Cluster) -> ManagementClient:
    return ManagementClient(Path(cluster.broker(0)["directory"]) / "management.sock")


def run_broker(directory: Path, **settings: str) -> tuple[int, str]:
    """Run a broker that must fail to start; return its exit code and its last critical message."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "server.properties"
    file.write_text("".join(f"{name.replace('_', '.')}={value}\n" for name, value in settings.items()))
    done = subprocess.run(
        [OTTLA, "broker", str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    message = [line for line in done.stderr.splitlines() if "CRITICAL" in line]
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, message[-1] if message else done.stderr


@pytest.fixture
def settings(cluster: Cluster, tmp_path: Path) -> dict[str, str]:
    """The settings of a second broker beside the cluster's."""
    return {
        "broker_id": "7",
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port_block(1)}",
        "zookeeper_connect": cluster.zookeeper,
        "zookeeper_session_timeout_ms": "4000",
        "log_dirs": str(tmp_path / "logs"),
    }


def test_a_taken_port(cluster: Cluster, settings: dict[str, str], tmp_path: Path) -> None:
    taken = f"PLAINTEXT://{cluster.bootstrap_servers}"
    code, message = run_broker(tmp_path, **settings | {"listeners": taken})
    assert code == ExitCode.PORT
    assert f"cannot listen on {taken}: Address already in use" in message


def test_a_locked_directory(cluster: Cluster, settings: dict[str, str], tmp_path: Path) -> None:
    code, message = run_broker(tmp_path, **settings | {"log_dirs": str(logs_of(cluster))})
    assert code == ExitCode.DIRECTORY_LOCKED
    assert f"{logs_of(cluster)} is in use by another broker" in message


def test_a_foreign_directory(settings: dict[str, str], tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "meta.properties").write_text("version=0\nbroker.id=3\ncluster.id=elsewhere\n")
    code, message = run_broker(tmp_path, **settings)
    assert code == ExitCode.FOREIGN_DIRECTORY
    assert "belongs to cluster elsewhere" in message
    assert "check zookeeper.connect and log.dirs" in message


def test_a_directory_that_cannot_be_used(settings: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, message = run_broker(tmp_path, **settings | {"log_dirs": str(tmp_path / "file" / "logs")})
    assert code == ExitCode.DISK
    assert str(tmp_path / "file" / "logs") in message


def test_no_zookeeper(settings: dict[str, str], tmp_path: Path) -> None:
    nowhere = f"127.0.0.1:{free_port_block(1)}"
    changes = {"zookeeper_connect": nowhere, "zookeeper_connection_timeout_ms": "1000"}
    code, message = run_broker(tmp_path, **settings | changes)
    assert code == ExitCode.ZOOKEEPER
    assert f"no connection to ZooKeeper at {nowhere}" in message


def test_an_id_that_lives_elsewhere(settings: dict[str, str], tmp_path: Path) -> None:
    code, message = run_broker(tmp_path, **settings | {"broker_id": "0"})
    assert code == ExitCode.BROKER_ID_TAKEN
    assert "another broker lives with this id" in message


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"num_partitions": "none"}, "num.partitions=none: expected a number of 1.."),
        ({"process_roles": "broker"}, "process.roles=broker: expected no value"),
        ({"listeners": "SSL://127.0.0.1:9093"}, "security.inter.broker.protocol=PLAINTEXT"),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:9092"}, "advertise a real host name"),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "expected an address that others can connect to"),
    ],
)
def test_a_setting_that_cannot_be(
    settings: dict[str, str], tmp_path: Path, changes: dict[str, str], expected: str
) -> None:
    code, message = run_broker(tmp_path, **settings | changes)
    assert code == ExitCode.CONFIGURATION
    assert expected in message


def test_every_setting_is_described(admin: AdminClient) -> None:
    admin.create_topics([NewTopic("described", 1, 1, config={"retention.ms": "5000"})])["described"].result(
        10
    )
    broker = ConfigResource(ResourceType.BROKER, "0")
    topic = ConfigResource(ResourceType.TOPIC, "described")
    found = {
        key.restype: future.result(60) for key, future in admin.describe_configs([broker, topic]).items()
    }
    assert found[ResourceType.BROKER].keys() == broker_settings().keys()
    assert found[ResourceType.TOPIC].keys() == topic_settings().keys()
    ours = found[ResourceType.BROKER]
    assert (ours["broker.id"].value, ours["broker.id"].source) == (
        "0",
        ConfigSource.STATIC_BROKER_CONFIG.value,
    )
    assert ours["broker.id"].is_read_only
    assert not ours["message.max.bytes"].is_read_only
    assert ours["num.io.threads"].source == ConfigSource.DEFAULT_CONFIG.value
    assert ours["ssl.key.password"].is_sensitive
    own = found[ResourceType.TOPIC]
    assert own["retention.ms"].value == "5000"
    assert own["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert set(own["retention.ms"].synonyms) == {"retention.ms", "log.retention.hours"}
    assert own["segment.bytes"].value == str(1 << 30)


def alter(cluster: Cluster, kind: ResourceType, name: str, **changes: str | None) -> Error:
    """Change settings, also the default of all brokers, which librdkafka cannot; return the error."""
    resource = AlterConfigsResource(
        resource_type=kind.value,
        resource_name=name,
        configs=[
            AlterableConfig(name=key.replace("_", "."), config_operation=int(value is None), value=value)
            for key, value in changes.items()
        ],
    )
    host, port = cluster.bootstrap_servers.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(encode_request(IncrementalAlterConfigsRequest(resources=[resource]), 1, 5, "test"))
        with connection.makefile("rb") as stream:
            (size,) = unpack(">i", stream.read(4))
            _, response = decode_response(IncrementalAlterConfigsResponse, 1, stream.read(size))
    (only,) = response.responses
    return Error.from_code(only.error_code)


def produce(cluster: Cluster, topic: str, size: int) -> str | None:
    """Produce one record; return the name of the error, if any."""
    outcome = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "message.max.bytes": 10_000_000})
    producer.produce(topic, b"x" * size, on_delivery=lambda error, _: outcome.append(error))
    producer.flush(60)
    (error,) = outcome
    return None if error is None else error.name()


def test_settings_of_topics_and_brokers_take_effect_at_once(cluster: Cluster, admin: AdminClient) -> None:
    admin.create_topics([NewTopic("sized", 1, 1)])["sized"].result(60)
    assert produce(cluster, "sized", 5000) is None
    assert alter(cluster, ResourceType.TOPIC, "sized", max_message_bytes="1000") is Error.NONE
    until(lambda: produce(cluster, "sized", 5000) == "MSG_SIZE_TOO_LARGE")
    alter(cluster, ResourceType.TOPIC, "sized", max_message_bytes=None)
    until(lambda: produce(cluster, "sized", 5000) is None)
    alter(cluster, ResourceType.BROKER, "", message_max_bytes="2000")
    until(lambda: produce(cluster, "sized", 5000) == "MSG_SIZE_TOO_LARGE")
    alter(cluster, ResourceType.BROKER, "0", message_max_bytes="20000")
    until(lambda: produce(cluster, "sized", 5000) is None)
    alter(cluster, ResourceType.BROKER, "0", message_max_bytes=None)
    alter(cluster, ResourceType.BROKER, "", message_max_bytes=None)
    until(lambda: produce(cluster, "sized", 50_000) is None)


@pytest.mark.parametrize(
    ("kind", "name", "changes", "expected"),
    [
        (ResourceType.TOPIC, "sized", {"max_message_bytes": "-1"}, Error.INVALID_CONFIG),
        (ResourceType.TOPIC, "sized", {"nonsense": "1"}, Error.INVALID_CONFIG),
        (ResourceType.TOPIC, "missing", {"retention_ms": "1"}, Error.UNKNOWN_TOPIC_OR_PARTITION),
        (ResourceType.BROKER, "0", {"broker_rack": "r"}, Error.INVALID_REQUEST),
        (ResourceType.BROKER, "", {"log_retention_ms": "soon"}, Error.INVALID_REQUEST),
    ],
)
def test_settings_that_cannot_be_are_refused(
    cluster: Cluster,
    admin: AdminClient,
    kind: ResourceType,
    name: str,
    changes: dict[str, str],
    expected: Error,
) -> None:
    if name == "sized" and "sized" not in admin.list_topics(timeout=60).topics:
        admin.create_topics([NewTopic("sized", 1, 1)])["sized"].result(60)
    assert alter(cluster, kind, name, **changes) is expected


def test_it_registers_again_when_its_session_expires(cluster: Cluster, admin: AdminClient) -> None:
    with management(cluster) as asked:
        before = asked.call("describe")
        key = read_session_record(logs_of(cluster))
        assert key is not None
        assert close_session(key, time.monotonic)
        until(lambda: asked.call("describe")["broker_epoch"] > before["broker_epoch"])
        until(lambda: asked.call("describe")["controller"]["active"])
    admin.create_topics([NewTopic("after-expiry", 2, 1)])["after-expiry"].result(60)
    assert produce(cluster, "after-expiry", 10) is None


def test_its_metrics_are_read(cluster: Cluster) -> None:
    with management(cluster) as asked:
        url = f"http://127.0.0.1:{asked.call('describe')['metrics_port']}/metrics"
    with urllib.request.urlopen(url, timeout=60) as response:
        text = response.read().decode()
    assert "kafka_controller_kafkacontroller_activecontrollercount 1.0" in text
    assert "kafka_server_replicamanager_underreplicatedpartitions 0.0" in text
    assert "kafka_network_socketserver_connectioncount" in text
    assert 'kafka_network_requestmetrics_requests_total{request="Metadata"}' in text


def test_it_stops_cleanly_and_starts_without_recovery(cluster: Cluster) -> None:
    assert produce(cluster, "kept", 10) is None
    cluster.stop(0)
    assert (logs_of(cluster) / CLEAN_SHUTDOWN).exists()
    cluster.start(0)
    assert not (logs_of(cluster) / CLEAN_SHUTDOWN).exists()
    with management(cluster) as asked:
        assert asked.call("wait_ready", timeout_ms=60_000)
        kept = next(each for each in asked.call("partitions") if each["topic"] == "kept")
    assert (kept["log_end"], kept["high_watermark"]) == (1, 1)
    log = (Path(cluster.broker(0)["directory"]) / "broker.log").read_text()
    assert "not closed cleanly" not in log
    assert "Traceback" not in log
