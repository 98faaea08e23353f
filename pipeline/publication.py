"""How publish works: a stream of files, each batch written to the topic.

The checkpoint knows files by their paths. A file that compaction merged from others is a new path with old rows, and
nothing in it shows which of them were sent. So merged files are read only if they were there when the publication
began, and any later one is refused: before a run, and within one by a check in every row of such a file.
"""

import json
from typing import TYPE_CHECKING, Any, Final

from pipeline.compaction import MERGED_PREFIX, is_merged
from pipeline.failure import JobError
from pipeline.job_files import JobFiles
from pipeline.kafka_producer import send_rows
from pipeline.report import Report, Stop
from pipeline.streams import Follower
from pipeline.tables import SINK_LOG, committed_files
from pipeline.transactional_progress import open_sink

# Spark silently leaves out files that are older than the newest by a week.
_FILE_AGE_MAX: Final = "36500d"

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from pipeline.publish_config import PublishConfig


class Publication:
    """One run of the job."""

    def __init__(self, spark: "SparkSession", config: "PublishConfig", report: Report, stop: Stop) -> None:
        self._spark = spark
        self._config = config
        self._report = report
        self._stop = stop
        self._files = JobFiles(spark)
        self._root = config.checkpoint.rstrip("/")
        self._merged_at_start: list[str] | None = None

    def run(self) -> dict[str, Any]:
        """Publish until the end, or until asked to stop, and return the figures."""
        from pyspark.sql import functions as F

        config = self._config
        if not self._files.exists(config.source):
            raise JobError(f"{config.source} does not exist: correct --source")
        is_new = not self._files.names(f"{self._root}/stream/offsets")
        self._require_same_purpose(is_new)
        self._merged_at_start = self._merged_files(is_new)
        config.access.ensure_topic(config.topic, partitions=config.partitions)
        records = self._records(self._rows())
        counted = records.observe("published", F.count(F.lit(1)).alias("sent"))
        trigger: dict[str, Any] = (
            {"availableNow": True} if config.once else {"processingTime": f"{config.trigger_s} seconds"}
        )
        writer = counted.writeStream.queryName("ottla-publish").trigger(**trigger)
        writer = writer.option("checkpointLocation", f"{self._root}/stream")
        if config.transactional:
            _require_deterministic(records)
            once = open_sink(self._files, self._root, config.access, config.topic, is_new=is_new)
            query = writer.foreachBatch(once.send).start()
        elif config.timestamp is None:
            sink = {**config.access.spark_options(), "topic": config.topic}
            query = writer.format("kafka").options(**sink).start()
        else:
            options, topic = config.access.client_options(), config.topic
            query = writer.foreachBatch(lambda batch, _number: send_rows(batch, topic, options)).start()
        totals = Follower(self._report, self._stop).follow({"publish": query})["publish"]
        return {"rows": totals.counts.get("sent", 0), "batches": totals.batches}

    def _rows(self) -> "DataFrame":
        config = self._config
        reader = self._spark.readStream.format(config.source_format).options(**config.source_option)
        if config.source_format == "delta":
            return reader.option("maxFilesPerTrigger", config.files_per_batch).load(config.source)
        if config.source_format != "text":
            reader = reader.schema(config.schema or self._read_schema())
        if "maxFileAge" not in config.source_option:
            reader = reader.option("maxFileAge", _FILE_AGE_MAX)
        # A path to one file: the stream watches its folder for names that match.
        rows = reader.option("maxFilesPerTrigger", config.files_per_batch).load(config.source)
        return rows if self._merged_at_start is None else self._without_later_merges(rows)

    def _merged_files(self, is_new: bool) -> list[str] | None:
        """Return the merged files that the publication began with; None if the source is no table of the file sink.

        Raises:
            JobError: compaction has merged files since.
        """
        config = self._config
        if config.source_format != "parquet" or SINK_LOG not in self._files.names(config.source):
            return None
        now = sorted(
            name for path in committed_files(self._files, config.source) if (name := is_merged(path))
        )
        kept = f"{self._root}/ottla/merged.json"
        text = self._files.read_text(kept)
        if is_new:
            self._files.write_text(kept, json.dumps(now))
            return now
        # A checkpoint of an earlier version has no list; it may have read any of them, or none.
        known: list[str] = [] if text is None else json.loads(text)
        later = [name for name in now if name not in known]
        if later:
            raise JobError(_later_merge(config.source, later[0]))
        return known

    def _without_later_merges(self, rows: "DataFrame") -> "DataFrame":
        """Fail at a row of a file that was merged while the query ran, before it is sent."""
        from pyspark.sql import functions as F

        name = F.col("_metadata.file_name")
        is_later = name.startswith(MERGED_PREFIX) & ~name.isin(self._merged_at_start or [])
        text = F.concat(F.lit(_later_merge(self._config.source, "") + ": "), name)
        checked = F.when(is_later, F.raise_error(text)).otherwise(F.lit(True))
        return rows.where(checked.cast("boolean"))

    def _read_schema(self) -> Any:
        """Return the files' own schema; the first inferred one is kept, so that a resumed run reads the same way."""
        from pyspark.sql.types import StructType

        config = self._config
        kept = f"{self._root}/ottla/schema.json"
        text = self._files.read_text(kept)
        if text is not None:
            return StructType.fromJson(json.loads(text))
        reader = self._spark.read.format(config.source_format).options(**config.source_option)
        if config.source_format == "csv":
            reader = reader.option("inferSchema", "true")
        schema = reader.load(config.source).schema
        if not schema.names:
            raise JobError(
                f"{config.source} has no columns: is it {config.source_format}? Correct --source-format"
            )
        self._files.write_text(kept, schema.json())
        return schema

    def _records(self, rows: "DataFrame") -> "DataFrame":
        """Return the columns of Kafka's records."""
        from pyspark.sql import functions as F

        config = self._config
        value = F.expr(config.value) if config.value else F.to_json(F.struct("*"))
        columns: list[Column] = [_as_binary(value).alias("value")]
        if config.key:
            columns.append(_as_binary(F.expr(config.key)).alias("key"))
        if config.header:
            headers = [
                F.struct(F.lit(name).alias("key"), _as_binary(F.expr(text)).alias("value"))
                for name, text in config.header.items()
            ]
            columns.append(F.array(*headers).alias("headers"))
        if config.partition:
            columns.append(F.expr(config.partition).cast("int").alias("partition"))
        if config.timestamp:
            columns.append(F.expr(f"cast(({config.timestamp}) as timestamp)").alias("timestamp"))
        return rows.select(*columns)

    def _require_same_purpose(self, is_new: bool) -> None:
        """Refuse a checkpoint of other files or another topic; before its first batch it has none."""
        purpose: dict[str, Any] = {
            "source": self._files.qualified(self._config.source),
            "topic": self._config.topic,
        }
        if self._config.transactional:
            purpose["transactional"] = True
        kept = f"{self._root}/ottla/publish.json"
        text = self._files.read_text(kept)
        if text is None or is_new:
            self._files.write_text(kept, json.dumps(purpose))
        elif text != json.dumps(purpose):
            raise JobError(
                f"the checkpoint {self._root} is of another publication ({text}): give each its own --checkpoint"
            )


def _require_deterministic(records: "DataFrame") -> None:
    """Refuse expressions whose values change when a batch is repeated: its rows would go to other writers."""
    expressions = records._jdf.queryExecution().analyzed().expressions()
    for index in range(expressions.size()):
        if not expressions.apply(index).deterministic():
            raise JobError(
                f"{expressions.apply(index).sql()} has another value each time: "
                "--transactional needs the same rows when a batch is run again"
            )


def _later_merge(source: str, name: str) -> str:
    return (
        f"the table at {source} was compacted after its publication began{name and f' ({name})'}: rows that were sent "
        "stand in new files, and would be sent again. Publish from a Delta table, whose readers survive compaction, "
        "or start with a new checkpoint, which sends all rows"
    )


def _as_binary(column: "Column") -> "Column":
    return column.cast("string").cast("binary")
