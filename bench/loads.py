"""The loads: each takes a running system and returns figures by name. Rates should be high, all others low."""

import itertools
import multiprocessing
import random
import statistics
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any

from bench.processes import cpu_s, pss_mb
from bench.rdkafka import Batch, Consumer, Producer
from bench.systems import System, make_topic

Figures = dict[str, float]

_names = itertools.count()
_PARTITIONS = 6
_BATCH = 10_000


def payloads(size: int, count: int, seed: int = 1) -> list[bytes]:
    """Make payloads that compress about 1:2: half random bytes, half zeros."""
    chance = random.Random(seed)
    return [chance.randbytes(size // 2) + bytes(size - size // 2) for _ in range(count)]


def topic_of(system: System, replicas: int, partitions: int = _PARTITIONS) -> str:
    """Create a topic for one measurement."""
    name = f"bench-{next(_names)}"
    make_topic(system, name, partitions, replicas)
    return name


def produce(
    system: System, *, acks: str, size: int, records: int, replicas: int, compression: str = "none"
) -> tuple[str, Figures]:
    """Send records as fast as they are acknowledged; return the topic too, for reading it back."""
    topic = topic_of(system, replicas)
    batch = Batch(payloads(size, _BATCH), _PARTITIONS)
    producer = Producer(
        system.bootstrap,
        topic,
        acks=acks,
        **{"linger.ms": "5", "compression.type": compression} | dict(system.client),
    )
    try:
        producer.send(batch)
        producer.flush()
        pids = system.broker_pids()
        cpu = cpu_s(pids)
        started = time.perf_counter()
        for _ in range(records // _BATCH):
            producer.send(batch)
        producer.flush()
        took = time.perf_counter() - started
        cpu = cpu_s(pids) - cpu
    finally:
        producer.close()
    return topic, {
        "records/s": records / took,
        "MB/s": records * size / took / 1e6,
        "CPU s per M records": cpu / records * 1e6,
    }


def consume(system: System, topic: str, size: int, records: int) -> Figures:
    """Read a topic from its beginning with a large client queue.

    librdkafka stops fetching while its queue is full, and by default checks again a second later: with a broker that
    fills the queue, its defaults would measure that second.
    """
    consumer = Consumer(
        system.bootstrap,
        topic,
        _PARTITIONS,
        **{
            "queued.min.messages": "1000000",
            "queued.max.messages.kbytes": "1048576",
            "fetch.queue.backoff.ms": "1",
            "fetch.message.max.bytes": "4194304",
        }
        | dict(system.client),
    )
    try:
        consumer.read(1)
        pids = system.broker_pids()
        cpu = cpu_s(pids)
        started = time.perf_counter()
        consumer.read(records - 1)
        took = time.perf_counter() - started
        cpu = cpu_s(pids) - cpu
    finally:
        consumer.close()
    return {
        "records/s": records / took,
        "MB/s": records * size / took / 1e6,
        "CPU s per M records": cpu / records * 1e6,
    }


def warm_up(system: System, records: int) -> None:
    """Send and read some records, so that the JVM has compiled what the next load runs."""
    topic, _ = produce(system, acks="all", size=1024, records=records, replicas=3)
    consume(system, topic, 1024, records)


def end_to_end(system: System, *, rate: int, seconds: int, warm_s: int, linger_ms: float) -> Figures:
    """Send 1 KiB records at a rate with acks=all, and time each until a consumer has it.

    Records sent in the first `warm_s` seconds are not counted.
    """
    topic = topic_of(system, 3)
    ours, theirs = multiprocessing.Pipe()
    count = rate * (warm_s + seconds)
    process = multiprocessing.get_context("spawn").Process(
        target=_read_latencies, args=(system.bootstrap, topic, count, theirs)
    )
    process.start()
    ours.recv()
    from confluent_kafka import Producer as Client

    producer = Client({"bootstrap.servers": system.bootstrap, "acks": "all", "linger.ms": linger_ms})
    rest = payloads(1024 - 8, 1)[0]
    pids = system.broker_pids()
    cpu = cpu_s(pids)
    started = time.perf_counter()
    for number in range(count):
        if number == rate * warm_s:
            cpu = cpu_s(pids)
        while (wait := started + number / rate - time.perf_counter()) > 0:
            producer.poll(wait)
        stamp = time.clock_gettime_ns(time.CLOCK_MONOTONIC).to_bytes(8, "big")
        producer.produce(topic, stamp + rest, partition=number % _PARTITIONS)
    producer.flush(30)
    cpu = cpu_s(pids) - cpu
    latencies = ours.recv()[rate * warm_s :]
    process.join()
    cut = statistics.quantiles(latencies, n=100)
    return {"p50 ms": cut[49], "p99 ms": cut[98], "CPU s": cpu}


def _read_latencies(bootstrap: str, topic: str, count: int, pipe: Connection) -> None:
    from confluent_kafka import Consumer as Client
    from confluent_kafka import TopicPartition

    consumer = Client(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "latency",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(_PARTITIONS)])
    consumer.poll(1.0)
    pipe.send("ready")
    latencies = []
    while len(latencies) < count:
        # One by one: the client's batch call waits for a whole batch, or until its time-out.
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            latencies.append((now - int.from_bytes(message.value()[:8], "big")) / 1e6)
    pipe.send(latencies)
    consumer.close()


def start(make: Callable[[], System]) -> tuple[System, Figures]:
    """Start ZooKeeper and three brokers from nothing, to the first record that all replicas acknowledged."""
    started = time.perf_counter()
    system = make()
    topic = topic_of(system, 3, partitions=1)
    producer = Producer(system.bootstrap, topic, acks="all", **system.client)
    producer.send(Batch([b"first"], 1))
    producer.flush()
    took = time.perf_counter() - started
    producer.close()
    return system, {"s to the first record": took}


def idle(system: System, seconds: float = 10) -> Figures:
    """Measure brokers that have nothing to do."""
    pids = system.broker_pids()
    cpu = cpu_s(pids)
    time.sleep(seconds)  # noqa: TID251  # a measurement of idleness: nothing happens that could be waited for
    return {"cores": (cpu_s(pids) - cpu) / seconds, "PSS MB": pss_mb(pids)}


def failover(system: System) -> Figures:
    """Kill the process that leads a partition while a producer writes to it; time the gap in acknowledgements.

    librdkafka looks for a lost leader at once if it is connected to another broker, else once a second: that second, or
    two, is part of some rounds.
    """
    from confluent_kafka import Producer as Client
    from confluent_kafka.admin import AdminClient

    topic = topic_of(system, 3, partitions=1)
    admin = AdminClient({"bootstrap.servers": system.bootstrap})
    leader = admin.list_topics(topic, timeout=10).topics[topic].partitions[0].leader
    acknowledged: list[float] = []

    def note(error: object, _message: object) -> None:
        if error is None:
            acknowledged.append(time.perf_counter())

    producer = Client(
        {"bootstrap.servers": system.bootstrap, "acks": "all", "linger.ms": 0, "retry.backoff.ms": 20}
    )
    killed = 0.0
    for number in range(4000):
        producer.produce(topic, b"x" * 100, on_delivery=note)
        producer.poll(0.005)
        if number == 200:
            killed = time.perf_counter()
            system.kill(leader)
        if killed and len(acknowledged) > 1 and acknowledged[-1] > killed + 0.5 and number > 600:
            break
    producer.flush(60)
    gaps = [after - before for before, after in itertools.pairwise(acknowledged) if after > killed]
    return {"longest gap s": max(gaps)}


def create_partitions(system: System, topics: int, partitions: int = 200) -> Figures:
    """Create topics of many partitions on three replicas, and wait after each request until its leaders serve."""
    started = time.perf_counter()
    for _ in range(topics):
        topic_of(system, 3, partitions)
    return {"s": time.perf_counter() - started}


def controller_failover(system: System, controller: int, topics: Mapping[str, int]) -> Figures:
    """Kill the controller's process, and wait until every partition again has a leader that answers."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    survivors = ",".join(b for i, b in enumerate(system.bootstrap.split(",")) if i != controller)
    admin = AdminClient({"bootstrap.servers": survivors, "log_level": 0})
    admin.list_topics(timeout=20)
    everything = [TopicPartition(name, p) for name, count in topics.items() for p in range(count)]
    started = time.perf_counter()
    system.kill(controller)
    # First the survivors' metadata, then whether each leader in it answers: a request to the dead broker would hang.
    while not _all_led(admin.list_topics(timeout=20).topics, topics, controller):
        if time.perf_counter() - started > 120:
            raise RuntimeError("partitions are without a leader")
    # Epochs still rise while the dead broker is removed from the ISRs: a request refused for an old epoch is repeated.
    while everything:
        asked = admin.list_offsets({p: OffsetSpec.latest() for p in everything}, request_timeout=30)
        everything = [p for p, future in asked.items() if future.exception(timeout=60) is not None]
        if time.perf_counter() - started > 120:
            raise RuntimeError(f"{len(everything)} partitions do not answer")
    return {"s until all are led": time.perf_counter() - started}


def _all_led(metadata: Mapping[str, Any], topics: Mapping[str, int], dead: int) -> bool:
    return all(
        name in metadata
        and len(metadata[name].partitions) == count
        and all(p.leader not in (-1, dead) for p in metadata[name].partitions.values())
        for name, count in topics.items()
    )
