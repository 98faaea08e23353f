"""Loading and unloading a partition of ``__consumer_offsets``, on a real log."""

import pytest
import trio

from cluster.coordinator.partition_loader import FOLLOW_EVERY_S
from cluster.statemachines.group import GroupState
from storage.log import AppendOrigin
from tests.unit.coordinator.in_memory import NOON, PARTITION, producer
from tests.unit.coordinator.one_broker import Broker, another
from wire.errors import Error
from wire.records.builder import build_batch
from wire.records.record import Record
from wire.types import LeaderEpoch, TopicPartition, WallMs


def test_a_restarted_coordinator_knows_groups_and_offsets(on_a_log) -> None:
    async def body(broker: Broker) -> None:
        await broker.led(0)
        shell = broker.shell
        await shell.stable("a", "b")
        a = shell.joins["a"][-1]
        for offset in range(60):
            shell.commit(offset, offset % 7, member_id=a.member_id, generation=a.generation)
        shell.commit(3, group_id="simple")
        assert shell.admin.delete_offsets("simple", [TopicPartition("orders", 0)])[0] is Error.NONE
        shell.commit(4, group_id="other")
        async with trio.open_nursery() as nursery:
            restarted = another(broker, nursery)
            await restarted.led(1)
            shell = restarted.shell
            group = shell.group().group
            assert group.state is GroupState.STABLE
            assert [member.assignment for member in group.members.values()] == [b"part of a", b"part of b"]
            assert [shell.position(partition) for partition in range(7)] == [56, 57, 58, 59, 53, 54, 55]
            assert shell.hosted.find("simple") is None
            assert shell.position(group_id="other") == 4
            nursery.cancel_scope.cancel()

    on_a_log(body)


def test_a_load_goes_to_the_logs_end_though_the_high_watermark_lags(on_a_log) -> None:
    async def body(broker: Broker) -> None:
        await broker.led(0)
        broker.shell.commit(1)
        broker.replicas.replicates = False
        broker.shell.commit(2)
        log = broker.replicas.log
        assert log.high_watermark < log.log_end_offset
        async with trio.open_nursery() as nursery:
            taken_over = Broker(broker.replicas, nursery)
            await taken_over.led(1)
            assert taken_over.shell.position() == 2
            nursery.cancel_scope.cancel()

    on_a_log(body)


def test_members_get_a_full_session_after_loading(on_a_log) -> None:
    async def body(broker: Broker) -> None:
        await broker.led(0)
        await broker.shell.stable("a", "b")
        broker.follow(1)
        await trio.sleep(100)
        await broker.led(2)
        await trio.sleep(9)
        assert len(broker.shell.group().group.members) == 2
        await trio.sleep(2)
        assert broker.shell.group().group.state is GroupState.EMPTY

    on_a_log(body)


def test_a_group_that_is_too_large_by_now_is_asked_to_join_again(on_a_log) -> None:
    async def body(broker: Broker) -> None:
        await broker.led(0)
        await broker.shell.stable("a", "b")
        async with trio.open_nursery() as nursery:
            restarted = another(broker, nursery, max_size=1)
            await restarted.led(1)
            assert restarted.shell.group().group.state is GroupState.PREPARING_REBALANCE
            nursery.cancel_scope.cancel()

    on_a_log(body)


@pytest.mark.parametrize("end", [None, True, False])
def test_a_transactions_offsets_are_loaded_with_what_became_of_it(on_a_log, end: bool | None) -> None:
    async def body(broker: Broker) -> None:
        await broker.led(0)
        shell = broker.shell
        shell.commit(1)
        assert shell.commit(5, writer=producer()) == [Error.NONE]
        # The next transaction of the same producer begins with the same sequence number.
        assert shell.commit(6, 1, writer=producer()) == [Error.NONE]
        if end is not None:
            broker.end_transaction(committed=end)
        async with trio.open_nursery() as nursery:
            restarted = another(broker, nursery)
            await restarted.led(1)
            shell = restarted.shell
            if end is None:
                assert shell.position(stable=True) is Error.UNSTABLE_OFFSET_COMMIT
                shell.end_transaction(commit=True)
            committed = end is not False
            assert shell.position(stable=True) == (5 if committed else 1)
            assert shell.position(1) == (6 if committed else None)
            nursery.cancel_scope.cancel()

    on_a_log(body)


