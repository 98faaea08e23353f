"""Peers that send garbage, lie about lengths, stall, vanish or come in crowds: the broker and others live on."""

import random
import resource
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.testing import Cluster
from tests.conftest import Topics
from tests.patience import until
from tests.raw_client import RawClient
from wire.apis import API_TABLE, ApiKey
from wire.frames import encode_request
from wire.messages.api_versions import ApiVersionsRequest
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

TOPIC = "bystander"
VALUE = bytes(1000)
SEED = 20_240_917
CROWD = 2_000
MEGABYTE = 1 << 20
TIMEOUT_S = 20
COMMANDS = {ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN}
"""Requests of controllers and brokers: a broker believes a well-formed one, even if it is false."""


class Bystander:
    """A client that produces all the while, and requires every acknowledgement."""

    def __init__(self, bootstrap: str) -> None:
        self.errors: list[str] = []
        self.acknowledged = 0
        self._stop = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "retries": 0, "linger.ms": 1}
        )
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Bystander":
        self._thread.start()
        self.wait_progress()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def wait_progress(self) -> None:
        """Wait until records sent from now on are acknowledged."""
        wanted = self.acknowledged + 50
        until(lambda: self.errors or self.acknowledged >= wanted)
        assert self.errors == []

    def _run(self) -> None:
        while not self._stop.is_set():
            self._producer.produce(TOPIC, VALUE, on_delivery=self._told)
            self._producer.poll(0.005)
        self._producer.flush(TIMEOUT_S)

    def _told(self, error, message) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.errors.append(str(error))


