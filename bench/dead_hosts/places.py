"""The places where the measured brokers run: processes of one machine, hosts of a network, containers.

Each place harms brokers in the ways that it can, and mends them; it has no method for a harm that it cannot do.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from bench.dead_hosts.producers import TOPIC, pass_time
from ottla.testing import Cluster, ClusterView
from tests.integration.docker.composed import ComposedCluster
from tests.integration.faults.harmed_cluster import HarmedCluster, host
from timing.clock import SystemClock
from timing.polling import poll_until

BROKERS: Final = 3
WAIT_S: Final = 90.0
SESSION_TIMEOUT_MS: Final = 18_000
"""Kafka's default: so long that a pause which lasts until the session's timeout stands out."""
PARTITIONS: Final = 1_000
"""How many of three replicas each are loaded at once."""
_COMPACTED: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "100",
}
_LOOK_S: Final = 0.01
_SLOW_TURN_S: Final = 0.02
_SLOW_PAUSE_S: Final = 0.35


class Roles(NamedTuple):
    """The leader of the partition, and the controller."""

    leader: int
    controller: int


class Place(Protocol):
    """Three brokers and a topic of one partition with three replicas."""

    brokers: tuple[int, ...]
    bootstrap: str
    client_settings: dict[str, str]

    def settled(self) -> Roles:
        """Wait until all are in sync and watched over, and return the leader and the controller."""
        ...

    def wait_led_without(self, dead: Sequence[int]) -> None:
        """Wait until a live broker leads, and one is the controller."""
        ...

    def lives(self) -> dict[int, object]:
        """Return a value for each broker that changes when it registers in ZooKeeper again."""
        ...

    def kill(self, *brokers: int) -> None:
        """Kill brokers and their guardians at the same moment."""
        ...

    def mend(self, *brokers: int) -> None:
        """Undo every harm, and start brokers again."""
        ...

    def down(self) -> None:
        """End everything."""
        ...


class _Described:
    """A place whose brokers can be asked over their management sockets."""

    brokers = tuple(range(BROKERS))
    client_settings: dict[str, str]

    def __init__(self, cluster: Cluster | HarmedCluster) -> None:
        self.cluster = cluster
        self.bootstrap = cluster.bootstrap_servers
        self.client_settings = {}

    def settled(self) -> Roles:
        self.cluster.wait_in_sync(TOPIC, 1)
        seen = self.cluster.wait(_is_watched_over)
        return Roles(seen.leader(TOPIC, 0), seen.controller_id)

    def wait_led_without(self, dead: Sequence[int]) -> None:
        self.cluster.wait(
            lambda seen: seen.leader(TOPIC, 0) not in (-1, *dead) and seen.controller_id not in dead
        )

    def lives(self) -> dict[int, object]:
        seen = self.cluster.wait(lambda seen: len(seen.descriptions) == BROKERS)
        return {
            broker: (each["zookeeper"]["session_id"], each["broker_epoch"])
            for broker, each in seen.descriptions.items()
        }

    def alarms(self) -> int:
        """Return how often a guardian has found a hung loop since the start."""
        logs = (Path(self.cluster.broker(broker)["directory"]) / "broker.log" for broker in self.brokers)
        return sum(log.read_text(errors="replace").count("has not turned") for log in logs)

    def pids(self, broker: int) -> tuple[int, int]:
        """Return the processes of a broker: its guardian's and its own."""
        own = int(self.cluster.view().descriptions[broker]["pid"])
        status = Path(f"/proc/{own}/status").read_text()
        return int(status.partition("PPid:")[2].split()[0]), own

    def pause(self, broker: int, seconds: float) -> None:
        """Stop a broker and its guardian for a while, like a paused container or a sleeping machine."""
        self._stop_and_go([*self.pids(broker)], seconds)

    def slow(self, broker: int, seconds: float) -> None:
        """Let a broker run for only a small part of the time."""
        (_, own) = self.pids(broker)
        for _ in range(int(seconds / (_SLOW_PAUSE_S + _SLOW_TURN_S))):
            self._stop_and_go([own], _SLOW_PAUSE_S)
            pass_time(_SLOW_TURN_S)

    def hang(self, broker: int) -> None:
        """Stop a broker's process for good; its guardian goes on."""
        os.kill(self.pids(broker)[1], signal.SIGSTOP)

    def _stop_and_go(self, pids: list[int], seconds: float) -> None:
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in pids:
                os.kill(pid, number)
            if number == signal.SIGSTOP:
                pass_time(seconds)


