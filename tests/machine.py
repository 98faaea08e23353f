"""What tests need on the machine besides Python: reported where it is missing, and installed on request.

A test names its needs by its fixtures (`NEEDS_OF_FIXTURES`) or by the mark `needs`. If one of them is not met the test
is not run, and one line for each need says so before the first test and after the last. ``--install-needs``, which
`make test` passes, installs what is missing first; with ``--complete`` a need that stays missing is an error.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
KAFKA_LIBS = Path(os.environ.get("OTTLA_KAFKA_LIBS", ROOT / ".cache" / "kafka-libs"))
DOCKER_ENGINE = ROOT / "tests" / "integration" / "docker" / "start-engine"

_ZOOKEEPERS = ("zookeeper:3.9", "ottla-local/zookeeper")

NEEDS_OF_FIXTURES: Mapping[str, Sequence[str]] = {
    "kafka_libs": ("Apache Kafka",),
    "kafka_java": ("Apache Kafka", "JDK"),
    "old_kafka_java": ("Apache Kafka", "Apache Kafka's old consumer", "JDK"),
    "make_group": ("kcat",),
    "harmed_cluster": ("root", "network tools"),
    "disks": ("root",),
    "small_disk": ("root",),
}


@dataclass(frozen=True)
class Need:
    """Something that the machine has or has not.

    Attributes:
        missing: Returns what is missing, or None.
        remedy: What a developer can do about it.
        packages: The Debian package that brings each program, by program.
        commands: Run after the packages are installed, to install the rest.
        after: Run after the tests, if `commands` were.
        as_root: Whether the commands need root.
    """

    missing: Callable[[], str | None]
    remedy: str
    packages: Mapping[str, str] = field(default_factory=dict)
    commands: Sequence[Sequence[str]] = ()
    after: Sequence[Sequence[str]] = ()
    as_root: bool = False


def _lacks_programs(*programs: str) -> Callable[[], str | None]:
    def missing() -> str | None:
        absent = [program for program in programs if shutil.which(program) is None]
        return f"no {', no '.join(absent)} on the PATH" if absent else None

    return missing


def _lacks_kafka() -> str | None:
    return None if list(KAFKA_LIBS.glob("kafka-clients-*.jar")) else f"no jars in {KAFKA_LIBS}"


def _lacks_old_consumer() -> str | None:
    folder = KAFKA_LIBS / "old-consumer"
    return None if list(folder.glob("kafka_2.11-*.jar")) else f"no jars in {folder}"


def _lacks_root() -> str | None:
    return None if os.geteuid() == 0 else "the tests run as another user"


def _lacks_docker() -> str | None:
    if shutil.which("docker") is None:
        return "no docker on the PATH"
    done = subprocess.run(["docker", "info"], capture_output=True, check=False)
    if done.returncode != 0:
        return "no Docker engine answers"
    images = (
        subprocess.run(["docker", "image", "inspect", name], capture_output=True, check=False)
        for name in _ZOOKEEPERS
    )
    return None if any(image.returncode == 0 for image in images) else "no image of ZooKeeper"


_JDK = "openjdk-17-jdk-headless"

NEEDS: Mapping[str, Need] = {
    "JDK": Need(_lacks_programs("java", "javac"), f"apt install {_JDK}", {"javac": _JDK}),
    "Apache Kafka": Need(
        _lacks_kafka,
        "apt install maven, then make install",
        {"mvn": "maven", "javac": _JDK},
        [["make", "--silent", ".cache/kafka-libs/.fetched"]],
    ),
    "Apache Kafka's old consumer": Need(
        _lacks_old_consumer,
        "apt install maven, then make install",
        {"mvn": "maven", "javac": _JDK},
        [["make", "--silent", ".cache/kafka-libs/.fetched"]],
    ),
    "kcat": Need(_lacks_programs("kcat"), "apt install kcat", {"kcat": "kcat"}),
    "network tools": Need(
        _lacks_programs("ip", "iptables"), "apt install iproute2 iptables", {"ip": "iproute2", "iptables": "iptables"}
    ),
    "root": Need(_lacks_root, "run the tests as root: they make network namespaces and mount small file systems"),
    "Docker": Need(
        _lacks_docker,
        "pull python:3.12-slim and zookeeper:3.9, or run tests/integration/docker/start-engine as root",
        {},
        [[str(DOCKER_ENGINE)]],
        [[str(DOCKER_ENGINE), "stop"]],
        as_root=True,
    ),
}  # fmt: skip


def needs_of(fixtures: Iterable[str], marked: Iterable[str]) -> frozenset[str]:
    """Return the names of a test's needs.

    Raises:
        ValueError: a mark names an unknown need.
    """
    found = {need for fixture in fixtures for need in NEEDS_OF_FIXTURES.get(fixture, ())} | set(marked)
    unknown = sorted(found - NEEDS.keys())
    if unknown:
        raise ValueError(f"there is no need {unknown[0]!r}; there are {', '.join(NEEDS)}")
    return frozenset(found)


def missing_needs(wanted: Iterable[str]) -> dict[str, str]:
    """Return what is missing, with its remedy, by need."""
    found = {name: (NEEDS[name].missing(), NEEDS[name].remedy) for name in sorted(wanted)}
    return {name: f"{missing}: {remedy}" for name, (missing, remedy) in found.items() if missing is not None}


class Installer:
    """Installs needs on Debian, as root or through a sudo that asks for no password.

    Args:
        say: Shows a line to the developer.
        run: Runs a command and returns its exit code.
    """

    def __init__(self, say: Callable[[str], None], run: Callable[[Sequence[str]], int]) -> None:
        self._say = say
        self._run = run
        self._after: list[Sequence[str]] = []

    def install(self, wanted: Iterable[str]) -> None:
        """Install what is missing, after a line that announces each step; what fails stays missing."""
        missing = [NEEDS[name] for name in missing_needs(wanted)]
        lacking = [(program, package) for need in missing for program, package in need.packages.items()]
        packages = sorted({package for program, package in lacking if shutil.which(program) is None})
        root = self._root_prefix()
        if packages and root is not None and shutil.which("apt-get"):
            self._say(f"installing for the tests: {' '.join(packages)}")
            apt = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
            if self._run([*apt, "update", "-qq"]) == 0:
                self._run([*apt, "install", "-y", "-qq", "--no-install-recommends", *packages])
        for need in missing:
            if need.missing() is None or (need.as_root and root is None):
                continue
            prefix = root if need.as_root and root else []
            for command in need.commands:
                self._say(f"installing for the tests: {' '.join(command)}")
                if self._run([*prefix, *command]) != 0:
                    break
            self._after += [[*prefix, *command] for command in need.after]

    def close(self) -> None:
        """End what the installation started."""
        for command in self._after:
            self._run(command)
        self._after.clear()

    def _root_prefix(self) -> list[str] | None:
        """Return the words that run a command as root; None if there is no way."""
        if os.geteuid() == 0:
            return []
        if shutil.which("sudo") and self._run(["sudo", "--non-interactive", "true"]) == 0:
            return ["sudo", "--non-interactive"]
        return None


def run_quietly(command: Sequence[str]) -> int:
    """Run a command whose output matters only if it fails."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print((done.stdout + done.stderr)[-2000:])
    return done.returncode
