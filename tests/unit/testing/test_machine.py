"""What tests need on the machine: found by fixtures and marks, reported if missing, installed if possible."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests import machine
from tests.machine import NEEDS, NEEDS_OF_FIXTURES, ROOT, Installer, Need, missing_needs, needs_of

TOOL = "a-program-that-no-machine-has"


@pytest.fixture
def needs(monkeypatch) -> dict[str, Need]:
    """Two needs that no machine meets, and one that every machine does."""
    lacks = {
        "tool": Need(lambda: f"no {TOOL}", "apt install tool", {TOOL: "tool"}),
        "engine": Need(lambda: "no engine", "start it", {}, [["start"], ["pull"]], [["stop"]], as_root=True),
        "python": Need(lambda: None, "", {"sh": "dash"}, [["never"]]),
    }
    monkeypatch.setattr(machine, "NEEDS", lacks)
    return lacks


class Runs:
    def __init__(self, *fails: str) -> None:
        self.commands: list[str] = []
        self._fails = fails

    def __call__(self, command) -> int:
        self.commands.append(" ".join(command))
        return 1 if any(fail in self.commands[-1] for fail in self._fails) else 0


def as_user(monkeypatch, number: int, *, programs: tuple[str, ...]) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: number)
    monkeypatch.setattr(shutil, "which", lambda program: f"/bin/{program}" if program in programs else None)


def test_a_tests_needs_are_those_of_its_fixtures_and_marks() -> None:
    assert needs_of(["tmp_path", "kafka_java"], ["kcat"]) == {"Apache Kafka", "JDK", "kcat"}
    assert needs_of(["tmp_path"], []) == frozenset()
    with pytest.raises(ValueError, match="there is no need 'kafkacat'; there are JDK, "):
        needs_of([], ["kafkacat"])


def test_every_fixture_of_the_table_exists_and_has_needs_that_exist() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    for fixture, names in NEEDS_OF_FIXTURES.items():
        assert re.search(rf"@pytest\.fixture[^\n]*\ndef {fixture}\(", sources), fixture
        assert set(names) <= NEEDS.keys()


def test_a_missing_need_is_named_with_its_remedy(needs) -> None:
    assert missing_needs(needs) == {"tool": f"no {TOOL}: apt install tool", "engine": "no engine: start it"}


def test_root_installs_what_is_missing_after_a_line_that_says_what(needs, monkeypatch) -> None:
    as_user(monkeypatch, 0, programs=("apt-get", "sh"))
    said, runs = [], Runs()
    installer = Installer(said.append, runs)
    installer.install(needs)
    apt = "env DEBIAN_FRONTEND=noninteractive apt-get"
    assert runs.commands == [
        f"{apt} update -qq",
        f"{apt} install -y -qq --no-install-recommends tool",
        "start",
        "pull",
    ]
    assert said[0] == "installing for the tests: tool"
    runs.commands.clear()
    installer.close()
    installer.close()
    assert runs.commands == ["stop"]


def test_sudo_stands_in_for_root(needs, monkeypatch) -> None:
    as_user(monkeypatch, 1000, programs=("apt-get", "sudo"))
    runs = Runs()
    Installer(lambda line: None, runs).install(needs)
    assert runs.commands[0] == "sudo --non-interactive true"
    assert all(command.startswith("sudo --non-interactive ") for command in runs.commands)
    assert runs.commands[-1] == "sudo --non-interactive pull"


@pytest.mark.parametrize("programs", [("apt-get",), ("apt-get", "sudo")])
def test_who_may_not_install_installs_nothing(needs, monkeypatch, programs) -> None:
    as_user(monkeypatch, 1000, programs=programs)
    said, runs = [], Runs("sudo")
    Installer(said.append, runs).install(needs)
    assert runs.commands in ([], ["sudo --non-interactive true"])
    assert said == []


def test_a_command_that_fails_ends_the_installation_of_its_need(needs, monkeypatch) -> None:
    as_user(monkeypatch, 0, programs=("apt-get", "sh"))
    runs = Runs("update", "start")
    Installer(lambda line: None, runs).install(needs)
    assert [command.rpartition(" ")[2] for command in runs.commands] == ["-qq", "start"]


def run_kcats_tests(*options: str, tmp_path) -> subprocess.CompletedProcess[str]:
    """Collect the tests of kcat on a machine that has none."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q", *options]
    environment = {**os.environ, "PATH": str(tmp_path)}
    return subprocess.run(
        [*command, "tests/compat/test_kcat.py"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_is_not_run_is_named_at_the_beginning_and_at_the_end(tmp_path) -> None:
    done = run_kcats_tests("-v", tmp_path=tmp_path)
    lines = re.findall(
        r"^not run: \d+ that need kcat \(no kcat on the PATH: apt install kcat\)$", done.stdout, re.M
    )
    assert len(lines) == 2, done.stdout + done.stderr
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_complete_run_refuses_to_leave_tests_out(tmp_path) -> None:
    done = run_kcats_tests("--complete", tmp_path=tmp_path)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "that need kcat" in done.stderr
