"""The load on a cluster that is harmed: a producer that never stops, a reader that follows it, and their history.

The producer is idempotent with acks=all and paced, so that a fault of any length falls within its run, and the longest
time without an acknowledgement measures the fault. The reader sees each record as the cluster makes it
visible; what it saw is part of the history, so an offset that changes its record afterwards is found.
"""

import threading
import time
from collections.abc import Callable
from itertools import pairwise
from types import TracebackType

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from ottla.testing import History, Mark
from tests.integration.flights import flight_lines
from wire.types import TopicPartition as Place

PROGRESS_TIMEOUT_S = 60.0
_PACE_S = 0.005
_RECORDS_A_TURN = 5


def mark_of(value: bytes | None) -> Mark:
    """Return the identity that a record's value begins with."""
    assert value is not None
    producer, number, _rest = value.split(b",", 2)
    return Mark(producer.decode(), int(number))


class Load:
    """The producer and the reader, each in a thread of its own, from the beginning of the block to its end.

    Args:
        bootstrap: The bootstrap servers of the clients.
        topic: The topic of the records, which go to all partitions in turn.
        partitions: How many partitions it has.
        name: The producer name in its records.
        history: The history to add to, if two loads share a topic; the first load verifies it.
        settings: More settings of the producer.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        *,
        name: str = "p",
        history: History | None = None,
        **settings: object,
    ) -> None:
        self.history = History() if history is None else history
        self.topic = topic
        self.partitions = partitions
        self.errors: list[str] = []
        self._name = name
        # The history takes complete readings only, and another load's records can go on after our end.
        self._is_first = history is None
        self._bootstrap = bootstrap
        self._times: dict[int, list[float]] = {p: [] for p in range(partitions)}
        self._sent = dict.fromkeys(range(partitions), -1)
        self._acknowledged = dict.fromkeys(range(partitions), -1)
        self._ends = dict.fromkeys(range(partitions), 0)
        self._progress = threading.Condition()
        self._done = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "compression.type": "lz4",
                "linger.ms": 2,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                # Longer than any wait of a test, so that the wait reports the failure.
                "message.timeout.ms": 150_000,
                "queue.buffering.max.messages": 20_000,
                # How long a request can hang in a cut link before another broker is asked.
                "request.timeout.ms": 3_000,
                "socket.timeout.ms": 5_000,
                # Connections are lost on purpose in these tests.
                "log_level": 2,
            }
            | {key.replace("_", "."): value for key, value in settings.items()}
        )
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._produce, self._follow)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()
        if kind is None:
            assert not self.errors, self.errors[:5]

    def wait_progress(self, *partitions: int, timeout_s: float = PROGRESS_TIMEOUT_S) -> None:
        """Wait until something that is sent from now on is acknowledged, on every partition or on those named."""
        wanted = {p: self._sent[p] + 1 for p in partitions or range(self.partitions)}

        def has_come() -> bool:
            return bool(self.errors) or all(self._acknowledged[p] >= number for p, number in wanted.items())

        with self._progress:
            assert self._progress.wait_for(has_come, timeout_s), (
                f"no progress within {timeout_s:g} s: {wanted} wanted, {self._acknowledged} acknowledged"
            )
        assert not self.errors, self.errors[:5]

    def acknowledged(self, partition: int) -> int:
        """Return the highest number that was acknowledged on a partition."""
        return self._acknowledged[partition]

    def acknowledged_end(self, partition: int) -> int:
        """Return the offset after the last acknowledged one on a partition."""
        return self._ends[partition]

    def longest_gap_s(self, since: float, *partitions: int) -> float:
        """Return the longest time, in seconds, in which any of these partitions (or of all) acknowledged nothing.

        Args:
            since: A reading of `time.perf_counter` before the fault.
            partitions: The partitions to look at; all if none is named.
        """
        now = time.perf_counter()
        gaps = [0.0]
        for partition in partitions or range(self.partitions):
            moments = pairwise([*self._times[partition], now])
            gaps.extend(after - before for before, after in moments if after > since)
        return max(gaps)

    def _produce(self) -> None:
        lines = flight_lines()
        number = 0
        while not self._done.is_set():
            for _ in range(_RECORDS_A_TURN):
                partition = number % self.partitions
                mark = Mark(self._name, number)
                value = b"%s,%d,%s" % (self._name.encode(), number, lines[number % len(lines)])
                self.history.sent(mark, Place(self.topic, partition))
                self._sent[partition] = number
                self._hand_over(partition, mark, value)
                number += 1
            self._producer.poll(0)
            self._done.wait(_PACE_S)
        left = self._producer.flush(PROGRESS_TIMEOUT_S)
        if left:
            self.errors.append(f"{left} records were neither acknowledged nor given up")

    def _hand_over(self, partition: int, mark: Mark, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(
                    self.topic,
                    value,
                    partition=partition,
                    on_delivery=lambda error, message: self._told(error, message, mark),
                )
                return
            except BufferError:
                self._producer.poll(0.05)

    def _told(self, error: object, message: Message, mark: Mark) -> None:
        partition = message.partition()
        if error is not None:
            self.errors.append(f"{mark} on {partition}: {error}")
        else:
            # A retry that the broker recognises as a duplicate, but whose offset it has forgotten, has no offset.
            offset = -1 if message.offset() is None else message.offset()
            self.history.acknowledged(mark, Place(self.topic, partition), offset)
            self._ends[partition] = max(self._ends[partition], offset + 1)
            self._times[partition].append(time.perf_counter())
            self._acknowledged[partition] = max(self._acknowledged[partition], mark.number)
        with self._progress:
            self._progress.notify_all()

    def _follow(self) -> None:
        """Read until everything that was acknowledged has been read."""
        consumer = _reader(self._bootstrap)
        consumer.assign([TopicPartition(self.topic, p, 0) for p in range(self.partitions)])
        seen = dict.fromkeys(range(self.partitions), -1)
        deadline = None
        while True:
            for message in consumer.consume(500, timeout=0.1):
                if message.error() is not None:
                    self.errors.append(f"reader: {message.error()}")
                    continue
                partition = message.partition()
                mark = mark_of(message.value())
                if mark.producer == self._name:
                    seen[partition] = max(seen[partition], mark.number)
                if self._is_first:
                    self.history.read("follower", Place(self.topic, partition), [(message.offset(), mark)])
            if self._done.is_set() and not self._threads[0].is_alive():
                if all(seen[p] >= self._acknowledged[p] for p in seen):
                    break
                deadline = deadline or time.perf_counter() + PROGRESS_TIMEOUT_S
                if time.perf_counter() > deadline:
                    self.errors.append(f"reader: came to {seen}, acknowledged is {self._acknowledged}")
                    break
        consumer.close()


def _reader(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "socket.timeout.ms": 5_000,
            "fetch.wait.max.ms": 100,
            "topic.metadata.refresh.interval.ms": 2_000,
            "log_level": 2,
        }
    )


def read_all(bootstrap: str, load: Load, reader: str = "consumer") -> None:
    """Read every partition from its first record to its end, into the load's history."""
    consumer = _reader(bootstrap)
    places = [TopicPartition(load.topic, p, 0) for p in range(load.partitions)]
    consumer.assign(places)
    left = {place.partition: consumer.get_watermark_offsets(place, timeout=60)[1] for place in places}
    read: dict[int, list[tuple[int, Mark]]] = {p: [] for p in left}
    while any(len(read[p]) < left[p] for p in left):
        missing = sum(max(left[p] - len(read[p]), 0) for p in left)
        messages = consumer.consume(min(missing, 10_000), timeout=60)
        assert messages, {p: (len(read[p]), left[p]) for p in left}
        for message in messages:
            assert message.error() is None, message.error()
            read[message.partition()].append((message.offset(), mark_of(message.value())))
    consumer.close()
    for partition, records in read.items():
        load.history.read(reader, Place(load.topic, partition), records)


def report(record_property: Callable[[str, object], None], what: str, gap_s: float) -> None:
    """Print a measured unavailability, and keep it with the test's result."""
    record_property(what, f"{gap_s:.3f}")
    print(f"{what}: a partition acknowledged nothing for {gap_s:.2f} s at most")
