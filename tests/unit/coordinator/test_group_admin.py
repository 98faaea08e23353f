"""Operators' requests and the passing of time: descriptions, deletion, expiry."""

import trio

from cluster.coordinator.offset_bytes import CommittedOffset
from tests.unit.coordinator.in_memory import NOON, producer, run_shell
from wire.errors import Error
from wire.types import Offset, TopicPartition, WallMs

DAY_MS = 24 * 3_600_000
DAY_S = DAY_MS // 1000


def test_a_group_is_described_with_metadata_while_it_is_stable() -> None:
    async def body(shell) -> None:
        assert shell.admin.describe("g") == (Error.NONE, ("Dead", "", "", ()))
        await shell.stable("a")
        error, group = shell.admin.describe("g")
        assert (error, group.state, group.protocol_type, group.protocol) == (
            Error.NONE,
            "Stable",
            "consumer",
            "range",
        )
        (member,) = group.members
        assert member.assignment == b"part of a"
        assert member.metadata
        shell.join("b")
        error, group = shell.admin.describe("g")
        assert (group.state, group.protocol) == ("PreparingRebalance", "")
        assert [(each.metadata, each.assignment) for each in group.members] == [(b"", b""), (b"", b"")]
        shell.leads = False
        assert shell.admin.describe("g")[0] is Error.NOT_COORDINATOR

    run_shell(body)


def test_groups_are_listed_by_state_and_type() -> None:
    async def body(shell) -> None:
        await shell.stable("a", group_id="busy")
        shell.commit(1, group_id="idle")

        def listed(*args):
            error, groups = shell.admin.list(*args)
            assert error is Error.NONE
            return [group.group_id for group in groups]

        assert listed() == ["busy", "idle"]
        assert listed(["stable"]) == ["busy"]
        assert listed(["EMPTY", "Dead"]) == ["idle"]
        assert listed([], ["Classic"]) == ["busy", "idle"]
        assert listed([], ["consumer"]) == []
        shell.hosted.led.get(0).is_loading = True
        assert shell.admin.list() == (Error.COORDINATOR_LOAD_IN_PROGRESS, [])

    run_shell(body)


def test_only_a_group_without_members_is_deleted_and_its_end_is_written() -> None:
    async def body(shell) -> None:
        await shell.stable("a")
        a = shell.joins["a"][-1]
        shell.commit(3, member_id=a.member_id, generation=a.generation)
        assert shell.admin.delete("g") is Error.NON_EMPTY_GROUP
        shell.coordinator.leave("g", [(a.member_id, None)])
        assert shell.admin.delete("g") is Error.NONE
        assert [record.value for record in shell.log.forgotten] == [None, None]
        assert shell.position() is None
        assert shell.admin.delete("g") is Error.GROUP_ID_NOT_FOUND
        assert shell.hosted.led.get(0).stored.groups == {}

    run_shell(body)


def test_a_commit_on_its_way_does_not_outlive_the_deletion_of_its_group() -> None:
    async def body(shell) -> None:
        shell.log.holds = True
        shell.commit(3)
        assert shell.admin.delete("g") is Error.NONE
        assert len(shell.log.forgotten) == 1
        shell.log.complete()
        assert shell.position() is None

    run_shell(body)


def test_offsets_are_deleted_where_no_member_subscribes() -> None:
    async def body(shell) -> None:
        await shell.stable("a")
        a = shell.joins["a"][-1]
        for topic in ("orders", "paid"):
            shell.commit(3, topic=topic, member_id=a.member_id, generation=a.generation)
        orders, paid = TopicPartition("orders", 0), TopicPartition("paid", 0)
        error, results = shell.admin.delete_offsets("g", [orders, paid])
        assert (error, results) == (
            Error.NONE,
            {orders: Error.GROUP_SUBSCRIBED_TO_TOPIC, paid: Error.NONE},
        )
        assert (shell.position(), shell.position(topic="paid")) == (3, None)
        assert shell.admin.delete_offsets("none", [paid]) == (Error.GROUP_ID_NOT_FOUND, {})

    run_shell(body)


