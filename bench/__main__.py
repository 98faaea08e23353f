"""Run the measurements: ``python -m bench [--loads produce,consume,...] [--rounds N] [--no-peer]``.

The systems take turns, round by round, on the same machine: what counts is the ratio. Each figure is the median of
its rounds.
The first round of a load meets cold pages, later ones warm ones; both are shown where rounds differ much.
"""

import argparse
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import cleaning_load, group_loads, loads, tls_load, transaction_loads, transactional_ids
from bench.systems import ApacheKafka, Ottla, SecuredKafka, SecuredOttla, System, kafka_libs

Measured = Iterator[tuple[str, loads.Figures]]

HIGHER_IS_BETTER = frozenset({"handshakes/s", "records/s", "MB/s", "commits/s", "transactions/s"})


def _single(system: System, scale: float) -> Measured:
    for size, records in ((100, 3_000_000), (1024, 400_000)):
        count = int(records * scale)
        _, figures = loads.produce(system, acks="1", size=size, records=count, replicas=1)
        yield f"produce acks=1, 1 broker, {size} B", figures


def _replicated(system: System, scale: float) -> Measured:
    for size, records in ((100, 2_000_000), (1024, 300_000)):
        count = int(records * scale)
        topic, figures = loads.produce(system, acks="all", size=size, records=count, replicas=3)
        yield f"produce acks=all, 3 brokers x RF 3, {size} B", figures
        yield f"consume, RF 3, {size} B", loads.consume(system, topic, size, count)
    count = int(1_000_000 * scale)
    _, figures = loads.produce(
        system, acks="all", size=1024, records=count // 4, replicas=3, compression="lz4"
    )
    yield "produce acks=all, RF 3, 1024 B, lz4", figures


def _secured(system: System, scale: float) -> Measured:
    count = int(300_000 * scale)
    topic, figures = loads.produce(system, acks="all", size=1024, records=count, replicas=3)
    yield "TLS: produce acks=all, 3 brokers x RF 3, 1024 B", figures
    yield "TLS: consume, RF 3, 1024 B", loads.consume(system, topic, 1024, count)
    yield "TLS: handshakes", tls_load.handshakes(system, int(2_000 * scale))
    clients = int(3_000 * scale)
    yield f"TLS: {clients:,} clients reconnect", tls_load.storm(system, clients)


def _latency(system: System, scale: float) -> Measured:
    seconds = max(3, int(10 * scale))
    # The JVM compiles for a while: measured at once, the peer's latencies are a hundred times their later values.
    warm_s = max(5, int(20 * scale))
    loads.warm_up(system, int(200_000 * scale))
    for what, rate, linger_ms in (
        ("end to end, 200/s", 200, 0),
        ("end to end, 10,000/s, linger 5 ms", 10_000, 5),
    ):
        yield (
            what,
            loads.end_to_end(system, rate=rate, seconds=seconds, warm_s=warm_s, linger_ms=linger_ms),
        )


def _idle(system: System, scale: float) -> Measured:
    yield "three idle brokers", loads.idle(system, 10 * scale)


def _failover(system: System, _scale: float) -> Measured:
    yield "kill -9 of a leader", loads.failover(system)


def _many_partitions(system: System, scale: float) -> Measured:
    topics = max(1, int(10 * scale))
    yield f"create {topics * 200} partitions x 3", loads.create_partitions(system, topics)
    yield f"kill -9 of the controller, {topics * 200} partitions", _controller_failover(system)


def _groups(system: System, scale: float) -> Measured:
    yield "commits of 10 offsets, 20 groups", group_loads.commits(system, max(2, 5 * scale))
    for members in (10, 100, int(max(200, 1_000 * scale))):
        yield f"rebalance of {members} members", group_loads.rebalance(system, members)
    offsets = int(1_000_000 * scale)
    yield f"coordinator with {offsets:,} offsets", group_loads.takeover(system, offsets)


def _transactions(system: System, scale: float) -> Measured:
    seconds = max(3, 10 * scale)
    # The JVM compiles for a while: the first load warms it up.
    loads.warm_up(system, int(100_000 * scale))
    for interval_ms in (10, 100):
        for partitions in (1, 50):
            what = f"transactions, a commit every {interval_ms} ms, {partitions} partition{'s'[: partitions - 1]}"
            yield what, transaction_loads.transact(system, partitions, interval_ms / 1000, seconds)
    yield "idempotent produce, RF 3", transaction_loads.idempotence(system, int(200_000 * scale))
    yield (
        "readers, a commit every 100 ms",
        transaction_loads.committed_latency(system, 0.1, seconds),
    )
    many = int(2_000 * scale)
    yield (
        f"{many:,} transactional ids, a transaction a second",
        transactional_ids.run_ids(system, many, 2 * seconds),
    )
    ids = int(200_000 * scale)
    yield f"coordinator with {ids:,} transactional ids", transaction_loads.takeover(system, ids)


