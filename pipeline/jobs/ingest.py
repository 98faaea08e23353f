"""ingest: topics to a partitioned table, each record once.

The table is exactly once: the checkpoint holds which offsets belong to a batch before the batch is read, and the
table's log (`_spark_metadata`, or Delta's) takes a batch's files all at once and each batch once. Records that do not
parse go to a dead-letter topic, through a query of its own over the same records, at least once.

Plain Spark: spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 --py-files ottla-pipeline.zip
    pipeline/jobs/ingest.py --bootstrap-server ... --topic ... --table ...
"""

import importlib.util
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pipeline.failure import JobError
from pipeline.ingest_config import IngestConfig
from pipeline.job import Job
from pipeline.report import Report, Stop
from pipeline.tables import DELTA_SETTINGS
from pipeline.versions import AVRO, DELTA, KAFKA, Bundle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _bundles(config: IngestConfig) -> tuple[Bundle, ...]:
    delta = (DELTA,) if config.table_format == "delta" else ()
    return (KAFKA, *delta, *((AVRO,) if config.form == "avro" else ()))


def _settings(config: IngestConfig) -> Mapping[str, str]:
    return DELTA_SETTINGS if config.table_format == "delta" else {}


def _check(config: IngestConfig) -> None:
    if bool(config.topic) == (config.topic_pattern is not None):
        raise JobError("exactly one of --topic and --topic-pattern is needed")
    if config.form == "csv" and config.schema is None:
        raise JobError("--form csv needs --schema: its columns have no names")
    if config.form == "avro" and config.schema is None:
        raise JobError("--form avro needs --schema with Avro's JSON, or @FILE")
    merges_delta = config.table_format == "delta" and (config.compact or config.compact_every_s)
    if merges_delta and importlib.util.find_spec("delta") is None:
        raise JobError("--compact of a Delta table needs delta-spark: pip install 'ottla[pipeline]'")
    _require_no_loop(config)
    if config.topic:
        config.access.require_topics(config.topic)
        return
    config.access.topics(pattern=config.topic_pattern)


def _require_no_loop(config: IngestConfig) -> None:
    """Refuse to read the topic that the dead letters go to: each letter would become a dead letter again.

    Raises:
        JobError: naming the option to change; or the pattern is not a regular expression.
    """
    try:
        fits = config.topic_pattern is not None and re.fullmatch(
            config.topic_pattern, config.dead_letter_topic
        )
    except re.error as error:
        raise JobError(f"--topic-pattern is no regular expression: {error}") from None
    if config.form == "raw" or not (fits or config.dead_letter_topic in config.topic):
        return
    name = config.dead_letter_topic
    advice = f"such as '(?!{re.escape(name)}$){config.topic_pattern}'" if fits else "or another --topic"
    raise JobError(
        f"the dead letters go to {name}, which is read itself: its letters would come back for ever; "
        f"give another --dead-letter-topic, {'or a pattern that leaves it out, ' if fits else ''}{advice}"
    )


def run(spark: "SparkSession", config: IngestConfig, report: Report, stop: Stop) -> dict[str, Any]:
    """Ingest until the end (``once``) or until asked to stop.

    Returns:
        rows (in the table), dead_letters, batches, compacted_files.
    """
    from pipeline.ingestion import Ingestion

    return Ingestion(spark, config, report, stop).run()


JOB: Final = Job("ingest", IngestConfig, _bundles, _check, _settings, run)

if __name__ == "__main__":
    from pipeline.driver import main

    main("ingest")
