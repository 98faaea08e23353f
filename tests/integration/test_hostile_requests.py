"""Hostile and huge requests to a real broker: nobody else waits for them, and its memory stays what it was.

Here a sample of the cases of `tests.hostile_requests` is sent. To send all of them, which takes a quarter of an hour:

    python -m tests.integration.test_hostile_requests [API ...]
"""

import socket
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import pytest

from ottla.management_client import ManagementClient
from ottla.testing import Cluster
from tests.hostile_requests import Case, cases
from wire.apis import API_TABLE, ApiKey
from wire.frames import encode_request
from wire.messages.api_versions import ApiVersionsRequest

TURN_MS: Final = 100.0
MEMORY_BYTES: Final = 256 << 20
STRIDE: Final = 6
ANSWER_S: Final = 0.1
"""How long a stranger waits for an answer: some requests are allowed to wait."""
TRIES: Final = 3
"""On a busy machine a turn includes the wait for a processor."""
SETTINGS: Final = {"ottla.peer.timeout.ms": "0", "ottla.hang.timeout.ms": "60000"}
LAST: Final = {
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ALTER_PARTITION,
}
"""Requests that only brokers send: a broker that believes them does not serve clients as before."""


class Victim:
    """A broker, a stranger who sends to it, and a bystander who waits."""

    def __init__(self, cluster: Cluster) -> None:
        record = cluster.broker(0)
        self._pid = record["pid"]
        self._address = ("127.0.0.1", int(cluster.bootstrap_servers.rpartition(":")[2]))
        self._management = ManagementClient(Path(record["directory"]) / "management.sock", timeout_s=120)
        self._management.__enter__()
        self._bystander = self._connect(120)
        self.turn_ms()

    def close(self) -> None:
        self._management.__exit__(None, None, None)
        self._bystander.close()

    def send(self, case: Case) -> float:
        """Send a case; return the longest turn of the broker's loop in ms, once a bystander was answered."""
        with self._connect(ANSWER_S) as stranger:
            try:
                stranger.sendall(case.frame)
                stranger.recv(1 << 16)
            except (TimeoutError, ConnectionError):
                pass  # it waits, which is allowed, or was cut off
            self.ask_aside()
        return self.turn_ms()

    def ask_aside(self) -> None:
        """Send the bystander's request, and wait for its answer."""
        ask = encode_request(ApiVersionsRequest(), 0, 7, "bystander")
        self._bystander.sendall(ask)
        size = int.from_bytes(self._receive(4), "big")
        assert self._receive(size)[:4] == (7).to_bytes(4, "big")

    def turn_ms(self) -> float:
        taken: float = self._management.call("longest_turn")["ms"]
        return taken

    def memory_bytes(self) -> int:
        """Return the broker's resident memory."""
        fields = Path(f"/proc/{self._pid}/statm").read_text().split()
        return int(fields[1]) * 4096

    def _connect(self, timeout_s: float) -> socket.socket:
        return socket.create_connection(self._address, timeout=timeout_s)

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._bystander.recv(size - len(data))
            assert more, "the bystander was cut off"
            data += more
        return data


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    data = tmp_path_factory.mktemp("hostile")
    with Cluster.up(data / "cluster", brokers=1, overrides=SETTINGS) as cluster:
        victim = Victim(cluster)
        try:
            yield victim
        finally:
            victim.close()


def sample() -> Iterator[Case]:
    """Return some cases of the newest version of each request, different ones for each; brokers' requests last."""
    for number, api in enumerate(sorted(API_TABLE.values(), key=lambda api: api.key in LAST)):
        yield from islice(cases(api, api.max_version), number % STRIDE, None, STRIDE)


def test_nobody_waits_for_a_hostile_request(victim: Victim) -> None:
    before = victim.memory_bytes()
    sent = 0
    for case in sample():
        sent += 1
        shortest = victim.send(case)
        for _ in range(TRIES - 1):
            if shortest > TURN_MS:
                shortest = min(shortest, victim.send(case))
        assert shortest <= TURN_MS, f"{case} holds the loop for {shortest:.0f} ms"
    assert sent > 100
    assert victim.memory_bytes() - before < MEMORY_BYTES


def main() -> int:
    """Send everything, and print the cases that hold the loop for too long; return their number."""
    wanted = set(sys.argv[1:])
    slow: list[tuple[float, str]] = []
    with (
        tempfile.TemporaryDirectory() as data,
        Cluster.up(Path(data) / "cluster", brokers=1, overrides=SETTINGS) as cluster,
    ):
        victim = Victim(cluster)
        before = victim.memory_bytes()
        for api in sorted(API_TABLE.values(), key=lambda api: api.key in LAST):
            if wanted and api.name not in wanted:
                continue
            worst, worst_case = 0.0, ""
            for version in range(api.min_version, api.max_version + 1):
                for case in cases(api, version):
                    turn = victim.send(case)
                    worst, worst_case = max((worst, worst_case), (turn, str(case)))
                    if turn > TURN_MS:
                        slow.append((turn, str(case)))
            memory = victim.memory_bytes() >> 20
            sys.stdout.write(f"{api.name:30} {worst:8.1f} ms  {memory:6} MiB  {worst_case}\n")
            sys.stdout.flush()
        sys.stdout.write(f"memory: {before >> 20} MiB before, {victim.memory_bytes() >> 20} MiB after\n")
        victim.close()
    for turn, what in sorted(slow, reverse=True):
        sys.stdout.write(f"{turn:8.1f} ms  {what}\n")
    return len(slow)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
