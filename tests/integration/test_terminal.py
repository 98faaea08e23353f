"""``ottla up`` as a person sees it: on its own terminal, with the table that follows the cluster, and Ctrl-C."""

import fcntl
import json
import os
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.processes import wait_exit
from tests.patience import WAIT_TIMEOUT_S, until

OTTLA = str(Path(sys.executable).parent / "ottla")
CTRL_C = b"\x03"
ROWS, COLUMNS = 24, 80
ON_A_TERMINAL = (
    "import fcntl, os, sys, termios; "
    "os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
"""Runs a command with its standard input as its terminal, which sends it the signals of keys."""
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A command on a terminal: what is typed, and what has been shown."""

    def __init__(self, *command: str | Path) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-c", ON_A_TERMINAL, *map(str, command)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=os.environ | {"TERM": "xterm"},
        )
        os.close(slave)
        self._shown = ""

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._master, keys)

    def wait_shown(self, pattern: str) -> re.Match[str]:
        """Wait until a text is shown after the last such wait; older output does not count."""
        found: list[re.Match[str]] = []

        def is_shown() -> bool:
            self._read()
            match = re.search(pattern, self._shown)
            if match is not None:
                self._shown = self._shown[match.end() :]
                found.append(match)
            return match is not None

        until(is_shown)
        return found[0]

    def exit_code(self) -> int:
        """Wait for the command's end."""

        def has_ended() -> bool:
            self._read()
            return self._process.poll() is not None

        until(has_ended)
        return self._process.wait()

    def close(self) -> None:
        """Kill the command if it still runs."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait(WAIT_TIMEOUT_S)
        os.close(self._master)

    def _read(self) -> None:
        while select.select([self._master], [], [], 0)[0]:
            try:
                data = os.read(self._master, 1 << 16)
            except OSError:
                return  # the command has ended, and its terminal with it
            self._shown += CONTROL.sub("", data.decode()).replace("\r", "")


@contextmanager
def up(data: Path, *options: str) -> Iterator[Terminal]:
    terminal = Terminal(OTTLA, "up", "--data", data, "--port", "0", "--zookeeper-port", "0", *options)
    try:
        yield terminal
    finally:
        terminal.close()
        subprocess.run([OTTLA, "stop", "--data", str(data)], check=False, capture_output=True)


def brokers(data: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads((data / "cluster.json").read_text())["brokers"]
    return found


def pids(data: Path) -> set[object]:
    return {broker["pid"] for broker in brokers(data)}


def test_the_table_follows_the_cluster_and_ctrl_c_stops_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with up(data, "--brokers", "4") as terminal:
        servers = ",".join(f"127.0.0.1:{broker}" for broker in (r"\d+",) * 4)
        line = terminal.wait_shown(f"bootstrap servers ({servers})\n")
        assert len(line[0]) > COLUMNS, "shown whole, though the table has no room for it"
        assert line[1] == ",".join(f"{broker['host']}:{broker['port']}" for broker in brokers(data))
        controller = terminal.wait_shown(r"(\d) ◆ controller +running")[1]
        subprocess.run(
            [
                *(OTTLA, "topics", "--bootstrap-server", line[1], "--create", "--topic", "shown"),
                *("--partitions", "1", "--replication-factor", "4"),
            ],
            check=True,
            capture_output=True,
        )
        terminal.wait_shown(
            r"Topic +Partition +Leader +Epoch +Replicas +ISR *\nshown +0 +\d +\d+ +[\d,]{7} +[\d,]{7}"
        )
        subprocess.run([OTTLA, "kill", "--data", str(data), controller], check=True)
        terminal.wait_shown(rf"{controller} +stopped")
        terminal.wait_shown(rf"(?!{controller})\d ◆ controller +running")
        terminal.wait_shown(r"shown +0 +\d +\d+ +[\d,]{7} +\d,\d,\d\n")
        running = [broker["pid"] for broker in brokers(data) if broker["pid"] is not None]
        assert len(running) == 3
        terminal.type(CTRL_C)
        terminal.wait_shown("Stopping; Ctrl-C again kills the brokers.")
        assert terminal.exit_code() == 0
    assert all(isinstance(pid, int) and wait_exit(pid, 0) for pid in running)
    assert pids(data) == {None}
    for broker_id in set(range(4)) - {int(controller)}:
        assert "the broker has stopped" in (data / f"broker-{broker_id}" / "broker.log").read_text()


def test_ctrl_c_twice_leaves_nothing_running(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with up(data, "--brokers", "1") as terminal:
        terminal.wait_shown(r"0 ◆ controller +running")
        terminal.type(CTRL_C)
        terminal.wait_shown("Stopping")
        terminal.type(CTRL_C)
        # It may have stopped cleanly before the second signal arrived.
        assert terminal.exit_code() in (0, 1)
    assert pids(data) == {None}
    assert json.loads((data / "cluster.json").read_text())["zookeeper_pid"] is None


@pytest.mark.parametrize("waits_for", ["server.properties", "broker.log"])
def test_ctrl_c_while_it_starts_leaves_nothing_running(tmp_path: Path, waits_for: str) -> None:
    data = tmp_path / "data"
    with up(data, "--brokers", "2") as terminal:
        until((data / "broker-1" / waits_for).exists)
        terminal.type(CTRL_C)
        assert terminal.exit_code() in (0, 1)
    assert pids(data) == {None}
    assert json.loads((data / "cluster.json").read_text())["zookeeper_pid"] is None