class Attacked:
    """The broker under attack."""

    def __init__(self, cluster: Cluster, bystander: Bystander) -> None:
        self.address = cluster.bootstrap_servers
        self._bystander = bystander
        self._pid = int(cluster.broker(0)["pid"])
        self._log = Path(cluster.broker(0)["directory"]) / "broker.log"
        self._cluster = cluster

    def connect(self) -> socket.socket:
        host, port = self.address.rsplit(":", 1)
        return socket.create_connection((host, int(port)), timeout=TIMEOUT_S)

    def check(self) -> None:
        """Check that the broker lives, and serves old and new clients."""
        self._bystander.wait_progress()
        with RawClient(self.address) as client:
            assert client.ask(ApiVersionsRequest(), 0).error_code == 0
        assert self._cluster.view().descriptions[0]["pid"] == self._pid
        assert "Traceback" not in self._log.read_text()

    def named(self, peer: tuple[str, int]) -> bool:
        """Whether the broker's log says that it closed this peer's connection."""
        return f"Closing the connection of {peer[0]}:{peer[1]} " in self._log.read_text()

    @property
    def connections(self) -> int:
        return int(self._cluster.view().descriptions[0]["connections"])

    @property
    def memory(self) -> int:
        """Resident bytes of the broker's process."""
        for line in Path(f"/proc/{self._pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("the broker is gone")


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    with Cluster.up(tmp_path_factory.mktemp("attacked") / "data", brokers=1) as cluster:
        Topics(cluster.bootstrap_servers).create([TOPIC], 1, 1)
        with Bystander(cluster.bootstrap_servers) as bystander:
            yield Attacked(cluster, bystander)
        assert bystander.errors == []


@pytest.fixture(autouse=True)
def survives(attacked: Attacked) -> Iterator[None]:
    yield
    attacked.check()


def header(key: int, version: int) -> bytes:
    return struct.pack(">hhih", key, version, 1, -1)


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def is_cut_off(peer: socket.socket) -> bool:
    try:
        return peer.recv(1) == b""
    except ConnectionResetError:
        return True


GARBAGE = {
    "a negative length": struct.pack(">i", -1),
    "the most negative length": struct.pack(">i", -(1 << 31)),
    "a length of 2 GB": struct.pack(">i", (1 << 31) - 1) + bytes(100),
    "no length": struct.pack(">i", 0),
    "a frame shorter than a header": framed(b"abc"),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(range(200)),
    "an unknown API": framed(header(999, 0)),
    "a negative API": framed(header(-5, 0)),
    "an unknown version": framed(header(ApiKey.METADATA, 99)),
    "a negative version": framed(header(ApiKey.METADATA, -1)),
    "a client id past the end": framed(struct.pack(">hhih", ApiKey.METADATA, 1, 1, 5_000)),
    "a client id that is not UTF-8": framed(struct.pack(">hhih", ApiKey.METADATA, 1, 1, 2) + b"\xc3\x28"),
    "a count of two billion": framed(header(ApiKey.METADATA, 1) + struct.pack(">i", (1 << 31) - 1)),
    "a negative count": framed(header(ApiKey.PRODUCE, 3) + struct.pack(">hhii", -1, 1, 1000, -7)),
}


@pytest.mark.parametrize("case", GARBAGE)
def test_garbage_is_cut_off_and_its_sender_named(attacked: Attacked, case: str) -> None:
    with attacked.connect() as peer:
        peer.sendall(GARBAGE[case])
        assert is_cut_off(peer)
        assert attacked.named(peer.getsockname())


def test_random_bytes(attacked: Attacked) -> None:
    rng = random.Random(SEED)
    for _ in range(200):
        with attacked.connect() as peer:
            peer.sendall(framed(rng.randbytes(rng.randrange(1, 200))) + rng.randbytes(20))
            peer.shutdown(socket.SHUT_WR)
            while peer_says(peer):
                pass


def peer_says(peer: socket.socket) -> bytes:
    try:
        return peer.recv(65536)
    except ConnectionResetError:
        return b""


def served(attacked: Attacked) -> list[tuple[int, int]]:
    with RawClient(attacked.address) as client:
        answer = client.ask(ApiVersionsRequest(), 0)
    return [(one.api_key, v) for one in answer.api_keys for v in range(one.min_version, one.max_version + 1)]


def test_every_api_with_bodies_cut_short_and_changed(attacked: Attacked) -> None:
    rng = random.Random(SEED)
    for key, version in served(attacked):
        whole = bytes(encode_request(API_TABLE[key].request(), version, 1, "hostile"))[4:]
        bodies = [whole[:cut] for cut in {len(whole) - 1, len(whole) // 2, 10}]
        if key not in COMMANDS:
            body = bytearray(whole)
            for _ in range(3):
                body[rng.randrange(8, len(body))] = rng.choice([0, 0x7F, 0x80, 0xFF])
            bodies += [bytes(body), whole[:17] + rng.randbytes(100)]
        for body in bodies:
            with attacked.connect() as peer:
                # The peer half-closes after it: answered or not, the broker has to close the connection.
                peer.sendall(framed(body))
                peer.shutdown(socket.SHUT_WR)
                while peer_says(peer):
                    pass


def test_lengths_take_no_memory_before_their_bytes_come(attacked: Attacked) -> None:
    before = attacked.memory
    with ExitStack() as stack:
        for _ in range(50):
            peer = stack.enter_context(attacked.connect())
            peer.sendall(struct.pack(">i", 100 * MEGABYTE) + b"x" * 100)
        attacked.check()
        assert attacked.memory - before < 64 * MEGABYTE


def test_peers_that_stall_in_the_midst_of_a_request(attacked: Attacked) -> None:
    frame = bytes(encode_request(ApiVersionsRequest(), 0, 1, "slow"))
    with ExitStack() as stack:
        peers = [stack.enter_context(attacked.connect()) for _ in range(200)]
        for byte in frame[:-1]:
            for peer in peers:
                peer.sendall(bytes([byte]))
        attacked.check()


def test_a_peer_that_asks_and_never_reads(attacked: Attacked) -> None:
    before = attacked.memory
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=MEGABYTE)
    request = FetchRequest(max_bytes=MEGABYTE, topics=[FetchTopic(topic=TOPIC, partitions=[wanted])])
    frame = bytes(encode_request(request, 11, 1, "deaf"))
    with ExitStack() as stack:
        for _ in range(5):
            peer = stack.enter_context(attacked.connect())
            peer.settimeout(0.05)
            try:
                for _ in range(2_000):
                    peer.sendall(frame)
            except TimeoutError:
                pass  # the broker has stopped reading from it
        attacked.check()
        assert attacked.memory - before < 64 * MEGABYTE


def test_peers_that_vanish(attacked: Attacked) -> None:
    before = attacked.connections
    frame = bytes(encode_request(ApiVersionsRequest(), 0, 1, "gone"))
    for number in range(200):
        peer = attacked.connect()
        peer.sendall(frame[: number % len(frame)] if number % 2 else frame)
        # A reset instead of a clean close.
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
    until(lambda: attacked.connections <= before)


def test_a_crowd(attacked: Attacked) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, CROWD + 1_000)), hard))
    before = attacked.connections
    with ExitStack() as stack:
        peers = [stack.enter_context(attacked.connect()) for _ in range(CROWD)]
        until(lambda: attacked.connections >= before + CROWD)
        attacked.check()
        frame = bytes(encode_request(ApiVersionsRequest(), 0, 1, "crowd"))
        for peer in peers:
            peer.sendall(frame)
        for peer in peers:
            assert peer.recv(4) != b""
    until(lambda: attacked.connections <= before)
