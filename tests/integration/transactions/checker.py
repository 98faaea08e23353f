"""Copiers on a cluster that is harmed, and what must hold for the copies.

Every input is in each output once and in order; the outputs agree, so that no transaction is torn; a reader that
follows all the time never sees anything aborted; and when the harm is over nothing hangs: no transaction, no last
stable offset, no held group offset, no copier but in the one call of librdkafka that hangs by itself.
"""

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from ottla.testing import Cluster
from tests.integration.transactions.committed_reader import CommittedReader
from tests.integration.transactions.harms import HARMS, SESSION_S
from tests.integration.transactions.watched_copier import WatchedCopier
from tests.patience import until

PARTITIONS = 2
SOURCE = "inputs"
TARGETS = ("outputs", "twins")
PROGRESS = 20
PROGRESS_TIMEOUT_S = 60.0
_AHEAD = 400
_STATE_PARTITIONS = 3
SETTINGS = {
    "offsets.topic.num.partitions": str(_STATE_PARTITIONS),
    "transaction.state.log.num.partitions": str(_STATE_PARTITIONS),
    "min.insync.replicas": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "zookeeper.session.timeout.ms": str(int(SESSION_S * 1000)),
    "replica.lag.time.max.ms": "3000",
    "auto.leader.rebalance.enable": "false",
    # A paused broker has to wake up as a zombie, so its guardian lets it live.
    "ottla.hang.timeout.ms": "0",
}


class Checker:
    """Copiers on a cluster of three brokers, from the beginning of the block to its end.

    Args:
        cluster: The cluster; it gets the topics.
        directory: The folder for the errors of copiers.
        seed: The seed of the random choices.
    """

    def __init__(self, cluster: Cluster, directory: Path, seed: int) -> None:
        self._cluster = cluster
        self._directory = directory
        self._chance = random.Random(seed)
        self._servers = cluster.bootstrap_servers
        self._stack = ExitStack()
        self._inputs = [0] * PARTITIONS
        self._producer = Producer(
            {"bootstrap.servers": self._servers, "enable.idempotence": True, "message.timeout.ms": 150_000}
        )

    def __enter__(self) -> Self:
        self._create_topics()
        self._fill()
        with ExitStack() as stack:
            self.reader = CommittedReader(self._servers, TARGETS, PARTITIONS)
            stack.callback(self.reader.close)
            self.copiers = [
                stack.enter_context(
                    WatchedCopier(
                        self._servers,
                        self._directory,
                        SOURCE,
                        TARGETS,
                        partition,
                        self._chance.getrandbits(32),
                    )
                )
                for partition in range(PARTITIONS)
            ]
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def harm(self, names: Iterable[str]) -> None:
        """Do one harm after another; require progress of the copiers within a minute of each."""
        self._wait_progress("at first")
        for name in names:
            print(name, self.describe(), flush=True)
            HARMS[name](self._cluster, self.copiers, self._chance)
            self._wait_progress(f"after {name}")

    def finish(self) -> None:
        """Wait until everything is copied, and check the outcome."""
        totals = self._inputs
        self._wait(
            lambda: all(each.copied >= total for each, total in zip(self.copiers, totals, strict=True)),
            "the rest is copied",
        )
        for partition, copier in enumerate(self.copiers):
            self._wait(
                lambda p=partition: self.reader.seen(p) == (totals[p],) * len(TARGETS),  # type: ignore[misc]
                f"what {copier.name} wrote is seen",
            )
        assert not self.reader.wrong, self.reader.wrong
        # Only the call that hangs inside the client itself: any other would be the brokers' fault.
        assert set(self.hung) <= {"send_offsets"}, self.hung
        self._wait(lambda: stable_ends(self._cluster) == ends(self._cluster), "nothing is open")
        for partition, copier in enumerate(self.copiers):
            assert position(self._cluster, copier.name, partition) == totals[partition]
        assert hanging(self._cluster) == []
        self._wait(lambda: states(self._cluster) <= {"CompleteCommit"}, "all is decided")

    @property
    def hung(self) -> Counter[str]:
        """How many copiers hung, by what they were doing."""
        return sum((each.hung for each in self.copiers), Counter())

    def describe(self) -> str:
        """Return the progress of the copiers."""
        return f"copied {[each.copied for each in self.copiers]} of {self._inputs}, hung {dict(self.hung)}"

    def _wait_progress(self, when: str) -> None:
        before = [each.copied for each in self.copiers]
        self._fill()
        self._wait(
            lambda: all(
                each.copied >= old + PROGRESS for each, old in zip(self.copiers, before, strict=True)
            ),
            f"the copiers get on {when}",
        )

    def _wait(self, condition: Callable[[], object], what: str) -> None:
        def look() -> bool:
            for each in self.copiers:
                each.watch()
            assert not self.reader.wrong, self.reader.wrong
            return bool(condition())

        try:
            until(look, PROGRESS_TIMEOUT_S)
        except AssertionError as failure:
            failure.add_note(f"waiting until {what}: {self.describe()}")
            for each in self.copiers:
                failure.add_note(each.describe())
            failure.add_note(tell(self._cluster))
            raise

    def _create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._servers})
        made = admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in (SOURCE, *TARGETS)])
        for future in made.values():
            future.result(timeout=60)
        for name in (SOURCE, *TARGETS):
            self._cluster.wait_in_sync(name, PARTITIONS)

    def _fill(self) -> None:
        """Keep slightly more to copy than a copier can copy until the next check."""
        copied = [each.copied for each in getattr(self, "copiers", ())] or [0] * PARTITIONS
        for partition, done in enumerate(copied):
            for number in range(self._inputs[partition], done + _AHEAD):
                self._producer.produce(SOURCE, b"%d" % number, partition=partition)
            self._inputs[partition] = max(self._inputs[partition], done + _AHEAD)
        assert self._producer.flush(90) == 0


