"""Suggestions for a wrong name, and how durations and output styles are parsed."""

import click
import pytest
from click.testing import CliRunner

from ottla.commands.main import main
from ottla.commands.terminal.connecting import timeout_option
from ottla.commands.topics.topic_report import factor_text


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("consumer-groups", "groups"),
        ("kafka-consumer-groups.sh", "groups"),
        ("leader-election", "elect-leaders"),
        ("replica-verification", "verify-replicas"),
        ("get-offset", "get-offsets"),
        ("topic", "topics"),
        ("offsets", "get-offsets"),
    ],
)
def test_the_nearest_command_is_named(typed, meant):
    done = CliRunner().invoke(main, [typed, "--describe"])
    assert done.exit_code == 2
    assert f"Did you mean '{meant}'" in done.output


def test_nothing_is_suggested_where_nothing_is_near():
    done = CliRunner().invoke(main, ["xyzzy"])
    assert "No such command 'xyzzy'." in done.output
    assert "Did you mean" not in done.output


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["topics", "--descibe"], "--describe"),
        (["kafka-topics", "--topics", "a"], "--topic"),
        (["groups", "--all-group"], "--all-groups"),
        (["cluster", "describ"], "'describe'"),
        (["transactions", "--bootstrap-server", "a:1", "lst"], "'list'"),
    ],
)
def test_the_nearest_option_and_subcommand_are_named(arguments, meant):
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert "Did you mean" in done.output
    assert meant in done.output


@click.command()
@timeout_option
def wait(timeout_s: float) -> None:
    click.echo(f"{timeout_s:g} s")


@pytest.mark.parametrize(
    ("arguments", "seconds"),
    [
        ([], "30 s"),
        (["--timeout", "5000"], "5 s"),
        (["--timeout", "5s"], "5 s"),
        (["--timeout", "1.5m"], "90 s"),
        (["--timeout", "250ms"], "0.25 s"),
    ],
)
def test_a_timeout_is_milliseconds_unless_it_says_otherwise(arguments, seconds):
    done = CliRunner().invoke(wait, arguments)
    assert done.output == f"{seconds}\n"


def test_a_timeout_that_was_meant_as_seconds_is_pointed_out():
    done = CliRunner().invoke(wait, ["--timeout", "30"])
    assert done.stdout == "0.03 s\n"
    assert "30s means seconds" in done.stderr


@pytest.mark.parametrize("text", ["0", "-1", "soon", "5d", ""])
def test_what_is_no_timeout(text):
    done = CliRunner().invoke(wait, ["--timeout", text])
    assert done.exit_code == 2
    assert "no duration" in done.output


def test_a_range_of_replication_factors_is_written_as_one():
    assert [factor_text(factors) for factors in ([], [3, 3], [3, 1, 2])] == ["0", "3", "1 to 3"]
