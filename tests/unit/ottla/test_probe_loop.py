"""The probe's loop on a topic in memory: what it counts, and what it calls lost."""

import pytest
import trio
import trio.testing

from ottla.client.errors import refusal
from ottla.commands.diagnosis.probe_client import Found
from ottla.commands.diagnosis.probe_loop import Latencies, Probe
from wire.errors import Error
from wire.types import Offset, WallMs


class Topic:
    """Partitions in memory. ``lose`` has the numbers of records that are acknowledged but not kept."""

    def __init__(self, partitions=1, lose=(), refuse=(), repeat=False):
        self.logs = [[] for _ in range(partitions)]
        self.lose, self.refuse, self.repeat = set(lose), set(refuse), repeat
        self.committed = {}

    def client(self):
        return Client(self)


class Client:
    def __init__(self, topic):
        self.topic = topic

    def close(self):
        pass

    async def produce(self, partition, value, now, timeout_ms):
        await trio.sleep(0.002)
        number = int.from_bytes(value[:8], "big")
        if number in self.topic.refuse:
            raise refusal(Error.NOT_ENOUGH_REPLICAS)
        log = self.topic.logs[partition]
        if number not in self.topic.lose:
            log.extend([value] * (2 if self.topic.repeat else 1))
        return Offset(len(log) - 1)

    async def consume(self, partition, position, max_wait_ms):
        await trio.sleep(0.001)
        log = self.topic.logs[partition]
        return [Found(Offset(at), log[at]) for at in range(position, len(log))]

    async def commit(self, group, positions):
        await trio.sleep(0.003)
        self.topic.committed = positions


def probe(topic, duration_s=0.95):
    partitions = range(len(topic.logs))
    made = Probe(
        topic.client, list(partitions), dict.fromkeys(partitions, Offset(0)), "g", 0.1, 20, lambda: WallMs(0)
    )
    trio.run(made.run, duration_s, clock=trio.testing.MockClock(autojump_threshold=0))
    return made.result


def test_everything_gets_through():
    topic = Topic(partitions=2)
    result = probe(topic)
    assert result.sent == result.acknowledged == result.consumed == 20
    assert (result.lost, result.duplicates, result.failures) == (0, 0, {})
    assert result.commits == len(result.commit.values) >= 3
    assert topic.committed
    assert result.acknowledge.percentile_ms(0.5) == pytest.approx(2.0)


def test_a_lost_record_is_counted():
    assert probe(Topic(lose={3, 5})).lost == 2


def test_a_refused_record_is_a_failure_and_not_lost():
    result = probe(Topic(refuse={2}))
    assert result.failures == {"produce: NOT_ENOUGH_REPLICAS": 1}
    assert (result.lost, result.acknowledged) == (0, 9)
    assert 0.09 < result.longest_gap_s < 0.11


def test_records_that_come_twice_are_counted():
    assert probe(Topic(repeat=True)).duplicates == 10


def test_percentiles():
    latencies = Latencies([value / 1000 for value in range(1, 101)])
    assert latencies.as_json() == {"count": 100, "p50": 51.0, "p95": 96.0, "p99": 100.0, "max": 100.0}
    assert Latencies().percentile_ms(0.5) is None
