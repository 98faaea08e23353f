"""A real Apache ZooKeeper, from the jars that PySpark's wheel carries, as a child process.

A standalone server on 127.0.0.1 for a cluster on one machine. Only the jars that it loads are on its class
path, it runs the small compiler and the serial collector, and from its second start on it maps its classes from an
archive that the first one left in the user's cache: sessions are served 0.2 s after the process began.

Its port opens before it serves, and a client that connects in between waits for a long time-out; so it counts as ready
once a session can be opened and closed.
"""

import hashlib
import importlib.util
import os
import signal
import socket
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from host.java_runtime import JavaMissingError, find_java
from host.user_cache import user_cache
from ottla.processes import exit_poll, wait_exit

MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
JUTE_MAXBUFFER: Final = 4_194_304
"""The largest request that the server takes: a topic of many partitions is one znode."""
JARS: Final = ("zookeeper-[0-9]*", "zookeeper-jute-*", "slf4j-api-*", "metrics-core-[0-9]*", "snappy-java-*")
START_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 10.0

_RETRY_MS: Final = 5
_TICK_MS: Final = 500
"""ZooKeeper's clock. The shortest session is two ticks; its default, 2 s, would allow none below 4 s."""
_EXIT_REASONS: Final = {
    2: "its configuration is wrong (zookeeper.properties)",
    3: "its data directory cannot be used: not writable, full, or damaged",
}
_SESSION_TIMEOUT_MS_MAX: Final = 120_000

# Session request, protocol 0:  length int32 | version int32 | last zxid int64 | timeout int32 | session int64 |
# password: length int32 and 16 bytes | read-only bool.  Then: length int32 | xid int32 | type int32 = close.
_CONNECT: Final = struct.pack(">iiqiqi16s?", 45, 0, 0, 5_000, 0, 16, bytes(16), False)
_CLOSE_SESSION: Final = struct.pack(">iii", 8, 1, -11)


class ZooKeeperStartError(Exception):
    """ZooKeeper cannot be started, or does not serve; the text tells the operator why."""


