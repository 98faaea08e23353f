"""``cluster.json`` and ``server.properties``: what programs and operators read."""

import json
import os
from pathlib import Path

import pytest

from cluster.configuration.properties import read_properties
from ottla.commands.local.broker_files import broker_properties, write_properties
from ottla.commands.local.cluster_directory import BrokerRecord, ClusterDirectory, ClusterState
from ottla.commands.local.up import parse_overrides, split_overrides
from ottla.commands.terminal.failure import CommandError
from ottla.processes import is_running


def a_state(directory: Path) -> ClusterState:
    brokers = tuple(
        BrokerRecord(i, 100 + i, 200 + i, "127.0.0.1", 9092 + i, str(directory / f"broker-{i}"))
        for i in range(3)
    )
    return ClusterState("127.0.0.1:2181", 50, True, brokers)


def test_the_file_is_what_programs_expect(tmp_path: Path) -> None:
    directory = ClusterDirectory(tmp_path)
    state = a_state(tmp_path)
    directory.write(state)
    data = json.loads((tmp_path / "cluster.json").read_text())
    assert data["bootstrap_servers"] == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
    assert data["zookeeper"] == "127.0.0.1:2181"
    assert data["brokers"][1] == {
        "id": 1,
        "pid": 101,
        "guardian_pid": 201,
        "host": "127.0.0.1",
        "port": 9093,
        "directory": str(tmp_path / "broker-1"),
    }
    assert directory.read() == state
    changed = state.with_brokers([state.broker(1).stopped()])
    assert changed.broker(1).pid is None
    assert changed.broker(2) == state.broker(2)


def test_overrides_name_their_broker(tmp_path: Path) -> None:
    given = {
        "broker.rack": "rack-{id}",
        "listeners": "PLAINTEXT://127.0.0.1:{port},SSL://127.0.0.1:0",
        "x": "{y}",
    }
    properties = broker_properties(a_state(tmp_path).broker(2), 3, "zk:1", given)
    assert properties["broker.rack"] == "rack-2"
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:9094,SSL://127.0.0.1:0"
    assert properties["x"] == "{y}"


def test_no_cluster_and_damaged_files(tmp_path: Path) -> None:
    directory = ClusterDirectory(tmp_path)
    assert directory.read() is None
    with pytest.raises(CommandError, match="no cluster"):
        directory.require()
    for text in (
        "",
        "{",
        "[]",
        "{}",
        '{"zookeeper": 1, "zookeeper_pid": 2, "zookeeper_is_ours": 3, "brokers": [{}]}',
    ):
        (tmp_path / "cluster.json").write_text(text)
        with pytest.raises(CommandError, match="damaged"):
            directory.read()
    with pytest.raises(CommandError, match="no broker 7; it has 0, 1, 2"):
        a_state(tmp_path).broker(7)


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    directory = ClusterDirectory(tmp_path / "file" / "below")
    with pytest.raises(CommandError, match="cannot be used"), directory.locked():
        pass


@pytest.mark.parametrize(
    ("count", "factor", "min_isr"), [(1, "1", "1"), (2, "2", "2"), (3, "3", "2"), (5, "3", "2")]
)
def test_internal_topics_fit_the_cluster(tmp_path: Path, count: int, factor: str, min_isr: str) -> None:
    broker = a_state(tmp_path).broker(1)
    properties = broker_properties(broker, count, "zk:1", {})
    assert properties["offsets.topic.replication.factor"] == factor
    assert properties["transaction.state.log.replication.factor"] == factor
    assert properties["transaction.state.log.min.isr"] == min_isr


def test_properties_are_read_back_as_written(tmp_path: Path) -> None:
    broker = a_state(tmp_path).broker(1)
    overrides = {
        "num.partitions": "7",
        "odd": " leading\\ tab\t ünï \U0001f600 #=:!",
        "zookeeper.session.timeout.ms": "9",
    }
    properties = broker_properties(broker, 3, "127.0.0.1:2181/chroot", overrides)
    write_properties(broker, properties)
    assert read_properties(broker.properties) == properties
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:9093"
    assert properties["zookeeper.session.timeout.ms"] == "9"


def test_overrides() -> None:
    assert parse_overrides(["a=b", "a = c=d", "e="]) == {"a": "c=d", "e": ""}
    for text in ("a", "=b", ""):
        with pytest.raises(CommandError, match="KEY=VALUE"):
            parse_overrides([text])


def test_a_pid_counts_only_under_its_name() -> None:
    own = Path("/proc/self/comm").read_text().strip()
    assert is_running(os.getpid(), own)
    assert not is_running(os.getpid(), "ottla-broker-0")
    assert not is_running(None, own)
    assert not is_running(2**22 + 1, own)


def test_overrides_of_single_brokers() -> None:
    for_all, for_one = split_overrides(["a=b", "1:rack=x", "1:c=1:2", "listeners=PLAINTEXT://h:1"], [0, 1])
    assert for_all == {"a": "b", "listeners": "PLAINTEXT://h:1"}
    assert for_one == {1: {"rack": "x", "c": "1:2"}}
    with pytest.raises(CommandError, match="no broker 2, only 0, 1"):
        split_overrides(["2:rack=x"], [0, 1])
    with pytest.raises(CommandError, match="KEY=VALUE"):
        split_overrides(["1:rack"], [0, 1])


@pytest.mark.parametrize(
    ("host", "listens", "advertised"),
    [
        ("127.0.0.1", "PLAINTEXT://127.0.0.1:9092", None),
        ("localhost", "PLAINTEXT://localhost:9092", None),
        ("10.0.0.7", "PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://10.0.0.7:9092"),
        ("box.example", "PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://box.example:9092"),
        ("fd00::7", "PLAINTEXT://[::]:9092", "PLAINTEXT://[fd00::7]:9092"),
    ],
)
def test_where_brokers_listen_for_other_machines(host: str, listens: str, advertised: str | None) -> None:
    broker = BrokerRecord(0, None, None, host, 9092, "/d")
    properties = broker_properties(broker, 1, "127.0.0.1:2181", {})
    assert properties["listeners"] == listens
    assert properties.get("advertised.listeners") == advertised
