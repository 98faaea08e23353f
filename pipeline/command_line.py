"""``ottla pipeline <job> ...``: reads the options of Spark and of the job, and submits it."""

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from pipeline.click_options import SectionedCommand, config_from
from pipeline.job import JOBS, Job, load_job
from pipeline.options import arguments_of
from pipeline.report import as_text
from pipeline.spark_submit import SparkOptions, run_submitted

_LINES: Final = {**JOBS, "demo": "Three brokers, a year of flights, every job."}

MakeCluster = Callable[[Path], AbstractContextManager[str]]


class JobCommands(click.Group):
    """One command for each job; a job's module is imported when its command is called.

    A command exits with the job's code; it raises `JobError` if the job cannot be submitted or ends without a reason.

    Args:
        make_cluster: Starts a cluster in a directory, yields its bootstrap servers, and stops it: for the demo.
    """

    def __init__(self, name: str, text: str, make_cluster: MakeCluster) -> None:
        super().__init__(name, help=text)
        self._make_cluster = make_cluster

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of the jobs."""
        return list(_LINES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return the command of a job, None if there is none."""
        if cmd_name not in _LINES:
            return None
        job = load_job(cmd_name)
        return SectionedCommand(
            cmd_name,
            {"The job": job.config, "Spark": SparkOptions},
            [
                click.Option(
                    ["--json", "as_json"], is_flag=True, help="Print the messages as JSON, one a line."
                )
            ],
            help=_LINES[cmd_name],
            callback=partial(_run, job, self._make_cluster),
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the jobs without importing them."""
        with formatter.section("Jobs"):
            formatter.write_dl(list(_LINES.items()))


def _run(job: Job, make_cluster: MakeCluster, *, as_json: bool, **values: Any) -> None:
    config = config_from(job.config, values)
    options = config_from(SparkOptions, values)
    show = show_json if as_json else show_text
    with ExitStack() as stack:
        if job.name == "demo":
            config = _prepare_demo(config, stack, make_cluster)
        code = run_submitted(job.name, arguments_of(config), options, job.bundles(config), show)
    click.get_current_context().exit(code)


def _prepare_demo(config: Any, stack: ExitStack, make_cluster: MakeCluster) -> Any:
    from pipeline.demonstration import clear_output, require_new_topics

    output = Path(config.output).absolute()
    if config.bootstrap_server is not None:
        require_new_topics(config.bootstrap_server)
    clear_output(output)
    if config.bootstrap_server is not None:
        return config
    return replace(config, bootstrap_server=stack.enter_context(make_cluster(output / "cluster")))


def show_text(kind: str, values: Mapping[str, Any]) -> None:
    """Print a message for people."""
    text = as_text(kind, values)
    if text:
        print(text, file=sys.stderr if kind in ("failed", "warning") else sys.stdout, flush=True)


def show_json(kind: str, values: Mapping[str, Any]) -> None:
    """Print a message for programs; a failure for people on stderr too."""
    sys.stdout.write(json.dumps({"kind": kind, **values}) + "\n")
    sys.stdout.flush()
    if kind == "failed":
        show_text(kind, values)
