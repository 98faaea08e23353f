"""The declaration of a job, and the table of all jobs. Importing this imports no job and no Spark."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pipeline.failure import JobError
from pipeline.report import Report, Stop
from pipeline.versions import Bundle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOBS: Final[Mapping[str, str]] = {
    "ingest": "Topics to a partitioned table, exactly once.",
    "aggregate": "Windows over a stream, upserted to a topic.",
    "publish": "A table or files to a topic.",
    "audit": "Check a topic, or compare it between two clusters.",
}


@dataclass(frozen=True, slots=True)
class Job:
    """A job as its module declares it.

    Attributes:
        name: Its command.
        config: The dataclass of its options.
        bundles: Returns the jars that a configuration needs.
        check: Raises JobError if a configuration cannot work; called before Spark starts, so that an error is reported
            at once.
        settings: Spark settings that a configuration needs from the start; the user's take precedence.
        run: Runs it, and returns its final figures.
    """

    name: str
    config: type[Any]
    bundles: Callable[[Any], tuple[Bundle, ...]]
    check: Callable[[Any], None]
    settings: Callable[[Any], Mapping[str, str]]
    run: Callable[["SparkSession", Any, Report, Stop], Mapping[str, Any]]


def load_job(name: str) -> Job:
    """Return a job by name.

    Raises:
        JobError: there is none.
    """
    if name not in JOBS and name != "demo":
        raise JobError(f"there is no job {name!r}; there are {', '.join(JOBS)}")
    job = importlib.import_module(f"{__package__}.jobs.{name}").JOB
    assert isinstance(job, Job)
    return job
