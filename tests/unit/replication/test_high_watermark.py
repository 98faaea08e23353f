"""The high watermark, as a table: which replicas hold it back, and which do not."""

from typing import NamedTuple

import pytest

from wire.types import MonotonicSeconds


class Case(NamedTuple):
    name: str
    isr: tuple[int, ...]
    ends: dict[int, int]  # log ends of the followers; the leader's is 10
    expected: int
    min_isr: int = 1
    behind_s: float = 0.0  # how long ago the followers outside of the ISR were caught up
    live: tuple[int, ...] = (1, 2, 3)


CASES = [
    Case("everybody has everything", (1, 2, 3), {2: 10, 3: 10}, 10),
    Case("the slowest of the ISR decides", (1, 2, 3), {2: 10, 3: 4}, 4),
    Case("a follower that never fetched holds it", (1, 2, 3), {2: 10}, 0),
    Case("who is out of the ISR and lags does not", (1, 2), {2: 10, 3: 4}, 10, behind_s=11),
    Case("who is about to join does", (1, 2), {2: 10, 3: 4}, 4, behind_s=9),
    Case("unless its broker is dead", (1, 2), {2: 10, 3: 4}, 10, behind_s=9, live=(1, 2)),
    Case("the leader alone", (1,), {2: 3, 3: 3}, 10, behind_s=60),
    Case("it stands while the ISR is too small", (1,), {2: 10, 3: 10}, 0, min_isr=2, behind_s=60),
    Case("the minimum is enough", (1, 2), {2: 10, 3: 0}, 10, min_isr=2, behind_s=60),
    Case("more than all replicas cannot be asked for", (1, 2, 3), {2: 10, 3: 10}, 10, min_isr=5),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_advance(broker, case):
    broker.zookeeper.configs["orders"] = {"min.insync.replicas": str(case.min_isr)}
    partition = broker.lead(isr=case.isr)
    broker.live(*case.live)
    broker.produce(10)
    for follower, end in case.ends.items():
        remote = partition.leader.remotes[follower]
        remote.log_end_offset = end
        if follower not in case.isr:
            remote.last_caught_up = MonotonicSeconds(broker.clock.now - case.behind_s)
    partition.leader.reconsider(broker.clock.monotonic())
    assert partition.log.high_watermark == case.expected


def test_it_never_falls_on_a_leader(broker):
    partition = broker.lead(isr=(1,))
    broker.clock.now += 60
    broker.produce(5)
    assert partition.log.high_watermark == 5
    broker.lead(isr=(1, 2, 3))
    broker.fetch(0, follower=2)
    assert partition.log.high_watermark == 5


def test_a_new_leader_forgets_what_it_knew_of_its_followers(broker):
    partition = broker.lead()
    broker.produce(5)
    for follower in (2, 3):
        broker.fetch(5, follower=follower)
    assert partition.log.high_watermark == 5
    broker.follow(2)
    broker.lead()
    broker.produce(1)
    assert partition.log.high_watermark == 5
    assert {remote.log_end_offset for remote in partition.leader.remotes.values()} == {-1}


def test_a_leader_elected_again_keeps_it(broker):
    partition = broker.lead()
    broker.produce(5)
    broker.fetch(5, follower=2)
    broker.lead()
    assert partition.leader.remotes[2].log_end_offset == 5
    assert partition.leader.epoch_start == 5


def test_a_dead_replica_that_held_it_back_lets_go_when_the_controller_says_so(broker):
    partition = broker.lead(isr=(1, 2))
    partition.leader.remotes[3].last_caught_up = broker.clock.monotonic()
    answers = broker.produce(1, acks=-1)
    broker.fetch(1, follower=2)
    assert not answers
    broker.live(1, 2)
    assert answers


def test_the_pending_isr_counts_for_the_watermark_and_not_for_the_minimum(broker):
    broker.zookeeper.configs["orders"] = {"min.insync.replicas": "2"}
    partition = broker.lead(isr=(1,))
    broker.produce(5)
    broker.fetch(5, follower=2)  # proposes to join
    assert partition.isr.is_pending
    assert partition.isr.isr == {1}
    assert partition.isr.maximal_isr == {1, 2}
    # The committed ISR is still too small: the watermark stays although both have everything.
    assert partition.log.high_watermark == 0
    partition.isr_committed(partition.isr, 2, broker.clock.monotonic())
    assert partition.log.high_watermark == 5
