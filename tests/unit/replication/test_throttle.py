"""Replication throttles: what they let pass, whom they hold back, and the average rate."""

import pytest

from cluster.replication.throttle import UNLIMITED, Throttle
from storage.log_config import LogConfig
from tests.unit.replication.in_memory import P0, TOPIC, FakeClock, batch, fetch_request, partitions_of
from wire.types import BrokerId, TopicPartition


class NamedLog:
    """The part of a log that a throttle uses."""

    def __init__(self, partition: int, *entries: str) -> None:
        self.topic_partition = TopicPartition("t", partition)
        self.config = LogConfig(leader_replication_throttled_replicas=entries)


class Rate:
    """A rate that a test changes."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __call__(self) -> int:
        return self.value


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def rate():
    return Rate(1000)


@pytest.fixture
def throttle(clock, rate):
    return Throttle(BrokerId(1), clock, rate, lambda config: config.leader_replication_throttled_replicas)


def test_a_window_passes_at_once_and_then_the_rate(throttle, clock):
    sent = 0
    for _ in range(200):
        while (room := throttle.room()) > 0:
            throttle.record(min(room, 300))
            sent += min(room, 300)
        clock.now += 0.5
    assert sent == pytest.approx(1000 + 1000 * 99.5, rel=0.01)


def test_answers_larger_than_the_window_are_paid_for(throttle, clock):
    throttle.record(10_000)
    clock.now += 8.9
    assert throttle.room() <= 0
    clock.now += 0.2
    assert throttle.room() > 0


def test_asking_again_after_the_wait_finds_room(throttle, clock):
    throttle.record(1_200)
    clock.now += throttle.wait_s()
    assert throttle.room() == 500


def test_a_rate_that_is_raised_is_not_waited_for_longer_than_a_window(throttle, clock, rate):
    throttle.record(60_000)
    waited_s = throttle.wait_s()
    assert waited_s == 1.0
    rate.value = 100_000
    clock.now += waited_s
    assert throttle.room() > 0


def test_another_rate_starts_over(throttle, clock, rate):
    throttle.record(10_000_000)
    rate.value = 10
    assert throttle.room() > 0


def test_a_rate_of_nothing_lets_nothing_pass(throttle, rate):
    rate.value = 0
    throttle.record(1)
    assert throttle.room() == 0


def test_it_is_off_without_a_rate(throttle, rate):
    assert throttle.is_on
    rate.value = UNLIMITED
    assert not throttle.is_on


@pytest.mark.parametrize(
    ("entries", "partitions"),
    [((), []), (("*",), [0, 1, 2]), (("0:1", "2:1", "1:2"), [0, 2]), (("1:11", "x:1"), [])],
)
def test_the_settings_name_replicas_of_this_broker(throttle, entries, partitions):
    named = [each for each in range(3) if throttle.applies_to(NamedLog(each, *entries))]
    assert named == partitions


def test_changed_settings_are_read_anew(throttle):
    assert throttle.applies_to(NamedLog(0, "0:1"))
    assert not throttle.applies_to(NamedLog(0, "1:1"))


# At a leader


@pytest.fixture
def leader(broker):
    """Broker 1 leads; 2 is in sync and 3 is not; what it sends of partition 0 is throttled to 1,000 bytes/s."""
    broker.lead(isr=(1, 2))
    broker.config.apply_dynamic({"leader.replication.throttled.rate": "1000"}, {})
    broker.store.update_topic_configs(
        {TOPIC: LogConfig(min_insync_replicas=1, leader_replication_throttled_replicas=("0:1",))}
    )
    broker.replicas.append([(P0, batch(200))], 1, 1000, lambda _: None)
    return broker


def test_what_catches_up_waits_for_room(leader):
    first = leader.call_fetch(fetch_request({0: 0}, 3))
    assert len(partitions_of(first)[0].records) > 1000
    leader.replicas.append([(P0, batch(200))], 1, 1000, lambda _: None)
    second = leader.call_fetch(fetch_request({0: 200}, 3))
    assert not second.responses
    leader.timer.expire_all()
    assert not partitions_of(second)[0].records
    leader.clock.now += 10
    third = leader.call_fetch(fetch_request({0: 200}, 3))
    assert len(partitions_of(third)[0].records)


def test_an_append_does_not_wake_what_has_no_room(leader):
    leader.call_fetch(fetch_request({0: 0}, 3))
    parked = leader.call_fetch(fetch_request({0: 200}, 3))
    leader.replicas.append([(P0, batch(200))], 1, 1000, lambda _: None)
    assert not parked.responses


def test_what_is_in_sync_is_never_held_back(leader):
    leader.call_fetch(fetch_request({0: 0}, 3))
    leader.replicas.append([(P0, batch(200))], 1, 1000, lambda _: None)
    assert len(partitions_of(leader.call_fetch(fetch_request({0: 0}, 2)))[0].records)
    assert len(partitions_of(leader.call_fetch(fetch_request({0: 200}, 2)))[0].records)


def test_consumers_are_never_held_back(leader):
    leader.call_fetch(fetch_request({0: 0}, 3))
    for follower in (2, 3):
        leader.call_fetch(fetch_request({0: 200}, follower))
    assert len(partitions_of(leader.fetch(0))[0].records)
