"""``ottla pipeline <job> ...``: reads the options of Spark and of the job, and submits it."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pipeline.job import JOBS, load_job
from pipeline.options import add_options, arguments_of, config_from
from pipeline.report import as_text
from pipeline.spark_submit import SparkOptions, run_submitted

DEMO_LINE: Final = "Three brokers, a year of flights, every job."

MakeCluster = Callable[[Path], AbstractContextManager[str]]


def run_command(arguments: Sequence[str], make_cluster: MakeCluster) -> int:
    """Run the command line of a job.

    Args:
        arguments: The job's name, then its options.
        make_cluster: Starts a cluster in a directory, gives its bootstrap servers, and stops it: for the demo.

    Returns:
        The exit code.

    Raises:
        JobError: it cannot be submitted, or ended without saying why.
        SystemExit: the options are wrong, or help was asked for.
    """
    parser = argparse.ArgumentParser(prog="ottla pipeline", allow_abbrev=False)
    commands = parser.add_subparsers(dest="job", metavar="JOB", required=True)
    for name, line in {**JOBS, "demo": DEMO_LINE}.items():
        command = commands.add_parser(name, help=line, description=line, allow_abbrev=False)
        if name in arguments[:1]:
            job = load_job(name)
            add_options(command.add_argument_group("the job"), job.config)
            add_options(command.add_argument_group("Spark"), SparkOptions)
            command.add_argument("--json", action="store_true", help="print the messages as JSON, one a line")
    values = parser.parse_args(arguments)
    job = load_job(values.job)
    config = config_from(job.config, values)
    options = config_from(SparkOptions, values)
    show = show_json if values.json else show_text
    with ExitStack() as stack:
        if values.job == "demo":
            config = _prepare_demo(config, stack, make_cluster)
        return run_submitted(job.name, arguments_of(config), options, job.bundles(config), show)


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
