"""A job's process: reads the command line, opens Spark, runs the job, and ends in one line and an exit code."""

import argparse
import os
import sys
from collections.abc import Sequence

from pipeline.failure import JobError, explain
from pipeline.job import Job, load_job
from pipeline.options import add_options, config_from
from pipeline.report import Stop, open_report


def run_job(name: str, arguments: Sequence[str] | None = None) -> int:
    """Run a job in this process, which spark-submit started.

    Args:
        name: The job.
        arguments: Its command line; the process's by default.

    Returns:
        The exit code: 0 for done or stopped by request, 1 for a failure that was reported.
    """
    job = load_job(name)
    parser = argparse.ArgumentParser(prog=name, allow_abbrev=False)
    add_options(parser, job.config)
    values = parser.parse_args(arguments)
    stop = Stop()
    report = open_report(stop)
    try:
        config = config_from(job.config, values)
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


def _run(job: Job, config: object, report: object, stop: Stop) -> dict[str, object]:
    from pipeline.session import open_session

    spark = open_session(job.name, job.settings(config))
    try:
        return dict(job.run(spark, config, report, stop))  # type: ignore[arg-type]
    finally:
        spark.stop()


def main(name: str) -> None:
    """Be the main program of a job's module."""
    sys.exit(run_job(name))
