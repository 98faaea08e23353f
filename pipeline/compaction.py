"""Merging the small files of a table, so that a reader sees the old files or the new one, never both or neither.

Delta does this itself. For Parquet the unit of visibility is the sink's log: its newest `N.compact` lists all files up
to batch N, and replacing that one file, by a rename, replaces small files by merged ones for every reader at once.
Files of later batches wait for the log's next compaction (`spark.sql.streaming.fileSink.log.compactInterval` batches).
Replaced files stay for an hour, for readers that planned with them; a later run deletes them.

A stream that reads the table knows files by their paths, and regards a merged one as new: `publication` refuses it.
"""

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pipeline.job_files import JobFiles
from pipeline.tables import SINK_LOG, sink_entries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEEP_REPLACED_S: Final = 3600.0
MERGED_PREFIX: Final = "merged-"
_SCRATCH: Final = "_merging"
_REPLACED: Final = "_replaced.json"

Entry = dict[str, Any]


def compact_table(
    spark: "SparkSession",
    files: JobFiles,
    table: str,
    table_format: str,
    *,
    target_bytes: int,
    keep_replaced_s: float = KEEP_REPLACED_S,
) -> int:
    """Merge a table's small files. No query may write the table meanwhile.

    Args:
        spark: The session.
        files: Its file systems.
        table: The table's path.
        table_format: parquet or delta.
        target_bytes: The approximate size of merged files.
        keep_replaced_s: How many seconds replaced files stay.

    Returns:
        How many files were merged into larger ones.
    """
    if table_format == "delta":
        return _compact_delta(spark, table, target_bytes)
    return _ParquetMerge(spark, files, table.rstrip("/"), target_bytes).run(keep_replaced_s)


def _compact_delta(spark: "SparkSession", table: str, target_bytes: int) -> int:
    from delta.tables import DeltaTable

    spark.conf.set("spark.databricks.delta.optimize.maxFileSize", str(target_bytes))
    metrics: Any = DeltaTable.forPath(spark, table).optimize().executeCompaction().first()
    return int(metrics["metrics"]["numFilesRemoved"])


class _ParquetMerge:
    def __init__(self, spark: "SparkSession", files: JobFiles, table: str, target_bytes: int) -> None:
        self._spark = spark
        self._files = files
        self._table = table
        self._target = target_bytes

    def run(self, keep_replaced_s: float) -> int:
        self._delete_replaced(keep_replaced_s)
        self._files.delete_tree(f"{self._table}/{_SCRATCH}")
        log = self._newest_log()
        if log is None:
            return 0
        entries = sink_entries(self._files, log)
        kept, groups = plan_merge(entries, self._target)
        if not groups:
            return 0
        merged = [self._merge(number, group) for number, group in enumerate(groups)]
        replaced = [str(entry["path"]) for group in groups for entry in group]
        self._remember(replaced)
        text = "\n".join(["v1", *(json.dumps(entry, separators=(",", ":")) for entry in [*kept, *merged])])
        self._files.write_text(log, text)
        self._files.delete_tree(f"{self._table}/{_SCRATCH}")
        self._delete_replaced(keep_replaced_s)
        return len(replaced)

    def _newest_log(self) -> str | None:
        names = self._files.names(f"{self._table}/{SINK_LOG}")
        numbers = [int(name.removesuffix(".compact")) for name in names if name.endswith(".compact")]
        return f"{self._table}/{SINK_LOG}/{max(numbers)}.compact" if numbers else None

    def _merge(self, number: int, group: Sequence[Entry]) -> Entry:
        """Write one file out of several, beside them, and return its entry."""
        scratch = f"{self._table}/{_SCRATCH}/{number}"
        rows = self._spark.read.option("mergeSchema", "true").parquet(
            *(str(entry["path"]) for entry in group)
        )
        rows.coalesce(1).write.parquet(scratch)
        (written,) = [name for name in self._files.names(scratch) if name.endswith(".parquet")]
        folder = str(group[0]["path"]).rpartition("/")[0]
        path = f"{folder}/{MERGED_PREFIX}{written}"
        size, modified = self._files.move(f"{scratch}/{written}", path)
        return {**group[0], "path": path, "size": size, "modificationTime": modified}

    def _remember(self, replaced: Sequence[str]) -> None:
        now = time.time()  # noqa: TID251 - compared with the wall time of a later run
        known = self._replaced()
        known.update(dict.fromkeys(replaced, now))
        self._files.write_text(f"{self._table}/{_REPLACED}", json.dumps(known))

    def _delete_replaced(self, keep_s: float) -> None:
        """Delete files that were replaced long ago, unless the log still names them: a run may have died before its
        swap.
        """
        known = self._replaced()
        limit = time.time() - keep_s  # noqa: TID251 - compared with the wall time of an earlier run
        old = {path for path, at in known.items() if at <= limit}
        if not old:
            return
        log = self._newest_log()
        named = {str(entry["path"]) for entry in sink_entries(self._files, log)} if log else old
        for path in old - named:
            self._files.delete(path)
        left = {path: at for path, at in known.items() if path not in old}
        self._files.write_text(f"{self._table}/{_REPLACED}", json.dumps(left))

    def _replaced(self) -> dict[str, float]:
        text = self._files.read_text(f"{self._table}/{_REPLACED}")
        return {} if text is None else dict(json.loads(text))


def is_merged(path: str) -> str | None:
    """Return the name of a file that was merged out of others, None for any other file."""
    name = path.rpartition("/")[2]
    return name if name.startswith(MERGED_PREFIX) else None


def plan_merge(entries: Sequence[Entry], target_bytes: int) -> tuple[list[Entry], list[list[Entry]]]:
    """Choose the files to merge: small neighbours of one folder, up to the target size.

    Returns:
        The entries that stay, and groups of two or more to merge.
    """
    folders: dict[str, list[Entry]] = {}
    kept: list[Entry] = []
    for entry in entries:
        if int(entry["size"]) * 2 > target_bytes:
            kept.append(entry)
        else:
            folders.setdefault(str(entry["path"]).rpartition("/")[0], []).append(entry)
    groups: list[list[Entry]] = []
    for small in folders.values():
        group: list[Entry] = []
        size = 0
        for entry in small:
            if group and size + int(entry["size"]) > target_bytes:
                groups.append(group)
                group, size = [], 0
            group.append(entry)
            size += int(entry["size"])
        groups.append(group)
    kept += [entry for group in groups if len(group) == 1 for entry in group]
    return kept, [group for group in groups if len(group) > 1]
