"""What operators do to a cluster in these tests: the commands that they run, and the check at the end of each test."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from click.testing import CliRunner

from ottla.commands.main import main
from ottla.testing import Cluster
from ottla.testing.replica_files import replica_records
from tests.integration.faults.load import Load, mark_of, read_all
from wire.types import TopicPartition

COMMAND = str(Path(sys.executable).parent / "ottla")
BROKERS = (0, 1, 2)


class Operator:
    """Runs commands against a cluster, and reads their JSON."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory

    def run(self, command: str, *arguments: str, expect: int = 0) -> Any:
        """Run a command with ``--json``, require its exit code, and return its output."""
        # In this process: starting a command costs more than running it.
        done = CliRunner().invoke(main, self._arguments(command, arguments))
        assert done.exit_code == expect, (
            f"{command} {arguments}: {done.exit_code} {done.output} {done.exception!r}"
        )
        return json.loads(done.stdout) if done.stdout else None

    def start(self, command: str, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start a command without waiting for it."""
        return subprocess.Popen(
            [COMMAND, *self._arguments(command, arguments)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _arguments(self, command: str, arguments: Sequence[str]) -> list[str]:
        return [command, "--bootstrap-server", self.cluster.bootstrap_servers, *arguments, "--json"]

    def place(
        self, topic: str, *replicas: Sequence[int], settings: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Create a topic with one partition for each list of brokers, and wait until they are in sync."""
        text = ",".join(":".join(map(str, each)) for each in replicas)
        given = [word for name, value in settings.items() for word in ("--config", f"{name}={value}")]
        self.run("topics", "--create", "--topic", topic, "--replica-assignment", text, *given)
        self.cluster.wait(
            lambda seen: all(seen.isr(topic, p) == set(each) for p, each in enumerate(replicas))
        )

    def write(self, topic: str, targets: Mapping[int, Sequence[int]]) -> str:
        """Write a reassignment file, and return its path."""
        path = self.directory / f"{topic}-{len(list(self.directory.iterdir()))}.json"
        partitions = [
            {"topic": topic, "partition": number, "replicas": list(replicas)}
            for number, replicas in targets.items()
        ]
        path.write_text(json.dumps({"version": 1, "partitions": partitions}))
        return str(path)

    def replicas(self, topic: str) -> dict[int, list[int]]:
        """Return the replicas of each partition, as the cluster describes them."""
        (described,) = self.run("topics", "--describe", "--topic", topic)
        return {each["partition"]: each["replicas"] for each in described["partitions"]}

    def throttles(self) -> list[str]:
        """Return every throttle that is set, on brokers and topics."""
        described = self.run("configs", "--describe", "--entity-type", "brokers")
        described += self.run("configs", "--describe", "--entity-type", "topics")
        return [
            f"{resource['type']} {resource['name']}: {config['name']}={config['value']}"
            for resource in described
            for config in resource["configs"]
            if "throttled" in config["name"]
        ]

    def throttle_all(self, rate: int) -> None:
        """Set another rate for replicas that are being moved."""
        for broker in BROKERS:
            rates = f"leader.replication.throttled.rate={rate},follower.replication.throttled.rate={rate}"
            self.run("configs", "--alter", "--broker", str(broker), "--add-config", rates)


def check_history(cluster: Cluster, load: Load, replicas: Mapping[int, Sequence[int]]) -> None:
    """Check that all is in sync, consumers and every replica's files have the same records, and none is lost."""
    cluster.wait(
        lambda seen: all(seen.isr(load.topic, p) == set(each) for p, each in replicas.items()),
    )
    read_all(cluster.bootstrap_servers, load)
    for number, brokers in replicas.items():
        place = TopicPartition(load.topic, number)
        for broker in brokers:
            directory = Path(cluster.broker(broker)["directory"]) / "logs"
            records = ((each.offset, mark_of(each.value)) for each in replica_records(directory, place))
            load.history.read(f"replica {broker}", place, records)
    load.history.check()
    assert load.history.acknowledged_count
