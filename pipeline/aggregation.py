"""How aggregate works: parse, join, window, upsert."""

from typing import TYPE_CHECKING, Any

from pipeline.aggregate_spec import AggregateSpec, says_the_same
from pipeline.failure import JobError
from pipeline.group_progress import following_groups
from pipeline.job_files import JobFiles
from pipeline.kafka_source import read_stream
from pipeline.parsing import CORRUPT, PARSED, PLACE, REASON, Form, parse_schema, parsed
from pipeline.report import Report, Stop
from pipeline.streams import Follower
from pipeline.topic_identity import TopicWatch
from pipeline.tried import tried

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from pipeline.aggregate_config import AggregateConfig

_QUERY = "ottla-aggregate"
_TIME = "_ottla_event_time"  # a field may be named event_time
_KEYED = "_ottla_keyed"


class Aggregation:
    """One run of the job."""

    def __init__(
        self,
        spark: "SparkSession",
        config: "AggregateConfig",
        spec: AggregateSpec,
        report: Report,
        stop: Stop,
    ) -> None:
        self._spark = spark
        self._config = config
        self._spec = spec
        self._report = report
        self._stop = stop
        self._files = JobFiles(spark)
        self._root = config.checkpoint.rstrip("/")

    def run(self) -> dict[str, Any]:
        """Aggregate until the end, or until asked to stop, and return the figures."""
        config, spec = self._config, self._spec
        self._require_same_spec()
        watch = TopicWatch(
            self._files, self._root, config.access, topics=spec.topics, fail=config.fail_on_data_loss
        )
        upserts = self._upserts(self._windows(self._joined(self._rows())))
        config.access.ensure_topic(
            spec.sink_topic, partitions=spec.sink_partitions, configs={"cleanup.policy": "compact"}
        )
        trigger: dict[str, Any] = (
            {"availableNow": True} if config.once else {"processingTime": f"{config.trigger_s} seconds"}
        )
        query = (
            upserts.writeStream.format("kafka")
            .options(**config.access.spark_options(), topic=spec.sink_topic)
            .outputMode("update" if spec.emit == "updates" else "append")
            .option("checkpointLocation", f"{self._root}/stream")
            .queryName(_QUERY)
            .trigger(**trigger)
            .start()
        )
        groups = {} if config.progress_group is None else {_QUERY: config.progress_group}
        with following_groups(self._spark, config.access, groups, self._report) as committers:
            follower = Follower(self._report, self._stop, watch.look, watch.look_after_failure)
            totals = follower.follow({"aggregate": query})["aggregate"]
            for committer in committers.values():
                committer.offer(query.lastProgress)
        counts = totals.counts
        return {
            "rows": totals.rows,
            "upserts": counts.get("upserts", 0),
            "late_groups": counts.get("late_groups", 0),
            "unparsed": counts.get("unparsed", 0),
            "failed": counts.get("failed", 0),
            "batches": totals.batches,
        }

    def _rows(self) -> "DataFrame":
        """Return the records that parse and have a time; count the others."""
        from pyspark.sql import functions as F

        config, spec = self._config, self._spec
        records = read_stream(
            self._spark,
            config.access,
            topics=spec.topics,
            starting_offsets=spec.starting_offsets,
            fail_on_data_loss=config.fail_on_data_loss,
            offsets_per_batch=config.offsets_per_batch,
        )
        is_avro = spec.form == "avro"
        form = Form(
            spec.form,
            schema=None if is_avro else parse_schema(spec.schema),
            avro_schema=spec.schema if is_avro else None,
            options=dict(spec.form_options),
        )
        judged = parsed(records, form, with_reason=False)
        names: list[str] = judged.schema[PARSED].dataType.names  # type: ignore[attr-defined]
        fields = [F.col(PARSED)[name].alias(name) for name in names if name != CORRUPT]
        place = [F.col(name).alias(f"kafka_{name}") for name in PLACE]
        time = F.expr(f"try_cast(({spec.time_column}) as timestamp)")
        time = tried({"time": time}, F.col(REASON).isNull())["time"]
        rows = judged.select(*place, *fields, REASON).withColumn(_TIME, time)
        useless = F.col(REASON).isNotNull() | F.col(_TIME).isNull()
        rows = rows.observe("read", F.count_if(useless).alias("unparsed")).where(~useless).drop(REASON)
        return rows.withWatermark(_TIME, spec.watermark)

    def _joined(self, rows: "DataFrame") -> "DataFrame":
        join = self._spec.join
        if join is not None:
            if not self._files.exists(join.path):
                raise JobError(f"join.path {join.path} does not exist")
            table = self._spark.read.format(join.format).options(**join.options).load(join.path)
            if join.columns:
                table = table.select(*join.on, *join.columns)
            rows = rows.join(table, list(join.on), join.kind)
        return self._keyed(rows)

    def _keyed(self, rows: "DataFrame") -> "DataFrame":
        """Return the rows that pass `where`, with their keys; count those on which an expression fails."""
        from pyspark.sql import functions as F

        spec = self._spec
        expressions = {f"key_{name}": F.expr(expression) for name, expression in spec.keys.items()}
        expressions["is_wanted"] = F.expr(f"({spec.where})") if spec.where else F.lit(True)
        rows = rows.withColumn(_KEYED, tried(expressions, F.col(_TIME).isNotNull()))
        failed = F.col(_KEYED).isNull()
        return rows.observe("keyed", F.count_if(failed).alias("failed")).where(F.col(_KEYED)["is_wanted"])

    def _windows(self, rows: "DataFrame") -> "DataFrame":
        from pyspark.sql import functions as F

        spec = self._spec
        window = F.window(_TIME, spec.window_size, spec.window_slide or spec.window_size)
        keys: list[Column] = [F.col(_KEYED)[f"key_{name}"].alias(name) for name in spec.keys]
        measures = [F.expr(expression).alias(name) for name, expression in spec.measures.items()]
        return rows.groupBy(window.alias("window"), *keys).agg(*measures)

    def _upserts(self, windows: "DataFrame") -> "DataFrame":
        """Return one record for each window and key: its key holds both, its value both and the measures."""
        from pyspark.sql import functions as F

        spec = self._spec
        keys = [F.col(name) for name in spec.keys]
        start = F.col("window.start").alias("window_start")
        end = F.col("window.end").alias("window_end")
        measures = [F.col(name) for name in spec.measures]
        with_nulls = {"ignoreNullFields": "false"}
        return windows.select(
            F.to_json(F.struct(*keys, start), with_nulls).alias("key"),
            F.to_json(F.struct(*keys, start, end, *measures), with_nulls).alias("value"),
        ).observe("written", F.count(F.lit(1)).alias("upserts"))

    def _require_same_spec(self) -> None:
        """Refuse a checkpoint whose state belongs to another specification; before its first batch it has no state."""
        kept = f"{self._root}/ottla/spec"
        text = self._files.read_text(kept)
        if text is None or not self._files.names(f"{self._root}/stream/offsets"):
            self._files.write_text(kept, self._spec.text)
        elif not says_the_same(text, self._spec):
            raise JobError(
                f"the checkpoint {self._root} has the state of another specification (kept in {kept}): "
                "go back to that one, or give a new --checkpoint and a new sink.topic"
            )
