"""No command waits in silence: it shows what it waits for, and names the partition at the end."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.integration.operations.operating import COMMAND, Operator

TIMEOUT_MS = 6_000


def lines_until_end(operator: Operator, command: str, *arguments: str) -> tuple[list[str], str]:
    """Run a command; return the waits that it showed while it ran, and the rest of its output."""
    servers = ("--bootstrap-server", operator.cluster.bootstrap_servers, "--timeout", str(TIMEOUT_MS))
    started = subprocess.Popen(
        [COMMAND, command, *servers, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stderr is not None
    waits = []
    rest = ""
    for line in started.stderr:
        if line.startswith("Waiting for "):
            assert started.poll() is None, "it is shown while the command waits"
            waits.append(line)
        else:
            rest += line
    assert started.stdout is not None
    rest += started.stdout.read()
    assert started.wait() == 1
    return waits, rest


@pytest.mark.parametrize("command", ["get-offsets", "delete-records", "verify-replicas"])
def test_a_partition_without_a_leader(operator: Operator, tmp_path: Path, command: str) -> None:
    topic = f"leaderless-{command}"
    operator.place(topic, (2,), (0,))
    operator.cluster.kill(2)
    operator.cluster.wait(lambda seen: seen.leader(topic, 0) == -1)
    file = tmp_path / "before.json"
    file.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": -1}]}))
    arguments = {
        "get-offsets": ("--topic", topic),
        "delete-records": ("--offset-json-file", str(file)),
        "verify-replicas": ("--topics-include", topic, "--until-end"),
    }
    waits, rest = lines_until_end(operator, command, *arguments[command])
    assert any(f"{topic}-0 has no leader" in line for line in waits), waits
    assert f"{topic}-0 has no leader" in rest.replace("\n", " ")


def test_a_broker_that_does_not_answer(operator: Operator) -> None:
    operator.place("stalled", (1,))
    record = operator.cluster.broker(1)
    # Its guardian, too, so that it does not end the broker that hangs.
    for pid in (record["guardian_pid"], record["pid"]):
        os.kill(pid, signal.SIGSTOP)
    try:
        waits, rest = lines_until_end(operator, "get-offsets", "--topic", "stalled")
    finally:
        operator.cluster.kill(1)
        # Woken, it finds its broker dead, closes the session and ends; stopped, it would outlive the tests.
        os.kill(record["guardian_pid"], signal.SIGCONT)
    assert waits
    assert "stalled-0" in rest
