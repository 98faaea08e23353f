"""publish: a table or files to a topic.

The files are a stream: the checkpoint records which of them were sent, and a run that was interrupted repeats its last
batch, whose records may then be in the topic twice. A reader that keeps the last record of each key does not notice, so
give a key that is unique in the table; in a compacted topic nothing but the last one stays.

The connector's sink has no column for a record's timestamp. With --timestamp the records are sent by librdkafka from
Spark's Python workers instead. With --transactional they are too, in transactions that carry the progress with the
rows: a reader of committed data then gets each row once, whatever was interrupted.

Plain Spark: spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 --py-files ottla-pipeline.zip
    pipeline/jobs/publish.py --bootstrap-server ... --source ... --topic ...
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pipeline.failure import JobError
from pipeline.job import Job
from pipeline.publish_config import PublishConfig
from pipeline.report import Report, Stop
from pipeline.tables import DELTA_SETTINGS
from pipeline.versions import AVRO, DELTA, KAFKA, Bundle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _bundles(config: PublishConfig) -> tuple[Bundle, ...]:
    extra = {"delta": (DELTA,), "avro": (AVRO,)}.get(config.source_format, ())
    return (KAFKA, *extra)


def _settings(config: PublishConfig) -> Mapping[str, str]:
    return DELTA_SETTINGS if config.source_format == "delta" else {}


def _check(config: PublishConfig) -> None:
    if config.source_format == "csv" and config.source.endswith(".zip"):
        raise JobError(f"{config.source}: Spark reads no zip; unpack it first")
    config.access.topics([config.topic])


def run(spark: "SparkSession", config: PublishConfig, report: Report, stop: Stop) -> dict[str, Any]:
    """Publish the present files, or go on until asked to stop.

    Returns:
        rows and batches that were sent.
    """
    from pipeline.publication import Publication

    return Publication(spark, config, report, stop).run()


JOB: Final = Job("publish", PublishConfig, _bundles, _check, _settings, run)

if __name__ == "__main__":
    from pipeline.driver import main

    main("publish")
