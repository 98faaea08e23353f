"""What the pipeline's tests share: one Spark session in this process, and a record of what a job said."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from pipeline.jars import require_jars
from pipeline.package_zip import package_zip
from pipeline.report import Stop
from pipeline.spark_submit import spark_environment, spark_home
from pipeline.tables import DELTA_SETTINGS
from pipeline.versions import AVRO, DELTA, KAFKA

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"


def fetched_jars() -> list[Path]:
    """Give the jars of all that is tested, fetched where they are not there yet."""
    return require_jars(
        [KAFKA, DELTA, AVRO],
        given=None,
        conf={},
        submit=[str(spark_home() / "bin" / "spark-submit")],
        environment=spark_environment("local"),
    )


@pytest.fixture(scope="session")
def jars() -> list[Path]:
    """The connector's jars, Delta's and Avro's."""
    return fetched_jars()


@pytest.fixture(scope="session")
def spark(jars: list[Path]) -> Iterator[Any]:
    """A Spark on two threads, for all tests that do it no harm."""
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    from pyspark.sql import SparkSession

    settings = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.submit.pyFiles": str(package_zip()),
        "spark.driver.extraJavaOptions": QUICK_JVM,
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.pollingDelay": "5ms",
        **DELTA_SETTINGS,
    }
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


class Said:
    """A report that keeps what a job says, and can ask it to stop at a word."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, dict[str, Any]]] = []
        self.stop = Stop()
        self.on_message = lambda kind, values: None

    def send(self, kind: str, **values: Any) -> None:
        self.messages.append((kind, values))
        self.on_message(kind, values)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [values for said, values in self.messages if said == kind]


@pytest.fixture
def said() -> Said:
    """What the job of this test says."""
    return Said()


def send(bootstrap: str, topic: str, records: Sequence[Mapping[str, Any]], **settings: Any) -> None:
    """Send records (value, and maybe key, partition, headers, timestamp), and wait for each acknowledgement."""
    errors: list[Any] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, **settings}
    )
    for record in records:
        producer.produce(topic, on_delivery=lambda e, _: errors.append(e) if e else None, **record)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert errors == []


def receive(bootstrap: str, topic: str, partitions: int, **settings: Any) -> list[Any]:
    """Give all messages that a topic holds."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": "pipeline-tests", "enable.auto.commit": False,
            "auto.offset.reset": "earliest", "enable.partition.eof": True, **settings,
        }
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    messages, ended = [], set()
    while len(ended) < partitions:
        message = consumer.poll(30)
        assert message is not None, "no answer"
        if message.error() is not None:
            ended.add(message.partition())
        else:
            messages.append(message)
    consumer.close()
    return messages
