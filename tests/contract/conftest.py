"""A real ZooKeeper for the contract suites: the jars that PySpark's wheel carries, on the machine's Java."""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from host.java_runtime import find_java
from pipeline.spark_submit import spark_home

TICK_MS = 200
START_S = 30.0


class RealZooKeeper:
    """One ZooKeeper server in a process of its own, which tests stop and start again at will."""

    def __init__(
        self, directory: Path, java: str, jars: Path, settings: str = "", options: Sequence[str] = ()
    ) -> None:
        self.directory = directory
        self._settings = settings
        self._options = options
        self.port = free_port()
        self._java = java
        self._jars = jars
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def hosts(self) -> str:
        """The address, as in `zookeeper.connect`."""
        return f"127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        """Whether it was started and not stopped since."""
        return self._process is not None

    def start(self) -> None:
        """Start the server and wait until it answers."""
        (self.directory / "data").mkdir(exist_ok=True)
        configuration = self.directory / "zoo.cfg"
        configuration.write_text(
            f"dataDir={self.directory / 'data'}\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            f"tickTime={TICK_MS}\nminSessionTimeout={TICK_MS * 2}\nmaxSessionTimeout=60000\n"
            "admin.enableServer=false\n4lw.commands.whitelist=*\nforceSync=no\n" + self._settings
        )
        with (self.directory / "zookeeper.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._java,
                    "-Xmx256m",
                    "-XX:+UseSerialGC",
                    "-XX:TieredStopAtLevel=1",
                    "-Dlog4j2.level=WARN",
                    *self._options,
                    "-cp",
                    f"{self._jars}/*",
                    "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                    str(configuration),
                ],
                stdout=log,
                stderr=log,
            )
        self._wait_ready()

    def stop(self) -> None:
        """Kill the server; its data stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Suspend the server; its connections stay open."""
        assert self._process is not None
        os.kill(self._process.pid, 19)

    def resume(self) -> None:
        """Resume a paused server."""
        assert self._process is not None
        os.kill(self._process.pid, 18)

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                    connection.sendall(b"ruok")
                    if connection.recv(4) == b"imok":
                        return
            except OSError:
                pass
            assert self._process is not None
            try:
                self._process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            raise RuntimeError((self.directory / "zookeeper.log").read_text()[-4000:])
        raise RuntimeError("ZooKeeper does not answer")


@pytest.fixture(scope="session")
def make_real_zookeeper(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., RealZooKeeper]]:
    """Make and start ZooKeeper servers; kill them at the end."""
    java = find_java().program
    jars = spark_home() / "jars"
    servers: list[RealZooKeeper] = []

    def make(settings: str = "", options: Sequence[str] = ()) -> RealZooKeeper:
        server = RealZooKeeper(tmp_path_factory.mktemp("zookeeper"), java, jars, settings, options)
        servers.append(server)
        server.start()
        return server

    yield make
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def real_zookeeper(make_real_zookeeper: Callable[..., RealZooKeeper]) -> RealZooKeeper:
    """The server that most of the suite shares."""
    return make_real_zookeeper()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
