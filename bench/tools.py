"""Our tools beside Kafka's, on the same brokers: ``python -m bench.tools [--rounds 3] [--scale 1] [--only mirror]``.

The performance tools send and read 1 KiB records with acks=1 on one broker. The mirror copies a topic from one cluster
to another; Kafka's is kafka-mirror-maker, with what its script gives the virtual machine. Ours does what it does by
default: it keeps topics, settings and groups in step as well. Tools take turns; figures are medians.

Processor time and memory are the tool's own, from its start to its end, and do not count the brokers'.
"""

import argparse
import functools
import itertools
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from rich.console import Console
from rich.table import Table

from bench.loads import Figures, payloads, topic_of
from bench.rdkafka import Batch, Producer
from bench.systems import Ottla, kafka_libs, make_topic
from timing.clock import SystemClock
from timing.polling import poll_until

SIZE: Final = 1024
PARTITIONS: Final = 6
_BATCH: Final = 10_000
_TIMEOUT_S: Final = 300.0
_names = itertools.count()

_HEAPS: Final = {
    "org.apache.kafka.tools.ProducerPerformance": "-Xmx512M",
    "org.apache.kafka.tools.ConsumerPerformance": "-Xmx512M",
    "org.apache.kafka.tools.EndToEndLatency": "-Xmx256M",
    "kafka.tools.MirrorMaker": "-Xmx256M",
}
"""What Kafka's scripts give each tool."""


class Cost(NamedTuple):
    """What a process took: seconds of processor time, the most memory in MB."""

    cpu_s: float
    memory_mb: float


class Tools(NamedTuple):
    """How one side's tools are called.

    Attributes:
        name: Whose they are.
        command: Returns the words in front of a tool's arguments.
    """

    name: str
    command: Callable[[str], Sequence[str]]


def ours(tool: str) -> Sequence[str]:
    """Return how one of our tools is called."""
    return [str(Path(sys.executable).parent / "ottla"), tool]


