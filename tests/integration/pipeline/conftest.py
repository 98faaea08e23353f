"""What the pipeline's tests share: one Spark session in this process, and a record of a job's messages."""

import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from pipeline.jars import require_jars
from pipeline.package_zip import package_zip
from pipeline.report import Stop
from pipeline.spark_submit import QUICK_JVM, spark_environment, spark_home
from pipeline.tables import DELTA_SETTINGS
from pipeline.versions import AVRO, DELTA, KAFKA
from tests.patience import WAIT_TIMEOUT_S

JOB_TIMEOUT_S = 300.0


def fetched_jars() -> list[Path]:
    """Return the jars of all that is tested, and fetch the missing ones."""
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
    """A Spark session on two threads, for all tests that do it no harm."""
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
    """A report that keeps a job's messages, and can ask the job to stop."""

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
def said() -> Iterator[Said]:
    """The messages of this test's job. A job that never ends is stopped, so that its test can fail."""
    said = Said()
    patience = threading.Timer(JOB_TIMEOUT_S, said.stop.request)
    patience.start()
    yield said
    patience.cancel()


class Sender:
    """Sends records (value, and optionally key, partition, headers, timestamp) while the test goes on.

    Attributes:
        acknowledged: The keys of the acknowledged records.
    """

    def __init__(
        self, bootstrap: str, topic: str, records: Sequence[Mapping[str, Any]], **settings: Any
    ) -> None:
        self.acknowledged: list[bytes | None] = []
        self._errors: list[Any] = []
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, **settings}
        )
        for record in records:
            self._producer.produce(topic, on_delivery=self._told, **record)
            self._producer.poll(0)

    def _told(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.append(message.key())
        else:
            self._errors.append(error)

    def wait(self) -> list[bytes | None]:
        """Wait until every record is acknowledged, and return their keys."""
        assert self._producer.flush(WAIT_TIMEOUT_S) == 0
        assert self._errors == []
        return self.acknowledged


def send(
    bootstrap: str, topic: str, records: Sequence[Mapping[str, Any]], **settings: Any
) -> list[bytes | None]:
    """Send records, wait for all acknowledgements, and return the keys."""
    return Sender(bootstrap, topic, records, **settings).wait()


def receive(bootstrap: str, topic: str, partitions: int, **settings: Any) -> list[Any]:
    """Return all messages that a topic holds."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": "pipeline-tests", "enable.auto.commit": False,
            "auto.offset.reset": "earliest", "enable.partition.eof": True, **settings,
        }
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    messages, ended = [], set()
    while len(ended) < partitions:
        message = consumer.poll(WAIT_TIMEOUT_S)
        assert message is not None, "no answer"
        if message.error() is not None:
            ended.add(message.partition())
        else:
            messages.append(message)
    consumer.close()
    return messages
