"""An ensemble of three ZooKeeper servers, each on a host of its own, for a test to kill and to start again."""

import signal
import socket
import subprocess
import time
from pathlib import Path

from host.java_runtime import find_java
from ottla.zookeeper_server import MAIN_CLASS, find_jars, serves_sessions
from tests.integration.faults.network import Network
from timing.polling import pause_between_looks

PORT = 2181
SERVERS = (1, 2, 3)
TICK_MS = 500
_WAIT_TIMEOUT_S = 60.0


class Ensemble:
    """Three servers on hosts ``zk1`` to ``zk3``.

    Attributes:
        hosts: Their names on the network.
        connect: The connection string for clients.
    """

    def __init__(self, network: Network, directory: Path) -> None:
        self._network = network
        self._directory = directory
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.hosts = tuple(f"zk{number}" for number in SERVERS)
        addresses = [network.add_host(host) for host in self.hosts]
        self.connect = ",".join(f"{address}:{PORT}" for address in addresses)
        peers = "".join(f"server.{n}={a}:2888:3888\n" for n, a in zip(SERVERS, addresses, strict=True))
        for number in SERVERS:
            data = directory / f"zk{number}"
            data.mkdir(parents=True)
            (data / "myid").write_text(str(number))
            (data / "zoo.cfg").write_text(
                f"dataDir={data}\nclientPort={PORT}\ntickTime={TICK_MS}\ninitLimit=10\nsyncLimit=4\n"
                f"maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n{peers}"
            )

    def start(self, *numbers: int) -> None:
        """Start servers, and wait until each serves."""
        for number in numbers:
            data = self._directory / f"zk{number}"
            with (data / "zookeeper.out").open("ab") as output:
                self._processes[number] = subprocess.Popen(
                    [
                        *self._network.on(f"zk{number}"),
                        *(find_java().program, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m"),
                        *("-cp", ":".join(map(str, find_jars())), MAIN_CLASS, str(data / "zoo.cfg")),
                    ],
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
        deadline = time.monotonic() + _WAIT_TIMEOUT_S
        for number in numbers:
            while not serves_sessions(self._network.address(f"zk{number}"), PORT):
                assert time.monotonic() < deadline, f"ZooKeeper {number} does not serve"
                pause_between_looks(0.05)

    def kill(self, *numbers: int) -> None:
        """Kill servers with SIGKILL."""
        for number in numbers:
            self._processes[number].send_signal(signal.SIGKILL)
        for number in numbers:
            self._processes.pop(number).wait()

    def dead(self) -> tuple[int, ...]:
        """Return the servers that do not run."""
        return tuple(number for number in SERVERS if number not in self._processes)

    def close(self) -> None:
        """Kill the servers that run."""
        running = tuple(self._processes)
        if running:
            self.kill(*running)

    def leader(self) -> int:
        """Return the server that leads the others."""
        for number in self._processes:
            if "Mode: leader" in self._ask(number, b"srvr"):
                return number
        raise AssertionError("the ensemble has no leader")

    def _ask(self, number: int, word: bytes) -> str:
        with socket.create_connection((self._network.address(f"zk{number}"), PORT), timeout=5) as asked:
            asked.sendall(word)
            return b"".join(iter(lambda: asked.recv(4096), b"")).decode()
