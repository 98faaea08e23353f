"""A fault in a broker's input or its machine stops the broker with one clear message and its own exit code."""

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.management_client import BrokerGoneError, ManagementClient
from ottla.testing.ports import free_port_block
from ottla.zookeeper_server import ZooKeeperServer
from tests.conftest import Topics
from tests.patience import until
from tests.zookeeper_client import zookeeper_client

OTTLA = str(Path(sys.executable).parent / "ottla")
BROKER = 3


@dataclass
class Machine:
    """What a case can break: the broker's file, its directory, ZooKeeper, its port."""

    zookeeper: str
    port: int
    directory: Path
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def logs(self) -> Path:
        return self.directory / "logs"

    def write_properties(self) -> Path:
        settings = {
            "broker.id": str(BROKER),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.logs),
            "zookeeper.connect": self.zookeeper,
            "offsets.topic.replication.factor": "1",
        }
        file = self.directory / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in (settings | self.settings).items()))
        return file

    def run(self) -> subprocess.CompletedProcess[str]:
        """Run the broker, which has to stop by itself."""
        command = [OTTLA, "broker", str(self.write_properties())]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    server = ZooKeeperServer.launch(tmp_path_factory.mktemp("zookeeper"), free_port_block(1))
    server.wait_serving()
    yield server
    server.stop()


@pytest.fixture
def machine(zookeeper: ZooKeeperServer, tmp_path: Path) -> Machine:
    # Each case has its own chroot, and sees nothing of the others.
    return Machine(f"{zookeeper.address}/{tmp_path.name}", free_port_block(1), tmp_path)


@pytest.fixture
def held() -> Iterator[list]:
    """Objects to close when the case is over."""
    things: list = []
    yield things
    for thing in things:
        thing.close()


def setting(name: str, value: str) -> Callable[[Machine, list], None]:
    return lambda machine, held: machine.settings.update({name: value})


def no_zookeeper(machine: Machine, held: list) -> None:
    machine.settings |= {"zookeeper.connect": "127.0.0.1:1", "zookeeper.connection.timeout.ms": "300"}


def no_zookeeper_below_a_chroot(machine: Machine, held: list) -> None:
    machine.settings |= {"zookeeper.connect": "127.0.0.1:1/a/b", "zookeeper.connection.timeout.ms": "300"}


def taken_port(machine: Machine, held: list) -> None:
    held.append(socket.create_server(("127.0.0.1", machine.port)))


def identity(**lines: str) -> Callable[[Machine, list], None]:
    def write(machine: Machine, held: list) -> None:
        machine.logs.mkdir()
        text = "".join(f"{name.replace('_', '.')}={value}\n" for name, value in lines.items())
        (machine.logs / "meta.properties").write_text(text)

    return write


def locked(machine: Machine, held: list) -> None:
    """Lock the log directory as Apache Kafka does."""
    machine.logs.mkdir()
    held.append(file := (machine.logs / ".lock").open("w"))
    fcntl.lockf(file, fcntl.LOCK_EX)


def a_file_in_the_way(machine: Machine, held: list) -> None:
    machine.logs.write_text("not a directory")


def node(path: str, value: dict[str, object]) -> Callable[[Machine, list], None]:
    def create(machine: Machine, held: list) -> None:
        held.append(stack := ExitStack())
        client = stack.enter_context(zookeeper_client(machine.zookeeper.partition("/")[0]))
        chroot = machine.zookeeper.partition("/")[2]
        client.create(f"/{chroot}{path}", json.dumps(value).encode(), ephemeral=True, makepath=True)

    return create


REGISTRATION = {
    "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
    "endpoints": ["PLAINTEXT://elsewhere:9092"],
    "jmx_port": -1,
    "port": 9092,
    "host": "elsewhere",
    "version": 5,
    "timestamp": "1",
    "features": {},
}
KRAFT = {"version": 2, "brokerid": 9, "timestamp": "1", "kraftControllerEpoch": 4}

