"""``ottla pipeline``: Spark jobs on the cluster."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ottla.commands.terminal.failure import CommandError, failing_on
from pipeline.command_line import JobCommands
from pipeline.failure import JobError


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


class _PipelineCommands(JobCommands):
    def invoke(self, ctx: click.Context) -> Any:
        with failing_on(JobError):
            return super().invoke(ctx)


command = _PipelineCommands(
    "pipeline", "Move topics into tables and tables into topics with Spark, and check them.", demo_cluster
)
