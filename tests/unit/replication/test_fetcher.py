"""Followers: fetching, truncating, finding their offset, and handling errors."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from cluster.network.broker_client import ConnectionFailedError
from tests.unit.replication.in_memory import P0, FakeBroker, LoopbackChannel, leader_and_isr
from wire.errors import Error
from wire.messages.fetch import FetchRequest, FetchResponse
from wire.types import TopicPartition


class Pair:
    """Broker 1 leads, broker 2 follows it over a loopback channel."""

    def __init__(self, **overrides: str) -> None:
        self.leader = FakeBroker(1)
        self.follower = FakeBroker(2, **overrides)
        self.channels: list[LoopbackChannel] = []
        self.follower.channels = self._connect
        self.epoch = 0

    def _connect(self, endpoint: Any, client_id: str) -> LoopbackChannel:
        assert (endpoint.host, endpoint.port, client_id) == ("host1", 9001, "broker-2-fetcher-0")
        self.channels.append(LoopbackChannel(self.leader))
        return self.channels[-1]

    async def order(self, **rest: Any) -> None:
        """Make broker 1 lead and broker 2 follow, in a new epoch."""
        self.epoch += 1
        isr = rest.pop("isr", (1, 2))
        request = leader_and_isr(1, isr, (1, 2), self.epoch, is_new=self.epoch == 1, **rest)
        for broker in (self.leader, self.follower):
            await broker.replicas.roles.become_leader_or_follower(request, 7)

    def run(self, story: "Callable[[Pair], Awaitable[None]]") -> None:
        async def main() -> None:
            self.leader.clock.follows_trio = self.follower.clock.follows_trio = True
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.follower.replicas.fetcher_pool.run)
                with trio.fail_after(600):
                    await story(self)
                nursery.cancel_scope.cancel()

        trio.run(main, clock=MockClock(autojump_threshold=0))

    @property
    def logs(self) -> tuple[Any, Any]:
        return self.leader.partition.log, self.follower.partition.log

    async def wait_level(self) -> None:
        """Wait until the follower has the leader's log end and high watermark."""
        while True:
            ours, theirs = self.logs
            if (ours.log_end_offset, ours.high_watermark) == (theirs.log_end_offset, theirs.high_watermark):
                return
            await trio.sleep(0.05)

    def fetch_requests(self) -> list[FetchRequest]:
        return [one for channel in self.channels for one in channel.requests if isinstance(one, FetchRequest)]


def test_a_follower_copies_bytes_and_follows_the_high_watermark():
    async def story(pair):
        await pair.order()
        pair.leader.produce(5)
        await pair.wait_level()
        leader, follower = pair.logs
        assert follower.high_watermark == 5
        assert follower.leader_epochs.entries() == leader.leader_epochs.entries()

    Pair().run(story)


def test_sessions_name_only_what_changed():
    async def story(pair):
        await pair.order(partitions=range(6))
        pair.leader.produce(1)
        await pair.wait_level()
        await trio.sleep(2)
        named = [sum(len(topic.partitions) for topic in one.topics) for one in pair.fetch_requests()]
        assert named[0] == 6
        assert set(named[1:]) <= {0, 1}
        assert [one.session_epoch for one in pair.fetch_requests()][:3] == [0, 1, 2]

    Pair().run(story)


def test_the_request_tells_who_and_which_life_fetches():
    async def story(pair):
        pair.follower.replicas.broker_epoch = 77
        await pair.order()
        await trio.sleep(1)
        request = pair.fetch_requests()[0]
        assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 77)
        partition = request.topics[0].partitions[0]
        assert (partition.current_leader_epoch, partition.last_fetched_epoch, partition.fetch_offset) == (
            1,
            -1,
            0,
        )

    Pair().run(story)


def test_a_divergent_tail_is_cut():
    async def story(pair):
        await pair.order()
        pair.leader.produce(3)
        await pair.wait_level()
        # The follower led alone for an epoch, wrote two records that no other replica has, and is a follower again.
        alone = leader_and_isr(2, (2,), (1, 2), 2)
        await pair.follower.replicas.roles.become_leader_or_follower(alone, 7)
        pair.follower.produce(2)
        pair.epoch = 2
        await pair.order(isr=(1,))
        pair.leader.produce(4)
        await pair.wait_level()
        leader, follower = pair.logs
        assert follower.leader_epochs.entries() == leader.leader_epochs.entries()
        assert follower.log_end_offset == 7

    Pair().run(story)


def test_a_log_that_starts_later_than_ours_ends_is_begun_anew():
    async def story(pair):
        await pair.order(isr=(1,))
        pair.leader.produce(5)
        leader = pair.leader.partition.log
        leader.advance_high_watermark(5)
        leader.roll()
        leader.advance_log_start(5)
        leader.delete_old_segments(pair.leader.clock.wall_ms())
        pair.leader.produce(2)
        await pair.wait_level()
        follower = pair.follower.partition.log
        assert (follower.log_start_offset, follower.log_end_offset) == (5, 7)

    pair = Pair()
    pair.run(story)


