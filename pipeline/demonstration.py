"""How the demo works: it runs the jobs one after the other in one Spark session, and shows their results."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pipeline.aggregate_config import AggregateConfig
from pipeline.audit_config import AuditConfig
from pipeline.failure import JobError
from pipeline.flights import COUNT, KEY, SCHEMA, write_flights
from pipeline.ingest_config import IngestConfig
from pipeline.jobs import aggregate, audit, ingest, publish
from pipeline.kafka_access import KafkaAccess
from pipeline.kafka_source import read_batch
from pipeline.publish_config import PublishConfig
from pipeline.report import Report, Stop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC: Final = "demo-flights"
HOURS_TOPIC: Final = "demo-flights-by-hour"
PARTS: Final = 4
_MARK: Final = ".ottla-demo"

_SPEC: Final = """\
# Departures and delays of each carrier in each hour, with the carrier's name.
[source]
topic = "{topic}"
form = "json"
schema = "{schema}"

[time]
column = "time_hour"
watermark = "1 day"

[window]
size = "1 hour"

[join]
path = "{airlines}"
format = "csv"
options = {{ header = "true" }}
on = ["carrier"]

[aggregate]
keys = ["carrier", "name"]

[aggregate.measures]
flights = "count(*)"
departures = "count(dep_time)"
delay_minutes = "sum(dep_delay)"

