"""The old consumer beside that of Apache Kafka 1.1.1: one group, one ensemble, consumers of both kinds."""

import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.integration.old_consumer.end_processes import EndProcess, OwnerWatch
from tests.patience import until

PARTITIONS = 5


class JavaEnd:
    """Kafka's console consumer with ``--zookeeper``."""

    def __init__(self, java: list[str], directory: Path, topic: str, group: str, **properties: str) -> None:
        self._out = directory / "java.out"
        self._errors = directory / "java.err"
        command = [*java, "kafka.tools.ConsoleConsumer", "--topic", topic, "--group", group]
        for name, value in properties.items():
            flag = name.replace("_", ".")
            command += (
                ["--zookeeper", value] if name == "zookeeper" else ["--consumer-property", f"{flag}={value}"]
            )
        with self._out.open("w") as out, self._errors.open("w") as errors:
            self._process = subprocess.Popen(command, stdout=out, stderr=errors)

    @property
    def values(self) -> list[str]:
        return self._out.read_text().splitlines()

    def leave(self) -> None:
        """Stop it as Ctrl-C does: it commits, and closes its session."""
        assert self._process.poll() is None, self._errors.read_text()
        self._process.send_signal(signal.SIGINT)
        self._process.wait(30)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(30)


@pytest.fixture
def watches(cluster) -> Iterator[list[OwnerWatch]]:
    made: list[OwnerWatch] = []
    yield made
    for each in made:
        each.close()


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_a_group_of_both_kinds(
    cluster, make_topics, watches, old_kafka_java: list[str], tmp_path: Path, strategy: str
) -> None:
    topic, group = f"both-kinds-{strategy}", f"both-{strategy}"
    make_topics.create([topic], PARTITIONS)
    watches.append(OwnerWatch(cluster.zookeeper, group, topic))
    (watch,) = watches
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    sent: list[str] = []

    def send(count: int) -> None:
        for _ in range(count):
            sent.append(str(len(sent)))
            producer.produce(topic, sent[-1].encode(), partition=len(sent) % PARTITIONS)
        assert producer.flush(30) == 0

    common = {"partition_assignment_strategy": strategy, "auto_offset_reset": "smallest"}
    java = JavaEnd(
        old_kafka_java,
        tmp_path,
        topic,
        group,
        zookeeper=cluster.zookeeper,
        consumer_timeout_ms="-1",
        **common,
    )
    ours: EndProcess | None = None

    def owners() -> Counter[str]:
        return Counter(thread.rpartition("-")[0] for thread in watch.owners().values())

    def consumed() -> set[str]:
        assert ours is not None
        return {*java.values, *ours.values}

    try:
        send(100)
        until(lambda: set(java.values) == set(sent))  # it has all of them, alone
        assert list(owners().values()) == [PARTITIONS]
        ours = EndProcess(
            tmp_path, "ours", topic, zookeeper_connect=cluster.zookeeper, group_id=group, **common
        )
        until(lambda: sorted(owners().values()) == [2, 3] and ours.owned)
        send(100)
        until(lambda: consumed() == set(sent))
        assert len(java.values) < len(sent)
        assert len(java.values) + len(ours.values) >= len(sent)
        java.leave()
        until(lambda: list(owners()) == [ours.consumer_id] and len(ours.owned) == PARTITIONS)
        send(50)
        until(lambda: consumed() == set(sent))
        # Now Kafka's consumer comes back, to positions that ours has committed.
        ours.leave()
        assert sum(watch.offsets().values()) == len(sent)
    finally:
        java.close()
        if ours is not None:
            ours.close()
