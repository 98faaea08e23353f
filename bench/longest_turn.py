"""How long a broker's loop stands still under each load: what every client waits for, no matter which caused it.

    python -m bench.longest_turn [--partitions 1000] [--connections 1000] [--scale 1]

Three brokers of Ottla get topics of 200 partitions on three replicas, then clients that stay connected, then one load
after the other. Shown is the longest turn of the loop of any broker during each, and the task that took it; see
`cluster.broker.loop_monitor`. On a machine whose processors have other things to do a turn includes the waiting for
one: run it alone.
"""

import argparse
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import loads
from bench.systems import Ottla
from ottla.management_client import BrokerGoneError, ManagementClient, ManagementError

_PER_TOPIC = 200
_GOAL_MS = 20.0
_GOAL_MANY_MS = 100.0
_MANY = 10_000


class Turns:
    """The longest turns of the brokers of a cluster.

    Args:
        directory: Where the cluster keeps its data.
    """

    def __init__(self, directory: Path) -> None:
        self._sockets = sorted(directory.rglob("management.sock"))

    def take(self) -> tuple[float, str]:
        """Return the longest turn of any broker since this was last asked, in ms, and its task."""
        found = [(0.0, "")]
        for path in self._sockets:
            try:
                with ManagementClient(path) as client:
                    turn = client.call("longest_turn")
            except (BrokerGoneError, ManagementError):
                continue  # killed by the load
            found.append((turn["ms"], turn["task"]))
        return max(found)

    def ask(self, method: str) -> None:
        """Call a method over every broker's management socket."""
        for path in self._sockets:
            with ManagementClient(path, timeout_s=60) as client:
                client.call(method)


@contextmanager
def connected(system: Ottla, count: int) -> Iterator[None]:
    """Hold `count` connections, spread over the brokers in turn."""
    addresses = [
        (host, int(port)) for host, port in (each.split(":") for each in system.bootstrap.split(","))
    ]
    opened = [socket.create_connection(addresses[number % len(addresses)]) for number in range(count)]
    try:
        yield
    finally:
        for each in opened:
            each.close()


def operations(
    system: Ottla, turns: Turns, topics: int, scale: float
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the operations of clients and operators, each with its name."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import (
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        OffsetSpec,
        ResourceType,
    )

    admin = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})
    names = sorted(admin.list_topics(timeout=60).topics)
    records = int(500_000 * scale)
    written: list[str] = []

    def produce() -> None:
        written.append(loads.produce(system, acks="all", size=100, records=records, replicas=3)[0])

    def alter(kind: ResourceType, name: str, value: str) -> None:
        entry = ConfigEntry("retention.ms" if kind is ResourceType.TOPIC else "log.retention.ms", value)
        entry.incremental_operation = AlterConfigOpType.SET
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(60)
        _rest(1)  # until the brokers have read it

    def list_offsets(spec: OffsetSpec) -> None:
        everything = [TopicPartition(name, index) for name in names[:topics] for index in range(_PER_TOPIC)]
        for future in admin.list_offsets(dict.fromkeys(everything, spec), request_timeout=60).values():
            future.result(60)

    def delete(doomed: list[str]) -> None:
        for future in admin.delete_topics(doomed, operation_timeout=60).values():
            future.result(60)
        _rest(2)  # until the replicas are gone

    yield "idle, 5 s", lambda: _rest(5)
    yield "produce acks=all, 100 B", produce
    yield "consume", lambda: loads.consume(system, written[0], 100, records)
    yield "metadata of everything", lambda: admin.list_topics(timeout=60)
    yield "latest offsets of everything", lambda: list_offsets(OffsetSpec.latest())
    yield "offsets by time of everything", lambda: list_offsets(OffsetSpec.for_timestamp(1))
    yield "metrics", lambda: turns.ask("metrics")
    yield "describe", lambda: turns.ask("describe")
    yield "a topic's setting", lambda: alter(ResourceType.TOPIC, names[0], "3600000")
    yield "a broker's setting", lambda: alter(ResourceType.BROKER, "0", "360000000")
    yield "create a topic of 200 partitions", lambda: loads.create_partitions(system, 1)
    yield "delete a topic of 200 partitions", lambda: delete(names[:1])
    yield "kill -9 of a broker", lambda: (system.kill(2), _rest(5))
    yield "its return", lambda: (system.start(2), _rest(5))


def _rest(seconds: float) -> None:
    """Wait for the brokers' work after a request, whose end no event reports."""
    time.sleep(seconds)  # noqa: TID251


def main() -> int:
    """Run the measurement; return how many loads were above the goal."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--connections", type=int, default=1_000)
    parser.add_argument("--scale", type=float, default=1.0, help="of the records that are sent")
    options = parser.parse_args()
    goal = _GOAL_MANY_MS if options.partitions >= _MANY else _GOAL_MS
    topics = max(1, options.partitions // _PER_TOPIC)
    table = Table(title=f"longest turn, {topics * _PER_TOPIC} partitions, {options.connections} connections")
    for column in ("load", "ms", "task"):
        table.add_column(column, justify="right" if column == "ms" else "left")
    above = 0
    system = Ottla(3)
    try:
        turns = Turns(system.data)
        turns.take()
        loads.create_partitions(system, topics)
        measured = [("create them", turns.take())]
        with connected(system, options.connections):
            measured.append(("connect", turns.take()))
            for name, load in operations(system, turns, topics, options.scale):
                turns.take()
                load()
                measured.append((name, turns.take()))
    finally:
        system.stop()
    for name, (ms, task) in measured:
        above += ms > goal
        table.add_row(name, f"{ms:.1f}", task, style="red" if ms > goal else "")
    Console(width=140).print(table)
    return above


if __name__ == "__main__":
    sys.exit(main())