def test_the_log_start_follows_the_leaders():
    async def story(pair):
        await pair.order()
        pair.leader.produce(4)
        await pair.wait_level()
        answers = []
        done = trio.Event()
        pair.leader.replicas.delete_records(
            {P0: 3}, 1000, lambda result: (answers.append(result), done.set())
        )
        assert not answers
        await done.wait()
        assert answers[0][P0] == (Error.NONE, 3)
        assert pair.follower.partition.log.log_start_offset == 3

    Pair().run(story)


def test_a_follower_beyond_the_leaders_end_without_epochs_goes_back():
    async def story(pair):
        await pair.order()
        pair.leader.produce(2)
        await pair.wait_level()
        state = pair.follower.replicas.fetcher_pool.state_of(P0)
        pair.follower.replicas.fetcher_pool.leave(P0)
        pair.follower.partition.log.append_as_follower(b"")
        await pair.order()
        new = pair.follower.replicas.fetcher_pool.state_of(P0)
        assert new is not state
        pair.leader.produce(1)
        await pair.wait_level()

    Pair().run(story)


def test_a_broken_connection_starts_a_new_session_after_a_pause():
    async def story(pair):
        await pair.order()
        await trio.sleep(1)
        channel = pair.channels[0]

        async def fail(message, version):
            raise ConnectionFailedError("gone")

        channel.request = fail
        await trio.sleep(1)
        pair.leader.produce(1)
        await pair.wait_level()
        assert channel.closed
        assert len(pair.channels) == 2
        assert pair.channels[1].requests[0].session_epoch == 0

    Pair().run(story)


def test_a_session_that_the_leader_lost_is_opened_anew():
    async def story(pair):
        await pair.order()
        pair.leader.produce(1)
        await pair.wait_level()
        for session in tuple(pair.leader.replicas.sessions._sessions):
            pair.leader.replicas.sessions._remove(session)
        pair.leader.produce(1)
        await pair.wait_level()
        assert len(pair.channels) == 1

    Pair().run(story)


def test_an_answer_for_another_offset_is_dropped():
    async def story(pair):
        await pair.order()
        await trio.sleep(0.2)  # parked at the leader
        await pair.order()  # a new epoch, while the fetch of the old one is under way
        pair.leader.produce(3)
        await pair.wait_level()
        assert pair.follower.partition.log.log_end_offset == 3

    Pair().run(story)


def test_a_leader_that_does_not_know_yet_is_asked_again():
    async def story(pair):
        pair.epoch = 1
        request = leader_and_isr(1, (1, 2), (1, 2), 1, is_new=True)
        await pair.follower.replicas.roles.become_leader_or_follower(request, 7)
        await trio.sleep(1)
        await pair.leader.replicas.roles.become_leader_or_follower(request, 7)
        pair.leader.produce(1)
        await pair.wait_level()

    Pair().run(story)


def test_a_fenced_partition_waits_for_the_controller():
    async def story(pair):
        await pair.order()
        await trio.sleep(0.2)
        ahead = leader_and_isr(1, (1, 2), (1, 2), 5)
        await pair.leader.replicas.roles.become_leader_or_follower(ahead, 7)
        await trio.sleep(2)
        assert P0 in pair.follower.replicas.fetcher_pool.failed
        await pair.follower.replicas.roles.become_leader_or_follower(ahead, 7)
        assert P0 not in pair.follower.replicas.fetcher_pool.failed
        pair.leader.produce(1)
        await pair.wait_level()

    Pair().run(story)


def test_damaged_records_delay_that_partition_only():
    async def story(pair):
        await pair.order(partitions=(0, 1))
        await trio.sleep(0.2)
        channel = pair.channels[0]
        whole = channel.request
        damaged = 0

        async def damage(message, version):
            nonlocal damaged
            response = await whole(message, version)
            if isinstance(response, FetchResponse) and damaged < 2:
                for topic in response.responses:
                    for data in topic.partitions:
                        if data.partition_index == 0 and data.records is not None and len(data.records):
                            data.records[-1] ^= 0xFF
                            damaged += 1
            return response

        channel.request = damage
        pair.leader.produce(1, key=TopicPartition("orders", 1))
        pair.leader.produce(1)
        await pair.wait_level()
        assert damaged == 2

    Pair().run(story)


def test_partitions_without_ids_are_fetched_by_name():
    async def story(pair):
        await pair.order(topic_id=bytes(16))
        pair.leader.produce(1)
        await pair.wait_level()
        assert all(topic.topic == "orders" for one in pair.fetch_requests() for topic in one.topics)

    Pair().run(story)


@pytest.mark.parametrize("release", ["3.0", "3.9"])
def test_every_release_replicates(release):
    async def story(pair):
        await pair.order()
        pair.leader.produce(2)
        await pair.wait_level()

    Pair(inter_broker_protocol_version=release).run(story)


def test_idle_fetchers_end():
    async def story(pair):
        await pair.order()
        await trio.sleep(0.2)
        assert len(list(pair.follower.replicas.fetcher_pool)) == 1
        await pair.follower.replicas.roles.become_leader_or_follower(leader_and_isr(2, (1, 2), (1, 2), 2), 7)
        await trio.sleep(0.2)
        assert not list(pair.follower.replicas.fetcher_pool)
        assert pair.channels[0].closed

    Pair().run(story)
