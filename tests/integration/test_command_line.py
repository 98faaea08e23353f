"""The ``ottla`` command as people and programs use it: real processes, their exit codes, and what they print."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.processes import is_running, wait_exit
from ottla.testing.ports import free_port_block

OTTLA = str(Path(sys.executable).parent / "ottla")


def ottla(*arguments: str | Path, code: int = 0) -> str:
    done = subprocess.run(
        [OTTLA, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def cluster_file(data: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((data / "cluster.json").read_text())
    return found


def status(data: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ottla("status", "--data", data, "--json"))
    return found


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of a cluster on consecutive ports, detached."""
    directory = tmp_path_factory.mktemp("command-line") / "data"
    port = free_port_block(4)
    ottla(
        *("up", "--detach", "--data", directory, "--port", str(port), "--zookeeper-port", str(port + 3)),
        *("--override", "num.partitions=2"),
    )
    yield directory
    ottla("stop", "--data", directory)


def test_the_first_broker_has_the_id_that_was_asked_for_and_keeps_it(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    free = ("--detach", "--data", data, "--brokers", "2", "--port", "0", "--zookeeper-port", "0")
    for options in (("--first-id", "5"), ()):
        ottla("up", *free, *options)
        try:
            brokers = json.loads((tmp_path / "data" / "cluster.json").read_text())["brokers"]
            assert [broker["id"] for broker in brokers] == [5, 6]
        finally:
            ottla("stop", "--data", data)


def test_up_leaves_a_healthy_cluster_and_says_where(data: Path) -> None:
    file = cluster_file(data)
    ports = [broker["port"] for broker in file["brokers"]]
    assert ports == list(range(ports[0], ports[0] + 3))
    assert file["bootstrap_servers"] == ",".join(f"127.0.0.1:{port}" for port in ports)
    assert file["zookeeper"] == f"127.0.0.1:{ports[0] + 3}"
    for number, broker in enumerate(file["brokers"]):
        assert broker["id"] == number
        assert is_running(broker["pid"], f"ottla-broker-{number}")
        assert is_running(broker["guardian_pid"], f"ottla-guard-{number}")
        assert "num.partitions=2" in (Path(broker["directory"]) / "server.properties").read_text()
    seen = status(data)
    assert seen["controller_id"] in (0, 1, 2)
    assert [broker["state"] for broker in seen["brokers"]] == ["running"] * 3
    assert "running" in ottla("status", "--data", data)


def test_a_second_cluster_does_not_take_over(data: Path, tmp_path: Path) -> None:
    assert "runs in" in ottla("up", "--detach", "--data", data, code=1)
    port = cluster_file(data)["brokers"][1]["port"]
    assert "Address already in use" in ottla(
        "up", "--detach", "--data", tmp_path, "--port", str(port), code=1
    )
    assert not (tmp_path / "cluster.json").exists()


@pytest.mark.parametrize("how", ["stop", "kill", "kill --host"])
def test_brokers_go_and_come_back(data: Path, how: str) -> None:
    before = cluster_file(data)["brokers"]
    ottla(*how.split(), "--data", data, "1")
    gone = cluster_file(data)["brokers"]
    assert (gone[1]["pid"], gone[1]["guardian_pid"]) == (None, None)
    assert gone[0] == before[0]
    assert not is_running(before[1]["pid"], "ottla-broker-1")
    assert not is_running(before[1]["guardian_pid"], "ottla-guard-1")
    assert [broker["state"] for broker in status(data)["brokers"]] == ["running", "stopped", "running"]
    ottla("start", "--data", data, "1")
    back = cluster_file(data)["brokers"]
    assert back[1]["pid"] not in (None, before[1]["pid"])
    assert status(data)["brokers"][1]["state"] == "running"


def test_programs_are_given_what_became_of_the_brokers(data: Path) -> None:
    for how, is_gone in (("kill", True), ("start", False), ("stop", True), ("start", False)):
        state = json.loads(ottla(how, "--data", data, "--json", "2"))
        assert state == cluster_file(data)
        assert (state["brokers"][2]["pid"] is None) == is_gone
    assert "--json goes with --detach" in ottla("up", "--data", data, "--json", code=2)


def test_topics(data: Path) -> None:
    server = ("topics", "--bootstrap-server", cluster_file(data)["bootstrap_servers"])
    topic = ("--topic", "command-line")
    assert "Created" in ottla(
        *server, "--create", *topic, "--replication-factor", "3", "--config", "retention.ms=9"
    )
    assert "TOPIC_ALREADY_EXISTS" in ottla(*server, "--create", *topic, code=1)
    ottla(*server, "--create", *topic, "--if-not-exists")
    assert "command-line" in ottla(*server, "--list").split()
    (described,) = json.loads(ottla(*server, "--describe", *topic, "--json"))
    assert described["configs"] == {"retention.ms": "9"}
    assert [len(partition["replicas"]) for partition in described["partitions"]] == [3, 3]
    ottla(*server, "--alter", *topic, "--partitions", "5")
    (described,) = json.loads(ottla(*server, "--describe", *topic, "--json"))
    assert len(described["partitions"]) == 5
    assert "INVALID_PARTITIONS" in ottla(*server, "--alter", *topic, "--partitions", "5", code=1)
    ottla(*server, "--create", "--topic", "placed", "--replica-assignment", "2:0,0:1")
    (described,) = json.loads(ottla(*server, "--describe", "--topic", "placed", "--json"))
    assert [partition["replicas"] for partition in described["partitions"]] == [[2, 0], [0, 1]]
    ottla(*server, "--delete", "--topic", "placed|command-line")
    assert "there is no topic" in ottla(*server, "--delete", *topic, code=1)
    ottla(*server, "--delete", *topic, "--if-exists")


def test_nobody_there() -> None:
    output = ottla("topics", "--bootstrap-server", "127.0.0.1:1", "--list", code=1)
    assert "127.0.0.1:1: Connection refused" in output


def test_a_broker_in_the_foreground_ends_with_its_reason(data: Path, tmp_path: Path) -> None:
    properties = Path(cluster_file(data)["brokers"][0]["directory"]) / "server.properties"
    assert "num.partitions=x" in ottla("broker", properties, "--override", "num.partitions=x", code=2)
    assert "in use by another broker" in ottla("broker", properties, code=5)
    elsewhere = ("--override", f"log.dirs={tmp_path}", "--override", "broker.id=9")
    assert "cannot listen" in ottla("broker", properties, *elsewhere, code=4)


def test_a_wrong_setting_leaves_nothing_running(tmp_path: Path) -> None:
    output = ottla(
        *("up", "--detach", "--data", tmp_path, "--port", "0", "--zookeeper-port", "0"),
        *("--override", "min.insync.replicas=none"),
        code=1,
    )
    assert "min.insync.replicas=none" in output
    file = cluster_file(tmp_path)
    assert file["zookeeper_pid"] is None
    assert {broker["pid"] for broker in file["brokers"]} == {None}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_up_in_the_foreground_stops_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    command = [OTTLA, "up", "--data", str(tmp_path), "--brokers", "2", "--port", "0", "--zookeeper-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as up:
        assert up.stdout is not None
        line = up.stdout.readline()
        assert line.startswith("bootstrap servers: 127.0.0.1:"), line
        brokers = cluster_file(tmp_path)["brokers"]
        with socket.create_connection((brokers[0]["host"], brokers[0]["port"]), timeout=60):
            pass
        page = up.stdout.readline()
        assert page.startswith("web page: http://127.0.0.1:"), page
        address = ("127.0.0.1", int(page.strip().rstrip("/").rpartition(":")[2]))
        with socket.create_connection(address, timeout=60):
            pass
        os.kill(up.pid, number)
        up.stdout.read()
        assert up.wait(timeout=60) == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=60)
    for broker in brokers:
        assert wait_exit(broker["pid"], 0)
    assert {broker["pid"] for broker in cluster_file(tmp_path)["brokers"]} == {None}
    assert "the broker has stopped" in (tmp_path / "broker-0" / "broker.log").read_text()
