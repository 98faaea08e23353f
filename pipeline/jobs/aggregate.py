"""aggregate: event-time windows over a stream, upserted to a compacted topic.

The sink is at least once, and a replay changes nothing: a batch that is run again starts from the state before it and
reads the same offsets, so that it writes the same values under the same keys, and batches follow one another. The last
record of a key is the current value, whatever precedes it. (Sums of floating-point numbers may differ in their last
digits, as the order of additions may.)

Plain Spark: spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 --py-files ottla-pipeline.zip
    pipeline/jobs/aggregate.py --bootstrap-server ... --spec ... --checkpoint ...
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pipeline.aggregate_config import AggregateConfig
from pipeline.aggregate_spec import read_spec
from pipeline.job import Job
from pipeline.report import Report, Stop
from pipeline.versions import AVRO, KAFKA, Bundle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _bundles(config: AggregateConfig) -> tuple[Bundle, ...]:
    return (KAFKA, AVRO) if read_spec(config.spec).form == "avro" else (KAFKA,)


def _settings(config: AggregateConfig) -> Mapping[str, str]:
    return {"spark.sql.shuffle.partitions": str(config.state_partitions)}


def _check(config: AggregateConfig) -> None:
    config.access.require_topics(read_spec(config.spec).topics)


def run(spark: "SparkSession", config: AggregateConfig, report: Report, stop: Stop) -> dict[str, Any]:
    """Aggregate until the end (``once``) or until asked to stop.

    Returns:
        rows read, upserts written, late groups dropped, records unparsed and failed, batches.
    """
    from pipeline.aggregation import Aggregation

    return Aggregation(spark, config, read_spec(config.spec), report, stop).run()


JOB: Final = Job("aggregate", AggregateConfig, _bundles, _check, _settings, run)

if __name__ == "__main__":
    from pipeline.driver import main

    main("aggregate")
