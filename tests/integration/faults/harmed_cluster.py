"""A cluster whose brokers and ZooKeeper servers have a host each, and what must hold after harm."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from cluster.zookeeper.session_closer import close_session
from cluster.zookeeper.session_record import read_session_record
from ottla.management_client import BrokerGoneError, ManagementClient, ManagementError
from ottla.testing import Cluster, ClusterView
from ottla.testing.replica_files import replica_records
from tests.integration.faults.ensemble import SERVERS, Ensemble
from tests.integration.faults.load import Load, mark_of, read_all
from tests.integration.faults.network import Network
from tests.zookeeper_client import zookeeper_client
from timing.clock import SystemClock
from wire.types import TopicPartition as Place

BROKERS = (0, 1, 2)
PORT = 9092
PARTITIONS = 3
SESSION_MS = 3_000
_SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    # A paused broker has to wake up as a zombie here, so its guardian lets it live.
    "ottla.hang.timeout.ms": "0",
    "replica.lag.time.max.ms": "2000",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}


class HarmedCluster(Cluster):
    """Three brokers and three ZooKeeper servers in network namespaces.

    Args:
        data: An empty directory.
        settings: Settings of every broker, which override those of the tests.

    Attributes:
        network: Whose links can be cut; broker N is the host ``bN``.
        ensemble: The ZooKeeper servers.
    """

    def __init__(self, data: Path, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        self.network = Network()
        self.ensemble = Ensemble(self.network, data)
        addresses = {broker: self.network.add_host(host(broker)) for broker in BROKERS}
        super().__init__(data)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._leaders: dict[tuple[str, int, int], int] = {}
        for broker, address in addresses.items():
            folder = self._folder(broker)
            folder.mkdir()
            own = {
                "broker.id": str(broker),
                "listeners": f"PLAINTEXT://{address}:{PORT}",
                "log.dirs": str(folder / "logs"),
                "zookeeper.connect": self.ensemble.connect,
                "ottla.management.socket": str(folder / "management.sock"),
            }
            lines = [f"{key}={value}\n" for key, value in (_SETTINGS | dict(settings) | own).items()]
            (folder / "server.properties").write_text("".join(lines))
        try:
            self.ensemble.start(*SERVERS)
            self.start(*BROKERS)
        except BaseException:
            self.down()
            raise

    def describe_file(self) -> Mapping[str, Any]:
        """Return what `Cluster` otherwise reads from a file."""
        return {
            "zookeeper": self.ensemble.connect,
            "bootstrap_servers": ",".join(self.address(broker) for broker in BROKERS),
            "brokers": [{"id": broker, "directory": str(self._folder(broker))} for broker in BROKERS],
        }

    def address(self, broker: int) -> str:
        """Return one broker's address for clients."""
        return f"{self.network.address(host(broker))}:{PORT}"

    def pid(self, broker: int) -> int:
        """Return a broker's process id, not its guardian's."""
        with ManagementClient(self._folder(broker) / "management.sock") as client:
            return int(client.call("describe", partitions=False)["pid"])

    def launch(self, *brokers: int) -> None:
        """Start brokers, without waiting for anything."""
        ottla = str(Path(sys.executable).parent / "ottla")
        # Compiled code is kept, even if the environment turns that off: the measured times include starts.
        compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(self.data / "compiled")}
        for broker in brokers:
            folder = self._folder(broker)
            with (folder / "broker.log").open("ab") as log:
                self._processes[broker] = subprocess.Popen(
                    [*self.network.on(host(broker)), ottla, "broker", str(folder / "server.properties")],
                    stdout=log,
                    stderr=log,
                    env=os.environ | compiled,
                    start_new_session=True,
                )

    def start(self, *broker_ids: int) -> None:
        """Start brokers, and wait until they and all others know each other."""
        self.launch(*broker_ids)
        self.wait_whole()

    def kill(self, *broker_ids: int, host: bool = False) -> None:
        """Kill brokers with SIGKILL; with ``host`` their guardians too."""
        for broker in broker_ids:
            pid = self.pid(broker)
            if host:
                self._processes[broker].kill()
            os.kill(pid, signal.SIGKILL)
        for broker in broker_ids:
            self._processes.pop(broker).wait()

    def pause(self, broker: int) -> None:
        """SIGSTOP a broker; its guardian goes on, and notices nothing."""
        os.kill(self.pid(broker), signal.SIGSTOP)
        self._paused.add(broker)

    def resume(self, broker: int) -> None:
        """SIGCONT it."""
        self._paused.discard(broker)
        guardian = self._processes[broker].pid
        for child in Path(f"/proc/{guardian}/task/{guardian}/children").read_text().split():
            os.kill(int(child), signal.SIGCONT)

    def expire_session(self, broker: int) -> None:
        """End a healthy broker's ZooKeeper session behind its back."""
        key = read_session_record(self._folder(broker) / "logs")
        assert key is not None
        assert close_session(key, SystemClock().monotonic)

    def create_topic(self, name: str) -> None:
        """Make a topic of three partitions with three replicas, and wait until all are in sync; needs ZooKeeper."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 2})
        for future in admin.create_topics([NewTopic(name, PARTITIONS, 3)], request_timeout=60).values():
            future.result(timeout=60)
        self.wait_in_sync(name, PARTITIONS)

    def wait_sessions_doubtful(self) -> None:
        """Wait until no broker is sure any more that its ZooKeeper session lives."""
        self.wait(lambda seen: not any(each["zookeeper"]["live"] for each in seen.descriptions.values()))

    def heal(self) -> None:
        """Undo all harm that a test left, for the next test."""
        self.network.heal()
        for broker in tuple(self._paused):
            self.resume(broker)
        self.ensemble.start(*self.ensemble.dead())
        self.start(*(broker for broker in BROKERS if self._is_dead(broker)))

    def down(self) -> None:
        """End everything, and remove the network."""
        self.ensemble.close()
        self.network.close()
        for process in self._processes.values():
            process.wait()

    def view(self) -> ClusterView:
        """Ask every broker that can answer; check that each partition has one leader in each epoch."""
        descriptions = {}
        for broker in BROKERS:
            if broker in self._paused or broker not in self._processes:
                continue
            try:
                with ManagementClient(self._folder(broker) / "management.sock") as client:
                    descriptions[broker] = client.call("describe", partitions=True)
            except (BrokerGoneError, ManagementError):
                continue
        for broker, description in descriptions.items():
            for each in description.get("partitions", ()):
                if each["is_leader"]:
                    term = (each["topic"], each["partition"], each["leader_epoch"])
                    other = self._leaders.setdefault(term, broker)
                    assert other == broker, f"{broker} and {other} both lead {term}"
        return ClusterView(descriptions)

    def wait_whole(self) -> ClusterView:
        """Wait until all brokers run, know each other, and agree on one controller that is active."""

        def is_whole(seen: ClusterView) -> bool:
            return (
                len(seen.descriptions) == len(BROKERS)
                and all(
                    each["state"] == "running" and each.get("live_brokers") == list(BROKERS)
                    for each in seen.descriptions.values()
                )
                and active_controllers(seen) == [seen.controller_id]
            )

        return self.wait(is_whole)

    def verify(self, load: Load) -> None:
        """Check that the cluster is whole again and has every acknowledged record of the load, which has ended."""
        self.wait_whole()
        self.wait(lambda seen: self._is_settled(seen, load.topic, load.partitions))
        read_all(self.bootstrap_servers, load)
        for partition in range(load.partitions):
            place = Place(load.topic, partition)
            for broker in BROKERS:
                records = replica_records(self._folder(broker) / "logs", place)
                load.history.read(f"replica {broker}", place, ((r.offset, mark_of(r.value)) for r in records))
        load.history.check()
        self._check_znodes(load.topic, load.partitions)
        print(f"{load.history.acknowledged_count} records were acknowledged, and kept")

    def tell_logs(self, most: int = 25) -> str:
        """Return the last lines of each broker's log, without the appends that it refused."""
        report = []
        for broker in BROKERS:
            lines = (self._folder(broker) / "broker.log").read_text().splitlines()
            report += [f"--- broker {broker}", *[each for each in lines if " append to " not in each][-most:]]
        return "\n".join(report)

    def _is_settled(self, seen: ClusterView, topic: str, partitions: int) -> bool:
        """Whether every replica is in sync and holds what the leader holds, all of it committed."""
        if not all(len(seen.isr(topic, p)) == len(BROKERS) for p in range(partitions)):
            return False
        ends: dict[int, set[int]] = {p: set() for p in range(partitions)}
        for description in seen.descriptions.values():
            for each in description["partitions"]:
                if each["topic"] == topic and each["partition"] in ends:
                    ends[each["partition"]] |= {each["log_end"], each["high_watermark"]}
        return all(len(found) == 1 for found in ends.values())

    def _check_znodes(self, topic: str, partitions: int) -> None:
        with zookeeper_client(self.ensemble.connect) as zookeeper:
            assigned = json.loads(zookeeper.get(f"/brokers/topics/{topic}")[0])["partitions"]
            for partition in range(partitions):
                data, _ = zookeeper.get(f"/brokers/topics/{topic}/partitions/{partition}/state")
                state = json.loads(data)
                assert state["leader"] in state["isr"], state
                assert set(state["isr"]) <= set(assigned[str(partition)]), (state, assigned)
            assert not zookeeper.get_children("/isr_change_notification")

    def _is_dead(self, broker: int) -> bool:
        process = self._processes.get(broker)
        if process is not None and process.poll() is None:
            return False
        self._processes.pop(broker, None)
        return True

    def _folder(self, broker: int) -> Path:
        return self.data / f"broker-{broker}"


def host(broker: int) -> str:
    """Return the name of a broker's host."""
    return f"b{broker}"


def active_controllers(seen: ClusterView) -> list[int]:
    """Return the brokers that claim to be the controller."""
    return [b for b, each in seen.descriptions.items() if each.get("controller", {}).get("active")]


def led_by_others(seen: ClusterView, topic: str, partitions: int, old: int) -> bool:
    """Whether other brokers lead all partitions, whatever this broker says itself."""
    others = ClusterView({b: each for b, each in seen.descriptions.items() if b != old})
    return all(others.leader(topic, p) not in (-1, old) for p in range(partitions))
