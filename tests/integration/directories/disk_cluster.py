"""Three brokers with two small disks each: file systems in memory, which a test fills, frees and makes larger."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ottla.testing import Cluster
from ottla.testing.ports import free_port_block
from ottla.zookeeper_server import ZooKeeperServer
from tests.patience import WAIT_TIMEOUT_S, until

BROKERS = (0, 1, 2)
DISKS = ("first", "second")
SMALL, LARGE = "24m", "96m"

_SETTINGS = {
    "replica.lag.time.max.ms": "2000",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "auto.leader.rebalance.enable": "false",
}


class DiskCluster(Cluster):
    """The cluster, in processes that this test starts.

    Attributes:
        zookeeper_server: Its ZooKeeper.
    """

    def __init__(self, data: Path) -> None:
        port = free_port_block(len(BROKERS) + 1)
        self.zookeeper_server = ZooKeeperServer.launch(data / "zookeeper", port)
        self._ports = {broker: port + 1 + broker for broker in BROKERS}
        super().__init__(data)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._mounted: list[Path] = []
        for broker in BROKERS:
            for name in DISKS:
                disk = self.disk(broker, name)
                disk.mkdir(parents=True)
                subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", disk], check=True)
                self._mounted.append(disk)
            self._write_properties(broker)
        try:
            self.zookeeper_server.wait_serving()
            self.start(*BROKERS)
        except BaseException:
            self.down()
            raise

    def _write_properties(self, broker: int) -> None:
        settings = _SETTINGS | {
            "broker.id": str(broker),
            "listeners": f"PLAINTEXT://127.0.0.1:{self._ports[broker]}",
            "log.dirs": ",".join(self.log_dir(broker, name) for name in DISKS),
            "zookeeper.connect": self.zookeeper_server.address,
            "ottla.management.socket": str(self.folder(broker) / "management.sock"),
        }
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        (self.folder(broker) / "server.properties").write_text(text)

    def folder(self, broker: int) -> Path:
        """Return a broker's folder, which is on none of the mounted disks."""
        return self.data / f"broker-{broker}"

    def disk(self, broker: int, name: str) -> Path:
        """Return where a disk is mounted."""
        return self.folder(broker) / name

    def log_dir(self, broker: int, name: str) -> str:
        """Return the log directory on a disk."""
        return str(self.disk(broker, name) / "logs")

    def describe_file(self) -> Mapping[str, Any]:
        """Return what `Cluster` otherwise reads from a file."""
        return {
            "zookeeper": self.zookeeper_server.address,
            "bootstrap_servers": ",".join(f"127.0.0.1:{each}" for each in self._ports.values()),
            "brokers": [{"id": broker, "directory": str(self.folder(broker))} for broker in BROKERS],
        }

    def start(self, *broker_ids: int) -> None:
        """Start brokers, and wait until all of them are registered."""
        command = [str(Path(sys.executable).parent / "ottla"), "broker"]
        for broker in broker_ids:
            with (self.folder(broker) / "broker.log").open("ab") as log:
                self._processes[broker] = subprocess.Popen(
                    [*command, str(self.folder(broker) / "server.properties")],
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        running = set(self._processes)
        self.wait(
            lambda seen: (
                {b for b, description in seen.descriptions.items() if description["state"] == "running"}
                == running
                and seen.controller_id >= 0
            )
        )

    def kill(self, *broker_ids: int, host: bool = False) -> None:
        """Kill brokers with SIGKILL; their guardians live on and close the sessions."""
        assert not host
        for broker in broker_ids:
            os.kill(int(self.view().descriptions[broker]["pid"]), signal.SIGKILL)
            self._processes.pop(broker).wait(WAIT_TIMEOUT_S)

    def wait_ended(self, broker: int) -> int:
        """Wait until a broker has stopped by itself; return its exit code."""
        return self._processes.pop(broker).wait(WAIT_TIMEOUT_S)

    def output(self, broker: int) -> str:
        """Return the text of a broker's log."""
        return (self.folder(broker) / "broker.log").read_text()

    def fill(self, broker: int, name: str) -> None:
        """Write a disk full."""
        filler = self.disk(broker, name) / "filler"
        with filler.open("wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12):
                try:
                    while file.write(bytes(size)):
                        pass
                except OSError:
                    continue

    def mend(self, broker: int, name: str) -> None:
        """Make a disk larger."""
        disk = self.disk(broker, name)
        subprocess.run(["mount", "-o", f"remount,size={LARGE}", "tmpfs", disk], check=True)

    def down(self) -> None:
        """End everything and unmount the disks."""
        for process in self._processes.values():
            os.killpg(process.pid, signal.SIGKILL)  # guardian and broker: no clean end is needed
        for process in self._processes.values():
            process.wait(WAIT_TIMEOUT_S)
        self.zookeeper_server.stop()
        for disk in self._mounted:
            until(lambda disk=disk: subprocess.run(["umount", disk], check=False).returncode == 0)  # type: ignore[misc]
