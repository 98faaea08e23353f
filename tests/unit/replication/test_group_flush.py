"""log.flush.on.ack: nothing is acknowledged that a power loss could lose."""

import pytest
import trio
import trio.testing

from storage.log_config import LogConfig
from tests.unit.replication.in_memory import FakeBroker
from tests.unit.replication.test_fetcher import Pair
from wire.errors import Error


@pytest.fixture
def broker():
    return FakeBroker(log_flush_on_ack="true")


def flush(broker):
    async def main():
        with trio.move_on_after(1):
            await broker.replicas._group_flush.run()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize("acks", [1, -1])
def test_an_acknowledgement_waits_for_the_disk(broker, acks):
    broker.lead(isr=(1,), replicas=(1,))
    answers = broker.produce(3, acks=acks)
    assert not answers
    assert broker.partition.log.high_watermark == 0
    flush(broker)
    (result,) = answers[0].values()
    assert (result.error, result.base_offset) == (Error.NONE, 0)
    assert broker.partition.log.recovery_point == 3
    assert broker.partition.log.high_watermark == 3


def test_what_was_appended_meanwhile_shares_a_flush(broker):
    broker.lead(isr=(1,), replicas=(1,))
    answers = [broker.produce(1, acks=1) for _ in range(5)]
    flush(broker)
    assert all(answers)


def test_the_leader_counts_as_far_as_it_has_flushed(broker):
    broker.lead(isr=(1, 2), replicas=(1, 2))
    answers = broker.produce(3, acks=-1)
    broker.fetch(3, follower=2)
    assert not answers
    flush(broker)
    assert answers


def test_a_follower_flushes_before_it_acknowledges():
    async def story(pair):
        await pair.order()
        pair.leader.produce(3)
        await pair.wait_level()
        assert pair.follower.partition.log.recovery_point == 3

    Pair(log_flush_on_ack="true").run(story)


def test_a_new_leader_flushes_what_it_has(broker):
    broker.follow(2, isr=(2,), replicas=(1, 2))
    broker.partition.log.append_as_follower(b"")
    broker.lead(isr=(1,), replicas=(1, 2))
    broker.produce(2)
    broker.lead(isr=(1,), replicas=(1, 2))
    flush(broker)
    assert broker.partition.log.high_watermark == 2


@pytest.mark.parametrize("acks", [1, -1])
def test_a_topic_may_ask_for_it_by_itself(make_broker, acks):
    broker = make_broker()
    partition = broker.lead(isr=(1,), replicas=(1,))
    partition.log.update_config(LogConfig(flush_messages=1, min_insync_replicas=1))
    answers = broker.produce(3, acks=acks)
    assert not answers
    assert (partition.log.recovery_point, partition.log.high_watermark) == (0, 0)
    flush(broker)
    assert answers
    assert (partition.log.recovery_point, partition.log.high_watermark) == (3, 3)


def test_after_some_messages_a_topic_is_flushed_and_nobody_waits(make_broker):
    broker = make_broker()
    partition = broker.lead(isr=(1,), replicas=(1,))
    partition.log.update_config(LogConfig(flush_messages=3, min_insync_replicas=1))
    assert broker.produce(2)
    flush(broker)
    assert partition.log.recovery_point == 0
    assert broker.produce(1)
    assert partition.log.recovery_point == 0
    flush(broker)
    assert partition.log.recovery_point == 3


def test_a_follower_flushes_what_its_topic_asks_for():
    async def story(pair):
        await pair.order()
        pair.follower.partition.log.update_config(LogConfig(flush_messages=2, min_insync_replicas=1))
        pair.leader.produce(1)
        await pair.wait_level()
        assert pair.follower.partition.log.recovery_point == 0
        pair.leader.produce(1)
        await pair.wait_level()
        assert pair.follower.partition.log.recovery_point == 2
