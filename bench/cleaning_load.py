"""What compaction costs producers: acknowledgement times before it, and while it runs flat out."""

import statistics
import time
from collections.abc import Callable

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from bench.loads import Figures, payloads, topic_of
from bench.systems import System

_RATE = 200
_SIZE = 1024
_KEPT = 10
_GIVE_UP_S = 120.0


def cleaning(system: System, scale: float) -> list[tuple[str, Figures]]:
    """Fill a compacted topic with ten records of each key; time produce requests with its cleaner at rest and at work.

    Returns:
        The times at rest and at work; with the latter, how fast the topic shrank.
    """
    records = int(500_000 * scale)
    target = topic_of(system, 1, partitions=1)
    admin = AdminClient({"bootstrap.servers": system.bootstrap})
    topic = "bench-compacted"
    # Nothing is cleaned at a ratio of 1.
    settings = {
        "cleanup.policy": "compact",
        "segment.bytes": str(16 * 1024 * 1024),
        "min.cleanable.dirty.ratio": "1.0",
        "file.delete.delay.ms": "0",
    }
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result(timeout=30)
    _set(admin, ConfigResource(ResourceType.BROKER, "0"), "log.cleaner.backoff.ms", "100")
    _fill(system, topic, records)
    quiet = _latencies(system, target, max(3.0, 10 * scale), lambda: False)
    before = system.log_bytes(topic)
    _set(admin, ConfigResource(ResourceType.TOPIC, topic), "min.cleanable.dirty.ratio", "0.01")
    started = time.perf_counter()
    busy = _latencies(system, target, _GIVE_UP_S, lambda: system.log_bytes(topic) < before / 2)
    took = time.perf_counter() - started
    return [
        ("produce at 200/s, cleaner at rest", quiet),
        ("produce at 200/s, cleaner flat out", busy | {"s until cleaned": took, "MB/s": before / took / 1e6}),
    ]


def _set(admin: AdminClient, resource: ConfigResource, name: str, value: str) -> None:
    resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
    admin.incremental_alter_configs([resource])[resource].result(timeout=30)


def _fill(system: System, topic: str, records: int) -> None:
    producer = Producer(
        {"bootstrap.servers": system.bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000}
    )
    values = payloads(_SIZE, 100)
    keys = records // _KEPT
    for number in range(records):
        while True:
            try:
                producer.produce(topic, values[number % 100], b"%016d" % (number % keys), 0)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise RuntimeError(f"{system.name} did not take all records")


def _latencies(system: System, topic: str, seconds: float, is_over: Callable[[], bool]) -> Figures:
    """Send records at a fixed rate until the time is up, or `is_over`, called twenty times a second, returns True."""
    latencies: list[float] = []
    producer = Producer({"bootstrap.servers": system.bootstrap, "acks": "1", "linger.ms": 0})
    payload = payloads(_SIZE, 1)[0]
    started = time.perf_counter()
    number = 0
    while time.perf_counter() - started < seconds:
        while (wait := started + number / _RATE - time.perf_counter()) > 0:
            producer.poll(wait)
        sent = time.perf_counter()

        def delivered(error: object, _message: object, sent: float = sent) -> None:
            if error is None:
                latencies.append((time.perf_counter() - sent) * 1000)

        producer.produce(topic, payload, partition=0, on_delivery=delivered)
        number += 1
        if number % (_RATE // 20) == 0 and is_over():
            break
    producer.flush(30)
    cut = statistics.quantiles(latencies, n=100)
    return {"p50 ms": cut[49], "p99 ms": cut[98], "max ms": max(latencies)}
