"""How ingest works: two queries over the same records, one into the table, one for those that do not parse."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from pipeline.compaction import compact_table
from pipeline.failure import JobError
from pipeline.group_progress import following_groups
from pipeline.job_files import JobFiles
from pipeline.kafka_source import read_batch, read_stream
from pipeline.parsing import (
    CORRUPT,
    EXTRA,
    PARSED,
    PLACE,
    REASON,
    Form,
    infer_schema,
    parse_schema,
    parsed,
    require_free_names,
)
from pipeline.report import Report, Stop
from pipeline.streams import Follower, StreamTotals
from pipeline.tables import require_fitting_schema, require_fresh_or_same, start_table
from pipeline.topic_identity import TopicWatch
from pipeline.tried import tried

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from pipeline.ingest_config import IngestConfig

_RAW: Final = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
# The original record, for its dead letter: its fields may have the names of the connector's columns.
_VALUE: Final = "_ottla_value"
_HEADERS: Final = "_ottla_headers"
_TRIED: Final = "_ottla_tried"

_PERIODS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "none": (),
    "month": (("event_month", "date_format({time}, 'yyyy-MM')"),),
    "day": (("event_date", "to_date({time})"),),
    "hour": (("event_date", "to_date({time})"), ("event_hour", "hour({time})")),
}


class Ingestion:
    """One run of the job."""

    def __init__(self, spark: "SparkSession", config: "IngestConfig", report: Report, stop: Stop) -> None:
        self._spark = spark
        self._config = config
        self._report = report
        self._stop = stop
        self._files = JobFiles(spark)
        self._root = config.checkpoint_path.rstrip("/")

    def run(self) -> dict[str, Any]:
        """Ingest until the end, or until asked to stop, and return the figures."""
        config = self._config
        is_new = not self._files.exists(f"{self._root}/table/metadata")
        require_fresh_or_same(self._files, config.table, config.table_format, checkpoint_is_new=is_new)
        watch = TopicWatch(
            self._files,
            self._root,
            config.access,
            topics=config.topic,
            pattern=config.topic_pattern,
            fail=config.fail_on_data_loss,
        )
        form = self._form()
        rows = self._table_rows(form)
        require_fitting_schema(self._spark, self._files, config.table, config.table_format, rows.schema)
        if form is not None:
            config.access.ensure_topic(config.dead_letter_topic)
        totals = {"table": StreamTotals(), "dead letters": StreamTotals()}
        merged = 0
        groups = {} if config.progress_group is None else {"ottla-table": config.progress_group}
        with following_groups(self._spark, config.access, groups, self._report) as committers:
            while True:
                follower = Follower(self._report, self._stop, watch.look, watch.look_after_failure)
                turn_ends = monotonic() + (config.compact_every_s or float("inf"))
                queries = self._start(rows, form)
                done = follower.follow(queries, lambda ends=turn_ends: monotonic() > ends)  # type: ignore[misc]
                for committer in committers.values():
                    committer.offer(queries["table"].lastProgress)
                for name, total in done.items():
                    _add(totals[name], total)
                merged += self._compact()
                if config.once or self._stop.requested:
                    break
        table, dead = totals["table"], totals["dead letters"]
        return {
            "rows": table.counts.get("written", 0),
            "dead_letters": dead.counts.get("dead_letters", 0),
            "batches": table.batches,
            "merged_files": merged,
        }

    def _form(self) -> Form | None:
        """Return how values are parsed; a schema that was inferred is kept for the next run."""
        config = self._config
        if config.form == "raw":
            return None
        options = dict(config.form_option)
        text = config.schema
        if text is not None and text.startswith("@"):
            try:
                text = Path(text[1:]).read_text()
            except OSError as error:
                raise JobError(f"--schema {text}: {error.strerror}") from None
        if config.form == "avro":
            return Form("avro", avro_schema=text, options=options)
        form = Form(config.form, keep_extra=config.extra_fields and config.form == "json", options=options)
        if text is not None:
            return replace(form, schema=parse_schema(text))
        kept = f"{self._root}/ottla/schema.json"
        text = self._files.read_text(kept)
        if text is None:
            schema = infer_schema(self._spark, self._samples(), options, keep_extra=form.keep_extra)
            require_free_names(schema.names, self._added_columns(schema))
            self._files.write_text(kept, schema.json())
            self._report.send("note", text=f"inferred: {schema.simpleString()}")
            return replace(form, schema=schema)
        return replace(form, schema=parse_schema(text))

    def _samples(self) -> list[str]:
        config = self._config
        records = read_batch(
            self._spark, config.access, topics=config.topic, pattern=config.topic_pattern
        ).selectExpr("cast(value as string) as value")
        return [row[0] for row in records.where("value is not null").limit(config.infer_records).collect()]

    def _records(self) -> "DataFrame":
        config = self._config
        return read_stream(
            self._spark,
            config.access,
            topics=config.topic,
            pattern=config.topic_pattern,
            starting_offsets=config.starting_offsets,
            fail_on_data_loss=config.fail_on_data_loss,
            offsets_per_batch=config.offsets_per_batch,
        )

    def _table_rows(self, form: Form | None) -> "DataFrame":
        """Return the rows of the table: the record's place, its columns, and the event-time partitions."""
        from pyspark.sql import functions as F

        rows = self._fitting(form)
        time = (
            "event_time" if self._config.event_time else ("timestamp" if form is None else "kafka_timestamp")
        )
        for name, expression in _PERIODS[self._config.partition_by]:
            rows = rows.withColumn(name, F.expr(expression.format(time=time)))
        rows = rows.observe("table", F.count(F.lit(1)).alias("written"))
        if self._config.group_files and self._partition_columns:
            rows = rows.repartition(*self._partition_columns)
        return rows

    def _fitting(self, form: Form | None) -> "DataFrame":
        from pyspark.sql import functions as F

        if form is None:
            rows = self._records().select(*_RAW).withColumnRenamed("timestampType", "timestamp_type")
            if self._config.event_time is None:
                return rows
            # A raw record is kept whatever its content.
            return rows.withColumn("event_time", self._event_time(F.col("offset") >= 0)["time"])
        rows = self._judged(form, with_reason=False).where(F.col(REASON).isNull())
        return rows.drop(REASON, _VALUE, _HEADERS)

    def _judged(self, form: Form, *, with_reason: bool) -> "DataFrame":
        """Return every record with its columns, and the reason where it does not fit the schema."""
        from pyspark.sql import functions as F

        records = parsed(self._records(), form, with_reason=with_reason)
        kinds: StructType = records.schema[PARSED].dataType  # type: ignore[assignment]
        names = [name for name in kinds.names if name != CORRUPT]
        require_free_names(names, self._added_columns(kinds))
        place = [F.col(name).alias(f"kafka_{name}") for name in PLACE]
        place += [F.col("value").alias(_VALUE), F.col("headers").alias(_HEADERS)]
        extra = [F.col(EXTRA)] if EXTRA in records.columns else []
        fields = [F.col(PARSED)[name].alias(name) for name in names]
        rows = records.select(*place, *fields, *extra, REASON)
        event_time = self._config.event_time
        if event_time is not None:
            rows = rows.withColumn(_TRIED, self._event_time(F.col(REASON).isNull()))
            timeless = (
                F.when(F.col(REASON).isNotNull(), F.col(REASON))
                .when(F.col(_TRIED).isNull(), F.lit(f"no event time: {event_time} fails"))
                .when(F.col(_TRIED)["time"].isNull(), F.lit(f"no event time: {event_time} yields none"))
            )
            rows = (
                rows.withColumn(REASON, timeless).withColumn("event_time", F.col(_TRIED)["time"]).drop(_TRIED)
            )
        # Spark does not push a later filter below an observation, where it would parse each value several times.
        return rows.observe("judged", F.count_if(F.col(REASON).isNotNull()).alias("unfit"))

    def _event_time(self, only_where: "Column") -> "Column":
        """Return a struct of the event time, null where its expression fails."""
        from pyspark.sql import functions as F

        return tried({"time": F.expr(f"try_cast(({self._config.event_time}) as timestamp)")}, only_where)

    def _added_columns(self, schema: "StructType") -> dict[str, str]:
        """Return the columns that options add beside the fields, each with its option."""
        config = self._config
        added = dict.fromkeys(self._partition_columns, f"--partition-by {config.partition_by}")
        if config.extra_fields and config.form == "json":
            added[EXTRA] = "--extra-fields"
        if config.event_time is not None:
            # A field event_time that is a timestamp and is used as it is needs no added column.
            kinds = {field.name.lower(): field.dataType.typeName() for field in schema.fields}
            own = (
                config.event_time.strip(" `").lower() == "event_time"
                and kinds.get("event_time") == "timestamp"
            )
            added |= {} if own else {"event_time": "--event-time"}
        return added

    def _dead_letters(self, form: Form) -> "DataFrame":
        """Return the original records that do not fit, with their place and the reason in headers."""
        from pyspark.sql import functions as F

        dead = self._judged(form, with_reason=True).where(F.col(REASON).isNotNull())
        facts = ("topic", "partition", "offset", "reason")
        columns = [F.col(REASON if name == "reason" else f"kafka_{name}") for name in facts]
        added = [
            F.struct(F.lit(f"ottla.{name}").alias("key"), column.cast("string").cast("binary").alias("value"))
            for name, column in zip(facts, columns, strict=True)
        ]
        before = F.coalesce(F.col(_HEADERS), F.lit([]).cast("array<struct<key:string,value:binary>>"))
        return dead.select(
            F.col("kafka_key").alias("key"),
            F.col(_VALUE).alias("value"),
            F.concat(before, F.array(*added)).alias("headers"),
        ).observe("dead_letters", F.count(F.lit(1)).alias("dead_letters"))

    @property
    def _partition_columns(self) -> list[str]:
        return [name for name, _ in _PERIODS[self._config.partition_by]]

    def _start(self, rows: "DataFrame", form: Form | None) -> dict[str, "StreamingQuery"]:
        config = self._config
        trigger: dict[str, Any] = (
            {"availableNow": True} if config.once else {"processingTime": f"{config.trigger_s} seconds"}
        )
        writer = start_table(
            rows, table=config.table, table_format=config.table_format, partition_by=self._partition_columns
        )
        queries = {
            "table": writer.queryName("ottla-table")
            .option("checkpointLocation", f"{self._root}/table")
            .trigger(**trigger)
            .start()
        }
        if form is not None:
            sink = {**config.access.spark_options(), "topic": config.dead_letter_topic}
            dead = self._dead_letters(form).writeStream.format("kafka").options(**sink)
            queries["dead letters"] = (
                dead.queryName("ottla-dead-letters")
                .option("checkpointLocation", f"{self._root}/dead-letters")
                .trigger(**trigger)
                .start()
            )
        return queries

    def _compact(self) -> int:
        if not self._config.compact and not self._config.compact_every_s:
            return 0
        merged = compact_table(
            self._spark,
            self._files,
            self._config.table,
            self._config.table_format,
            target_bytes=self._config.target_file_mb << 20,
        )
        if merged:
            self._report.send("note", text=f"merged {merged:,} small files")
        return merged


def _add(total: StreamTotals, more: StreamTotals) -> None:
    total.rows += more.rows
    total.batches += more.batches
    for name, count in more.counts.items():
        total.counts[name] = total.counts.get(name, 0) + count
