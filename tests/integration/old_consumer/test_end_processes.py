"""Two ends in two processes on a real ensemble: they share, stall, die and come back; no partition has two owners."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.conftest import Topics
from tests.integration.old_consumer.end_processes import EndProcess, OwnerWatch, strangers
from tests.patience import until

PARTITIONS = 6
TOPIC = "shared-by-ends"


class Sender:
    """Sends numbered records, and remembers them."""

    def __init__(self, servers: str) -> None:
        self._producer = Producer({"bootstrap.servers": servers})
        self.sent: list[str] = []

    def send(self, count: int) -> None:
        """Send more records, to all partitions in turn."""
        for _ in range(count):
            self.sent.append(str(len(self.sent)))
            self._producer.produce(TOPIC, self.sent[-1].encode(), partition=len(self.sent) % PARTITIONS)
        assert self._producer.flush(30) == 0


@pytest.fixture
def watch(cluster) -> Iterator[OwnerWatch]:
    made = OwnerWatch(cluster.zookeeper, "billing", TOPIC)
    yield made
    made.close()


def test_two_ends(cluster, make_topics: Topics, watch: OwnerWatch, tmp_path: Path) -> None:
    make_topics.create([TOPIC], PARTITIONS)
    sender = Sender(cluster.bootstrap_servers)
    ends = [EndProcess(tmp_path, name, TOPIC, zookeeper_connect=cluster.zookeeper) for name in ("one", "two")]

    def consumed() -> set[str]:
        return {value for end in ends for value in end.values}

    def all_owned_by(*expected: EndProcess) -> bool:
        owners = watch.owners()
        return (
            len(owners) == PARTITIONS
            and {thread.rpartition("-")[0] for thread in owners.values()}
            == {end.consumer_id for end in expected}
            and sorted(number for end in expected for number in end.owned) == list(range(PARTITIONS))
        )

    try:
        until(lambda: all(end.owned for end in ends) and all_owned_by(*ends))
        assert [len(end.owned) for end in ends] == [3, 3]
        sender.send(120)
        until(lambda: consumed() == set(sender.sent))

        # One stalls for longer than its session lives: when it goes on, it learns of that before it hands out anything.
        one, two = ends
        one.signal(signal.SIGSTOP)
        sender.send(60)
        until(lambda: watch.ids() == [two.consumer_id] and all_owned_by(two))
        until(lambda: consumed() == set(sender.sent))
        one.signal(signal.SIGCONT)
        until(lambda: all_owned_by(one, two))

        # The other one is killed: its session has to time out.
        sender.send(60)
        two.signal(signal.SIGKILL)
        until(lambda: all_owned_by(one))
        sender.send(60)
        until(lambda: consumed() == set(sender.sent))

        # The last one leaves, and another one begins where it ended.
        one.leave()
        assert (watch.ids(), watch.owners()) == ([], {})
        assert sum(watch.offsets().values()) == len(sender.sent)
        ends.append(EndProcess(tmp_path, "three", TOPIC, zookeeper_connect=cluster.zookeeper))
        sender.send(30)
        until(lambda: consumed() == set(sender.sent))
        assert sorted(ends[2].values, key=int) == sender.sent[-30:]
        ends[2].leave()
        assert strangers(ends) == []
    finally:
        for end in ends:
            end.close()
