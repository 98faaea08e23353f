"""A broker of Apache Kafka 3.9, as a process of its own: the other kind of member of a cluster."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

STOP_TIMEOUT_S = 60
SESSION_TIMEOUT_MS = 5_000
"""How long ZooKeeper keeps the node of a killed broker, whose session nobody closes."""


class KafkaBroker:
    """One broker; it does not run yet.

    Args:
        java: The command that runs a main class of Kafka, from the fixture `kafka_java`.
        directory: Its configuration, its output and, in `logs`, its log directory.
        broker_id: Its id.
        port: Where it listens.
        zookeeper: `zookeeper.connect`.
        overrides: Settings that replace the defaults.
    """

    def __init__(
        self,
        java: Sequence[str],
        directory: Path,
        broker_id: int,
        port: int,
        zookeeper: str,
        overrides: Mapping[str, str] | None = None,
    ) -> None:
        self.id = broker_id
        self.address = f"127.0.0.1:{port}"
        self.directory = directory
        self.log_directory = directory / "logs"
        self.properties = directory / "server.properties"
        self._output = directory / "broker.out"
        self._process: subprocess.Popen[bytes] | None = None
        self._command = [*java, "kafka.Kafka", str(self.properties)]
        settings = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": str(self.log_directory),
            "zookeeper.connect": zookeeper,
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "offsets.topic.replication.factor": "1",
        }
        directory.mkdir(parents=True)
        lines = [f"{name}={value}\n" for name, value in (settings | dict(overrides or {})).items()]
        self.properties.write_text("".join(lines))

    def start(self) -> None:
        """Start the process, without waiting; its registration in ZooKeeper shows when it is up."""
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def kill(self) -> None:
        """End it as a crash would."""
        self._end("kill")

    def stop(self) -> None:
        """Stop it by a controlled shutdown."""
        self._end("terminate")

    def _end(self, how: str) -> None:
        if self._process is not None:
            getattr(self._process, how)()
            self._process.wait(STOP_TIMEOUT_S)
            self._process = None
