"""ingest: topics to a partitioned table, each record once.

The table is exactly once: the checkpoint holds which offsets belong to a batch before the batch is read, and the
table's log (`_spark_metadata`, or Delta's) takes a batch's files all at once and each batch once. What does not parse
goes to a dead-letter topic by a query of its own over the same records, at least once.

Plain Spark: spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 --py-files ottla-pipeline.zip
    pipeline/jobs/ingest.py --bootstrap-server ... --topic ... --table ...
"""

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pipeline.failure import JobError
from pipeline.job import Job
from pipeline.kafka_source import ClusterOptions
from pipeline.options import about
from pipeline.parsing import FORMS
from pipeline.report import Report, Stop
from pipeline.tables import DELTA_SETTINGS, FORMATS
from pipeline.versions import AVRO, DELTA, KAFKA, Bundle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PERIODS: Final = ("none", "month", "day", "hour")


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestConfig(ClusterOptions):
    """What to read, how to read it, and where it goes."""

    topic: tuple[str, ...] = field(default=(), metadata=about("A topic to read; repeatable."))
    topic_pattern: str | None = field(
        default=None,
        metadata=about("Read the topics whose whole name fits this regular expression, as they appear."),
    )
    table: str = field(metadata=about("Where the table is.", metavar="PATH"))
    table_format: str = field(default="parquet", metadata=about("What it is.", choices=FORMATS))
    checkpoint: str | None = field(
        default=None,
        metadata=about("Where the progress is kept; beside the table by default.", metavar="PATH"),
    )
    form: str = field(default="raw", metadata=about("What the values are.", choices=FORMS))
    schema: str | None = field(
        default=None,
        metadata=about(
            "The values' columns: DDL, Spark's JSON or, for avro, Avro's; @FILE reads a file. "
            "JSON without one is inferred."
        ),
    )  # fmt: skip
    infer_records: int = field(default=10_000, metadata=about("How many records a schema is inferred from."))
    form_option: Mapping[str, str] = field(
        default_factory=dict, metadata=about("An option of Spark's JSON, CSV or Avro reader; repeatable.")
    )
    extra_fields: bool = field(
        default=True,
        metadata=about("Keep JSON fields that the schema does not know, in the map extra_fields."),
    )
    dead_letter_topic: str = field(
        default="dead-letters",
        metadata=about("Where records go that do not parse; made where it is missing."),
    )
    event_time: str | None = field(
        default=None, metadata=about("An SQL expression over the columns; the record's timestamp by default.")
    )
    partition_by: str = field(default="day", metadata=about("The event-time partitions.", choices=PERIODS))
    group_files: bool = field(
        default=False,
        metadata=about("Shuffle, so that a batch writes one file a partition rather than one a task."),
    )
    starting_offsets: str = field(
        default="earliest",
        metadata=about("Where a new checkpoint starts: earliest, latest or the connector's JSON."),
    )
    offsets_per_batch: int | None = field(default=None, metadata=about("The most records in one batch."))
    trigger_s: float = field(default=10.0, metadata=about("Seconds between the starts of batches."))
    once: bool = field(default=False, metadata=about("Read what is there now, and end."))
    fail_on_data_loss: bool = field(
        default=True, metadata=about("Fail where records were gone before they were read.")
    )
    compact: bool = field(default=False, metadata=about("Merge small files when the run ends."))
    compact_every_s: float = field(
        default=0.0, metadata=about("Merge small files so often, between two batches; 0: only at the end.")
    )
    target_file_mb: int = field(default=128, metadata=about("How large merged files become."))
    progress_group: str | None = field(
        default=None,
        metadata=about("A consumer group that the table's progress is committed to.", metavar="GROUP"),
    )

    @property
    def checkpoint_path(self) -> str:
        """Where the progress is kept."""
        return self.checkpoint or self.table.rstrip("/") + ".checkpoint"


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
    if config.topic:
        config.access.require_topics(config.topic)
        return
    try:
        re.compile(config.topic_pattern or "")
    except re.error as error:
        raise JobError(f"--topic-pattern is no regular expression: {error}") from None
    config.access.topics(pattern=config.topic_pattern)


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
