"""A reader of committed data that follows while a cluster is harmed: nothing that it sees is allowed to be wrong."""

import threading
from collections.abc import Sequence

from confluent_kafka import Consumer, TopicPartition


class CommittedReader:
    """Reads all partitions of some topics in its own thread, and checks that each counts up from 0.

    Args:
        servers: The cluster.
        topics: The topics to read.
        partitions: How many each has.

    Attributes:
        wrong: Each violation that was seen: a gap, a repetition, an aborted record.
    """

    def __init__(self, servers: str, topics: Sequence[str], partitions: int) -> None:
        self.wrong: list[str] = []
        self._next = {(topic, partition): 0 for topic in topics for partition in range(partitions)}
        self._done = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "log_level": 2,
            }
        )
        self._consumer.assign([TopicPartition(*place, 0) for place in self._next])
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def seen(self, partition: int) -> tuple[int, ...]:
        """Return how many records of a partition were seen, by topic."""
        return tuple(count for (_, each), count in self._next.items() if each == partition)

    def close(self) -> None:
        """Stop reading."""
        self._done.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        while not self._done.is_set():
            message = self._consumer.poll(0.2)
            if message is None:
                continue
            if message.error() is not None:
                # The client retries passing errors; a missing offset would be a loss.
                if not message.error().retriable():
                    self.wrong.append(str(message.error()))
                continue
            place = (message.topic(), message.partition())
            if message.value() != b"%d" % self._next[place]:
                self.wrong.append(
                    f"{place} at offset {message.offset()}: {message.value()!r} for {self._next[place]}"
                )
                self._next[place] = int(message.value()) if message.value().isdigit() else self._next[place]
            self._next[place] += 1
