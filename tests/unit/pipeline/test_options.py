"""A job's command line, derived from its configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import click
import pytest
from click.testing import CliRunner

from pipeline.click_options import config_from, options_of
from pipeline.command_line import JobCommands
from pipeline.driver import run_job
from pipeline.failure import JobError
from pipeline.job import JOBS, load_job
from pipeline.options import about, arguments_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    name: str = field(metadata=about("A name, 100% needed."))
    topic: tuple[str, ...] = field(default=(), metadata=about("Topics."))
    setting: Mapping[str, str] = field(default_factory=dict, metadata=about("Settings."))
    rate: int | None = field(default=None, metadata=about("A rate."))
    wait_s: float = field(default=1.5, metadata=about("Seconds."))
    once: bool = field(default=True, metadata=about("Once."))
    kind: str = field(default="a", metadata=about("A kind.", choices=("a", "b")))


def parse(*arguments: str) -> Config:
    command = click.Command("job", params=[*options_of(Config)])
    context = command.make_context("job", list(arguments))
    command.get_help(context)
    return config_from(Config, context.params)


def test_defaults_and_values() -> None:
    assert parse("--name", "n") == Config(name="n")
    given = ("--name", "n", "--topic", "x", "--topic", "y", "--setting", "k=a=b", "--rate", "3", "--no-once")
    assert parse(*given) == Config(name="n", topic=("x", "y"), setting={"k": "a=b"}, rate=3, once=False)


def test_a_configuration_says_its_command_line() -> None:
    config = Config(name="n", topic=("x",), setting={"k": "v"}, rate=7, wait_s=0.5, once=False, kind="b")
    assert parse(*arguments_of(config)) == config


def test_what_is_no_pair_is_refused_by_name() -> None:
    with pytest.raises(click.BadParameter, match="'oops' is not KEY=VALUE") as refused:
        parse("--name", "n", "--setting", "oops")
    assert "'--setting'" in refused.value.format_message()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), click.MissingParameter),
        (("--name", "n", "--rate", "x"), click.BadParameter),
        (("--name", "n", "--kind", "c"), click.BadParameter),
        (("--name", "n", "--setti", "k=v"), click.NoSuchOption),
        (("--name", "n", "more"), click.UsageError),
    ],
)
def test_wrong_options_are_refused(arguments, error) -> None:
    with pytest.raises(error):
        parse(*arguments)


COMMANDS = JobCommands("pipeline", "Jobs.", lambda _path: pytest.fail("no cluster is needed for help"))


@pytest.mark.parametrize("name", [*JOBS, "demo"])
def test_every_job_has_help(name: str) -> None:
    assert load_job(name).name == name
    shown = CliRunner().invoke(COMMANDS, [name, "--help"])
    assert shown.exit_code == 0, shown.output
    assert [each for each in ("The job:", "Spark:", "Options:") if each not in shown.output] == []
    assert (
        shown.output.index("--bootstrap-server")
        < shown.output.index("--master")
        < shown.output.index("--json")
    )


def test_the_jobs_are_listed() -> None:
    shown = CliRunner().invoke(COMMANDS, ["--help"])
    assert [name for name in (*JOBS, "demo") if f"  {name} " not in shown.output] == []
    assert CliRunner().invoke(COMMANDS, ["dance"]).exit_code == 2


@pytest.mark.parametrize(("arguments", "code"), [(("--help",), 0), (("--no-such",), 2), ((), 2)])
def test_a_jobs_own_process_has_the_same_options(arguments, code, capsys) -> None:
    assert run_job("ingest", arguments) == code
    said = capsys.readouterr()
    assert "--bootstrap-server" in said.out or code == 2
    assert ("Error: " in said.err) is (code == 2)


def test_an_unknown_job_is_refused() -> None:
    with pytest.raises(JobError, match="there is no job 'dance'"):
        load_job("dance")