def test_what_cannot_be_read_is_passed_over(on_a_log) -> None:
    async def body(broker: Broker) -> None:
        await broker.led(0)
        broker.shell.commit(1)
        strange = [
            Record(0, NOON, b"\0\1", b"no offset"),
            Record(0, NOON, b"\0\2\0\1h", b"\0\3no group"),
            Record(0, NOON, b"\0\7what", b"of a later version"),
            Record(0, NOON, b"k", b"short"),
        ]
        broker.append(build_batch(strange))
        broker.shell.commit(2, 1)
        async with trio.open_nursery() as nursery:
            restarted = another(broker, nursery)
            await restarted.led(1)
            assert [restarted.shell.position(0), restarted.shell.position(1)] == [1, 2]
            nursery.cancel_scope.cancel()

    on_a_log(body)


def test_giving_up_answers_those_who_wait_and_keeps_what_is_known_for_taking_over(on_a_log) -> None:
    async def body(broker: Broker) -> None:
        await broker.led(0)
        shell = broker.shell
        for offset in range(50):
            shell.commit(offset, offset)
        shell.join("a")
        broker.follow(1)
        assert [answer.error for answer in shell.joins["a"]] == [Error.NOT_COORDINATOR]
        assert shell.commit(3) == [Error.NOT_COORDINATOR]
        reads = broker.reads
        await broker.led(2)
        assert broker.reads == reads
        assert [shell.position(partition) for partition in range(50)] == list(range(50))

    on_a_log(body)


def test_a_follower_reads_what_it_replicates_and_takes_over_with_the_rest(on_a_log) -> None:
    async def body(broker: Broker) -> None:
        await broker.led(0)
        async with trio.open_nursery() as nursery:
            follower = Broker(broker.replicas, nursery)
            follower.follow(0)
            broker.replicas.is_leader = True
            for offset in range(50):
                broker.shell.commit(offset, offset)
            await trio.sleep(FOLLOW_EVERY_S * 1.5)
            reads = follower.reads
            assert reads > 0
            broker.shell.commit(99)
            await follower.led(1)
            assert follower.reads == reads + 1
            expected = [99, *range(1, 50)]
            assert [follower.shell.position(partition) for partition in range(50)] == expected
            nursery.cancel_scope.cancel()

    on_a_log(body)


def test_what_was_cut_off_the_log_is_forgotten(on_a_log) -> None:
    async def body(broker: Broker) -> None:
        await broker.led(0)
        shell = broker.shell
        shell.commit(1)
        keep = broker.replicas.log.log_end_offset
        shell.commit(2)
        broker.follow(1)
        # Another leader's record is now in the place of ours.
        log = broker.replicas.log
        log.truncate_suffix(keep)
        log.append_as_leader(
            build_batch([Record(0, NOON, b"\0\7what", b"")]),
            LeaderEpoch(1),
            WallMs(NOON),
            origin=AppendOrigin.COORDINATOR,
        )
        await broker.led(2)
        assert shell.position() == 1

    on_a_log(body)


def test_news_of_older_leaderships_is_ignored(on_a_log) -> None:
    async def body(broker: Broker) -> None:
        await broker.led(4)
        broker.shell.commit(1)
        partition = broker.shell.hosted.led.get(0)
        broker.loader.leadership_changed([], [(PARTITION, LeaderEpoch(3))])
        broker.loader.leadership_changed([(PARTITION, LeaderEpoch(4))], [])
        assert broker.shell.hosted.led.get(0) is partition
        # A leader that stays leader under a new epoch keeps its groups.
        broker.lead(5)
        assert broker.shell.hosted.led.get(0) is partition
        assert broker.shell.position() == 1
        broker.loader.stopped([(PARTITION, None)])
        assert broker.shell.position() is Error.NOT_COORDINATOR
        await broker.led(0)

    on_a_log(body)


def test_a_leadership_that_ends_while_it_is_loaded_leaves_nothing(on_a_log) -> None:
    async def body(broker: Broker) -> None:
        await broker.led(0)
        for offset in range(200):
            broker.shell.commit(offset, offset)
        async with trio.open_nursery() as nursery:
            restarted = another(broker, nursery)
            restarted.lead(1)
            for _ in range(3):
                await trio.lowlevel.checkpoint()
            assert restarted.shell.position() is Error.COORDINATOR_LOAD_IN_PROGRESS
            restarted.follow(2)
            await trio.testing.wait_all_tasks_blocked()
            assert restarted.shell.position() is Error.NOT_COORDINATOR
            await restarted.led(3)
            assert restarted.shell.position(199) == 199
            nursery.cancel_scope.cancel()

    on_a_log(body)
