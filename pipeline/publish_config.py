"""The settings of the publish job."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pipeline.kafka_source import ClusterOptions
from pipeline.options import about

FORMATS: Final = ("parquet", "delta", "csv", "json", "orc", "text", "avro")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishConfig(ClusterOptions):
    """What to read, how its columns become records, and where they go."""

    source: str = field(metadata=about("The folder or file to read.", metavar="PATH"))
    source_format: str = field(default="parquet", metadata=about("What it is.", choices=FORMATS))
    source_option: Mapping[str, str] = field(
        default_factory=dict,
        metadata=about("An option of Spark's reader, such as header=true; repeatable."),
    )
    schema: str | None = field(
        default=None, metadata=about("The columns, as DDL; read off the files by default.", metavar="DDL")
    )
    topic: str = field(metadata=about("Where it goes; made where it is missing."))
    partitions: int = field(default=-1, metadata=about("How many partitions a topic that is made gets."))
    key: str | None = field(
        default=None, metadata=about("An SQL expression for the key; several columns: to_json(struct(a, b)).")
    )
    value: str | None = field(
        default=None, metadata=about("An SQL expression for the value; all columns as JSON by default.")
    )
    header: Mapping[str, str] = field(
        default_factory=dict, metadata=about("A header by its name and an SQL expression; repeatable.")
    )
    partition: str | None = field(
        default=None, metadata=about("An SQL expression for the partition; by the key's hash by default.")
    )
    timestamp: str | None = field(
        default=None, metadata=about("An SQL expression for the record's timestamp; the time of sending by default.")
    )  # fmt: skip
    transactional: bool = field(
        default=False, metadata=about("Send each row exactly once, for readers of committed data.")
    )  # fmt: skip
    checkpoint: str = field(metadata=about("Where the progress is kept.", metavar="PATH"))
    files_per_batch: int = field(default=1000, metadata=about("The most new files in one batch."))
    trigger_s: float = field(default=10.0, metadata=about("Seconds between looks for new files."))
    once: bool = field(default=True, metadata=about("Publish what is there now, and end."))
