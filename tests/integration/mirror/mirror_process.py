"""The mirror as a process of its own, and both clusters' records beside each other."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import trio

from ottla.client import EARLIEST, LATEST, READ_COMMITTED, Kafka, connect
from ottla.client.offset_lookup import look_up
from wire.types import TopicPartition

Row = tuple[bytes | None, bytes | None, int, tuple]
"""Key, value, timestamp and headers."""


class Mirror:
    """Runs ``ottla mirror-maker`` between two clusters.

    Args:
        directory: The folder for its property files.
        source: The source's address.
        target: The target's address.
        arguments: Its flags.
    """

    def __init__(self, directory: Path, source: str, target: str, *arguments: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "source").write_text(
            f"bootstrap.servers={source}\ngroup.id=mirror\nauto.offset.reset=earliest\n"
        )
        (directory / "target").write_text(f"bootstrap.servers={target}\n")
        self.command = [
            sys.executable,
            "-m",
            "ottla",
            "mirror-maker",
            "--consumer.config",
            str(directory / "source"),
        ]
        self.command += ["--producer.config", str(directory / "target"), *arguments]
        self._log = directory / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin to mirror."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self.command, stdout=log, stderr=log)

    def kill(self) -> None:
        """Kill it, as a crash would; it must have run until then."""
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        self._process.kill()
        self._process.wait(30)

    def run_to_end(self) -> Mapping[str, int]:
        """Mirror until the target has everything; return the counts that it printed."""
        done = subprocess.run(
            [*self.command, "--exit-at-end", "--json"],
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        assert done.returncode == 0, done.stderr + (self._log.read_text() if self._log.exists() else "")
        found: Mapping[str, int] = json.loads(done.stdout)
        return found


async def rows_of(kafka: Kafka, topic: str) -> dict[int, list[tuple[int, Row]]]:
    """Return the committed records of a topic, with their offsets, by partition."""
    found: dict[int, list[tuple[int, Row]]] = {}
    async with kafka.reader(topic, start=EARLIEST, stop=LATEST, isolation=READ_COMMITTED) as reader:
        async for batch in reader:
            rows = found.setdefault(batch.partition, [])
            rows.extend(
                (each.offset, (each.raw_key, each.raw_value, each.timestamp, tuple(each.headers)))
                for each in batch
            )
    return found


async def wait_end(servers: str, topic: str, count: int) -> int:
    """Wait until a topic's ends add up to a number at least, and return their sum."""
    async with connect(servers) as kafka:
        while True:
            partitions = (await kafka.context.refresh.topic(topic, 60.0)).partitions
            places = {TopicPartition(topic, number): LATEST for number in range(len(partitions))}
            ends = await look_up(kafka.context, places, 0)
            if (total := sum(offset for offset, _ in ends.values())) >= count:
                return total
            await trio.sleep(0.05)