def _cleaning(system: System, scale: float) -> Measured:
    yield from cleaning_load.cleaning(system, scale)


def _controller_failover(system: System) -> loads.Figures:
    from confluent_kafka.admin import AdminClient

    listing = AdminClient({"bootstrap.servers": system.bootstrap}).list_topics(timeout=20)
    topics = {
        name: len(topic.partitions) for name, topic in listing.topics.items() if name.startswith("bench")
    }
    return loads.controller_failover(system, listing.controller_id, topics)


LOADS: dict[str, tuple[int, Callable[[System, float], Measured]]] = {
    "single": (1, _single),
    "replicated": (3, _replicated),
    "latency": (3, _latency),
    "idle": (3, _idle),
    "failover": (3, _failover),
    "partitions": (3, _many_partitions),
    "groups": (3, _groups),
    "transactions": (3, _transactions),
    "cleaning": (1, _cleaning),
    "secured": (3, _secured),
}


SECURED: dict[type[System], type[System]] = {Ottla: SecuredOttla, ApacheKafka: SecuredKafka}
"""The same systems with TLS."""


def main() -> int:
    """Parse the command line, run, report."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--loads", default=",".join(LOADS), help=f"of {', '.join(LOADS)}")
    parser.add_argument("--rounds", type=int, default=3, help="how often each system takes its turn")
    parser.add_argument("--scale", type=float, default=1.0, help="less than 1 shortens every load")
    parser.add_argument("--no-peer", action="store_true", help="measure Ottla only")
    parser.add_argument("--json", type=Path, help="write every round's figures to this file")
    options = parser.parse_args()
    systems: list[type[Ottla] | type[ApacheKafka]] = [Ottla]
    if not options.no_peer and kafka_libs() is not None:
        systems.append(ApacheKafka)
    figures: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for load in options.loads.split(","):
        brokers, measure = LOADS[load]
        for number in range(options.rounds):
            kinds = [SECURED[kind] for kind in systems] if load == "secured" else systems
            for kind in kinds if number % 2 == 0 else reversed(kinds):
                _round(kind, brokers, measure, options.scale, figures)
                Console(stderr=True).print(f"[dim]{load}, round {number + 1}, {kind.name}[/]")
    _report(figures, [kind.name for kind in systems])
    if options.json:
        rows = {f"{what} / {name}": dict(values) for (what, name), values in figures.items()}
        options.json.write_text(json.dumps(rows, indent=2))
    return 0


def _round(
    kind: type[Ottla] | type[ApacheKafka],
    brokers: int,
    measure: Callable[[System, float], Measured],
    scale: float,
    figures: dict[tuple[str, str], dict[str, list[float]]],
) -> None:
    system, started = loads.start(lambda: kind(brokers)) if brokers == 3 else (kind(brokers), {})
    try:
        for name, value in started.items():
            figures["start", kind.name][name].append(value)
        for what, measured in measure(system, scale):
            for name, value in measured.items():
                figures[what, kind.name][name].append(value)
    finally:
        system.stop()


def _report(figures: dict[tuple[str, str], dict[str, list[float]]], names: list[str]) -> None:
    table = Table(title="Medians; ratio is Ottla's against Kafka's")
    for column in ("load", "figure", *names, "ratio", "rounds of ottla"):
        table.add_column(column, justify="left" if column in ("load", "figure") else "right")
    for what in dict.fromkeys(what for what, _ in figures):
        for figure in figures[what, "ottla"]:
            medians = [
                statistics.median(values) if (values := figures[what, name][figure]) else None
                for name in names
            ]
            ours, theirs = medians[0], medians[-1] if len(names) > 1 else None
            ratio = f"{ours / theirs:.2f} x" if ours is not None and theirs else ""
            better = "↑" if figure in HIGHER_IS_BETTER else "↓"
            rounds = " ".join(f"{value:,.3g}" for value in figures[what, "ottla"][figure])
            shown = ["" if median is None else f"{median:,.3g}" for median in medians]
            table.add_row(what, f"{figure} {better}", *shown, ratio, rounds)
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
