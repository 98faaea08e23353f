"""The settings of the ingest job."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pipeline.kafka_source import ClusterOptions
from pipeline.options import about
from pipeline.parsing import FORMS
from pipeline.tables import FORMATS

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
