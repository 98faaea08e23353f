"""How fast ingest and archive read: ``python -m bench.pipeline_rates [--records N] [--rounds N] [--no-peer]``.

The same Spark reads from Ottla and, where its jars are at hand, from Apache Kafka 3.9, in turns. The archive reads the
log directories of both: they have one format. The first round of each warms the JVM and is left out.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import loads
from bench.systems import ApacheKafka, Ottla, System, kafka_libs
from pipeline.archive import OttlaLogDataSource
from pipeline.jars import require_jars
from pipeline.jobs import ingest
from pipeline.package_zip import package_zip
from pipeline.report import Stop
from pipeline.spark_submit import spark_environment, spark_home
from pipeline.versions import KAFKA

SIZE = 200
SCHEMA = "id BIGINT, name STRING, padding STRING"


class Silent:
    """A report that drops its messages."""

    def send(self, kind: str, **values: object) -> None:
        pass


def open_spark():
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    from pyspark.sql import SparkSession

    submit = [str(spark_home() / "bin" / "spark-submit")]
    jars = require_jars([KAFKA], given=None, conf={}, submit=submit, environment=spark_environment("local"))
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(map(str, jars)))
        .config("spark.submit.pyFiles", str(package_zip()))
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(OttlaLogDataSource)
    return spark


def ingest_rate(spark, system: System, topic: str, records: int, form: str) -> float:
    """Return the rows per second of one ingest of a whole topic to Parquet."""
    with tempfile.TemporaryDirectory(prefix="bench-ingest-") as folder:
        config = ingest.IngestConfig(
            bootstrap_server=system.bootstrap,
            topic=(topic,),
            table=f"{folder}/table",
            form=form,
            schema=SCHEMA if form == "json" else None,
            extra_fields=False,
            partition_by="none",
            once=True,
        )
        started = time.perf_counter()
        result = ingest.run(spark, config, Silent(), Stop())
        took = time.perf_counter() - started
    assert result["rows"] == records, result
    return records / took


def archive_rate(spark, directory: Path, topic: str, records: int) -> float:
    """Return the rows per second of reading a topic's segments, the active ones too, since no writer is left."""
    source = spark.read.format("ottla-log").option("topic", topic).option("includeActive", "true")
    started = time.perf_counter()
    (row,) = source.load(str(directory)).selectExpr("count(*)", "sum(length(value))").collect()
    took = time.perf_counter() - started
    assert row[0] == records, row
    return records / took


def log_directory(system: System) -> Path:
    """Return where the one broker of a system keeps its logs."""
    return system._data / ("data/broker-0/logs" if isinstance(system, Ottla) else "logs-0")


def measure(spark, kind: Callable[[int], System], records: int, rates: dict, name: str) -> None:
    """Measure one round of one system."""
    system = kind(1)
    try:
        topics = {form: loads.topic_of(system, 1, 4) for form in ("raw", "json")}
        for form, topic in topics.items():
            fill(system, topic, form, records)
            rates[f"ingest {form}", name].append(ingest_rate(spark, system, topic, records, form))
        rates["archive", name].append(archive_rate(spark, log_directory(system), topics["raw"], records))
    finally:
        system.stop()


def fill(system: System, topic: str, form: str, records: int) -> None:
    """Fill a topic with records of SIZE bytes."""
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": system.bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 500_000}
    )
    for number in range(records):
        text = (
            f'{{"id": {number}, "name": "n{number % 1000}", "padding": "' if form == "json" else f"{number}"
        )
        value = (text + "x" * (SIZE - len(text) - 2) + '"}').encode()
        while True:
            try:
                producer.produce(topic, value, partition=number % 4)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0


def main() -> int:
    """Parse the command line, run, report."""
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline_rates", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-peer", action="store_true", help="measure Ottla only")
    options = parser.parse_args()
    systems: list[type[Ottla] | type[ApacheKafka]] = [Ottla]
    if not options.no_peer and kafka_libs() is not None:
        systems.append(ApacheKafka)
    spark = open_spark()
    rates: dict[tuple[str, str], list[float]] = defaultdict(list)
    for number in range(options.rounds + 1):
        for kind in systems if number % 2 == 0 else reversed(systems):
            measure(spark, kind, options.records, rates, kind.name)
            Console(stderr=True).print(f"[dim]round {number}, {kind.name}[/]")
    spark.stop()
    table = Table(title=f"Reading {options.records:,} records of {SIZE} B, medians")
    for column in ("load", "from", "rows/s", "MB/s", "rounds"):
        table.add_column(column, justify="left" if column in ("load", "from") else "right")
    for (what, name), values in sorted(rates.items()):
        kept = values[1:] or values
        rate = statistics.median(kept)
        table.add_row(
            what, name, f"{rate:,.0f}", f"{rate * SIZE / 1e6:,.1f}", " ".join(f"{v:,.0f}" for v in kept)
        )
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
