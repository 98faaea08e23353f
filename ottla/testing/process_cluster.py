"""A cluster for a test to use and to harm: real processes, started by the same commands that people type.

Example:
    with Cluster.up(tmp_path / "data", brokers=3) as cluster:
        cluster.kill(0)
        cluster.wait(lambda state: state.leader("topic", 0) != 0)
        cluster.start(0)
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cluster.zookeeper.session_closer import close_session
from cluster.zookeeper.session_record import read_session_record
from ottla.management_client import BrokerGoneError, ManagementClient, ManagementError
from ottla.testing.ports import free_port_block
from ottla.testing.view import (
    WAIT_TIMEOUT_S,
    ClusterError,
    ClusterView,
    all_in_sync,
    all_led,
    replicas_of_topic,
    wait_for,
)
from timing.clock import SystemClock


class Cluster:
    """A cluster in a directory of its own, on free ports.

    Attributes:
        data: Its directory.
        bootstrap_servers: The addresses for a client's ``bootstrap.servers``.
    """

    def __init__(self, data: Path) -> None:
        self.data = data
        self.bootstrap_servers: str = self.describe_file()["bootstrap_servers"]
        self._start_again: tuple[str, ...] = ()
        self._paused: set[int] = set()
        self._owns_data = False

    @classmethod
    def up(
        cls,
        data: Path | None = None,
        *,
        brokers: int = 3,
        overrides: Mapping[str, str] | None = None,
        first_id: int = 0,
        secure: bool = False,
    ) -> Self:
        """Start ZooKeeper and brokers, and wait until they are healthy.

        Args:
            data: The cluster's directory; by default a temporary one, which `down` removes.
            brokers: How many.
            overrides: Settings of all brokers; ``{id}`` and ``{port}`` in a value are the broker's.
            first_id: The first broker's id.
            secure: Whether its listeners require TLS and a password; the clients' files are in ``security``.

        Raises:
            ClusterError: it does not start; the text is the output of the command.
        """
        directory = Path(tempfile.mkdtemp(prefix="ottla-")) if data is None else data
        port = free_port_block(brokers + 1)
        arguments = (
            *("up", "--detach", "--data", str(directory), "--brokers", str(brokers)),
            *("--first-id", str(first_id), *(["--secure"] if secure else [])),
            *("--port", str(port), "--zookeeper-port", str(port + brokers)),
            *(part for key, value in (overrides or {}).items() for part in ("--override", f"{key}={value}")),
        )
        try:
            _ottla(*arguments)
        except ClusterError:
            if data is None:
                shutil.rmtree(directory, ignore_errors=True)
            raise
        cluster = cls(directory)
        cluster._start_again = arguments
        cluster._owns_data = data is None
        return cluster

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
    def security(self) -> Path:
        """The directory of a secured cluster's certificates, passwords and client files."""
        return self.data / "security"

    @property
    def zookeeper(self) -> str:
        """ZooKeeper's ``host:port``."""
        return str(self.describe_file()["zookeeper"])

    def kill(self, *broker_ids: int, host: bool = False) -> None:
        """End brokers with SIGKILL; with ``host`` their guardians too, so that nothing closes their sessions."""
        _ottla("kill", "--data", str(self.data), *(["--host"] if host else []), *map(str, broker_ids))

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """The brokers, running or not."""
        return tuple(broker["id"] for broker in self.describe_file()["brokers"])

    def start(self, *broker_ids: int) -> None:
        """Start brokers on their directories again, and wait until they are registered; all by default."""
        _ottla("start", "--data", str(self.data), *map(str, broker_ids or self.broker_ids))

    def stop(self, *broker_ids: int) -> None:
        """Stop brokers by controlled shutdowns."""
        _ottla("stop", "--data", str(self.data), *map(str, broker_ids))

    def down(self) -> None:
        """Stop everything, ZooKeeper included, and remove a temporary directory."""
        self.heal()
        if self.data.exists():
            _ottla("stop", "--data", str(self.data))
        if self._owns_data:
            shutil.rmtree(self.data, ignore_errors=True)

    def pause(self, *broker_ids: int) -> None:
        """Stop the processes of brokers, with SIGSTOP; their guardians kill those that are stopped for too long."""
        for broker_id in broker_ids:
            os.kill(self._pid(broker_id), signal.SIGSTOP)
            self._paused.add(broker_id)

    def resume(self, *broker_ids: int) -> None:
        """Let paused brokers go on, with SIGCONT; one that its guardian has killed meanwhile stays dead."""
        for broker_id in broker_ids:
            self._paused.discard(broker_id)
            with contextlib.suppress(ProcessLookupError, ClusterError):
                os.kill(self._pid(broker_id), signal.SIGCONT)

    def cut(
        self,
        broker_id: int,
        others: Sequence[int] | None = None,  # noqa: ARG002
        *,
        zookeeper: bool = False,  # noqa: ARG002
        clients: bool = False,  # noqa: ARG002
    ) -> None:
        """Refuse: processes share the machine's network.

        Raises:
            ClusterError: always.
        """
        raise ClusterError(
            f"the network of broker {broker_id} cannot be cut: only an in-process cluster has its own"
        )

    def full_disk(self, broker_id: int) -> None:
        """Refuse: processes share the machine's disk.

        Raises:
            ClusterError: always.
        """
        raise ClusterError(
            f"the disk of broker {broker_id} cannot be filled: only an in-process cluster has its own"
        )

    def expire_session(self, broker_id: int) -> None:
        """Close a broker's ZooKeeper session from outside; the broker learns that it has expired.

        Raises:
            ClusterError: it has none, or ZooKeeper does not answer.
        """
        key = read_session_record(Path(self.broker(broker_id)["directory"]) / "logs")
        if key is None or not close_session(key, SystemClock().monotonic):
            raise ClusterError(f"the session of broker {broker_id} cannot be closed")

    def heal(self, *broker_ids: int) -> None:
        """Let paused brokers go on; all, if none is named."""
        self.resume(*(self._paused & set(broker_ids) if broker_ids else set(self._paused)))

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replicas: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic, and wait until every partition has a leader.

        Args:
            name: Its name.
            partitions: How many.
            replicas: Of each; three, or as many as there are brokers, by default.
            configs: Its settings, by Kafka's names.

        Raises:
            ClusterError: it cannot be created.
        """
        count = replicas_of_topic(replicas, self.broker_ids)
        _ottla(
            *("topics", "--bootstrap-server", self.bootstrap_servers, "--create", "--topic", name),
            *("--partitions", str(partitions), "--replication-factor", str(count)),
            *(part for key, value in (configs or {}).items() for part in ("--config", f"{key}={value}")),
        )
        self.wait(all_led(name, partitions))

    def delete_topics(self, *names: str) -> None:
        """Delete topics; missing topics are no error."""
        for name in names:
            _ottla(
                *("topics", "--bootstrap-server", self.bootstrap_servers),
                *("--delete", "--if-exists", "--topic", re.escape(name)),
            )

    def reset(self) -> None:
        """Return the cluster to its initial state: stopped, emptied, and started on the same ports.

        Raises:
            ClusterError: this object was not made by `up`, so that its initial state is not known.
        """
        if not self._start_again:
            raise ClusterError("this cluster was not started by `Cluster.up`, so how it began is not known")
        self.heal()
        _ottla("stop", "--data", str(self.data))
        shutil.rmtree(self.data)
        _ottla(*self._start_again)

    def _pid(self, broker_id: int) -> int:
        pid = self.broker(broker_id)["pid"]
        if pid is None:
            raise ClusterError(f"broker {broker_id} does not run")
        return int(pid)

    def view(self) -> ClusterView:
        """Ask every broker that answers."""
        descriptions = {}
        for broker in self.describe_file()["brokers"]:
            if broker["id"] in self._paused:
                continue
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
        return wait_for(self.view, condition, timeout_s)

    def wait_in_sync(self, topic: str, partitions: int, replicas: int = 3) -> ClusterView:
        """Wait until every partition of a topic has all its replicas in sync."""
        return self.wait(all_in_sync(topic, partitions, replicas))


def _ottla(*arguments: str) -> str:
    command = [sys.executable, "-m", "ottla", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != 0:
        raise ClusterError(f"{' '.join(command[2:])}: {done.stderr or done.stdout}")
    return done.stdout
