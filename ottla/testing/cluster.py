"""A cluster for a test to use and to harm: real processes, started by the same commands that people type.

Example:
    with Cluster.up(tmp_path / "data", brokers=3) as cluster:
        cluster.kill(0)
        cluster.wait(lambda state: state.leader("topic", 0) != 0)
        cluster.start(0)
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ottla.management_client import BrokerGoneError, ManagementClient, ManagementError
from ottla.testing.ports import free_port_block
from timing.clock import SystemClock
from timing.polling import poll_until

WAIT_TIMEOUT_S = 60.0
_LOOK_AGAIN_S = 0.02


class ClusterError(AssertionError):
    """A command of the cluster failed, or it did not come to a state in time."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What the running brokers say at one moment: the descriptions of their management sockets, by broker id."""

    descriptions: Mapping[int, Mapping[str, Any]]

    @property
    def controller_id(self) -> int:
        """The controller that all running brokers agree on, -1 while they do not."""
        known = {description.get("controller_id", -1) for description in self.descriptions.values()}
        return int(known.pop()) if len(known) == 1 else -1

    def partition(self, topic: str, number: int) -> Mapping[str, Any] | None:
        """Return a partition as the broker that leads it describes it; None while nobody leads it."""
        for broker_id, description in self.descriptions.items():
            for partition in description.get("partitions", ()):
                if (partition["topic"], partition["partition"]) == (topic, number) and (
                    partition["leader"] == broker_id and partition.get("isr")
                ):
                    found: Mapping[str, Any] = partition
                    return found
        return None

    def leader(self, topic: str, number: int) -> int:
        """Return the broker that says it leads a partition, -1 while nobody does."""
        partition = self.partition(topic, number)
        return -1 if partition is None else int(partition["leader"])

    def isr(self, topic: str, number: int) -> frozenset[int]:
        """Return the in-sync replicas as the leader has them; empty while nobody leads."""
        partition = self.partition(topic, number)
        return frozenset() if partition is None else frozenset(partition["isr"])


class Cluster:
    """A cluster in a directory of its own, on free ports.

    Attributes:
        data: Its directory.
        bootstrap_servers: What a client is given.
    """

    def __init__(self, data: Path) -> None:
        self.data = data
        self.bootstrap_servers: str = self.describe_file()["bootstrap_servers"]

    @classmethod
    def up(cls, data: Path, *, brokers: int = 3, overrides: Mapping[str, str] | None = None) -> Self:
        """Start ZooKeeper and brokers, and wait until they are healthy.

        Raises:
            ClusterError: it does not start; the text is the command's.
        """
        port = free_port_block(brokers + 1)
        _ottla(
            *("up", "--detach", "--data", str(data), "--brokers", str(brokers)),
            *("--port", str(port), "--zookeeper-port", str(port + brokers)),
            *(part for key, value in (overrides or {}).items() for part in ("--override", f"{key}={value}")),
        )
        return cls(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def describe_file(self) -> Mapping[str, Any]:
        """Return what ``cluster.json`` says."""
        found: Mapping[str, Any] = json.loads((self.data / "cluster.json").read_text())
        return found

    def broker(self, broker_id: int) -> Mapping[str, Any]:
        """Return a broker's record: pid, guardian_pid, host, port, directory."""
        found: Mapping[str, Any] = next(b for b in self.describe_file()["brokers"] if b["id"] == broker_id)
        return found

    @property
    def zookeeper(self) -> str:
        """ZooKeeper's ``host:port``."""
        return str(self.describe_file()["zookeeper"])

    def kill(self, *broker_ids: int, host: bool = False) -> None:
        """End brokers with SIGKILL; with ``host`` their guardians too, so that nobody closes their sessions."""
        _ottla("kill", "--data", str(self.data), *(["--host"] if host else []), *map(str, broker_ids))

    def start(self, *broker_ids: int) -> None:
        """Start brokers on their directories again, and wait until they are registered."""
        _ottla("start", "--data", str(self.data), *map(str, broker_ids))

    def stop(self, *broker_ids: int) -> None:
        """Stop brokers by controlled shutdowns."""
        _ottla("stop", "--data", str(self.data), *map(str, broker_ids))

    def down(self) -> None:
        """Stop everything, ZooKeeper included."""
        _ottla("stop", "--data", str(self.data))

    def view(self) -> ClusterView:
        """Ask every broker that answers."""
        descriptions = {}
        for broker in self.describe_file()["brokers"]:
            try:
                with ManagementClient(Path(broker["directory"]) / "management.sock") as client:
                    descriptions[broker["id"]] = client.call("describe", partitions=True)
            except (BrokerGoneError, ManagementError):
                continue
        return ClusterView(descriptions)

    def wait(
        self, condition: Callable[[ClusterView], bool], timeout_s: float = WAIT_TIMEOUT_S
    ) -> ClusterView:
        """Look at the cluster until a condition holds, and return what was seen.

        Raises:
            ClusterError: it does not hold in time.
        """
        seen = self.view()

        def look() -> ClusterView | None:
            nonlocal seen
            seen = self.view()
            return seen if condition(seen) else None

        found = poll_until(look, SystemClock(), timeout_s=timeout_s, interval_s=_LOOK_AGAIN_S)
        if found is None:
            raise ClusterError(f"not within {timeout_s:g} s; the brokers say: {dict(seen.descriptions)}")
        return found

    def wait_in_sync(self, topic: str, partitions: int, replicas: int = 3) -> ClusterView:
        """Wait until every partition of a topic has all its replicas in sync."""
        return self.wait(lambda seen: all(len(seen.isr(topic, p)) == replicas for p in range(partitions)))


def _ottla(*arguments: str) -> str:
    command = [sys.executable, "-m", "ottla", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != 0:
        raise ClusterError(f"{' '.join(command[2:])}: {done.stderr or done.stdout}")
    return done.stdout
