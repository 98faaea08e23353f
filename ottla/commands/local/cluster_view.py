"""What a cluster on this machine is like at a moment: its brokers by their own word, its partitions by Metadata."""

import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from struct import Struct
from typing import Final

from ottla.commands.local.cluster_directory import BrokerRecord, ClusterState
from ottla.commands.local.health import BrokerStatus, ask_status
from security.client_config import client_security, read_client_properties
from security.sasl_client import authenticate
from timing.clock import SystemClock
from wire.errors import RemoteProtocolError
from wire.frames import decode_response, encode_request
from wire.messages.metadata import MetadataRequest, MetadataResponse

_METADATA_VERSION: Final = 12
_METADATA_TIMEOUT_S: Final = 2.0
_LENGTH: Final = Struct(">i")
_ASKED_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition; the leader is -1 where there is none."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica is out of sync."""
        return len(self.isr) < len(self.replicas)

    @property
    def is_healthy(self) -> bool:
        """Whether it has a leader and all its replicas are in sync."""
        return self.leader >= 0 and not self.is_under_replicated


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster at a moment."""

    state: ClusterState
    brokers: tuple[BrokerStatus, ...]
    partitions: tuple[PartitionView, ...]

    @property
    def controller_id(self) -> int:
        """The controller that most brokers know, -1 for none."""
        known = [status.controller_id for status in self.brokers if status.controller_id >= 0]
        return max(set(known), key=known.count) if known else -1

    def as_json(self) -> dict[str, object]:
        """Return it for programs."""
        return {
            "bootstrap_servers": self.state.bootstrap_servers,
            "zookeeper": self.state.zookeeper,
            "controller_id": self.controller_id,
            "brokers": [
                asdict(status.record)
                | {
                    "state": status.state,
                    "pid": status.record.pid if status.record.is_running else None,
                    "guardian_pid": status.record.guardian_pid if status.record.guardian_is_running else None,
                    "description": status.description,
                }
                for status in self.brokers
            ],
            "partitions": [asdict(partition) for partition in self.partitions],
        }


def observe(state: ClusterState) -> ClusterView:
    """Ask every broker how it is, and one of them for the partitions."""
    with ThreadPoolExecutor(min(_ASKED_AT_ONCE, len(state.brokers) or 1)) as pool:
        statuses = tuple(pool.map(ask_status, state.brokers))
    return ClusterView(state, statuses, tuple(_partitions(statuses)))


def _partitions(statuses: Sequence[BrokerStatus]) -> list[PartitionView]:
    for status in statuses:
        if status.state != "running":
            continue
        try:
            answer = _ask_metadata(status.record)
        except (OSError, ValueError, RemoteProtocolError):
            continue
        found = [
            PartitionView(
                topic.name or "",
                partition.partition_index,
                partition.leader_id,
                partition.leader_epoch,
                tuple(partition.replica_nodes),
                tuple(partition.isr_nodes),
            )
            for topic in answer.topics
            for partition in topic.partitions
        ]
        return sorted(found, key=lambda partition: (partition.topic, partition.partition))
    return []


def _ask_metadata(broker: BrokerRecord) -> MetadataResponse:
    """Ask one of our own brokers for all topics.

    Raises:
        OSError: it cannot be reached, or does not answer.
        RemoteProtocolError: its answer is malformed.
    """
    with _connected(broker) as connection:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        connection.sendall(encode_request(request, _METADATA_VERSION, 1, "ottla-status"))
        (size,) = _LENGTH.unpack(_receive(connection, _LENGTH.size))
        return decode_response(MetadataResponse, _METADATA_VERSION, _receive(connection, size))[1]


@contextmanager
def _connected(broker: BrokerRecord) -> Iterator[socket.socket]:
    """Connect to one of our own brokers, as `admin` where the cluster is a secured one.

    Raises:
        OSError: it cannot be reached, or refuses us.
    """
    properties = broker.path.parent / "security" / "admin.properties"
    with socket.create_connection((broker.host, broker.port), timeout=_METADATA_TIMEOUT_S) as plain:
        if not properties.exists():
            yield plain
            return
        security = client_security(read_client_properties(properties), SystemClock().wall_ms)
        if security.context is None or security.credentials is None:
            raise OSError(f"{properties} is not for SASL_SSL")
        with security.context.wrap_socket(plain, server_hostname=broker.host) as connection:
            exchange = authenticate(security.credentials, "ottla-status")
            frame = next(exchange)
            try:
                while True:
                    connection.sendall(frame)
                    (size,) = _LENGTH.unpack(_receive(connection, _LENGTH.size))
                    frame = exchange.send(_receive(connection, size))
            except StopIteration:
                yield connection


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise ConnectionResetError("the broker closed the connection")
        data += chunk
    return bytes(data)