[sink]
topic = "{sink}"
partitions = 3
"""


class Demonstration:
    """One run of the demo."""

    def __init__(
        self, spark: "SparkSession", bootstrap_server: str, output: str, report: Report, stop: Stop
    ) -> None:
        self._spark = spark
        self._bootstrap = bootstrap_server
        self._output = Path(output).absolute()
        self._report = report
        self._stop = stop

    def run(self) -> dict[str, Any]:
        """Run everything, and return the figures."""
        figures: dict[str, Any] = {}
        write_flights(self._output, PARTS)
        for name, step in (
            ("publish", self._publish),
            ("ingest", self._ingest),
            ("aggregate", self._aggregate),
            ("audit", self._audit),
        ):
            if self._stop.requested:
                return figures
            figures[name] = step()
        rows = self._show_table()
        hours = self._show_hours()
        self._draw(hours)
        if rows != COUNT:
            raise JobError(f"the table holds {rows:,} flights, not {COUNT:,}")
        return figures

    def _publish(self) -> dict[str, Any]:
        self._report.send("note", text=f"publishing {COUNT:,} flights to the topic {TOPIC}")
        config = PublishConfig(
            bootstrap_server=self._bootstrap,
            source=str(self._output / "flights"),
            source_format="csv",
            source_option={"header": "true", "nullValue": "NA"},
            schema=SCHEMA,
            topic=TOPIC,
            partitions=3,
            key=KEY,
            checkpoint=str(self._output / "checkpoints" / "publish"),
        )
        return publish.run(self._spark, config, self._report, self._stop)

    def _ingest(self) -> dict[str, Any]:
        table = self._output / "table"
        self._report.send("note", text=f"ingesting the topic to the Parquet table {table}")
        config = IngestConfig(
            bootstrap_server=self._bootstrap,
            topic=(TOPIC,),
            table=str(table),
            checkpoint=str(self._output / "checkpoints" / "ingest"),
            form="json",
            schema=SCHEMA,
            extra_fields=False,
            event_time="time_hour",
            partition_by="month",
            once=True,
        )
        return ingest.run(self._spark, config, self._report, self._stop)

    def _aggregate(self) -> dict[str, Any]:
        self._report.send(
            "note", text=f"aggregating by carrier and hour to the compacted topic {HOURS_TOPIC}"
        )
        spec = self._output / "flights-by-hour.toml"
        airlines = self._output / "airlines.csv"
        spec.write_text(_SPEC.format(topic=TOPIC, schema=SCHEMA, airlines=airlines, sink=HOURS_TOPIC))
        config = AggregateConfig(
            bootstrap_server=self._bootstrap,
            spec=str(spec),
            checkpoint=str(self._output / "checkpoints" / "aggregate"),
            once=True,
        )
        return aggregate.run(self._spark, config, self._report, self._stop)

    def _audit(self) -> dict[str, Any]:
        self._report.send("note", text="auditing the topic")
        config = AuditConfig(
            bootstrap_server=self._bootstrap,
            topic=TOPIC,
            id="cast(key as string)",
            fail_on=("gaps", "duplicates"),
            report_file=str(self._output / "audit.json"),
        )
        result = audit.run(self._spark, config, self._report, self._stop)
        totals: dict[str, Any] = result["sides"]["this"]["totals"]
        return totals

    def _show_table(self) -> int:
        from pyspark.sql import functions as F

        table = self._spark.read.parquet(str(self._output / "table"))
        months = (
            table.groupBy("event_month")
            .agg(
                F.count(F.lit(1)).alias("flights"),
                F.count("dep_time").alias("departures"),
                F.avg("dep_delay").alias("mean delay"),
            )
            .orderBy("event_month")
        )
        self._tell("flights by month, from the table (months in UTC)", months)
        return table.count()

    def _show_hours(self) -> "DataFrame":
        """Read the compacted topic back: the last value of each key is the current one."""
        from pyspark.sql import functions as F

        schema = (
            "carrier STRING, name STRING, window_start TIMESTAMP, "
            "flights BIGINT, departures BIGINT, delay_minutes BIGINT"
        )
        records = read_batch(self._spark, self._access, topics=(HOURS_TOPIC,))
        current = records.groupBy("partition", "key").agg(F.max_by("value", "offset").alias("value"))
        hours = (
            current.select(F.from_json(F.col("value").cast("string"), schema).alias("v"))
            .select("v.*")
            .cache()
        )
        mean = (F.sum("delay_minutes") / F.sum("departures")).alias("mean delay")
        sums = [F.sum(name).alias(name) for name in ("flights", "departures")]
        carriers = hours.groupBy("carrier", "name").agg(*sums, mean).orderBy(F.desc("flights"))
        self._tell("flights by carrier, from the compacted topic", carriers)
        local = F.hour(F.from_utc_timestamp("window_start", "America/New_York")).alias("hour")
        by_hour = hours.groupBy(local).agg(*sums, mean).orderBy("hour")
        self._tell("flights by hour of the day in New York, from the compacted topic", by_hour)
        return by_hour

    @property
    def _access(self) -> KafkaAccess:
        return KafkaAccess(self._bootstrap)

    def _tell(self, title: str, rows: "DataFrame") -> None:
        self._report.send(
            "table", title=f"\n{title}", columns=rows.columns, rows=[list(row) for row in rows.collect()]
        )

    def _draw(self, by_hour: "DataFrame") -> None:
        """Draw departures and delays by hour, where matplotlib is installed."""
        try:
            from pipeline.picture import draw_hours
        except ImportError:
            self._report.send("warning", text="no picture: pip install matplotlib")
            return
        path = self._output / "flights-by-hour.png"
        rows = [row.asDict() for row in by_hour.collect()]
        draw_hours(path, [(row["hour"], row["departures"], row["mean delay"]) for row in rows])
        self._report.send("picture", path=str(path))


def require_new_topics(bootstrap_server: str) -> None:
    """Refuse a given cluster that has topics of the demo: an earlier run's flights would count twice.

    Raises:
        JobError: naming them, or the cluster does not answer.
    """
    found = sorted(KafkaAccess(bootstrap_server).topics((TOPIC, HOURS_TOPIC)))
    if found:
        raise JobError(
            f"{' and '.join(found)} {'is' if len(found) == 1 else 'are'} on {bootstrap_server} already: "
            f"`ottla topics --bootstrap-server {bootstrap_server} --delete --topic {','.join(found)}` first"
        )


def clear_output(output: Path) -> None:
    """Recreate the demo's folder; refuse to touch one that the demo did not create.

    Raises:
        JobError: it holds other files, or cannot be written.
    """
    try:
        if output.exists() and any(output.iterdir()):
            if not (output / _MARK).exists():
                raise JobError(f"{output} holds other files: give another --output")
            shutil.rmtree(output)
        output.mkdir(parents=True, exist_ok=True)
        (output / _MARK).touch()
    except OSError as error:
        raise JobError(f"{output}: {error.strerror}") from None
