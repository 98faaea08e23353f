"""A small cluster with settings of its own: ZooKeeper, and brokers in processes of their own."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.testing.ports import free_port_block
from ottla.zookeeper_server import ZooKeeperServer
from tests.patience import until

STOP_TIMEOUT_S = 30
RUNS = "running"
LISTENERS = 4
"""Ports of each broker; not every test uses all of them."""


def write_properties(path: Path, settings: Mapping[str, str]) -> Path:
    """Write a properties file; backslashes and line ends in values are escaped, as Java requires."""

    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace("\n", "\\n")

    lines = [f"{name}={escaped(value)}\n" for name, value in settings.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines))
    return path


def connections_to(port: int) -> int:
    """Return how many connections to a port of this machine there are."""
    established, ending, tables = (
        "01",
        f":{port:04X}",
        ("tcp", "tcp6"),
    )  # Java's sockets are in tcp6
    lines = [line for name in tables for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    return sum(row[1].endswith(ending) and row[3] == established for row in map(str.split, lines))


class BrokerProcess:
    """One broker, started from its ``server.properties``."""

    def __init__(self, properties: Path) -> None:
        self.output = properties.with_suffix(".out")
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ottla", "broker", str(properties)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return self.output.read_text()

    def serves(self) -> bool:
        """Whether it serves.

        Raises:
            AssertionError: it has ended.
        """
        assert self.process.poll() is None, self.log
        return " serves " in self.log

    def stop(self) -> None:
        """Stop it, and wait for its end."""
        self.process.terminate()
        self.process.wait(STOP_TIMEOUT_S)


class SecuredCluster:
    """ZooKeeper and brokers; `start` starts the brokers."""

    def __init__(self, directory: Path, brokers: int) -> None:
        self.directory = directory
        first = free_port_block(LISTENERS * brokers + 1)
        self.ports = [
            range(first + LISTENERS * index, first + LISTENERS * (index + 1)) for index in range(brokers)
        ]
        self.server = ZooKeeperServer.launch(directory / "zookeeper", first + LISTENERS * brokers)
        self.zookeeper = self.server.address
        self.brokers: list[BrokerProcess] = []
        self.server.wait_serving()

    def start(self, settings: Sequence[Mapping[str, str]]) -> None:
        """Start one broker for each of the settings, and wait until all of them serve."""
        for number, own in enumerate(settings):
            base = {
                "broker.id": str(number),
                "log.dirs": str(self.directory / f"broker-{number}"),
                "zookeeper.connect": self.zookeeper,
                "offsets.topic.replication.factor": "1",
                "group.initial.rebalance.delay.ms": "0",
                # All brokers stop together: none is left to move leaders to, and each would retry for a while.
                "controlled.shutdown.enable": "false",
            }
            path = self.directory / f"server-{number}.properties"
            self.brokers.append(BrokerProcess(write_properties(path, base | dict(own))))
        until(lambda: all(broker.serves() for broker in self.brokers))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for broker in self.brokers:
            broker.stop()
        self.server.stop()
