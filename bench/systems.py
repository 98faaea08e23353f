"""The systems under measurement: a cluster of Ottla, and one of Apache Kafka on the same kind of ZooKeeper."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import trustme
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

ROOT = Path(__file__).parent.parent
SESSION_TIMEOUT_MS = 6_000


class System(Protocol):
    """A running cluster of one or three brokers."""

    name: str
    bootstrap: str
    client: Mapping[str, str]
    """What librdkafka needs besides the addresses."""

    def broker_pids(self) -> list[int]:
        """Return the brokers' processes, in the order of broker ids."""
        ...

    def kill(self, broker_id: int) -> None:
        """End a broker's process with SIGKILL."""
        ...

    def start(self, broker_id: int) -> None:
        """Start a broker again that was killed; it may not serve requests yet on return."""
        ...

    def stop(self) -> None:
        """End everything, data included."""
        ...

    def log_bytes(self, topic: str) -> int:
        """Return the bytes of a topic's segments on all brokers."""
        ...


def free_ports(count: int) -> int:
    """Return the first of ``count`` consecutive ports that are free now."""
    for first in range(20_000 + os.getpid() % 5_000, 60_000, count):
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first
    raise RuntimeError("no free ports")


class Ottla:
    """``ottla up --detach``."""

    name = "ottla"

    def __init__(self, brokers: int, *more: str) -> None:
        self.client: Mapping[str, str] = {}
        self._data = Path(tempfile.mkdtemp(prefix="bench-ottla-"))
        port = free_ports(brokers + 1)
        self._command = str(Path(sys.executable).parent / "ottla")
        subprocess.run(
            [
                self._command,
                *("up", "--detach", "--brokers", str(brokers), "--data", str(self._data / "data")),
                *("--port", str(port), "--zookeeper-port", str(port + brokers)),
                *("--override", f"zookeeper.session.timeout.ms={SESSION_TIMEOUT_MS}"),
                *more,
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        self.bootstrap: str = self._cluster()["bootstrap_servers"]

    @property
    def data(self) -> Path:
        """The folder of all its files."""
        return self._data

    def _cluster(self) -> dict:
        return json.loads((self._data / "data" / "cluster.json").read_text())

    def broker_pids(self) -> list[int]:
        return [broker["pid"] for broker in sorted(self._cluster()["brokers"], key=lambda b: b["id"])]

    def kill(self, broker_id: int) -> None:
        os.kill(self.broker_pids()[broker_id], signal.SIGKILL)

    def start(self, broker_id: int) -> None:
        started = [self._command, "start", "--data", str(self._data / "data"), str(broker_id)]
        subprocess.run(started, check=True, stdout=subprocess.DEVNULL)

    def log_bytes(self, topic: str) -> int:
        return _log_bytes(self._data, topic)

    def stop(self) -> None:
        stopped = [self._command, "stop", "--data", str(self._data / "data")]
        subprocess.run(stopped, check=False, stdout=subprocess.DEVNULL)
        shutil.rmtree(self._data, ignore_errors=True)


class ApacheKafka:
    """Apache Kafka's broker, one JVM each, from the jars that ``make install`` fetched."""

    name = "kafka"

    def __init__(self, brokers: int, protocol: str = "PLAINTEXT", settings: str = "") -> None:
        self.client: Mapping[str, str] = {}
        self._data = Path(tempfile.mkdtemp(prefix="bench-kafka-"))
        libs = kafka_libs()
        assert libs is not None
        port = free_ports(brokers + 1)
        zookeeper = f"127.0.0.1:{port + brokers}"
        (self._data / "zoo.cfg").write_text(
            f"dataDir={self._data}/zookeeper\nclientPort={port + brokers}\nclientPortAddress=127.0.0.1\n"
            "tickTime=500\nadmin.enableServer=false\n"
        )
        (self._data / "log4j.properties").write_text("log4j.rootLogger=OFF\n")
        quiet = f"-Dlog4j.configuration=file:{self._data}/log4j.properties"
        path = ("-cp", f"{libs}/*")
        small = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m")
        self._brokers: list[tuple[str, ...]] = []
        self._processes = [
            self._start(
                "java", *small, quiet, *path,
                *("org.apache.zookeeper.server.quorum.QuorumPeerMain", f"{self._data}/zoo.cfg"),
            )
        ]  # fmt: skip
        for broker in range(brokers):
            properties = self._data / f"server-{broker}.properties"
            properties.write_text(
                f"broker.id={broker}\nlisteners={protocol}://127.0.0.1:{port + broker}\n"
                f"log.dirs={self._data}/logs-{broker}\nzookeeper.connect={zookeeper}\n"
                f"zookeeper.session.timeout.ms={SESSION_TIMEOUT_MS}\n"
                f"offsets.topic.replication.factor={min(3, brokers)}\n{settings}"
            )
            # The heap and collector of Kafka's own start script.
            heap = ("-Xmx1G", "-Xms1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
            self._brokers.append(("java", *heap, quiet, *path, "kafka.Kafka", str(properties)))
            self._processes.append(self._start(*self._brokers[-1]))
        self.bootstrap = ",".join(f"127.0.0.1:{port + broker}" for broker in range(brokers))

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        output = (self._data / "output").open("ab")
        return subprocess.Popen(command, stdout=output, stderr=output)

    def broker_pids(self) -> list[int]:
        return [process.pid for process in self._processes[1:]]

    def kill(self, broker_id: int) -> None:
        self._processes[1 + broker_id].kill()
        self._processes[1 + broker_id].wait()

    def start(self, broker_id: int) -> None:
        # It refuses to start while ZooKeeper still has the session of the killed one.
        time.sleep(SESSION_TIMEOUT_MS / 1000)  # noqa: TID251  # no event reports when that has ended
        self._processes[1 + broker_id] = self._start(*self._brokers[broker_id])

    def log_bytes(self, topic: str) -> int:
        return _log_bytes(self._data, topic)

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        shutil.rmtree(self._data, ignore_errors=True)


class SecuredOttla(Ottla):
    """``ottla up --secure``: SASL_SSL among brokers and for clients, and an authorizer."""

    def __init__(self, brokers: int) -> None:
        super().__init__(brokers, "--secure")
        security = self.data / "data" / "security"
        self.client = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "admin",
            "sasl.password": json.loads((security / "passwords.json").read_text())["admin"],
            "ssl.ca.location": str(security / "ca.pem"),
        }


class SecuredKafka(ApacheKafka):
    """Apache Kafka with TLS among brokers and for clients; certificates of the same kind."""

    def __init__(self, brokers: int) -> None:
        self._stores = Path(tempfile.mkdtemp(prefix="bench-stores-"))
        authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        ca, store = self._stores / "ca.pem", self._stores / "broker.pem"
        authority.cert_pem.write_to_path(str(ca))
        issued = authority.issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA)
        key = load_pem_private_key(issued.private_key_pem.bytes(), None)
        pkcs8 = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        store.write_bytes(pkcs8 + b"".join(each.bytes() for each in issued.cert_chain_pems))
        settings = {
            "security.inter.broker.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": store,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": ca,
        }
        super().__init__(brokers, "SSL", "".join(f"{name}={value}\n" for name, value in settings.items()))
        self.client = {"security.protocol": "SSL", "ssl.ca.location": str(ca)}

    def stop(self) -> None:
        super().stop()
        shutil.rmtree(self._stores, ignore_errors=True)


def _log_bytes(data: Path, topic: str) -> int:
    size = 0
    for path in data.glob(f"**/{topic}-*/*.log"):
        with contextlib.suppress(FileNotFoundError):
            size += path.stat().st_size
    return size


def kafka_libs() -> Path | None:
    """Return the folder of Apache Kafka's jars, None where they are not at hand."""
    libs = Path(os.environ.get("OTTLA_KAFKA_LIBS", ROOT / ".cache" / "kafka-libs"))
    return libs if list(libs.glob("kafka_2.13-*.jar")) else None


def make_topic(system: System, name: str, partitions: int, replicas: int, timeout_s: float = 120) -> None:
    """Create a topic and wait until each of its leaders answers."""
    admin = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": "0"} | dict(system.client))
    deadline = time.monotonic() + timeout_s
    while True:
        created = admin.create_topics([NewTopic(name, partitions, replicas)], request_timeout=10)[name]
        error = created.exception(timeout=20)
        if error is None or error.args[0].name() == "TOPIC_ALREADY_EXISTS":
            break
        if time.monotonic() > deadline:
            raise RuntimeError(f"{system.name} does not create {name}: {error}")
    waiting = [TopicPartition(name, partition) for partition in range(partitions)]
    while waiting:
        asked = admin.list_offsets({partition: OffsetSpec.latest() for partition in waiting})
        waiting = [
            partition for partition, future in asked.items() if future.exception(timeout=20) is not None
        ]
        if time.monotonic() > deadline:
            raise RuntimeError(f"{system.name} does not serve {waiting}")
