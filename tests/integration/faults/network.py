"""A private network on this machine: hosts in network namespaces, whose links can be cut.

    root namespace (the test)          hub namespace                  host namespaces
        10.x.y.1 ──────veth──────── bridge ──────veth────────  10.x.y.2, 10.x.y.3, ...

The bridge has a namespace of its own, because one in the root namespace passes its frames through the machine's
firewall. A cut is a rule that drops packets silently, as a cut cable does: connections stay open and hang.
"""

import atexit
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

_PREFIX = "ottla"


class Network:
    """Hosts on one bridge; needs root. Close it; the next test run removes what a killed one left behind."""

    def __init__(self) -> None:
        _remove_leftovers()
        self._tag = os.getpid()
        self._subnet = f"10.{180 + self._tag // 250 % 60}.{self._tag % 250}"
        self._numbers: dict[str, int] = {}
        self._hub = f"{_PREFIX}-{self._tag}-hub"
        atexit.register(self.close)
        root_link = f"ot{self._tag}"
        _run("ip", "netns", "add", self._hub)
        _run("ip", "-n", self._hub, "link", "add", "bridge", "type", "bridge")
        _run("ip", "-n", self._hub, "link", "set", "bridge", "up")
        _run("ip", "link", "add", root_link, "type", "veth", "peer", "name", "root", "netns", self._hub)
        _run("ip", "addr", "add", f"{self._root_address}/24", "dev", root_link)
        _run("ip", "link", "set", root_link, "up")
        _run("ip", "-n", self._hub, "link", "set", "root", "master", "bridge", "up")

    def add_host(self, name: str) -> str:
        """Make a host, and return its address."""
        self._numbers[name] = len(self._numbers) + 2
        namespace = self._namespace(name)
        _run("ip", "netns", "add", namespace)
        _run(
            *("ip", "-n", self._hub, "link", "add", name, "type", "veth"),
            *("peer", "name", "eth0", "netns", namespace),
        )
        _run("ip", "-n", self._hub, "link", "set", name, "master", "bridge", "up")
        _run("ip", "-n", namespace, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
        _run("ip", "-n", namespace, "link", "set", "eth0", "up")
        _run("ip", "-n", namespace, "link", "set", "lo", "up")
        return self.address(name)

    def address(self, name: str) -> str:
        """Return a host's address."""
        return f"{self._subnet}.{self._numbers[name]}"

    def on(self, name: str) -> list[str]:
        """Return the words that make a command run on a host."""
        return ["ip", "netns", "exec", self._namespace(name)]

    def cut(self, name: str, *others: str) -> None:
        """Drop everything between a host and others, in both directions."""
        for other in others:
            self._drop(name, "INPUT", "-s", other)
            self._drop(name, "OUTPUT", "-d", other)

    def cut_one_way(self, sender: str, receiver: str) -> None:
        """Drop everything from one host to another; the other direction works."""
        self._drop(sender, "OUTPUT", "-d", receiver)

    def unplug(self, name: str) -> None:
        """Cut a host off from everything."""
        _run("ip", "-n", self._hub, "link", "set", name, "down")

    def lose_packets(self, name: str, part: float) -> None:
        """Drop a random part of the packets that a host receives and sends."""
        for chain in ("INPUT", "OUTPUT"):
            chance = ("-m", "statistic", "--mode", "random", "--probability", str(part), "-j", "DROP")
            _run(*self.on(name), "iptables", "-A", chain, *chance)

    def lose_answers(self, name: str) -> None:
        """Drop what a host sends to the test's own clients, except resets; what they send arrives."""
        silent = ("-p", "tcp", "!", "--tcp-flags", "RST", "RST", "-j", "DROP")
        _run(*self.on(name), "iptables", "-A", "OUTPUT", "-d", self._root_address, *silent)

    def reset_clients(self, name: str) -> None:
        """Answer every packet from the test's own clients to a host with a reset."""
        reset = ("-p", "tcp", "-j", "REJECT", "--reject-with", "tcp-reset")
        _run(*self.on(name), "iptables", "-A", "INPUT", "-s", self._root_address, *reset)

    def resets(self, name: str) -> int:
        """Return how many packets were answered with a reset."""
        listed = _run(*self.on(name), "iptables", "-nvxL", "INPUT").splitlines()
        return sum(int(line.split()[0]) for line in listed if "REJECT" in line)

    def heal(self) -> None:
        """Undo every cut."""
        for name in self._numbers:
            _run(*self.on(name), "iptables", "-F")
            _run("ip", "-n", self._hub, "link", "set", name, "up")

    def close(self) -> None:
        """Remove the network, and end what still runs on it."""
        atexit.unregister(self.close)
        for name in self._numbers:
            _delete(self._namespace(name))
        self._numbers.clear()
        # The link into the root namespace goes with its peer.
        _run("ip", "netns", "delete", self._hub)

    @property
    def _root_address(self) -> str:
        return f"{self._subnet}.1"

    def _drop(self, name: str, chain: str, side: str, other: str) -> None:
        _run(*self.on(name), "iptables", "-A", chain, side, self.address(other), "-j", "DROP")

    def _namespace(self, name: str) -> str:
        return f"{_PREFIX}-{self._tag}-{name}"


def _remove_leftovers() -> None:
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        prefix, _, rest = line.split()[0].partition("-")
        owner = rest.partition("-")[0]
        if prefix == _PREFIX and owner.isdigit() and not Path(f"/proc/{owner}").exists():
            _delete(line.split()[0])


def _delete(namespace: str) -> None:
    for pid in _run("ip", "netns", "pids", namespace).split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    _run("ip", "netns", "delete", namespace)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout
