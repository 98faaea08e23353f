"""Commits: visible when they are written, never reordered, held back by transactions."""

import pytest
import trio

from cluster.coordinator.offset_bytes import CommittedOffset
from tests.unit.coordinator.in_memory import producer, run_shell
from wire.errors import Error
from wire.types import Generation, Offset


def test_a_commit_is_seen_and_answered_when_it_is_written() -> None:
    async def body(shell) -> None:
        shell.log.holds = True
        outcomes = shell.commit(5)
        assert outcomes == []
        assert shell.position() is None
        shell.log.complete()
        assert outcomes == [Error.NONE]
        assert shell.position() == 5

    run_shell(body)


def test_an_earlier_commit_that_is_answered_later_does_not_undo_a_later_one() -> None:
    async def body(shell) -> None:
        shell.log.holds = True
        shell.commit(5)
        shell.commit(9)
        shell.log.complete(index=1)
        shell.log.complete()
        assert shell.position() == 9

    run_shell(body)


@pytest.mark.parametrize(
    ("failure", "answer"),
    [
        (Error.NOT_LEADER_OR_FOLLOWER, Error.NOT_COORDINATOR),
        (Error.KAFKA_STORAGE_ERROR, Error.NOT_COORDINATOR),
        (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.RECORD_LIST_TOO_LARGE, Error.INVALID_COMMIT_OFFSET_SIZE),
        (Error.REQUEST_TIMED_OUT, Error.REQUEST_TIMED_OUT),
    ],
)
def test_a_commit_that_cannot_be_written_is_not_seen(failure, answer) -> None:
    async def body(shell) -> None:
        shell.log.holds = True
        outcomes = shell.commit(5)
        shell.log.complete(failure)
        assert outcomes == [answer]
        assert shell.position() is None

    run_shell(body)


def test_metadata_that_are_too_long_are_refused_for_their_partition() -> None:
    async def body(shell) -> None:
        long = CommittedOffset(Offset(5), metadata="x" * 11)
        assert shell.commit(5, committed=long) == [Error.OFFSET_METADATA_TOO_LARGE]
        # The limit counts characters, as Kafka's does.
        assert shell.commit(5, committed=CommittedOffset(Offset(5), metadata="ü" * 10)) == [Error.NONE]
        assert len(shell.log.written) == 1

    run_shell(body, offset_metadata_max=10)


def test_who_may_commit() -> None:
    async def body(shell) -> None:
        assert shell.commit(1, generation=Generation(3)) == [Error.ILLEGAL_GENERATION]
        assert shell.commit(1, group_id="") == [Error.NONE]
        assert shell.commit(1) == [Error.NONE]
        await shell.stable("a")
        a = shell.joins["a"][-1]
        assert shell.commit(2) == [Error.UNKNOWN_MEMBER_ID]
        assert shell.commit(2, member_id="b", generation=a.generation) == [Error.UNKNOWN_MEMBER_ID]
        assert shell.commit(2, member_id=a.member_id, generation=Generation(9)) == [Error.ILLEGAL_GENERATION]
        assert shell.commit(2, member_id=a.member_id, generation=a.generation) == [Error.NONE]

    run_shell(body)


def test_commits_keep_a_member_alive() -> None:
    async def body(shell) -> None:
        await shell.stable("a")
        a = shell.joins["a"][-1]
        for offset in range(4):
            await trio.sleep(9)
            assert shell.commit(offset, member_id=a.member_id, generation=a.generation) == [Error.NONE]
        assert a.member_id in shell.group().group.members

    run_shell(body)


@pytest.mark.parametrize("commit", [True, False])
def test_a_transactions_offsets_take_effect_with_its_marker(commit) -> None:
    async def body(shell) -> None:
        shell.commit(1)
        shell.log.holds = True
        outcomes = shell.commit(5, writer=producer())
        # A stable fetch already has to wait while the commit is on its way.
        assert shell.position(stable=True) is Error.UNSTABLE_OFFSET_COMMIT
        shell.log.complete()
        assert outcomes == [Error.NONE]
        assert shell.log.writers[-1] == producer()
        assert shell.position() == 1
        assert shell.position(stable=True) is Error.UNSTABLE_OFFSET_COMMIT
        ended = shell.end_transaction(commit=commit)
        # As long as the marker is not replicated, a failover can undo it.
        assert shell.position(stable=True) is Error.UNSTABLE_OFFSET_COMMIT
        assert not ended
        shell.log.complete()
        assert ended == [Error.NONE]
        assert shell.position(stable=True) == (5 if commit else 1)

    run_shell(body)


def test_a_marker_leaves_what_the_next_transaction_has_on_its_way() -> None:
    async def body(shell) -> None:
        shell.commit(5, writer=producer())
        shell.end_transaction(commit=True)
        shell.log.holds = True
        shell.end_transaction(commit=True)  # repeated, by a coordinator that did not get the answer
        next_one = shell.commit(6, writer=producer())
        shell.log.complete()
        assert shell.position() == 5
        assert shell.position(stable=True) is Error.UNSTABLE_OFFSET_COMMIT
        shell.log.complete()
        assert next_one == [Error.NONE]
        shell.end_transaction(commit=True)
        shell.log.complete()
        assert shell.position(stable=True) == 6

    run_shell(body)


def test_a_marker_that_is_not_replicated_ends_nothing() -> None:
    async def body(shell) -> None:
        shell.commit(5, writer=producer())
        shell.log.holds = True
        outcomes = shell.end_transaction(commit=True)
        shell.log.complete(Error.REQUEST_TIMED_OUT)
        assert outcomes == [Error.REQUEST_TIMED_OUT]
        assert shell.position(stable=True) is Error.UNSTABLE_OFFSET_COMMIT

    run_shell(body)


def test_no_marker_is_written_while_its_partition_is_loading() -> None:
    async def body(shell) -> None:
        shell.hosted.led.get(0).is_loading = True
        assert shell.end_transaction(commit=True) == [Error.NOT_LEADER_OR_FOLLOWER]

    run_shell(body)


def test_a_transactions_offsets_that_could_not_be_written_are_not_held() -> None:
    async def body(shell) -> None:
        shell.log.holds = True
        outcomes = shell.commit(5, writer=producer())
        shell.log.complete(Error.NOT_LEADER_OR_FOLLOWER)
        assert outcomes == [Error.NOT_COORDINATOR]
        assert shell.position(stable=True) is None
        assert shell.group().offsets.is_empty

    run_shell(body)


def test_a_plain_commit_after_a_transactions_is_not_undone_by_its_marker() -> None:
    async def body(shell) -> None:
        shell.commit(5, writer=producer())
        shell.commit(9)
        shell.end_transaction(commit=True)
        assert shell.position() == 9

    run_shell(body)


def test_all_offsets_of_a_group() -> None:
    async def body(shell) -> None:
        shell.commit(1, 0)
        shell.commit(2, 1, "paid")
        error, found = shell.offsets.committed("g", None, require_stable=False)
        assert error is Error.NONE
        assert {(at.topic, at.partition): value.offset for at, value in found.items()} == {
            ("orders", 0): 1,
            ("paid", 1): 2,
        }
        assert shell.offsets.committed("none", None, require_stable=False) == (Error.NONE, {})

    run_shell(body)