def kafkas(tool: str) -> Sequence[str]:
    """Return how the tool of Apache Kafka with a name of ours is called."""
    name = {
        "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
        "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
        "end-to-end-latency": "org.apache.kafka.tools.EndToEndLatency",
        "mirror-maker": "kafka.tools.MirrorMaker",
    }[tool]
    with tempfile.NamedTemporaryFile("w", suffix=".properties", delete=False) as quiet:
        quiet.write("log4j.rootLogger=OFF\n")
    machine = ("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
    return [
        *("java", _HEAPS[name], *machine, f"-Dlog4j.configuration=file:{quiet.name}"),
        *("-cp", f"{kafka_libs()}/*", name),
    ]


def run_tool(command: Sequence[str]) -> tuple[str, Cost]:
    """Run a tool to its end, and return what it printed and what it took.

    Raises:
        RuntimeError: it failed.
    """
    with tempfile.TemporaryFile("w+") as written:
        process = subprocess.Popen(command, stdout=written, stderr=subprocess.STDOUT, text=True)
        cost, status = _wait(process)
        written.seek(0)
        output = written.read()
    if status != 0:
        raise RuntimeError(f"{command[0]} failed: {output[-2000:]}")
    return output, cost


def _wait(process: subprocess.Popen[str]) -> tuple[Cost, int]:
    """Wait for the end of a process; its memory is looked at until then.

    What the kernel reports at the end would include the memory of this process, out of which it was forked.
    """
    memory_mb = 0.0

    def has_ended() -> bool:
        nonlocal memory_mb
        found = re.search(r"^VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text(), re.M)
        if found is None:
            return True  # it has no memory any more
        memory_mb = int(found[1]) / 1024
        return False

    _until(has_ended)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Cost(usage.ru_utime + usage.ru_stime, memory_mb), process.returncode


def produce(system: Ottla, tools: Tools, records: int) -> tuple[str, Figures]:
    """Run the producer's test; returns the topic, to be read, and the figures."""
    topic = topic_of(system, 1, PARTITIONS)
    output, cost = run_tool(
        [
            *tools.command("producer-perf-test"),
            *("--topic", topic, "--num-records", str(records), "--record-size", str(SIZE)),
            *("--throughput", "-1", "--producer-props", f"bootstrap.servers={system.bootstrap}", "acks=1"),
        ]
    )
    (rate,) = re.findall(rf"^{records} records sent, ([\d.]+) records/sec", output, re.M)
    return topic, _figures(float(rate), records, cost)


def consume(system: Ottla, tools: Tools, topic: str, records: int) -> Figures:
    """Run the consumer's test over a topic."""
    output, cost = run_tool(
        [
            *tools.command("consumer-perf-test"),
            *("--bootstrap-server", system.bootstrap, "--topic", topic, "--messages", str(records)),
            *("--group", f"bench-{os.getpid()}-{next(_names)}", "--timeout", "60000"),
        ]
    )
    # start, end, MB, MB/s, records, records/s, ...; both tools count the last batch whole.
    (row,) = [line.split(", ") for line in output.splitlines() if line[:4].isdigit()]
    return _figures(float(row[5]), int(row[4]), cost)


def latency(system: Ottla, tools: Tools, records: int) -> Figures:
    """Run the test of single records, with acks=all on one replica."""
    topic = topic_of(system, 1, 1)
    output, _ = run_tool(
        [*tools.command("end-to-end-latency"), system.bootstrap, topic, str(records), "all", str(SIZE)]
    )
    (average,) = re.findall(r"Avg latency: ([\d.]+)", output)
    return {"ms of a record, average": float(average)}


def mirror(source: Ottla, target: Ottla, tools: Tools, records: int) -> Figures:
    """Copy a topic, and count from the first record at the target to the last one."""
    topic = fill(source, records)
    make_topic(target, topic, PARTITIONS, 1)
    with tempfile.TemporaryDirectory() as folder:
        consumer, producer = Path(folder, "consumer.properties"), Path(folder, "producer.properties")
        consumer.write_text(
            f"bootstrap.servers={source.bootstrap}\ngroup.id=mirror-{os.getpid()}-{next(_names)}\n"
            "auto.offset.reset=earliest\n"
        )
        producer.write_text(f"bootstrap.servers={target.bootstrap}\nacks=all\n")
        command = [
            *tools.command("mirror-maker"),
            *("--consumer.config", str(consumer), "--producer.config", str(producer), "--include", topic),
        ]
        began = time.perf_counter()
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, text=True)
            try:
                _until(lambda: copied(target, topic) > 0)
                first, before = time.perf_counter(), copied(target, topic)
                _until(lambda: copied(target, topic) >= records)
                ended = time.perf_counter()
            finally:
                process.send_signal(signal.SIGTERM)
                cost, _ = _wait(process)
    figures = _figures((records - before) / (ended - first), records, cost)
    return figures | {"s from start to end": ended - began}


def copied(system: Ottla, topic: str) -> int:
    """Return how many records a topic has."""
    ends = admin_of(system).list_offsets(
        {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(PARTITIONS)}
    )
    return sum(future.result(20).offset for future in ends.values())


@functools.cache
def admin_of(system: Ottla) -> AdminClient:
    """Return the one client that asks a cluster."""
    return AdminClient({"bootstrap.servers": system.bootstrap, "log_level": "0"})


def _until(condition: Callable[[], bool]) -> None:
    if not poll_until(condition, SystemClock(), timeout_s=_TIMEOUT_S, interval_s=0.02):
        raise RuntimeError(f"nothing came within {_TIMEOUT_S:g} s")


def _figures(rate: float, records: int, cost: Cost) -> Figures:
    return {
        "records/s": rate,
        "CPU s per M records": cost.cpu_s / records * 1e6,
        "MB of memory at most": cost.memory_mb,
    }


def fill(system: Ottla, records: int) -> str:
    """Write the topic that is mirrored."""
    topic = topic_of(system, 1, PARTITIONS)
    producer = Producer(system.bootstrap, topic, acks="1", **{"linger.ms": "5"})
    batch = Batch(payloads(SIZE, _BATCH), PARTITIONS)
    for _ in range(records // _BATCH):
        producer.send(batch)
    producer.flush()
    producer.close()
    return topic


def main() -> int:
    """Parse the command line, run, report."""
    parser = argparse.ArgumentParser(prog="python -m bench.tools", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each tool takes its turn")
    parser.add_argument("--scale", type=float, default=1.0, help="less than 1 shortens every load")
    parser.add_argument("--only", choices=["performance", "mirror"])
    parser.add_argument("--no-peer", action="store_true", help="measure our tools only")
    options = parser.parse_args()
    sides = [Tools("ottla", ours)]
    if not options.no_peer and kafka_libs() is not None:
        sides.append(Tools("kafka", kafkas))
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def note(what: str, side: Tools, figures: Figures) -> None:
        for name, value in figures.items():
            found[what, name][side.name].append(value)

    records = max(_BATCH, int(1_000_000 * options.scale) // _BATCH * _BATCH)
    source, target = Ottla(1), Ottla(1)
    try:
        for number in range(options.rounds):
            for side in sides if number % 2 == 0 else reversed(sides):
                if options.only != "mirror":
                    sent, figures = produce(source, side, records)
                    note("producer-perf-test, 1 KiB", side, figures)
                    note("consumer-perf-test, 1 KiB", side, consume(source, side, sent, records))
                    note("end-to-end-latency, 1 KiB", side, latency(source, side, max(500, records // 200)))
                if options.only != "performance":
                    note("mirror-maker, 1 KiB", side, mirror(source, target, side, records))
                Console(stderr=True).print(f"[dim]round {number + 1}, {side.name}[/]")
    finally:
        source.stop()
        target.stop()
    _report(found, [side.name for side in sides])
    return 0


def _report(found: dict[tuple[str, str], dict[str, list[float]]], names: Sequence[str]) -> None:
    table = Table(title="Medians; ratio is ours against Kafka's")
    for column in ("tool", "figure", *names, "ratio", "rounds of ottla"):
        table.add_column(column, justify="left" if column in ("tool", "figure") else "right")
    for (what, figure), by_side in found.items():
        medians = [statistics.median(by_side[name]) for name in names]
        ratio = f"{medians[0] / medians[-1]:.2f} x" if len(names) > 1 else ""
        rounds = " ".join(f"{value:,.3g}" for value in by_side[names[0]])
        table.add_row(what, figure, *(f"{value:,.4g}" for value in medians), ratio, rounds)
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
