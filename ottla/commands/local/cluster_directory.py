"""A cluster on this machine, as its directory has it.

DIR/cluster.json               who runs where: for programs, and for the commands themselves
DIR/.lock                      held while a command changes something
DIR/zookeeper/                 ZooKeeper's configuration, data and output
DIR/security/                  certificates, passwords and clients' files of a secured cluster
DIR/broker-N/server.properties written once, then the operator's
DIR/broker-N/logs              the broker's log directory
DIR/broker-N/management.sock   where its state is asked for
DIR/broker-N/broker.log        what it prints
"""

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from ottla.commands.terminal.failure import CommandError
from ottla.processes import is_running

CLUSTER_FILE: Final = "cluster.json"


def broker_process_name(broker_id: int) -> str:
    """Return the name of a broker's process in ``ps``."""
    return f"ottla-broker-{broker_id}"


def guardian_process_name(broker_id: int) -> str:
    """Return the name of its guardian's process."""
    return f"ottla-guard-{broker_id}"


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """A broker of the cluster; the pids are None while it does not run."""

    id: int
    pid: int | None
    guardian_pid: int | None
    host: str
    port: int
    directory: str

    @property
    def path(self) -> Path:
        """Its directory."""
        return Path(self.directory)

    @property
    def properties(self) -> Path:
        """Its configuration."""
        return self.path / "server.properties"

    @property
    def management_socket(self) -> Path:
        """Where its state is asked for."""
        return self.path / "management.sock"

    @property
    def log_file(self) -> Path:
        """What it prints."""
        return self.path / "broker.log"

    @property
    def is_running(self) -> bool:
        """Whether its process lives, at this moment."""
        return is_running(self.pid, broker_process_name(self.id))

    @property
    def guardian_is_running(self) -> bool:
        """Whether its guardian lives, at this moment."""
        return is_running(self.guardian_pid, guardian_process_name(self.id))

    def stopped(self) -> "BrokerRecord":
        """The same broker, without processes."""
        return replace(self, pid=None, guardian_pid=None)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What ``cluster.json`` says. ``zookeeper_pid`` is None where ZooKeeper is not ours, or does not run."""

    zookeeper: str
    zookeeper_pid: int | None
    zookeeper_is_ours: bool
    brokers: tuple[BrokerRecord, ...] = field(default_factory=tuple)

    @property
    def bootstrap_servers(self) -> str:
        """What a client is given."""
        return ",".join(f"{broker.host}:{broker.port}" for broker in self.brokers)

    @property
    def zookeeper_is_running(self) -> bool:
        """Whether our ZooKeeper's process lives, at this moment."""
        return is_running(self.zookeeper_pid, "java")

    def broker(self, broker_id: int) -> BrokerRecord:
        """Return a broker by id.

        Raises:
            CommandError: the cluster has no such broker.
        """
        for broker in self.brokers:
            if broker.id == broker_id:
                return broker
        known = ", ".join(str(broker.id) for broker in self.brokers)
        raise CommandError(f"the cluster has no broker {broker_id}; it has {known}")

    def with_brokers(self, changed: Iterable[BrokerRecord]) -> "ClusterState":
        """Return the state with some brokers' records replaced."""
        by_id = {broker.id: broker for broker in changed}
        return replace(self, brokers=tuple(by_id.get(broker.id, broker) for broker in self.brokers))

    def as_json(self) -> dict[str, object]:
        """Return it in the form of the file."""
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "zookeeper": self.zookeeper,
            "zookeeper_pid": self.zookeeper_pid,
            "zookeeper_is_ours": self.zookeeper_is_ours,
            "brokers": [asdict(broker) for broker in self.brokers],
        }


class ClusterDirectory:
    """The directory of a cluster."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @property
    def security_path(self) -> Path:
        """Where certificates, passwords and clients' files are, if it is a secured one."""
        return self.path / "security"

    @property
    def zookeeper_path(self) -> Path:
        """Where our ZooKeeper lives."""
        return self.path / "zookeeper"

    def broker_path(self, broker_id: int) -> Path:
        """Where a broker lives."""
        return self.path / f"broker-{broker_id}"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory, so that one command at a time changes the cluster; waits for another's end.

        Raises:
            CommandError: the directory cannot be made or written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise CommandError(f"{self.path} cannot be used for a cluster: {error.strerror}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def read(self) -> ClusterState | None:
        """Return what the cluster's file says, None where there is none.

        Raises:
            CommandError: the file is damaged.
        """
        file = self.path / CLUSTER_FILE
        try:
            data = json.loads(file.read_text())
            return ClusterState(
                data["zookeeper"],
                data["zookeeper_pid"],
                data["zookeeper_is_ours"],
                tuple(BrokerRecord(**broker) for broker in data["brokers"]),
            )
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise CommandError(f"{file} is damaged: {error}") from None

    def require(self) -> ClusterState:
        """Return what the cluster's file says.

        Raises:
            CommandError: there is no cluster here, or the file is damaged.
        """
        state = self.read()
        if state is None:
            raise CommandError(f"there is no cluster in {self.path}: `ottla up --data {self.path}` makes one")
        return state

    def write(self, state: ClusterState) -> None:
        """Replace the cluster's file, all or nothing."""
        file = self.path / CLUSTER_FILE
        scratch = file.with_suffix(".tmp")
        scratch.write_text(json.dumps(state.as_json(), indent=2) + "\n")
        scratch.replace(file)
