"""The Spark session of a job."""

import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_session(name: str, settings: Mapping[str, str]) -> "SparkSession":
    """Open the session that spark-submit configured; its settings take precedence over the job's own.

    Times are in UTC throughout, so that event-time partitions do not depend on where a job runs.
    """
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    conf = SparkConf()
    builder = SparkSession.builder.appName(f"ottla-{name}").config("spark.sql.session.timeZone", "UTC")
    for key, value in settings.items():
        if not conf.contains(key):
            builder = builder.config(key, value)
    # PySpark installs a SIGINT handler that cancels jobs; here the report decides how a job stops.
    handler = signal.getsignal(signal.SIGINT)
    spark = builder.getOrCreate()
    if handler is not None:
        signal.signal(signal.SIGINT, handler)
    spark.sparkContext.setLogLevel("WARN")
    return spark
