"""What a record costs the client's process: ``python -m bench.client_costs --bootstrap-servers HOST:PORT``.

Each row runs in a process of its own, against one broker, in turns; what counts is CPU time, user and system, of that
process with all of its threads, divided by the records, without start and connecting. The best of the rounds is shown:
the machine's other work only ever adds. confluent-kafka is librdkafka, in C; its consumer is set up not to idle while
its queue is full, and so is at its best.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

PARTITIONS = 6
KIB = 1024
SHAPES = {
    # name: bytes a value, bytes a batch
    "100 B, 256 KB batches": (100, 256 * KIB),
    "100 B, 16 KB batches": (100, 16 * KIB),
    "1 KiB, 256 KB batches": (1024, 256 * KIB),
}

Result = dict[str, float]


class Meter:
    """CPU time between two moments."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the CPU time that the block uses."""
        began = time.process_time()
        yield
        self.seconds += time.process_time() - began


def _values(size: int, count: int) -> list[bytes]:
    return [b"%016d" % number + b"x" * (size - 16) for number in range(count)]


# Producing. Each gets the bootstrap servers, a topic, values and a meter.


def _on_loop(loop: str, body: Callable[..., Any], *args: Any) -> None:
    if loop == "trio":
        import trio

        trio.run(partial(body, *args))
    else:
        asyncio.run(body(*args))


async def _post(bootstrap: str, topic: str, values: list[bytes], meter: Meter) -> None:
    from ottla.client import connect

    async with connect(bootstrap) as kafka, kafka.producer() as out:
        await out.send(topic, b"first")
        with meter.running():
            for value in values:
                await out.post(topic, value)
            await out.flush()


async def _post_keyed(bootstrap: str, topic: str, values: list[bytes], meter: Meter) -> None:
    from ottla.client import connect

    keys = [b"key-%d" % (number % 1000) for number in range(len(values))]
    async with connect(bootstrap) as kafka, kafka.producer() as out:
        await out.send(topic, b"first")
        with meter.running():
            for key, value in zip(keys, values, strict=True):
                await out.post(topic, value, key=key)
            await out.flush()


async def _post_batch(bootstrap: str, topic: str, values: list[bytes], meter: Meter) -> None:
    from ottla.client import connect

    async with connect(bootstrap) as kafka, kafka.producer() as out:
        await out.send(topic, b"first")
        with meter.running():
            for begin in range(0, len(values), 10_000):
                await out.post_batch(topic, values[begin : begin + 10_000])
            await out.flush()


def _confluent_produce(
    callback: bool, keyed: bool, bootstrap: str, topic: str, values: list[bytes], meter: Meter
) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5})
    producer.produce(topic, b"first")
    producer.flush()
    options: dict[str, Any] = {"on_delivery": lambda _error, _message: None} if callback else {}
    keys = [b"key-%d" % (number % 1000) for number in range(len(values))] if keyed else None
    with meter.running():
        for number, value in enumerate(values):
            while True:
                try:
                    if keys is None:
                        producer.produce(topic, value, **options)
                    else:
                        producer.produce(topic, value, keys[number], **options)
                    break
                except BufferError:
                    producer.poll(0.05)
            if not number % 1000:
                producer.poll(0)
        producer.flush()


async def _aiokafka_produce(bootstrap: str, topic: str, values: list[bytes], meter: Meter) -> None:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5)
    await producer.start()
    await producer.send_and_wait(topic, b"first")
    with meter.running():
        for value in values:
            await producer.send(topic, value)
        await producer.flush()
    await producer.stop()


def _kafka_python_produce(bootstrap: str, topic: str, values: list[bytes], meter: Meter) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5)
    producer.send(topic, b"first").get(30)
    with meter.running():
        for value in values:
            producer.send(topic, value)
        producer.flush()
    producer.close()


# Consuming. Each gets the bootstrap servers, a topic, the number of its records and a meter.


async def _read(how: str, bootstrap: str, topic: str, count: int, meter: Meter) -> None:
    from ottla.client import EARLIEST, LATEST, connect

    seen = 0
    async with connect(bootstrap) as kafka:
        # Imports on first use are not a cost per record.
        async with kafka.reader(topic, start=EARLIEST, room=1_000_000) as reader:
            async for batch in reader:
                _ = batch.values(), batch.to_arrow()
                break
        with meter.running():
            async with kafka.reader(topic, start=EARLIEST, stop=LATEST) as reader:
                async for batch in reader:
                    if how == "columns":
                        seen += batch.to_arrow().num_rows
                    elif how == "list":
                        seen += len(batch.values())
                    else:
                        for record in batch:
                            record.value  # noqa: B018 - what is measured
                            seen += 1
    assert seen == count, (seen, count)