class Processes(_Described):
    """Processes of this machine.

    Args:
        data: An empty directory.
        settings: Of every broker.
        secure: Whether the listeners want TLS and a password.
    """

    cluster: Cluster

    def __init__(self, data: Path, settings: dict[str, str], *, secure: bool = False) -> None:
        self._disks = {broker: _Disk(data, broker) for broker in range(BROKERS)} if not secure else {}
        if self._disks:
            settings |= {"log.dirs": str(data / "disk-{id}" / "logs")}
        with _blockable(data):
            super().__init__(Cluster.up(data / "cluster", overrides=settings, secure=secure))
        if secure:
            self.client_settings = _client_settings(self.cluster.security)

    def kill(self, *brokers: int) -> None:
        """Kill brokers and their guardians at the same moment."""
        for pid in [pid for broker in brokers for pid in self.pids(broker)]:
            os.kill(pid, signal.SIGKILL)

    def busy(self, _: int, seconds: float) -> None:
        """Load the brokers with as many records as two producers can send, into a topic that is compacted meanwhile."""
        topic = f"busy-{uuid4().hex}"
        self.cluster.create_topic(topic, partitions=12, configs=_COMPACTED)
        floods = [threading.Thread(target=_flood, args=(self.bootstrap, topic, seconds)) for _ in range(2)]
        for flood in floods:
            flood.start()
        for flood in floods:
            flood.join()
        self.cluster.delete_topics(topic)

    def load(self, broker: int, _: float) -> None:
        """Create thousands of partitions, restart a broker that holds them, and delete them."""
        self.cluster.create_topic("many", partitions=PARTITIONS)
        self.cluster.stop(broker)
        self.cluster.start(broker)
        self.cluster.wait_in_sync("many", PARTITIONS)
        self.cluster.delete_topics("many")

    def block(self, broker: int) -> None:
        """Block a broker's loop, while its other threads go on."""
        os.kill(self.pids(broker)[1], signal.SIGUSR1)

    def freeze_disk(self, broker: int) -> None:
        """Freeze a broker's disk, so that it completes no write."""
        self._disks[broker].freeze()

    def mend(self, *brokers: int) -> None:
        """Thaw disks, and start brokers again."""
        for disk in self._disks.values():
            disk.thaw()
        if brokers:
            with _blockable(self.cluster.data.parent):
                self.cluster.start(*sorted(brokers))

    def down(self) -> None:
        """End everything."""
        self.mend()
        self.cluster.down()
        for disk in self._disks.values():
            disk.remove()


class Hosts(_Described):
    """Hosts in network namespaces, three of them with ZooKeeper servers; needs root.

    Args:
        data: An empty directory.
        settings: Of every broker.
    """

    cluster: HarmedCluster

    def __init__(self, data: Path, settings: dict[str, str]) -> None:
        super().__init__(HarmedCluster(data, {"min.insync.replicas": "1", **settings}))

    def kill(self, *brokers: int) -> None:
        """Kill brokers and their guardians at the same moment; the kernels of their hosts end their connections."""
        self.cluster.kill(*brokers, host=True)

    def cut(self, *brokers: int) -> None:
        """Cut hosts off, and kill what runs on them: no packet reports it."""
        for broker in brokers:
            self.cluster.network.unplug(host(broker))
        self.cluster.kill(*brokers, host=True)

    def cut_one_way(self, broker: int, seconds: float) -> None:
        """Drop everything from a broker to the next one for a while."""
        self.cluster.network.cut_one_way(host(broker), host((broker + 1) % BROKERS))
        pass_time(seconds)
        self.cluster.network.heal()

    def lose_packets(self, broker: int, seconds: float) -> None:
        """Lose every tenth packet to and from a broker for a while."""
        self.cluster.network.lose_packets(host(broker), 0.1)
        pass_time(seconds)
        self.cluster.network.heal()

    def mend(self, *brokers: int) -> None:
        """Reconnect hosts, and start brokers again."""
        self.cluster.network.heal()
        if brokers:
            self.cluster.start(*sorted(brokers))

    def down(self) -> None:
        """End everything."""
        self.cluster.down()


