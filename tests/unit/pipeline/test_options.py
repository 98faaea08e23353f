"""A job's command line, read off its configuration."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from pipeline.command_line import run_command
from pipeline.failure import JobError
from pipeline.job import JOBS, load_job
from pipeline.options import about, add_options, arguments_of, config_from


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
    parser = argparse.ArgumentParser()
    add_options(parser, Config)
    parser.format_help()
    return config_from(Config, parser.parse_args(arguments))


def test_defaults_and_values() -> None:
    assert parse("--name", "n") == Config(name="n")
    given = ("--name", "n", "--topic", "x", "--topic", "y", "--setting", "k=a=b", "--rate", "3", "--no-once")
    assert parse(*given) == Config(name="n", topic=("x", "y"), setting={"k": "a=b"}, rate=3, once=False)


def test_a_configuration_says_its_command_line() -> None:
    config = Config(name="n", topic=("x",), setting={"k": "v"}, rate=7, wait_s=0.5, once=False, kind="b")
    assert parse(*arguments_of(config)) == config


def test_what_is_no_pair_is_refused_by_name() -> None:
    with pytest.raises(JobError, match="--setting 'oops' is not KEY=VALUE"):
        parse("--name", "n", "--setting", "oops")


@pytest.mark.parametrize("name", [*JOBS, "demo"])
def test_every_job_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert load_job(name).name == name
    with pytest.raises(SystemExit) as ended:
        run_command([name, "--help"], lambda _path: pytest.fail("no cluster is needed for help"))
    assert ended.value.code == 0
    assert "--bootstrap-server" in capsys.readouterr().out


def test_an_unknown_job_is_refused() -> None:
    with pytest.raises(JobError, match="there is no job 'dance'"):
        load_job("dance")