def _confluent_consume(how: str, bootstrap: str, topic: str, count: int, meter: Meter) -> None:
    from confluent_kafka import Consumer, TopicPartition

    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": uuid.uuid4().hex,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "queued.min.messages": 1_000_000,
        "fetch.queue.backoff.ms": 5,
    }
    consumer = Consumer(settings)
    consumer.list_topics(topic, timeout=30)
    seen = 0
    with meter.running():
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        while seen < count:
            if how == "consume":
                for message in consumer.consume(10_000, timeout=0.1):
                    message.value()
                    seen += 1
            else:
                message = consumer.poll(0.1)
                if message is not None:
                    message.value()
                    seen += 1
    consumer.close()


async def _aiokafka_consume(how: str, bootstrap: str, topic: str, count: int, meter: Meter) -> None:
    from aiokafka import AIOKafkaConsumer

    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    seen = 0
    with meter.running():
        await consumer.start()
        while seen < count:
            if how == "getmany":
                for records in (await consumer.getmany(timeout_ms=100, max_records=10_000)).values():
                    seen += len(records)
            else:
                await consumer.getone()
                seen += 1
    await consumer.stop()


def _kafka_python_consume(bootstrap: str, topic: str, count: int, meter: Meter) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    seen = 0
    with meter.running():
        while seen < count:
            for records in consumer.poll(timeout_ms=100, max_records=10_000).values():
                seen += len(records)
    consumer.close()


# name: what runs, and the part of the records that it gets (the slow ones need not run for minutes).
PRODUCERS: dict[str, tuple[Callable[..., None], float]] = {
    "ottla post": (partial(_on_loop, "trio", _post), 1),
    "ottla post, asyncio": (partial(_on_loop, "asyncio", _post), 1),
    "ottla post with keys": (partial(_on_loop, "trio", _post_keyed), 1),
    "ottla post_batch": (partial(_on_loop, "trio", _post_batch), 1),
    "confluent produce": (partial(_confluent_produce, False, False), 1),
    "confluent produce with keys": (partial(_confluent_produce, False, True), 1),
    "confluent produce, on_delivery": (partial(_confluent_produce, True, False), 1),
    "aiokafka send": (partial(_on_loop, "asyncio", _aiokafka_produce), 0.1),
    "kafka-python send": (_kafka_python_produce, 0.05),
}
CONSUMERS: dict[str, tuple[Callable[..., None], bool]] = {
    "ottla to_arrow": (partial(_on_loop, "trio", partial(_read, "columns")), False),
    "ottla values()": (partial(_on_loop, "trio", partial(_read, "list")), False),
    "ottla for record in batch": (partial(_on_loop, "trio", partial(_read, "records")), False),
    "ottla for record in batch, asyncio": (partial(_on_loop, "asyncio", partial(_read, "records")), False),
    "confluent consume(10000)": (partial(_confluent_consume, "consume"), False),
    "confluent poll": (partial(_confluent_consume, "poll"), False),
    "aiokafka getmany": (partial(_on_loop, "asyncio", partial(_aiokafka_consume, "getmany")), True),
    "aiokafka getone": (partial(_on_loop, "asyncio", partial(_aiokafka_consume, "getone")), True),
    "kafka-python poll": (_kafka_python_consume, True),
}


async def _latency(bootstrap: str, topic: str, seconds: float) -> Result:
    import trio

    from ottla.client import EARLIEST, connect

    latencies: list[float] = []
    async with (
        connect(bootstrap) as kafka,
        kafka.producer(linger=0) as out,
        kafka.reader(topic, start=EARLIEST) as reader,
    ):

        async def read() -> None:
            async for batch in reader:
                now = time.perf_counter_ns()
                latencies.extend((now - int(value)) / 1e6 for value in batch.values() if value)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            for number in range(int(200 * seconds)):
                begun = trio.current_time()
                await out.post(topic, b"%d" % time.perf_counter_ns(), partition=number % PARTITIONS)
                await trio.sleep_until(begun + 0.005)
            nursery.cancel_scope.cancel()
    return _percentiles(latencies)


