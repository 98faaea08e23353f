"""Tables that a stream writes: Parquet through Spark's file sink, or Delta Lake.

The file sink is exactly once by its own log, `_spark_metadata`: a batch's files become visible all at once, when the
log names them. Spark reads the table through it. A reader that lists `*.parquet` instead sees files of batches that
were never finished: `committed_files` is for those.
"""

import json
import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from pipeline.failure import JobError
from pipeline.job_files import JobFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

SINK_LOG: Final = "_spark_metadata"
DELTA_LOG: Final = "_delta_log"
FORMATS: Final = ("parquet", "delta")

DELTA_SETTINGS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def require_fresh_or_same(files: JobFiles, table: str, table_format: str, *, checkpoint_is_new: bool) -> None:
    """Refuse a table that another checkpoint wrote: its batches would be skipped, or written twice.

    Raises:
        JobError: stating which of the two to change.
    """
    names = files.names(table)
    log = SINK_LOG if table_format == "parquet" else DELTA_LOG
    other = DELTA_LOG if table_format == "parquet" else SINK_LOG
    if other in names:
        raise JobError(f"the table at {table} is not of the format {table_format}: correct --table-format")
    if checkpoint_is_new and log in names:
        raise JobError(
            f"the table at {table} was written with another checkpoint: go on with that one, or give a new table"
        )
    if log not in names and any(not name.startswith((".", "_")) for name in names):
        raise JobError(f"{table} holds files that are no table of this job: give a new table")


def require_fitting_schema(
    spark: "SparkSession", files: JobFiles, table: str, table_format: str, schema: "StructType"
) -> None:
    """Refuse a schema that changes the type of a column that the table has; new columns may come.

    Raises:
        JobError: naming the column.
    """
    if (SINK_LOG if table_format == "parquet" else DELTA_LOG) not in files.names(table):
        return
    if table_format == "parquet" and not committed_files(files, table):
        return
    # A column that came later is in some of the files only.
    reader = spark.read.format(table_format).option("mergeSchema", "true")
    before = {field.name: field.dataType for field in reader.load(table).schema.fields}
    for field in schema.fields:
        known = before.get(field.name)
        # The types of partition columns are inferred from folder names.
        if known is not None and known != field.dataType and field.name not in ("event_hour", "event_month"):
            raise JobError(
                f"the schema does not fit the table at {table}: column {field.name} is "
                f"{known.simpleString().upper()} there "
                f"and {field.dataType.simpleString().upper()} here; give a new table, or a schema that fits"
            )


def committed_files(files: JobFiles, table: str) -> list[str]:
    """Return the files that a Parquet table written by the file sink consists of, as Spark would read them.

    Raises:
        JobError: the sink's log is damaged, or names files in the place that the table was moved from.
    """
    numbers = {name for name in files.names(f"{table}/{SINK_LOG}") if not name.startswith(".")}
    compacted = [int(n.removesuffix(".compact")) for n in numbers if n.endswith(".compact")]
    base = max(compacted, default=-1)
    names = [f"{base}.compact"] if compacted else []
    names += map(str, sorted(int(name) for name in numbers if name.isdigit() and int(name) > base))
    found: dict[str, None] = {}
    for name in names:
        for entry in sink_entries(files, f"{table}/{SINK_LOG}/{name}"):
            found[str(entry["path"])] = None
    _require_not_moved(files, table, found)
    return list(found)


def _require_not_moved(files: JobFiles, table: str, paths: Collection[str]) -> None:
    """Refuse a table whose log names files elsewhere that are gone: the log has whole paths.

    Raises:
        JobError: saying where the table was.
    """
    here = local_path(files.qualified(table)).rstrip("/") + "/"
    elsewhere = next((path for path in paths if not _plain(path).startswith(_plain(here))), None)
    # Under another name of the same folder, such as a link, they are still there.
    if elsewhere is not None and not files.exists(local_path(elsewhere)):
        raise JobError(
            f"the table at {table} was moved: its log names {local_path(elsewhere)}. "
            "A Parquet table of a stream cannot be moved or trimmed; move it back, or copy its rows into a new table. "
            "Delta tables (--table-format delta) can"
        )


def _plain(path: str) -> str:
    """Return a path for comparison: Hadoop writes a local one as file:/a and as file:///a."""
    return re.sub(r"^file:/+", "/", unquote(path))


def sink_entries(files: JobFiles, path: str) -> list[dict[str, object]]:
    """Return the entries of one file of the sink's log.

    Raises:
        JobError: it is damaged.
    """
    version, *lines = (files.read_text(path) or "").splitlines() or [""]
    try:
        if version != "v1":
            raise ValueError(f"its version is {version!r}")
        return [json.loads(line) for line in lines if line]
    except ValueError as error:
        raise JobError(
            f"the table's log {path} is damaged: {error}; restore it, or start a new table"
        ) from None


def local_path(uri: str) -> str:
    """Return a file URI as a path that other programs accept."""
    return unquote(uri.removeprefix("file://")) if uri.startswith("file:/") else uri


def start_table(
    rows: "DataFrame", *, table: str, table_format: str, partition_by: Sequence[str]
) -> "DataStreamWriter":
    """Return the writer of a table; the caller adds trigger and checkpoint, and starts it."""
    writer = rows.writeStream.format(table_format).outputMode("append").option("path", table)
    if table_format == "delta":
        writer = writer.option("mergeSchema", "true")
    return writer.partitionBy(*partition_by) if partition_by else writer
