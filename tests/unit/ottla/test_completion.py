"""Completion in a shell: commands, their options, and the script that asks for them."""

import subprocess
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

from ottla.commands.main import main


def completed(*words: str, incomplete: str) -> list[str]:
    complete = BashComplete(main, {}, "ottla", "_OTTLA_COMPLETE")
    return [item.value for item in complete.get_completions(list(words), incomplete)]


def test_commands() -> None:
    assert completed(incomplete="console-") == ["console-producer", "console-consumer"]
    assert "--version" in completed(incomplete="--")


def test_options_of_a_command() -> None:
    assert "--bootstrap-server" in completed("topics", incomplete="--boot")
    assert completed("completion", incomplete="z") == ["zsh"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_asks_for_them(shell: str) -> None:
    done = CliRunner().invoke(main, ["completion", shell], prog_name="ottla")
    assert done.exit_code == 0, done.output
    assert f"_OTTLA_COMPLETE={shell}_complete" in done.stdout


def test_bash_takes_the_script(tmp_path: Path) -> None:
    script = CliRunner().invoke(main, ["completion", "bash"], prog_name="ottla").stdout
    (tmp_path / "script").write_text(script)
    done = subprocess.run(
        ["bash", "-c", f"source {tmp_path}/script && complete -p ottla"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "ottla" in done.stdout