def _confluent_latency(bootstrap: str, topic: str, seconds: float) -> Result:
    import threading

    from confluent_kafka import Consumer, Producer, TopicPartition

    latencies: list[float] = []
    settings = {"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "fetch.wait.max.ms": 500}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.value():
                latencies.append((time.perf_counter_ns() - int(message.value())) / 1e6)

    reader = threading.Thread(target=read)
    reader.start()
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    tick = threading.Event()
    for number in range(int(200 * seconds)):
        begun = time.perf_counter()
        producer.produce(topic, b"%d" % time.perf_counter_ns(), partition=number % PARTITIONS)
        producer.poll(0)
        tick.wait(max(0, begun + 0.005 - time.perf_counter()))
    producer.flush()
    done.set()
    reader.join()
    consumer.close()
    return _percentiles(latencies)


def _percentiles(latencies: list[float]) -> Result:
    ordered = sorted(latencies[len(latencies) // 5 :])
    return {
        "p50 ms": ordered[len(ordered) // 2],
        "p99 ms": ordered[int(len(ordered) * 0.99)],
    }


def _create(bootstrap: str, topic: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)


async def _fill(bootstrap: str, topic: str, size: int, batch: int, count: int) -> None:
    from ottla.client import connect

    async with connect(bootstrap) as kafka, kafka.producer(batch_size=batch, linger=1.0) as out:
        await out.post_batch(topic, _values(size, count))


def measure(kind: str, shape: str, name: str, bootstrap: str, topic: str, count: int) -> Result:
    """Measure one row, in this process."""
    meter = Meter()
    size, _ = SHAPES.get(shape, (100, 0))
    if kind == "produce":
        run, part = PRODUCERS[name]
        values = _values(size, int(count * part))
        run(bootstrap, topic, values, meter)
        return {"µs a record": meter.seconds / len(values) * 1e6}
    if kind == "consume":
        CONSUMERS[name][0](bootstrap, topic, count, meter)
        return {"µs a record": meter.seconds / count * 1e6}
    if kind == "latency":
        if name == "ottla":
            import trio

            return trio.run(_latency, bootstrap, topic, 5.0)
        return _confluent_latency(bootstrap, topic, 5.0)
    began = time.process_time()
    if name == "ottla":
        import ottla.client  # noqa: F401 - what is measured
    elif name == "confluent":
        import confluent_kafka  # noqa: F401 - likewise
    else:
        import aiokafka  # noqa: F401 - likewise
    return {"CPU ms": (time.process_time() - began) * 1e3}


def _apart(*job: object) -> Result:
    command = [sys.executable, "-m", "bench.client_costs", "--one", json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise RuntimeError(f"{job}: {done.stderr}")
    result: Result = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> int:
    """Parse the command line, run, report."""
    parser = argparse.ArgumentParser(prog="python -m bench.client_costs", description=__doc__)
    parser.add_argument("--bootstrap-servers", default="127.0.0.1:9092")
    parser.add_argument("--records", type=int, default=400_000, help="of 100 B; a quarter of it of 1 KiB")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--kinds", default="produce,consume,latency,import")
    parser.add_argument("--json", type=Path, help="write every round's figures to this file")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*json.loads(options.one))))
        return 0
    bootstrap = options.bootstrap_servers
    figures: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for kind in options.kinds.split(","):
        if kind in ("produce", "consume"):
            _throughput(kind, bootstrap, options, figures)
        else:
            names = ("ottla", "confluent") if kind == "latency" else ("ottla", "confluent", "aiokafka")
            for _ in range(options.rounds):
                for name in names:
                    topic = f"costs-{uuid.uuid4().hex[:8]}"
                    if kind == "latency":
                        _create(bootstrap, topic)
                    what = "end to end, 200/s" if kind == "latency" else "import"
                    figures[what, name].append(_apart(kind, "", name, bootstrap, topic, 0))
    _report(figures)
    if options.json:
        options.json.write_text(
            json.dumps({" / ".join(row): each for row, each in figures.items()}, indent=1)
        )
    return 0


def _throughput(
    kind: str,
    bootstrap: str,
    options: argparse.Namespace,
    figures: dict[tuple[str, str], list[Result]],
) -> None:
    import trio

    for shape, (size, batch) in SHAPES.items():
        if kind == "produce" and "16 KB" in shape:
            continue
        count = options.records if size < KIB else options.records // 4
        topics = {}
        for is_slow in (False, True) if kind == "consume" else ():
            topics[is_slow] = topic = f"costs-{uuid.uuid4().hex[:8]}"
            _create(bootstrap, topic)
            trio.run(_fill, bootstrap, topic, size, batch, count // 10 if is_slow else count)
        rows: dict[str, Any] = dict(PRODUCERS if kind == "produce" else CONSUMERS)
        for _ in range(options.rounds):
            for name, (_run, part) in rows.items():
                if options.only not in name:
                    continue
                if kind == "produce":
                    topic, records = f"costs-{uuid.uuid4().hex[:8]}", count
                    _create(bootstrap, topic)
                else:
                    topic, records = topics[part], count // 10 if part else count
                figures[f"{kind} {shape if kind == 'consume' else shape.split(',')[0]}", name].append(
                    _apart(kind, shape, name, bootstrap, topic, records)
                )


def _report(figures: dict[tuple[str, str], list[Result]]) -> None:
    table = Table(title="The best of the rounds")
    for column in ("load", "client", "figure", "best", "rounds"):
        table.add_column(column)
    for (what, name), rounds in figures.items():
        for figure in rounds[0]:
            values = [each[figure] for each in rounds]
            shown = " ".join(f"{value:.2f}" for value in values)
            table.add_row(what, name, figure, f"{min(values):.2f}", shown)
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