def test_offsets_of_a_group_of_another_protocol_are_deleted_only_without_members() -> None:
    async def body(shell) -> None:
        shell.join("worker", protocol_type="connect")
        await trio.sleep(3.1)
        assert shell.admin.delete_offsets("g", [TopicPartition("t", 0)]) == (Error.NON_EMPTY_GROUP, {})

    run_shell(body)


def test_the_offsets_of_a_deleted_topic_go_and_with_the_last_the_group() -> None:
    async def body(shell) -> None:
        shell.commit(1)
        shell.commit(2, topic="paid")
        shell.admin.partitions_deleted([TopicPartition("orders", 0)])
        assert (shell.position(), shell.position(topic="paid")) == (None, 2)
        shell.admin.partitions_deleted([TopicPartition("paid", 0)])
        assert shell.hosted.find("g") is None

    run_shell(body)


def test_an_empty_groups_offsets_expire_from_when_it_emptied() -> None:
    async def body(shell) -> None:
        await shell.stable("a", session_timeout_ms=DAY_MS)
        a = shell.joins["a"][-1]
        shell.commit(1, member_id=a.member_id, generation=a.generation)
        shell.commit(1, topic="not-subscribed", member_id=a.member_id, generation=a.generation)
        for _ in range(16):
            await trio.sleep(DAY_S / 2)
            shell.coordinator.heartbeat("g", a.member_id, None, a.generation)
        await shell.admin.expire()
        # Offsets of subscribed topics stay while the group lives; others expire by their own timestamps.
        assert (shell.position(), shell.position(topic="not-subscribed")) == (1, None)
        shell.coordinator.leave("g", [(a.member_id, None)])
        await trio.sleep(6 * DAY_S)
        await shell.admin.expire()
        assert shell.position() == 1
        await trio.sleep(DAY_S + 60)
        await shell.admin.expire()
        assert shell.hosted.find("g") is None
        # The tombstones of the offset and of the group.
        assert [record.value for record in shell.log.forgotten[-2:]] == [None, None]

    run_shell(body, session_timeout_max_ms=DAY_MS)


def test_what_an_open_transaction_holds_does_not_expire_with_what_was_committed_before() -> None:
    async def body(shell) -> None:
        shell.commit(1)
        await trio.sleep(8 * DAY_S)
        shell.commit(2, writer=producer())
        await shell.admin.expire()
        assert shell.position() is None
        shell.end_transaction(commit=True)
        assert shell.position() == 2

    run_shell(body)


def test_a_groupless_offset_expires_by_its_own_time_or_as_an_old_client_said() -> None:
    async def body(shell) -> None:
        shell.commit(1)
        shell.commit(
            2,
            topic="short",
            committed=CommittedOffset(
                Offset(2), commit_timestamp=WallMs(NOON), expire_timestamp=WallMs(NOON + 1_000)
            ),
        )
        await trio.sleep(2)
        await shell.admin.expire()
        assert (shell.position(), shell.position(topic="short")) == (1, None)
        await trio.sleep(7 * DAY_S)
        await shell.admin.expire()
        assert shell.hosted.find("g") is None
        # It never had a generation, so there is no record of the group to end.
        assert len(shell.log.forgotten) == 2

    run_shell(body)


def test_an_offset_with_a_commit_on_its_way_or_a_transaction_does_not_end_its_group() -> None:
    async def body(shell) -> None:
        shell.commit(1)
        shell.log.holds = True
        shell.commit(2)
        await trio.sleep(8 * DAY_S)
        await shell.admin.expire()
        assert shell.position() == 1
        shell.log.complete(Error.REQUEST_TIMED_OUT)
        shell.log.holds = False
        shell.commit(5, topic="paid", writer=producer())
        await shell.admin.expire()
        assert shell.position() is None
        assert shell.hosted.find("g") is not None

    run_shell(body)
