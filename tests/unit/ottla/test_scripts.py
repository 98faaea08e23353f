"""Every script calls a command that exists."""

import re
from pathlib import Path

import click
import pytest

from ottla.commands.main import main

ROOT = Path(__file__).parents[3]
CALLS = re.compile(r'bin/ottla" (\S+)')
SCRIPTS = sorted(
    path for path in (ROOT / "scripts").iterdir() if path.is_file() and CALLS.search(path.read_text())
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_calls_a_command(script: Path) -> None:
    found = CALLS.search(script.read_text())
    assert found is not None
    with main.make_context("ottla", [found[1]], resilient_parsing=True) as context:
        assert isinstance(context.command, click.Group)
        assert context.command.get_command(context, found[1]) is not None, found[1]


@pytest.mark.parametrize("script", sorted((ROOT / "bin").glob("*.sh")), ids=lambda path: path.name)
def test_kafkas_name_leads_to_a_script(script: Path) -> None:
    found = re.search(r"/\.\./scripts/(\S+)\"", script.read_text())
    assert found is not None
    assert (ROOT / "scripts" / found[1]).is_file()