def ends(
    cluster: Cluster, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
) -> dict[tuple[str, int], int]:
    """Return the end of every partition under an isolation level."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    counts = {**dict.fromkeys(TARGETS, PARTITIONS), "__consumer_offsets": _STATE_PARTITIONS}
    asked = {
        TopicPartition(name, partition): OffsetSpec.latest()
        for name, count in counts.items()
        for partition in range(count)
    }
    found = admin.list_offsets(asked, isolation_level=isolation, request_timeout=30)
    return {(at.topic, at.partition): future.result(timeout=60).offset for at, future in found.items()}


def stable_ends(cluster: Cluster) -> dict[tuple[str, int], int]:
    """Return the last stable offset of every partition."""
    return ends(cluster, IsolationLevel.READ_COMMITTED)


def position(cluster: Cluster, group: str, partition: int) -> int:
    """Return a group's committed offset, which no transaction is allowed to hold any more."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(SOURCE, partition)])
    (future,) = admin.list_consumer_group_offsets([asked], require_stable=True, request_timeout=30).values()
    (found,) = future.result(timeout=60).topic_partitions
    assert found.error is None, found.error
    return int(found.offset)


def states(cluster: Cluster) -> set[str]:
    """Return the states of all transactional ids."""
    return {row.split()[-1] for row in transactions(cluster, "list").strip().splitlines()[1:]}


def hanging(cluster: Cluster) -> list[str]:
    """Return the hanging transactions, which no coordinator will end."""
    return [
        row
        for broker in range(3)
        for row in transactions(cluster, "find-hanging", "--broker-id", str(broker)).strip().splitlines()[1:]
    ]


def transactions(cluster: Cluster, *arguments: str) -> str:
    """Run ``ottla transactions``; return what it prints."""
    command = [sys.executable, "-m", "ottla", "transactions"]
    where = ["--bootstrap-server", cluster.bootstrap_servers]
    return subprocess.run(
        [*command, *where, *arguments], capture_output=True, text=True, check=True, timeout=60
    ).stdout


def tell(cluster: Cluster) -> str:
    """Return the state of the cluster's transactions, and the partitions whose last stable offset lags."""
    try:
        stable = stable_ends(cluster)
        behind = {at: (stable[at], end) for at, end in ends(cluster).items() if stable[at] != end}
        return f"{transactions(cluster, 'list')}\nhanging: {hanging(cluster)}\nheld up: {behind}"
    except (KafkaException, subprocess.SubprocessError) as failure:
        return f"the cluster says nothing of its transactions: {failure!r}"
