"""A million records while the leaders' brokers are killed in turn: what was acknowledged is kept, once, in order."""

import threading
import time
from itertools import pairwise
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.testing import Cluster, History, Mark
from ottla.testing.replica_files import replica_records
from tests.conftest import Topics
from tests.integration.flights import numbered
from wire.types import TopicPartition as Place

TOPIC = "flights"
PARTITIONS = 3
RECORDS = 1_000_000
BROKERS = (0, 1, 2)


class Load:
    """An idempotent producer with acks=all in a thread of its own, and the outcome of each record."""

    def __init__(self, bootstrap: str) -> None:
        self.history = History()
        self.acknowledged_at: dict[int, list[float]] = {p: [] for p in range(PARTITIONS)}
        self.errors: list[str] = []
        self._progress = threading.Condition()
        self._count = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                "enable.idempotence": True,
                "acks": "all",
                "compression.type": "lz4",
                "linger.ms": 5,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "message.timeout.ms": 60_000,
                # The queue is small compared with the run, so that the faults fall within the run.
                "queue.buffering.max.messages": 20_000,
            }
        )
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def wait_for(self, count: int) -> None:
        """Wait until at least `count` records are acknowledged."""
        with self._progress:
            assert self._progress.wait_for(lambda: self._count >= count or self.errors, timeout=120), (
                self._count
            )
        assert not self.errors, self.errors[:3]

    def _run(self) -> None:
        for number, value in numbered(RECORDS, "p"):
            partition = number % PARTITIONS
            mark = Mark("p", number)
            self.history.sent(mark, Place(TOPIC, partition))
            while True:
                try:
                    self._producer.produce(
                        TOPIC,
                        value,
                        partition=partition,
                        on_delivery=lambda e, m, mark=mark: self._told(e, m, mark),
                    )
                    break
                except BufferError:
                    self._producer.poll(0.1)
            if number % 1000 == 0:
                self._producer.poll(0)
        self._producer.flush(120)

    def _told(self, error, message, mark: Mark) -> None:
        if error is not None:
            self.errors.append(f"{mark}: {error}")
            return
        partition = message.partition()
        self.history.acknowledged(mark, Place(TOPIC, partition), message.offset())
        self.acknowledged_at[partition].append(time.perf_counter())
        self._count += 1
        if self._count % 1000 == 0 or self._count == RECORDS:
            with self._progress:
                self._progress.notify_all()


def test_a_million_records_survive_the_death_of_every_leader(tmp_path: Path, record_property) -> None:
    with Cluster.up(tmp_path / "data", overrides={"min.insync.replicas": "2"}) as cluster:
        Topics(cluster.bootstrap_servers).create([TOPIC], PARTITIONS)
        faults = []
        with Load(cluster.bootstrap_servers) as load:
            for turn, broker in enumerate(BROKERS):
                load.wait_for(RECORDS * (turn + 1) // 5)
                killed_at = time.perf_counter()
                cluster.kill(broker)
                cluster.wait(lambda seen, dead=broker: all_led_without(seen, dead))
                faults.append((broker, killed_at))
                cluster.start(broker)
                cluster.wait_in_sync(TOPIC, PARTITIONS)
            load.wait_for(RECORDS)
        assert load.errors == []
        report_unavailability(load, faults, record_property)
        cluster.wait_in_sync(TOPIC, PARTITIONS)
        read_back(cluster, load.history)
        directories = {b: Path(cluster.broker(b)["directory"]) / "logs" for b in BROKERS}
        cluster.stop(*BROKERS)
        for partition in range(PARTITIONS):
            place = Place(TOPIC, partition)
            for broker, directory in directories.items():
                marks = ((r.offset, mark_of(r.value)) for r in replica_records(directory, place))
                load.history.read(f"replica {broker}", place, marks)
        assert load.history.acknowledged_count == RECORDS
        load.history.check()


def all_led_without(seen, dead: int) -> bool:
    return all(seen.leader(TOPIC, p) not in (-1, dead) for p in range(PARTITIONS))


def mark_of(value: bytes | None) -> Mark:
    assert value is not None
    producer, number, _rest = value.split(b",", 2)
    return Mark(producer.decode(), int(number))


def read_back(cluster: Cluster, history: History) -> None:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader", "enable.auto.commit": False}
    )
    places = [TopicPartition(TOPIC, p, 0) for p in range(PARTITIONS)]
    consumer.assign(places)
    left = {
        p: consumer.get_watermark_offsets(TopicPartition(TOPIC, p), timeout=60)[1] for p in range(PARTITIONS)
    }
    read: dict[int, list[tuple[int, Mark]]] = {p: [] for p in range(PARTITIONS)}
    while any(len(read[p]) < left[p] for p in left):
        missing = sum(max(left[p] - len(read[p]), 0) for p in left)
        messages = consumer.consume(min(missing, 10_000), timeout=60)
        assert messages, {p: (len(read[p]), left[p]) for p in left}
        for message in messages:
            assert message.error() is None, message.error()
            read[message.partition()].append((message.offset(), mark_of(message.value())))
    consumer.close()
    for partition, records in read.items():
        history.read("consumer", Place(TOPIC, partition), records)


def report_unavailability(load: Load, faults, record_property) -> None:
    """Report how long each partition acknowledged nothing around each death: that is how long it had no leader."""
    ends = [killed_at for _, killed_at in faults[1:]] + [float("inf")]
    for (broker, killed_at), end in zip(faults, ends, strict=True):
        for partition, times in load.acknowledged_at.items():
            around = [t for t in times if t < end]
            gaps = [after - before for before, after in pairwise(around) if after > killed_at]
            text = f"broker {broker} killed: partition {partition} acknowledged nothing for {max(gaps):.2f} s"
            record_property(f"broker {broker}, partition {partition}", f"{max(gaps):.3f}")
            print(text)
