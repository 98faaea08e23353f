"""Which replicas leave and join the ISR, and the effect of ZooKeeper's answer."""

import pytest
import trio
from trio.testing import MockClock

from cluster.zookeeper.client import BadVersionError, SessionExpiredError
from tests.unit.replication.in_memory import fetch_request

LAG_S = 10.0


def written(broker):
    return [(leadership.isr, version) for _, leadership, version in broker.zookeeper.written]


def run_changes(broker, seconds: float = 1.0) -> None:
    """Let the task that writes ISRs run for a while."""

    async def main() -> None:
        with trio.move_on_after(seconds):
            await broker.replicas.isr_changes.run()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_a_follower_that_does_not_fetch_leaves_after_the_lag_time(broker):
    partition = broker.lead()
    broker.produce(1)
    broker.fetch(1, follower=2)
    broker.clock.now += LAG_S + 0.1
    broker.fetch(1, follower=2)
    assert partition.leader.maybe_shrink(broker.clock.monotonic()) == {3}
    run_changes(broker)
    assert written(broker) == [((1, 2), 1)]
    assert partition.isr.isr == {1, 2}
    assert partition.zk_version == 2
    assert broker.zookeeper.announced == [[("orders", 0)]]


def test_shrinking_moves_the_high_watermark_and_ends_waiting(broker):
    partition = broker.lead()
    answers = broker.produce(1, acks=-1)
    broker.fetch(1, follower=2)
    broker.clock.now += LAG_S + 0.1
    broker.fetch(1, follower=2)
    partition.leader.reconsider(broker.clock.monotonic())
    assert not answers  # the removed replica still counts until the change is certain
    run_changes(broker)
    assert answers


def test_idle_followers_stay(broker):
    partition = broker.lead()
    broker.produce(1)
    for follower in (2, 3):
        broker.fetch(1, follower=follower)
    broker.clock.now += 10 * LAG_S
    assert not partition.leader.maybe_shrink(broker.clock.monotonic())


def test_a_follower_that_is_always_one_append_behind_stays(broker):
    partition = broker.lead(replicas=(1, 2), isr=(1, 2))
    for offset in range(30):
        broker.produce(1)
        broker.fetch(offset, follower=2)
        broker.clock.now += 1
    assert not partition.leader.maybe_shrink(broker.clock.monotonic())


def test_the_last_member_is_the_leader_itself(broker):
    partition = broker.lead(isr=(1,))
    broker.produce(1)
    broker.clock.now += 10 * LAG_S
    assert not partition.leader.maybe_shrink(broker.clock.monotonic())


def test_a_follower_that_has_caught_up_joins(broker):
    partition = broker.lead(isr=(1, 2))
    broker.produce(5)
    broker.fetch(5, follower=2)
    assert partition.log.high_watermark == 5
    broker.fetch(4, follower=3)
    assert not partition.isr.is_pending
    broker.fetch(5, follower=3)
    assert partition.isr.is_pending
    run_changes(broker)
    assert written(broker) == [((1, 2, 3), 1)]


def test_a_follower_does_not_join_before_the_start_of_the_leaders_epoch(broker):
    partition = broker.lead(isr=(1,), replicas=(1, 2))
    broker.produce(5)
    broker.lead(isr=(1,), replicas=(1, 2))  # a new epoch, which begins at 5
    partition.log.set_high_watermark(3)
    broker.fetch(4, follower=2)
    assert not partition.isr.is_pending
    broker.fetch(5, follower=2)
    assert partition.isr.is_pending


def test_a_dead_broker_does_not_join(broker):
    partition = broker.lead(isr=(1, 2))
    broker.live(1, 2)
    broker.fetch(0, follower=3)
    assert not partition.isr.is_pending


def test_one_change_at_a_time_and_the_next_follows_by_itself(broker):
    partition = broker.lead(isr=(1,))
    broker.fetch(0, follower=2)
    broker.fetch(0, follower=3)
    assert partition.isr.maximal_isr == {1, 2}
    run_changes(broker)
    assert [isr for isr, _ in written(broker)] == [(1, 2), (1, 2, 3)]
    assert partition.isr.isr == {1, 2, 3}


def test_a_refused_write_leaves_the_isr_as_it_is_until_the_controller_speaks(broker):
    partition = broker.lead(isr=(1, 2))
    broker.zookeeper.failures = [BadVersionError("written by the controller")]
    broker.fetch(0, follower=3)
    run_changes(broker)
    assert partition.isr.is_pending
    assert partition.isr.isr == {1, 2}
    assert not partition.leader.maybe_shrink(broker.clock.monotonic() + 10 * LAG_S)
    broker.lead(isr=(1, 2))
    assert not partition.isr.is_pending


def test_a_lost_session_is_waited_for(broker):
    partition = broker.lead(isr=(1, 2))
    broker.zookeeper.failures = [SessionExpiredError("gone"), SessionExpiredError("gone")]
    broker.fetch(0, follower=3)
    run_changes(broker, 5)
    assert partition.isr.isr == {1, 2, 3}


def test_the_controllers_word_overtakes_a_write_under_way(broker):
    partition = broker.lead(isr=(1, 2))
    broker.fetch(0, follower=3)
    pending = partition.isr
    broker.lead(isr=(1,))
    assert not partition.isr_committed(pending, 9, broker.clock.monotonic())
    assert partition.isr.isr == {1}
    run_changes(broker)
    assert written(broker) == []


def test_a_follower_that_restarts_joins_only_once_it_has_fetched(broker):
    partition = broker.lead(replicas=(1, 2), isr=(1, 2))
    broker.produce(5)
    call = broker.call_fetch(fetch_request({0: 5}, 2, epoch=0, leader_epoch=1))
    broker.timer.expire_all()  # its long poll is answered, and it dies before the next
    assert call.responses
    broker.clock.now += 3
    broker.live(1)
    broker.lead(replicas=(1, 2), isr=(1,))
    broker.clock.now += 3
    broker.live(1, 2)  # registered again within the lag time, with an unknown log
    partition.leader.reconsider(broker.clock.monotonic())
    assert not partition.isr.is_pending
    broker.fetch(3, follower=2, leader_epoch=2)  # it had lost records that were not synced
    assert not partition.isr.is_pending
    broker.fetch(5, follower=2, leader_epoch=2)
    assert partition.isr.maximal_isr == {1, 2}


def test_a_new_epoch_forgets_the_log_end_of_a_follower_outside_the_isr(broker):
    partition = broker.lead(replicas=(1, 2, 3), isr=(1, 2, 3))
    broker.produce(5)
    for follower in (2, 3):
        broker.fetch(5, follower=follower)
    broker.lead(replicas=(1, 2, 3), isr=(1, 2))
    assert partition.leader.remotes[2].log_end_offset == 5
    assert partition.leader.remotes[3].log_end_offset == -1


@pytest.mark.parametrize("is_clean", [True, False])
def test_with_a_session_an_idle_follower_was_level_until_the_append(broker, is_clean):
    partition = broker.lead(replicas=(1, 2), isr=(1, 2))
    call = broker.call_fetch(fetch_request({0: 0}, 2, epoch=0, max_wait_ms=0))
    session = call.responses[0].session_id
    for epoch in range(1, 40):
        broker.clock.now += 1
        if is_clean:
            broker.call_fetch(fetch_request({}, 2, session=session, epoch=epoch, max_wait_ms=0))
    broker.produce(1)
    assert (partition.leader.maybe_shrink(broker.clock.monotonic()) == {2}) is not is_clean
