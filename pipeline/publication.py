"""How publish works: a stream of files, each batch written to the topic."""

import json
from typing import TYPE_CHECKING, Any

from pipeline.failure import JobError
from pipeline.job_files import JobFiles
from pipeline.kafka_producer import send_rows
from pipeline.report import Report, Stop
from pipeline.streams import Follower

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

    def run(self) -> dict[str, Any]:
        """Publish until the end, or until asked to stop, and return the figures."""
        from pyspark.sql import functions as F

        config = self._config
        if not self._files.exists(config.source):
            raise JobError(f"{config.source} does not exist: correct --source")
        self._require_same_purpose()
        config.access.ensure_topic(config.topic, partitions=config.partitions)
        records = self._records(self._rows()).observe("published", F.count(F.lit(1)).alias("sent"))
        trigger: dict[str, Any] = (
            {"availableNow": True} if config.once else {"processingTime": f"{config.trigger_s} seconds"}
        )
        writer = records.writeStream.queryName("ottla-publish").trigger(**trigger)
        writer = writer.option("checkpointLocation", f"{self._root}/stream")
        if config.timestamp is None:
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
        # A path to one file: the stream watches its folder for names that fit.
        return reader.option("maxFilesPerTrigger", config.files_per_batch).load(config.source)

    def _read_schema(self) -> Any:
        """Return the files' own schema; what was read off them once stays, so that a resumed run reads alike."""
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

    def _require_same_purpose(self) -> None:
        """Refuse a checkpoint that is about other files or another topic."""
        purpose = {"source": self._files.qualified(self._config.source), "topic": self._config.topic}
        kept = f"{self._root}/ottla/publish.json"
        text = self._files.read_text(kept)
        if text is None:
            self._files.write_text(kept, json.dumps(purpose))
        elif text != json.dumps(purpose):
            raise JobError(
                f"the checkpoint {self._root} is of another publication ({text}): give each its own --checkpoint"
            )


def _as_binary(column: "Column") -> "Column":
    return column.cast("string").cast("binary")