class ZooKeeperServer:
    """A running ZooKeeper of ours.

    Attributes:
        host: Where it listens: 127.0.0.1.
        port: Its client port.
        pid: Its process.
    """

    def __init__(self, port: int, pid: int, process: subprocess.Popen[bytes] | None = None) -> None:
        self.host = "127.0.0.1"
        self.port = port
        self.pid = pid
        self._process = process

    @property
    def address(self) -> str:
        """``host:port``, as ``zookeeper.connect`` has it."""
        return f"{self.host}:{self.port}"

    @classmethod
    def launch(cls, directory: Path, port: int) -> "ZooKeeperServer":
        """Start the process, which serves a little later: see `wait_serving`.

        Args:
            directory: Where its configuration, data and output go; made if missing.
            port: The port to listen on.

        Raises:
            ZooKeeperStartError: there is no suitable Java, no PySpark, or the port is taken.
        """
        try:
            java = find_java().program
        except JavaMissingError as error:
            raise ZooKeeperStartError(
                f"{error}; or give a running ZooKeeper with --zookeeper HOST:PORT"
            ) from None
        jars = find_jars()
        require_free_port("127.0.0.1", port, "ZooKeeper")
        data = directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        config = directory / "zookeeper.properties"
        config.write_text(_configuration(data, port))
        command = [
            java,
            *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xms16m", "-Xmx128m", "-Xshare:auto"),
            *_class_archive(java, jars),
            "-Dzookeeper.admin.enableServer=false",
            f"-Djute.maxbuffer={JUTE_MAXBUFFER}",
            *("-cp", os.pathsep.join(map(str, jars)), MAIN_CLASS, str(config)),
        ]
        with (directory / "zookeeper.out").open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=directory,
                # Ctrl-C on the terminal is for `ottla up`, which stops the brokers first.
                start_new_session=True,
            )
        return cls(port, process.pid, process)

    def wait_serving(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until the server opens a session.

        Raises:
            ZooKeeperStartError: it died, or did not serve in time.
        """
        with exit_poll(self.pid) as died:
            for _attempt in range(int(timeout_s * 1000 / _RETRY_MS)):
                if serves_sessions(self.host, self.port):
                    return
                if died.poll(_RETRY_MS):
                    raise ZooKeeperStartError(f"ZooKeeper ended while it started: {self._reason()}")
        raise ZooKeeperStartError(f"ZooKeeper does not serve on port {self.port} after {timeout_s:g} s")

    def detach(self) -> None:
        """Let the process outlive this one, without Python's warning that nothing waited for it."""
        if self._process is not None:
            self._process.returncode = 0

    def _reason(self) -> str:
        # Without a logging back end, which takes longer to load than ZooKeeper does, its exit code is all it says.
        code = None if self._process is None else self._process.wait()
        return _EXIT_REASONS.get(code or 0, f"exit code {code}, see zookeeper.out in its directory")

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop the process cleanly, or by force after a while."""
        stop_process(self.pid, timeout_s)
        if self._process is not None:
            self._process.wait()


def serves_sessions(host: str, port: int, timeout_s: float = 2.0) -> bool:
    """Open a session and close it again; return whether a ZooKeeper there serves."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(_CONNECT)
            answer = connection.recv(64)
            # Length, version, negotiated time-out: 0 would be a refused session.
            if len(answer) < 12 or struct.unpack_from(">i", answer, 8)[0] <= 0:
                return False
            connection.sendall(_CLOSE_SESSION)
            connection.recv(64)
            return True
    except OSError:
        return False


def find_jars() -> list[Path]:
    """Find the jars that ZooKeeper needs, without importing PySpark.

    Raises:
        ZooKeeperStartError: PySpark is not installed, or has other jars than expected.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ZooKeeperStartError(
            "ZooKeeper's jars come with PySpark, which is not installed: pip install 'ottla[zookeeper]', "
            "or give a running ZooKeeper with --zookeeper HOST:PORT"
        )
    folder = Path(spec.origin).parent / "jars"
    jars = []
    for pattern in JARS:
        found = sorted(folder.glob(f"{pattern}.jar"))
        if not found:
            raise ZooKeeperStartError(f"PySpark has no {pattern}.jar in {folder}")
        jars.append(found[-1])
    return jars


def require_free_port(host: str, port: int, who: str) -> None:
    """Check that a port can be listened on.

    Raises:
        ZooKeeperStartError: it cannot, with the reason.
    """
    with socket.socket() as probe:
        # As the servers do: lingering closed connections do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ZooKeeperStartError(f"{who} cannot listen on {host}:{port}: {error.strerror}") from None


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that nothing listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def stop_process(pid: int, timeout_s: float) -> None:
    """End a process: SIGTERM, then SIGKILL if that has not worked in time. It is no error if the process is gone."""
    try:
        os.kill(pid, signal.SIGTERM)
        if not wait_exit(pid, timeout_s):
            os.kill(pid, signal.SIGKILL)
            wait_exit(pid, timeout_s)
    except ProcessLookupError:
        pass


def _configuration(data: Path, port: int) -> str:
    return (
        f"dataDir={data}\n"
        f"clientPort={port}\n"
        "clientPortAddress=127.0.0.1\n"
        f"tickTime={_TICK_MS}\n"
        f"maxSessionTimeout={_SESSION_TIMEOUT_MS_MAX}\n"
        "maxClientCnxns=0\n"
        "admin.enableServer=false\n"
        "4lw.commands.whitelist=*\n"
        "autopurge.purgeInterval=1\n"
        "autopurge.snapRetainCount=3\n"
    )


def _class_archive(java: str, jars: Sequence[Path]) -> list[str]:
    """Return the options that map ZooKeeper's classes from an archive, or have its first run write one when it ends.

    The archive's name says for which Java and which jars it is; Java checks that again, and runs without an archive
    that does not fit.
    """
    try:
        cache = user_cache()
        parts = [os.path.realpath(java), *map(str, jars)]
        stamp = "\0".join(f"{part}:{os.stat(part).st_mtime_ns}" for part in parts)
    except OSError:
        return []
    archive = cache / f"zookeeper-{hashlib.sha256(stamp.encode()).hexdigest()[:16]}.jsa"
    if archive.exists():
        return [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"]
    return [f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:disable"]