CASES = {
    "wrong value": (setting("num.partitions", "x"), 2, ["num.partitions=x: expected a number of 1.."]),
    "not served": (setting("process.roles", "broker"), 2, ["process.roles=broker", "through ZooKeeper"]),
    "advertised 0.0.0.0": (
        setting("advertised.listeners", "PLAINTEXT://0.0.0.0:9092"),
        2,
        ["advertised.listeners=PLAINTEXT://0.0.0.0:9092", "0.0.0.0"],
    ),
    "listens on 0.0.0.0 and advertises nothing": (
        setting("listeners", "PLAINTEXT://0.0.0.0:9092"),
        2,
        ["advertised.listeners", "an address that others can connect to", "0.0.0.0:9092"],
    ),
    "no listener for brokers": (
        setting("listeners", "SSL://127.0.0.1:9093"),
        2,
        ["security.inter.broker.protocol=PLAINTEXT", "an advertised listener: SSL"],
    ),
    "no ZooKeeper": (no_zookeeper, 3, ["ZooKeeper", "127.0.0.1:1"]),
    "no ZooKeeper below a chroot": (
        no_zookeeper_below_a_chroot,
        3,
        ["no connection to ZooKeeper", "127.0.0.1:1"],
    ),
    "a management socket that cannot be": (
        setting("ottla.management.socket", "/proc/no/such"),
        2,
        ["ottla.management.socket=/proc/no/such"],
    ),
    "taken port": (taken_port, 4, ["127.0.0.1:{port}", "Address already in use"]),
    "an address of another machine": (
        setting("listeners", "PLAINTEXT://192.0.2.7:9092"),
        4,
        ["192.0.2.7:9092", "Cannot assign requested address"],
    ),
    "locked directory": (locked, 5, ["{logs}", "in use by another broker"]),
    "directory of another cluster": (
        identity(version="0", cluster_id="another", broker_id=str(BROKER)),
        6,
        ["{logs}", "another"],
    ),
    "directory of another broker": (identity(version="0", broker_id="8"), 6, ["{logs}", "8", str(BROKER)]),
    "directory of a KRaft server": (identity(version="1", node_id="3"), 6, ["{logs}", "ZooKeeper mode"]),
    "directory that cannot be": (a_file_in_the_way, 7, ["{logs}"]),
    "broker id taken": (
        node(f"/brokers/ids/{BROKER}", REGISTRATION),
        8,
        [f"/brokers/ids/{BROKER}", "another broker lives"],
    ),
    "KRaft has taken over": (node("/controller", KRAFT), 9, ["KRaft"]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_broker_says_what_is_wrong(machine: Machine, held: list, case: str) -> None:
    spoil, code, words = CASES[case]
    machine.settings["zookeeper.session.timeout.ms"] = "1000"
    spoil(machine, held)
    ended = machine.run()
    output = ended.stdout + ended.stderr
    assert ended.returncode == code, output
    (message,) = [line for line in output.splitlines() if " CRITICAL " in line]
    for word in words:
        assert word.format(port=machine.port, logs=machine.logs) in message
    assert "Traceback" not in output


def test_an_unknown_setting_is_warned_about(machine: Machine, held: list) -> None:
    machine.settings |= {"log.retention.hour": "1", "acme.thing": "x"}
    taken_port(machine, held)
    ended = machine.run()
    assert ended.returncode == 4
    assert "WARNING unknown setting log.retention.hour: did you mean log.retention.hours?" in ended.stderr
    assert "WARNING unknown setting acme.thing (" in ended.stderr


def test_a_brokers_log_is_json_where_programs_read_it(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("num.partitions=x\n")
    command = [sys.executable, "-m", "ottla", "broker", "--json", str(properties)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    (line,) = map(json.loads, ended.stderr.splitlines())
    assert line["level"] == "CRITICAL"
    assert "num.partitions=x" in line["message"]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    command = [OTTLA, "broker", str(tmp_path / "absent")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert "absent" in ended.stderr
    assert "No such file or directory" in ended.stderr
    assert "Traceback" not in ended.stderr


class Running:
    """A broker that runs until it stops by itself or is stopped. A context manager."""

    def __init__(self, machine: Machine, command: list[str] | None = None) -> None:
        self._machine = machine
        self._command = command
        self.output = machine.directory / "output"
        self.address = f"127.0.0.1:{machine.port}"

    def __enter__(self) -> "Running":
        properties = self._machine.write_properties()
        command = self._command or [OTTLA, "broker"]
        with self.output.open("ab") as output:
            self.process = subprocess.Popen([*command, str(properties)], stdout=output, stderr=output)
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)

    def wait_state(self, state: str) -> None:
        until(lambda: self.process.poll() is not None or self._state() == state)
        assert self.process.poll() is None, self.output.read_text()

    def _state(self) -> str:
        try:
            with ManagementClient(self._machine.logs / "management.sock") as client:
                return str(client.call("describe")["state"])
        except BrokerGoneError:
            return "none"


def produce(address: str, topic: str, count: int, value: bytes) -> tuple[list[int], list[str]]:
    """Send records one after another, each in its own batch; return the acknowledged offsets and the errors."""
    offsets: list[int] = []
    errors: list[str] = []

    def delivered(error, message) -> None:
        if error is None:
            offsets.append(message.offset())
        else:
            errors.append(error.name())

    settings = {"bootstrap.servers": address, "acks": "all", "linger.ms": 0, "batch.num.messages": 1}
    producer = Producer({**settings, "message.timeout.ms": 5_000, "log_level": 0})
    for _ in range(count):
        producer.produce(topic, value, partition=0, on_delivery=delivered)
    producer.flush(60)
    return offsets, errors


def read_all(address: str, topic: str) -> list[tuple[int, bytes]]:
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "none", "enable.partition.eof": True, "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    read = []
    while (message := consumer.poll(60)) is not None and message.error() is None:
        read.append((message.offset(), message.value()))
    consumer.close()
    return read


@pytest.fixture
def small_disk(machine: Machine) -> Iterator[Path]:
    """The machine's log directory on a file system of 4 MB."""
    machine.logs.mkdir()
    mount("-t", "tmpfs", "-o", "size=4m", "tmpfs", str(machine.logs))
    yield machine.logs
    subprocess.run(["umount", str(machine.logs)], check=True)


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def test_a_full_disk_loses_nothing_that_was_acknowledged(machine: Machine, small_disk: Path) -> None:
    machine.settings["log.index.size.max.bytes"] = "4096"
    value = os.urandom(10_000)
    with Running(machine) as broker:
        broker.wait_state("running")
        Topics(broker.address).create(["full"], 1, 1)
        offsets, errors = produce(broker.address, "full", 1_000, value)
        assert len(offsets) > 100
        assert errors
        assert broker.process.wait(60) == 7
    output = broker.output.read_text()
    (message,) = [line for line in output.splitlines() if " CRITICAL " in line]
    assert str(small_disk) in message
    assert "No space left on device" in message
    assert "Traceback" not in output
    mount("-o", "remount,size=64m", str(small_disk))
    with Running(machine) as broker:
        broker.wait_state("running")
        read = read_all(broker.address, "full")
        assert [offset for offset, _ in read] == list(range(len(read)))
        assert set(offsets) <= {offset for offset, _ in read}
        assert {value for _, value in read} == {value}


def test_a_disk_that_is_full_at_the_start(machine: Machine, small_disk: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "filler").write_bytes(bytes(5_000_000))
    ended = machine.run()
    assert ended.returncode == 7, ended.stderr
    assert "No space left on device" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_broker_serves_on_without_zookeeper_and_still_leaves(tmp_path: Path) -> None:
    zookeeper = ZooKeeperServer.launch(tmp_path / "zookeeper", free_port_block(1))
    zookeeper.wait_serving()
    machine = Machine(zookeeper.address, free_port_block(1), tmp_path)
    machine.settings["zookeeper.session.timeout.ms"] = "2000"
    try:
        with Running(machine) as broker:
            broker.wait_state("running")
            Topics(broker.address).create(["alone"], 1, 1)
            zookeeper.stop()
            until(lambda: "the connection to ZooKeeper is lost; serving on" in broker.output.read_text())
            offsets, errors = produce(broker.address, "alone", 100, b"v")
            assert (offsets, errors) == (list(range(100)), [])
            broker.process.send_signal(signal.SIGTERM)
            assert broker.process.wait(60) == 0
    finally:
        zookeeper.stop()
    assert "Traceback" not in broker.output.read_text()


BUG = """
import sys
from cluster.replication.periodic_tasks import PeriodicTasks
from pathlib import Path

async def broken(self, populated):
    raise ZeroDivisionError("a bug for the test")

PeriodicTasks.run = broken
from ottla.commands.local.broker import run_from_file
sys.exit(run_from_file(Path(sys.argv[1]), (), None))
"""


def test_a_bug_in_a_background_task_stops_the_broker_with_its_traceback(machine: Machine) -> None:
    with Running(machine, [sys.executable, "-c", BUG]) as broker:
        assert broker.process.wait(60) == 1
    output = broker.output.read_text()
    assert "ZeroDivisionError: a bug for the test" in output
    assert "Traceback" in output
    assert "the broker stops because of a bug" in output


def test_a_dead_first_disk_leaves_the_others_served(machine: Machine) -> None:
    dead = machine.directory / "dead"
    dead.write_text("not a directory")
    machine.settings["log.dirs"] = f"{dead},{machine.logs}"
    with Running(machine) as broker:
        broker.wait_state("running")
        Topics(broker.address).create(["t"], 1, 1)
        offsets, errors = produce(broker.address, "t", 10, b"v")
        assert (offsets, errors) == (list(range(10)), [])
        broker.process.send_signal(signal.SIGTERM)
        assert broker.process.wait(60) == 0
    assert "Traceback" not in broker.output.read_text()
    assert (machine.logs / "state-changes.journal").stat().st_size > 0


def test_sigterm_is_heeded_while_zookeeper_is_not_reached(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for chroot in ("", "/a/b"):
            machine.settings |= {
                "zookeeper.connect": f"127.0.0.1:{silent.getsockname()[1]}{chroot}",
                "zookeeper.connection.timeout.ms": "600000",
            }
            with Running(machine) as broker:
                silent.accept()[0].close()
                broker.process.send_signal(signal.SIGTERM)
                assert broker.process.wait(60) == 0
            assert "Traceback" not in broker.output.read_text()


def test_sigquit_prints_tasks_and_sighup_stops(machine: Machine) -> None:
    with Running(machine) as broker:
        broker.wait_state("running")
        broker.process.send_signal(signal.SIGQUIT)
        until(lambda: re.search("^ +registration$", broker.output.read_text(), re.MULTILINE) is not None)
        assert "Thread 0x" in broker.output.read_text()
        broker.wait_state("running")
        broker.process.send_signal(signal.SIGHUP)
        assert broker.process.wait(60) == 0
    assert "the broker has stopped" in broker.output.read_text()


HUNG = """
import sys, time
from pathlib import Path
from cluster.zookeeper.guardian import run_guarded

def main(link):
    from cluster.network import management
    from cluster.broker import management as methods

    made = methods.management_methods

    def with_hang(broker):
        async def hang(params):
            time.sleep(3600)

        return {**made(broker), "hang": hang}

    import cluster.broker.broker as module
    module.management_methods = with_hang
    from ottla.commands.local.broker import run_from_file
    return run_from_file(Path(sys.argv[1]), (), link)

sys.exit(run_guarded(main))
"""


def test_a_hung_loop_ends_the_broker_and_says_where_it_hung(machine: Machine) -> None:
    machine.settings["ottla.hang.timeout.ms"] = "1000"
    with Running(machine, [sys.executable, "-c", HUNG]) as broker:
        broker.wait_state("running")
        with ManagementClient(machine.logs / "management.sock") as client, pytest.raises(BrokerGoneError):
            client.call("hang")
        assert broker.process.wait(60) == 128 + signal.SIGKILL
    output = broker.output.read_text()
    assert "in hang" in output
    assert "guardian: the event loop of process" in output
    assert "is closed" in output
