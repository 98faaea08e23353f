"""``ottla pipeline``: Spark jobs on the cluster."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from ottla.commands.terminal.failure import CommandError, failing_on


@click.command(
    "pipeline",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(context: click.Context, arguments: tuple[str, ...]) -> None:
    """Move topics into tables and tables into topics with Spark, and check them."""
    from pipeline.command_line import run_command
    from pipeline.failure import JobError

    with failing_on(JobError):
        context.exit(run_command(arguments or ("--help",), demo_cluster))


@contextmanager
def demo_cluster(data: Path) -> Iterator[str]:
    """Run three brokers for as long as the block does, by the commands that people type.

    Raises:
        CommandError: they do not start.
    """
    from ottla.commands.local.cluster_directory import ClusterDirectory

    _ottla("up", "--detach", "--data", str(data), "--port", "0", "--zookeeper-port", "0")
    try:
        yield ClusterDirectory(data).require().bootstrap_servers
    finally:
        _ottla("stop", "--data", str(data))


def _ottla(*arguments: str) -> None:
    # In a session of its own: Ctrl-C is for the job, and the cluster outlives it.
    command = [sys.executable, "-m", "ottla", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, start_new_session=True)
    if done.returncode != 0:
        raise CommandError(done.stderr.strip().removeprefix("Error: ") or f"ottla {arguments[0]} failed")
