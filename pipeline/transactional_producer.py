"""Sending the rows of batches exactly once: in transactions that carry the progress together with the rows.

A batch's rows are dealt to a fixed number of *writers* by their contents, so that a batch that is run again deals them
out in the same way. Each writer sends its share in one transaction under a transactional id of its own, and commits in
the same transaction that it has finished this batch: an offset of the publication's group, in the topic's partition
with the writer's number. A starting writer first ends the transaction that an earlier one of its id left open, and then
fetches that offset: committed rows are not sent again.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pipeline.kafka_producer import COUNT_SCHEMA, SETTINGS, Sending, count_row

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import Consumer, Producer
    from pyspark.sql import DataFrame

WRITERS_MAX: Final = 16
TRANSACTION_TIMEOUT_MS: Final = 300_000
"""How long a transaction may take: one that its writer left open blocks readers until then, or until the next
attempt.
"""
_CALL_TIMEOUT_S: Final = 30.0
_PATIENCE_S: Final = 180.0
"""How long to repeat a call that fails for a passing reason, or to wait for one that does not return, in seconds."""


@dataclass(frozen=True, slots=True)
class TransactionalSink:
    """Where a publication goes, and under which name.

    Attributes:
        topic: The topic.
        name: The publication's own name: its group, and the prefix of its transactional ids.
        writers: How many there are; their number is fixed for the whole publication.
        options: Settings of librdkafka.
    """

    topic: str
    name: str
    writers: int
    options: Mapping[str, Any]

    def send(self, rows: "DataFrame", batch: int) -> None:
        """Send a batch of which any part may have been committed before.

        Raises:
            PySparkException: a transaction could not be committed; the text names the reason.
        """
        contents = [name for name in ("key", "value") if name in rows.columns]

        def send(batches: Iterable["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None
            yield count_row(self.send_share(batches, context.partitionId(), batch))

        rows.repartition(self.writers, *contents).mapInArrow(send, COUNT_SCHEMA).collect()

    def send_share(self, batches: Iterable["pa.RecordBatch"], writer: int, batch: int) -> int:
        """Send one writer's share of a batch, unless that is done already; return how many rows were sent."""
        from confluent_kafka import Producer, TopicPartition

        batches = iter(batches)
        first = next((each for each in batches if each.num_rows), None)
        if first is None:
            return 0
        consumer = self.consumer()
        try:
            producer = Producer(
                {
                    "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                    **SETTINGS,
                    **self.options,
                    "transactional.id": f"{self.name}-{writer}",
                }
            )
            persist(lambda: producer.init_transactions(_CALL_TIMEOUT_S))
            place = TopicPartition(self.topic, writer)
            if self._next_batch(consumer, place) > batch:
                return 0
            producer.begin_transaction()
            try:
                return self._transact(
                    producer, consumer, (first, *batches), TopicPartition(self.topic, writer, batch + 1)
                )
            except BaseException:
                _abandon(producer)
                raise
        finally:
            consumer.close()

    def consumer(self) -> "Consumer":
        """Return a consumer that fetches the group's offsets, and gets none that an open transaction still holds."""
        from confluent_kafka import Consumer

        return Consumer(
            {
                **self.options,
                "group.id": self.name,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )

    def _transact(
        self, producer: "Producer", consumer: "Consumer", batches: Iterable["pa.RecordBatch"], progress: Any
    ) -> int:
        sending = Sending(producer, self.topic)
        sending.send_all(batches)
        sending.flush()
        group = consumer.consumer_group_metadata()
        persist(lambda: producer.send_offsets_to_transaction([progress], group, _CALL_TIMEOUT_S))
        persist(lambda: producer.commit_transaction(_CALL_TIMEOUT_S))
        return sending.count

    def _next_batch(self, consumer: "Consumer", place: Any) -> int:
        """Return the number of the batch that a writer has to send next, -1 where it never sent any."""
        from confluent_kafka import KafkaException

        offsets: list[int] = []

        def ask() -> None:
            (found,) = consumer.committed([place], timeout=_CALL_TIMEOUT_S)
            if found.error is not None:
                raise KafkaException(found.error)
            offsets.append(found.offset)

        persist(ask)
        return max(offsets[-1], -1)


def persist(call: Callable[[], object], patience_s: float = _PATIENCE_S) -> None:
    """Make a call, and repeat it while its error is retriable, for a limited time.

    librdkafka 2.16's send_offsets_to_transaction may neither return nor time out (its issues 5456 and 5511): in that
    case the call goes on in a thread of its own, and Spark's next attempt at the task fences its producer.

    Raises:
        RuntimeError: it did not return, or did not succeed, in time.
        KafkaException: it failed for good.
    """
    outcome: list[BaseException | None] = []

    def run() -> None:
        from confluent_kafka import KafkaException

        while not over.is_set():
            try:
                call()
            except KafkaException as failure:
                if not failure.args[0].retriable():
                    outcome.append(failure)
                    return
            except (RuntimeError, ValueError, TypeError) as failure:
                outcome.append(failure)
                return
            else:
                outcome.append(None)
                return

    over = threading.Event()
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(patience_s)
    over.set()
    if not outcome:
        raise RuntimeError(f"Kafka did not answer within {patience_s:g} s")
    if outcome[0] is not None:
        raise outcome[0]


def _abandon(producer: "Producer") -> None:
    """Abort if that is possible; else the next producer with this id does it."""
    from confluent_kafka import KafkaException

    try:
        persist(lambda: producer.abort_transaction(_CALL_TIMEOUT_S), _CALL_TIMEOUT_S)
    except (KafkaException, RuntimeError):
        pass
