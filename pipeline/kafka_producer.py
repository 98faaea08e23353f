"""Sending rows by librdkafka from Spark's Python workers: for timestamps, which the connector's sink cannot set."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

FLUSH_TIMEOUT_S: Final = 120.0


def send_rows(rows: "DataFrame", topic: str, options: Mapping[str, Any]) -> None:
    """Send every row of a batch: value, and where they are there key, headers, partition, timestamp.

    Each task sends idempotently with acks=all; a task that is run again sends its rows again.

    Raises:
        PySparkException: a record was not acknowledged; the text names the reason.
    """
    settings = {"enable.idempotence": True, "linger.ms": 20, "compression.type": "lz4", **options}

    def send(batches: Iterable["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        import pyarrow as pa

        count = _send_batches(batches, topic, settings)
        yield pa.RecordBatch.from_pydict({"sent": pa.array([count], pa.int64())})

    rows.mapInArrow(send, "sent BIGINT").collect()


def _send_batches(batches: Iterable["pa.RecordBatch"], topic: str, settings: Mapping[str, Any]) -> int:
    from confluent_kafka import Producer

    failures: list[str] = []

    def on_delivery(error: Any, _message: Any) -> None:
        if error is not None:
            failures.append(error.str())

    producer = Producer(dict(settings))
    count = 0
    for batch in batches:
        for row in batch.to_pylist():
            arguments = {name: row[name] for name in ("key", "partition") if row.get(name) is not None}
            if row.get("timestamp") is not None:
                arguments["timestamp"] = round(row["timestamp"].timestamp() * 1000)
            if row.get("headers"):
                arguments["headers"] = [(header["key"], header["value"]) for header in row["headers"]]
            while True:
                try:
                    producer.produce(topic, row["value"], on_delivery=on_delivery, **arguments)
                    break
                except BufferError:
                    producer.poll(0.1)
            count += 1
        producer.poll(0)
    left = producer.flush(FLUSH_TIMEOUT_S)
    if failures or left:
        raise RuntimeError(
            f"{len(failures) + left} records were not acknowledged: {(failures or ['no answer'])[0]}"
        )
    return count
