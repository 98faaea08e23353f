"""Ends in their own processes, and what must hold across their reports."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError


class EndProcess:
    """One end.

    Args:
        directory: The folder for its output.
        name: The name of its files.
        topic: What it consumes.
        properties: Properties of the old consumer, besides the defaults of these tests.
    """

    def __init__(self, directory: Path, name: str, topic: str, **properties: str) -> None:
        given = {
            "group.id": "billing",
            "auto.offset.reset": "smallest",
            "rebalance.backoff.ms": "100",
            "rebalance.max.retries": "200",
            "auto.commit.interval.ms": "200",
            "zookeeper.session.timeout.ms": "1000",
            **{key.replace("_", "."): value for key, value in properties.items()},
            "topic": topic,
        }
        self._out = directory / f"{name}.out"
        self._errors = directory / f"{name}.err"
        program = Path(__file__).parent / "end_process.py"
        command = [sys.executable, str(program), *(f"{key}={value}" for key, value in given.items())]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
        with self._out.open("w") as out, self._errors.open("w") as errors:
            self._process = subprocess.Popen(command, stdout=out, stderr=errors, env=environment)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events that it has reported."""
        text = self._out.read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    @property
    def owned(self) -> list[int]:
        """The partitions that it owns, by its last report."""
        for event in reversed(self.events):
            if event["event"] in ("claimed", "released"):
                return event["partitions"] if event["event"] == "claimed" else []
        return []

    @property
    def values(self) -> list[str]:
        """The values that it has consumed."""
        return [event["value"] for event in self.events if event["event"] == "consumed"]

    @property
    def consumer_id(self) -> str:
        """Its name in the group."""
        return next(event["consumer"] for event in self.events if event["event"] == "claimed")

    def signal(self, number: int) -> None:
        """Send it a signal; it must run."""
        assert self._process.poll() is None, self._errors.read_text()
        self._process.send_signal(number)

    def leave(self) -> None:
        """Make it leave its group, and wait until it has."""
        self.signal(signal.SIGTERM)
        assert self._process.wait(30) == 0, self._errors.read_text()
        assert self.events[-1]["event"] == "left"

    def close(self) -> None:
        """Kill it if it runs."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(30)


def strangers(ends: Sequence[EndProcess]) -> list[dict[str, Any]]:
    """Return the records that an end handed out after another end had claimed the partition."""
    claims: list[tuple[float, int, int]] = []
    for number, end in enumerate(ends):
        for event in end.events:
            if event["event"] == "claimed":
                claims += [(event["at"], partition, number) for partition in event["partitions"]]
    claims.sort()
    found = []
    for number, end in enumerate(ends):
        for event in end.events:
            if event["event"] == "consumed":
                before = [each for each in claims if each[1] == event["partition"] and each[0] <= event["at"]]
                if not before or before[-1][2] != number:
                    found.append(event)
    return found


class OwnerWatch:
    """Follows the znodes of a group in a real ensemble."""

    def __init__(self, zookeeper: str, group: str, topic: str) -> None:
        self._client = KazooClient(hosts=zookeeper)
        self._client.start()
        self._root = f"/consumers/{group}"
        self._topic = topic

    def owners(self) -> dict[int, str]:
        """Return the thread that owns each partition now."""
        path = f"{self._root}/owners/{self._topic}"
        if self._client.exists(path) is None:
            return {}
        found = {}
        for name in self._client.get_children(path):
            try:
                found[int(name)] = self._client.get(f"{path}/{name}")[0].decode()
            except NoNodeError:
                continue
        return found

    def offsets(self) -> dict[int, int]:
        """Return the committed offsets."""
        path = f"{self._root}/offsets/{self._topic}"
        return {
            int(name): int(self._client.get(f"{path}/{name}")[0]) for name in self._client.get_children(path)
        }

    def ids(self) -> list[str]:
        """Return the registered ends."""
        return sorted(self._client.get_children(f"{self._root}/ids"))

    def close(self) -> None:
        """End the session."""
        self._client.stop()
        self._client.close()
