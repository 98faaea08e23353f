"""Kafka Streams with exactly_once_v2: counts are exact although instances and brokers are killed."""

import os
import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.testing import Cluster
from tests.conftest import Topics
from tests.patience import until

PARTITIONS = 2
WORDS = [f"word{number}" for number in range(12)]
LINES_A_TURN = 300
PATIENCE_S = 150.0
_SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "min.insync.replicas": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture(scope="module")
def frail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster to harm."""
    with Cluster.up(tmp_path_factory.mktemp("streams") / "data", brokers=3, overrides=_SETTINGS) as running:
        yield running


class Instance:
    """One instance of the word count, as a process."""

    def __init__(self, java: list[str], cluster: Cluster, directory: Path, number: int) -> None:
        self._log = directory / f"instance-{number}.log"
        program = str(Path(__file__).parent / "java" / "WordCount.java")
        state = str(directory / f"state-{number}")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*java, program, cluster.bootstrap_servers, "lines", "counts", state],
                stdout=log,
                stderr=log,
                env=os.environ,
            )

    def check(self) -> None:
        """Require that it runs."""
        assert self._process.poll() is None, self._log.read_text()[-3_000:]
        assert "died of" not in self._log.read_text()

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._process.kill()
        self._process.wait()


class Counting:
    """The lines that are sent, and the counts that a reader of committed data gets."""

    def __init__(self, cluster: Cluster) -> None:
        self.expected: Counter[str] = Counter()
        self.found: dict[str, int] = {}
        self.wrong: list[str] = []
        self._chance = random.Random(5)
        servers = {"bootstrap.servers": cluster.bootstrap_servers}
        self._producer = Producer(servers | {"enable.idempotence": True, "message.timeout.ms": 150_000})
        self._consumer = Consumer(
            servers | {"group.id": "none", "isolation.level": "read_committed", "enable.auto.commit": False}
        )
        self._consumer.assign([TopicPartition("counts", partition, 0) for partition in range(PARTITIONS)])

    def send(self) -> None:
        """Send some more lines."""
        for _ in range(LINES_A_TURN):
            words = self._chance.choices(WORDS, k=4)
            self.expected.update(words)
            self._producer.produce("lines", " ".join(words), partition=self._chance.randrange(PARTITIONS))
        assert self._producer.flush(90) == 0

    def is_exact(self) -> bool:
        """Read on; return whether all is counted. A count that does not rise by one shows a duplicate or a loss."""
        while (message := self._consumer.poll(0.2)) is not None:
            if message.error() is None:
                word, count = message.key().decode(), int(message.value())
                if count != self.found.get(word, 0) + 1:
                    self.wrong.append(f"{word}: {count} after {self.found.get(word, 0)}")
                self.found[word] = count
        return self.found == self.expected

    def close(self) -> None:
        """Stop reading."""
        self._consumer.close()


def test_counts_are_exact_when_instances_and_brokers_are_killed(frail, kafka_java, tmp_path) -> None:
    Topics(frail.bootstrap_servers).create(["lines", "counts"], PARTITIONS, min_insync_replicas="2")
    instances = [Instance(kafka_java, frail, tmp_path, number) for number in range(2)]
    counting = Counting(frail)

    def is_exact() -> bool:
        for each in instances:
            each.check()
        return counting.is_exact()

    try:
        counting.send()
        until(is_exact, PATIENCE_S)
        for turn, broker in enumerate((0, 2)):
            counting.send()
            instances.pop(0).kill()
            instances.append(Instance(kafka_java, frail, tmp_path, 2 + turn))
            counting.send()
            until(is_exact, PATIENCE_S)
            counting.send()
            frail.kill(broker, host=bool(turn))
            counting.send()
            frail.start(broker)
            until(is_exact, PATIENCE_S)
    finally:
        for each in instances:
            each.kill()
        counting.close()
    assert counting.wrong == []
