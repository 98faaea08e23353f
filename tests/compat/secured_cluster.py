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


def write_properties(path: Path, settings: Mapping[str, str]) -> Path:
    """Write a properties file; backslashes in values are doubled, as Java wants them."""
    lines = [f"{name}={value}\n".replace("\\", "\\\\") for name, value in settings.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines))
    return path


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
        first = free_port_block(3 * brokers + 1)
        self.ports = [range(first + 3 * index, first + 3 * index + 3) for index in range(brokers)]
        self.server = ZooKeeperServer.launch(directory / "zookeeper", first + 3 * brokers)
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