class Containers:
    """The containers of deploy/docker-compose.yml; needs a Docker engine."""

    brokers = tuple(range(1, BROKERS + 1))

    def __init__(self) -> None:
        self._patch = pytest.MonkeyPatch()
        self._cluster = ComposedCluster(self._patch)
        self._cluster.__enter__()
        self.bootstrap = self._cluster.bootstrap_servers
        self.client_settings: dict[str, str] = {}
        self._cluster.wait_healthy()
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0}, logger=None)

    def settled(self) -> Roles:
        found = self._wait(lambda _, isr: len(isr) == BROKERS)
        pass_time(3.0)  # keys are handed over twice a second
        return found

    def wait_led_without(self, dead: Sequence[int]) -> None:
        self._wait(lambda roles, _: not {roles.leader, roles.controller} & {-1, *dead})

    def lives(self) -> dict[int, object]:
        return {broker: self._cluster.log(broker).count("is registered with") for broker in self.brokers}

    def kill(self, *brokers: int) -> None:
        """``docker kill`` of all at once."""
        self._cluster.kill(*brokers)

    def mend(self, *brokers: int) -> None:
        """``docker start``."""
        for broker in brokers:
            self._cluster.start(broker)
        self._cluster.wait_healthy()

    def down(self) -> None:
        """``docker compose down``."""
        self._cluster.__exit__(None, None, None)
        self._patch.undo()

    def _wait(self, condition: Callable[[Roles, Sequence[int]], bool]) -> Roles:
        def look() -> Roles | None:
            metadata = self._admin.list_topics(TOPIC, timeout=5)
            partition = metadata.topics[TOPIC].partitions.get(0)
            if partition is None:
                return None
            roles = Roles(partition.leader, metadata.controller_id)
            return roles if condition(roles, partition.isrs) else None

        found = poll_until(look, SystemClock(), timeout_s=WAIT_S, interval_s=_LOOK_S)
        assert found, f"the containers are not as they should be within {WAIT_S:g} s"
        return found


class _Disk:
    """A disk of its own for a broker, which can be frozen; needs root."""

    def __init__(self, data: Path, broker: int) -> None:
        self._image, self._folder = data / f"disk-{broker}.img", data / f"disk-{broker}"
        self._is_frozen = False
        self._folder.mkdir()
        with self._image.open("wb") as image:
            image.truncate(512 << 20)
        _run("mkfs.ext4", "-q", "-F", str(self._image))
        _run("mount", "-o", "loop", str(self._image), str(self._folder))

    def freeze(self) -> None:
        """Block every write."""
        _run("fsfreeze", "--freeze", str(self._folder))
        self._is_frozen = True

    def thaw(self) -> None:
        """Let writes go on."""
        if self._is_frozen:
            _run("fsfreeze", "--unfreeze", str(self._folder))
            self._is_frozen = False

    def remove(self) -> None:
        """Unmount it."""
        _run("umount", "--lazy", str(self._folder))


@contextmanager
def _blockable(data: Path) -> Iterator[None]:
    """Make brokers that are started within it block for an hour when they get SIGUSR1."""
    folder = data / "startup"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(
        "import signal, time\nsignal.signal(signal.SIGUSR1, lambda *_: time.sleep(3600))\n"
    )
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{folder}{os.pathsep}{before or ''}"
    try:
        yield
    finally:
        del os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before


def _flood(bootstrap: str, topic: str, seconds: float) -> None:
    """Send records with few keys for a while, as fast as they are accepted."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0}, logger=None)
    until = time.monotonic() + seconds
    number = 0
    while time.monotonic() < until:
        number += 1
        try:
            producer.produce(topic, b"x" * 200, key=str(number % 1000).encode())
        except BufferError:
            producer.poll(0.05)
    producer.flush(60)


def _is_watched_over(seen: ClusterView) -> bool:
    """Return whether all others watch over the session of each broker, or no session is watched at all."""
    watched = [each.get("watched_sessions", []) for each in seen.descriptions.values()]
    if not any(watched) and len(watched) == BROKERS:
        return True
    return len(watched) == BROKERS and all(len(each) == BROKERS - 1 for each in watched)


def _client_settings(security: Path) -> dict[str, str]:
    """Return librdkafka's settings of the user that a secured cluster has made."""
    lines = (security / "user.librdkafka.properties").read_text().splitlines()
    pairs = [line.partition("=") for line in lines if "=" in line and not line.startswith("#")]
    return {key.strip(): value.strip() for key, _, value in pairs if key.strip() != "bootstrap.servers"}


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
