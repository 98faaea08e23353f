"""A job's process: reads the command line, opens Spark, runs the job, and ends with one line and an exit code."""

import os
import sys
from collections.abc import Sequence

import click

from pipeline.click_options import config_from, options_of
from pipeline.failure import JobError, explain
from pipeline.job import Job, load_job
from pipeline.report import Report, Stop, open_report


def run_job(name: str, arguments: Sequence[str] | None = None) -> int:
    """Run a job in this process, which spark-submit started.

    Args:
        name: The job.
        arguments: Its command line; the process's by default.

    Returns:
        The exit code: 0 for done or stopped by request, 1 for a failure that was reported, 2 for wrong options.
    """
    job = load_job(name)
    command = click.Command(name, params=[*options_of(job.config)])
    try:
        context = command.make_context(name, list(sys.argv[1:] if arguments is None else arguments))
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.exceptions.Exit as asked:
        return asked.exit_code
    stop = Stop()
    report = open_report(stop)
    try:
        config = config_from(job.config, context.params)
        job.check(config)
        result = _run(job, config, report, stop)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if stop.requested and not isinstance(error, JobError):
            return 0
        if os.environ.get("OTTLA_PIPELINE_TRACE"):
            raise
        report.send("failed", text=explain(error))
        return 1
    report.send("result", **result)
    return 0


def _run(job: Job, config: object, report: Report, stop: Stop) -> dict[str, object]:
    from pipeline.session import open_session

    spark = open_session(job.name, job.settings(config))
    report.send("note", text=f"Spark {spark.version} runs; planning the first batch")
    try:
        return dict(job.run(spark, config, report, stop))
    finally:
        spark.stop()


def main(name: str) -> None:
    """Run the main program of a job's module."""
    sys.exit(run_job(name))
