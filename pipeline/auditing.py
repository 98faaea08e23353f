"""How audit works: each side is read once, reduced to the compared columns, and queried several times."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pipeline.failure import JobError
from pipeline.kafka_source import read_batch
from pipeline.report import Report

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from pipeline.audit_config import AuditConfig

_COLUMNS: Final = (
    "partition", "records", "bytes", "first_offset", "last_offset", "missing_offsets", "gaps", "duplicates",
    "order_breaks",
)  # fmt: skip


class Audit:
    """One run of the job."""

    def __init__(self, spark: "SparkSession", config: "AuditConfig", report: Report) -> None:
        self._spark = spark
        self._config = config
        self._report = report

    def run(self) -> dict[str, Any]:
        """Check the topic, send the findings, and return them."""
        config = self._config
        result: dict[str, Any] = {"topic": config.topic, "sides": {}}
        held: list[DataFrame] = []
        try:
            for side in ("this", "other") if config.compares else ("this",):
                records = self._records(side).persist()
                held.append(records)
                result["sides"][side] = self._side(side, records)
            if config.compares:
                result["difference"] = self._difference(*held)
                self._tell_difference(result["difference"])
        finally:
            for records in held:
                records.unpersist()
        if config.report_file is not None:
            try:
                Path(config.report_file).write_text(json.dumps(result, indent=2, default=str) + "\n")
            except OSError as error:
                raise JobError(f"--report-file {config.report_file}: {error.strerror}") from None
        self._judge(result)
        return result

    def _records(self, side: str) -> "DataFrame":
        """Return the place, size, digest and identity of each record of a side."""
        from pyspark.sql import functions as F

        config = self._config
        access = config.access if side == "this" else config.other_access
        topic = self._topic(side)
        # Other jobs read committed data only; an audit counts all records.
        settings = {"isolation.level": "read_uncommitted", **access.kafka_config}
        if config.read_committed:
            settings["isolation.level"] = "read_committed"
        access = replace(access, kafka_config=settings)
        records = read_batch(self._spark, access, topics=(topic,))
        size = F.coalesce(F.length("key"), F.lit(0)) + F.coalesce(F.length("value"), F.lit(0))
        absent = F.lit(None)
        producer = config.producer or ("''" if config.number else "null")
        identity = F.expr(config.id).cast("string") if config.id else absent.cast("string")
        if not config.id and config.number:
            # Without its number a record has no identity: the producer's name alone would make all of them one.
            number_text = F.expr(config.number).cast("string")
            sent = F.concat_ws(" ", F.expr(producer).cast("string"), number_text)
            identity = F.when(number_text.isNotNull(), sent)
        number = F.expr(config.number).cast("bigint") if config.number else absent.cast("bigint")
        return records.select(
            "partition",
            "offset",
            size.cast("bigint").alias("bytes"),
            digest_of_record().alias("digest"),
            identity.alias("id"),
            F.expr(producer).cast("string").alias("producer"),
            number.alias("number"),
        )

    def _topic(self, side: str) -> str:
        return self._config.topic if side == "this" else self._config.other_topic or self._config.topic

    @property
    def _has_identity(self) -> bool:
        return self._config.id is not None or self._config.number is not None

    def _side(self, side: str, records: "DataFrame") -> dict[str, Any]:
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        place = Window.partitionBy("partition").orderBy("offset")
        seen = records.withColumn("gap", F.col("offset") - F.lag("offset").over(place) - 1)
        gap = F.coalesce(F.col("gap"), F.lit(0)) > 0
        broken = F.lit(False)
        if self._config.number is not None:
            sent = Window.partitionBy("partition", "producer").orderBy("offset")
            seen = seen.withColumn("before", F.lag("number").over(sent))
            broken = F.coalesce(F.col("number") <= F.col("before"), F.lit(False))
        repeated = F.lit(False)
        if self._has_identity:
            same = Window.partitionBy("id").orderBy("partition", "offset")
            seen = seen.withColumn("times_before", F.row_number().over(same) - 1)
            repeated = F.col("id").isNotNull() & (F.col("times_before") > 0)
        seen = seen.withColumns({"is_gap": gap, "is_broken": broken, "is_repeated": repeated}).persist()
        try:
            figures = self._partitions(seen)
            cases = {
                "gaps": self._cases(seen, "is_gap", "concat(gap, ' before ', partition, ' at ', offset)"),
                "duplicates": self._cases(
                    seen, "is_repeated", "concat(id, ' again in ', partition, ' at ', offset)"
                ),
                "order": self._cases(seen, "is_broken", "concat(id, ' in ', partition, ' at ', offset)"),
            }
        finally:
            seen.unpersist()
        topic = self._topic(side)
        title = f"{topic} ({side} side)" if self._config.compares else topic
        rows = [[figure[name] for name in _COLUMNS] for figure in figures]
        totals = _totals(figures)
        if len(figures) > 1:
            rows.append(["all", *(totals.get(name) for name in _COLUMNS[1:])])
        self._report.send(
            "table", title=title, columns=[name.replace("_", " ") for name in _COLUMNS], rows=rows
        )
        return {"partitions": figures, "totals": totals, "examples": cases}

    def _partitions(self, seen: "DataFrame") -> list[dict[str, Any]]:
        from pyspark.sql import functions as F

        found = (
            seen.groupBy("partition")
            .agg(
                F.count(F.lit(1)).alias("records"),
                F.sum("bytes").alias("bytes"),
                F.min("offset").alias("first_offset"),
                F.max("offset").alias("last_offset"),
                F.count_if("is_gap").alias("gaps"),
                F.count_if("is_repeated").alias("duplicates"),
                F.count_if("is_broken").alias("order_breaks"),
            )
            .withColumn("missing_offsets", F.expr("last_offset - first_offset + 1 - records"))
            .orderBy("partition")
        )
        figures = []
        for row in found.collect():
            figure = row.asDict()
            if not self._has_identity:
                figure["duplicates"] = None
            if self._config.number is None:
                figure["order_breaks"] = None
            figures.append(figure)
        return figures

    def _cases(self, seen: "DataFrame", flag: str, text: str) -> list[str]:
        rows = seen.where(flag).orderBy("partition", "offset").limit(self._config.examples)
        return [row[0] for row in rows.selectExpr(text).collect()]

    def _difference(self, this: "DataFrame", other: "DataFrame") -> dict[str, Any]:
        """Compare the sides by identity, else by place."""
        by = ["id"] if self._has_identity else ["partition", "offset"]
        return compare(this, other, by, examples=self._config.examples)

    def _tell_difference(self, difference: dict[str, Any]) -> None:
        rows = [[name.replace("_", " "), count] for name, count in difference.items() if name != "examples"]
        self._report.send("table", title="difference", columns=["kind", "records"], rows=rows)

    def _judge(self, result: dict[str, Any]) -> None:
        """Fail on the faults that ``fail_on`` names.

        Raises:
            JobError: naming them with their first case.
        """
        found = []
        for side, facts in result["sides"].items():
            for fault, name in (("gaps", "gaps"), ("duplicates", "duplicates"), ("order", "order_breaks")):
                if self._fails_on(fault) and facts["totals"][name]:
                    case = facts["examples"][fault][0]
                    found.append(f"{facts['totals'][name]} {name.replace('_', ' ')} on {side} side ({case})")
        difference = result.get("difference", {"examples": []})
        if self._fails_on("difference") and difference["examples"]:
            count = sum(value for name, value in difference.items() if name != "examples")
            found.append(f"{count} differences ({difference['examples'][0]})")
        if found:
            raise JobError(f"{self._config.topic}: {'; '.join(found)}")

    def _fails_on(self, fault: str) -> bool:
        return fault in self._config.fail_on or "any" in self._config.fail_on


def digest_of_record() -> "Column":
    """Return 64 bits of a record's key, value and headers, which tell null from empty and keep the headers' order."""
    from pyspark.sql import functions as F

    def marked(column: "Column") -> "list[Column]":
        # The hash skips nulls: without the mark, a record with only a key would equal one with only a value.
        return [column.isNull(), column]

    headers = F.transform(
        "headers", lambda header: F.struct(header["key"], header["value"].isNull(), header["value"])
    )
    # The connector's column is null for a record without headers; another source may give an empty list.
    count = F.coalesce(F.size("headers"), F.lit(0))
    return F.xxhash64(*marked(F.col("key")), *marked(F.col("value")), F.greatest(count, F.lit(0)), headers)


def compare(this: "DataFrame", other: "DataFrame", by: Sequence[str], *, examples: int) -> dict[str, Any]:
    """Compare two sets of records; an identity may have several records.

    Digests are added up: unlike with an exclusive or, two equal records do not cancel out. Records without an identity
    are compared as one group.

    Args:
        this: Records with the columns of ``by`` and ``digest``.
        other: The other side's.
        by: What identifies a record.
        examples: How many differences are shown.

    Returns:
        How many identities only one side has, how many differ in their number of records or in content, and examples.
    """
    from pyspark.sql import functions as F

    digest = F.col("digest").cast("decimal(20,0)")
    sides = this.select(*by, "digest", F.lit(True).alias("is_this")).unionByName(
        other.select(*by, "digest", F.lit(False).alias("is_this"))
    )
    both = sides.groupBy(*by).agg(
        F.count_if("is_this").alias("this_records"),
        F.count_if(~F.col("is_this")).alias("other_records"),
        F.sum(F.when(F.col("is_this"), digest)).alias("this_digest"),
        F.sum(F.when(~F.col("is_this"), digest)).alias("other_digest"),
    )
    kind = (
        F.when(F.col("other_records") == 0, "only_this")
        .when(F.col("this_records") == 0, "only_other")
        .when(F.col("this_records") != F.col("other_records"), "other_count")
        .when(F.col("this_digest") != F.col("other_digest"), "other_content")
    )
    differing = both.withColumn("kind", kind).where("kind is not null").persist()
    try:
        counts = {row["kind"]: row["count"] for row in differing.groupBy("kind").count().collect()}
        what = F.concat_ws(" at ", *(F.coalesce(F.col(name).cast("string"), F.lit("no id")) for name in by))
        shown = differing.select("kind", what.alias("what")).orderBy("kind", "what")
        cases = [f"{row['kind']}: {row['what']}" for row in shown.limit(examples).collect()]
    finally:
        differing.unpersist()
    kinds = ("only_this", "only_other", "other_count", "other_content")
    return {**{name: counts.get(name, 0) for name in kinds}, "examples": cases}


def _totals(figures: list[dict[str, Any]]) -> dict[str, Any]:
    names = ("records", "bytes", "missing_offsets", "gaps", "duplicates", "order_breaks")
    totals: dict[str, Any] = {}
    for name in names:
        values = [figure[name] for figure in figures if figure[name] is not None]
        totals[name] = sum(values) if values or not figures else None
    return totals
