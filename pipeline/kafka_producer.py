"""Sending rows by librdkafka from Spark's Python workers: for timestamps, which the connector's sink cannot set."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import Producer
    from pyspark.sql import DataFrame

FLUSH_TIMEOUT_S: Final = 120.0
SETTINGS: Final = {
    "enable.idempotence": True,
    "linger.ms": 20,
    "compression.type": "lz4",
    # The partitioner of the connector's sink and of every Java producer: a key has one partition, whichever way it is
    # sent.
    "partitioner": "murmur2_random",
}
COUNT_SCHEMA: Final = "sent BIGINT"


def send_rows(rows: "DataFrame", topic: str, options: Mapping[str, Any]) -> None:
    """Send every row of a batch: value, and key, headers, partition and timestamp where the columns exist.

    Each task sends idempotently with acks=all; a task that is run again sends its rows again.

    Raises:
        PySparkException: a record was not acknowledged; the text names the reason.
    """
    settings = {**SETTINGS, **options}

    def send(batches: Iterable["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        from confluent_kafka import Producer

        sending = Sending(Producer(settings), topic)
        sending.send_all(batches)
        sending.flush()
        yield count_row(sending.count)

    rows.mapInArrow(send, COUNT_SCHEMA).collect()


class Sending:
    """Sends the rows of Arrow batches with one producer.

    Args:
        producer: The producer.
        topic: Where the rows go.

    Attributes:
        count: How many rows were handed to the producer.
    """

    def __init__(self, producer: "Producer", topic: str) -> None:
        self.count = 0
        self._producer = producer
        self._topic = topic
        self._failures: list[str] = []

    def send_all(self, batches: Iterable["pa.RecordBatch"]) -> None:
        """Hand over every row: value, and key, headers, partition and timestamp where the columns exist."""
        for batch in batches:
            for row in batch.to_pylist():
                self._send(row)
            self._producer.poll(0)

    def flush(self) -> None:
        """Wait until everything is acknowledged.

        Raises:
            RuntimeError: a record was not acknowledged in time; the text names the reason.
        """
        left = self._producer.flush(FLUSH_TIMEOUT_S)
        if self._failures or left:
            raise RuntimeError(
                f"{len(self._failures) + left} records were not acknowledged: "
                f"{(self._failures or ['no answer'])[0]}"
            )

    def _send(self, row: Mapping[str, Any]) -> None:
        arguments = {name: row[name] for name in ("key", "partition") if row.get(name) is not None}
        if row.get("timestamp") is not None:
            arguments["timestamp"] = round(row["timestamp"].timestamp() * 1000)
        if row.get("headers"):
            arguments["headers"] = [(header["key"], header["value"]) for header in row["headers"]]
        while True:
            try:
                self._producer.produce(self._topic, row["value"], on_delivery=self._on_delivery, **arguments)
                break
            except BufferError:
                self._producer.poll(0.1)
        self.count += 1

    def _on_delivery(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._failures.append(error.str())


def count_row(count: int) -> "pa.RecordBatch":
    """Return a task's result, in `COUNT_SCHEMA`."""
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({"sent": pa.array([count], pa.int64())})
