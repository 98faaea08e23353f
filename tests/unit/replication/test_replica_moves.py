"""Replicas that move between the directories of one broker, whatever else happens to them."""

import errno
from collections.abc import Callable, Sequence

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from cluster.replication.partition.partition import Partition
from simulation.disk import SimulatedDisk
from storage.log_config import LogConfig
from tests.unit.replication.in_memory import (
    P0,
    TOPIC,
    FakeBroker,
    batch,
    leader_and_isr,
    partitions_of,
)
from tests.unit.storage.samples import read_all
from wire.errors import Error
from wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from wire.types import LeaderEpoch, Offset, TopicPartition

A, B, C = "/a", "/b", "/c"


@pytest.fixture
def broker(make_broker: Callable[..., FakeBroker]) -> FakeBroker:
    broker = make_broker(directories=[A, B, C])
    broker.store.prefer(P0, A)
    return broker


def run_moves(broker: FakeBroker, *steps: Callable[[FakeBroker], object]) -> None:
    """Run a broker's moves with each step in turn; after each, wait until the moves have nothing left to do."""

    async def body() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.replicas.moves.run)
            for step in steps:
                step(broker)
                await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    trio.run(body, clock=MockClock(autojump_threshold=0))


async def alter(broker: FakeBroker, path: str, partition: TopicPartition = P0) -> Error:
    return (await broker.replicas.roles.alter_log_dirs({partition: path}))[partition]


def ask(broker: FakeBroker, path: str, partition: TopicPartition = P0) -> Error:
    error: Error = trio.run(alter, broker, path, partition)
    return error


def idle(broker: FakeBroker) -> None:
    """A step that changes nothing: the moves just continue."""


def home_of(broker: FakeBroker) -> str:
    log = broker.partition.log
    assert log is not None
    assert broker.store.get(P0) is log
    return log.log_directory.path


def names_in(broker: FakeBroker, path: str) -> list[str]:
    return sorted(
        entry.name.partition(".")[0] + entry.name[-7:] if "." in entry.name else entry.name
        for entry in broker.disk.list_directory(path)
        if entry.is_directory
    )


def content(broker: FakeBroker) -> list[bytes]:
    log = broker.store.get(P0)
    assert log is not None
    return read_all(log)


def test_a_leaders_log_moves_and_is_written_on(broker: FakeBroker) -> None:
    broker.lead(isr=(1,), replicas=(1,))
    for count in range(1, 4):
        broker.produce(count)
    before = content(broker)
    assert ask(broker, B) is Error.NONE
    assert names_in(broker, B) == ["orders-0-future"]

    run_moves(broker, idle)

    assert home_of(broker) == B
    assert content(broker) == before
    assert names_in(broker, B) == ["orders-0"]
    assert names_in(broker, A) == ["orders-0-delete"]
    assert not len(broker.replicas.moves)
    assert broker.partition.is_leader
    (answer,) = broker.produce(1)
    assert answer[P0].error is Error.NONE
    assert broker.partition.log is not None
    assert broker.partition.log.high_watermark == 7
    assert content(broker)[:-1] == before


def test_what_is_appended_while_it_moves_goes_along(broker: FakeBroker) -> None:
    broker.lead(isr=(1,), replicas=(1,))
    broker.produce(2)
    ask(broker, B)

    run_moves(broker, lambda one: [one.produce(1) for _ in range(50)], idle)

    assert home_of(broker) == B
    assert len(content(broker)) == 51


def test_it_is_shown_with_its_lag(broker: FakeBroker) -> None:
    broker.lead(isr=(1,), replicas=(1,))
    broker.produce(3)
    ask(broker, B)
    shown = {
        content.path: [(each.topic_partition, each.lag, each.is_future) for each in content.replicas]
        for content in broker.replicas.log_directories()
    }
    assert shown == {A: [(P0, 0, False)], B: [(P0, 3, True)], C: []}


def test_producers_epochs_and_log_start_go_along(broker: FakeBroker) -> None:
    broker.lead(isr=(1,), replicas=(1,))
    log = broker.partition.log
    assert log is not None
    for sequence in range(3):
        data = batch(1, producer_id=7, producer_epoch=0, base_sequence=sequence)
        log.append_as_leader(data, LeaderEpoch(1), broker.clock.wall_ms())
    log.advance_high_watermark(Offset(3))
    broker.lead(isr=(1,), replicas=(1,))  # an epoch without records
    log.advance_log_start(Offset(2))
    ask(broker, B)
    run_moves(broker, idle)
    new = broker.partition.log
    assert new is not None
    assert new is not log
    assert (new.log_start_offset, new.log_end_offset, new.high_watermark) == (2, 3, 3)
    assert new.leader_epochs.entries() == log.leader_epochs.entries()
    assert new.leader_epochs.latest == 2
    # A duplicate is still recognised, although the copy does not have all of its records.
    repeated = new.append_as_leader(
        batch(1, producer_id=7, producer_epoch=0, base_sequence=1), LeaderEpoch(2), broker.clock.wall_ms()
    )
    assert repeated.duplicate
    assert repeated.first_offset == 1


def test_assigning_it_back_cancels(broker: FakeBroker) -> None:
    broker.lead(isr=(1,), replicas=(1,))
    broker.produce(3)
    ask(broker, B)
    assert ask(broker, A) is Error.NONE
    assert broker.store.future_log(P0) is None
    assert names_in(broker, B) == ["orders-0-delete"]
    run_moves(broker, idle)
    assert home_of(broker) == A
    assert ask(broker, A) is Error.NONE


def test_another_directory_replaces_the_first(broker: FakeBroker) -> None:
    broker.lead(isr=(1,), replicas=(1,))
    broker.produce(3)
    ask(broker, B)
    assert ask(broker, C) is Error.NONE
    assert (names_in(broker, B), names_in(broker, C)) == (["orders-0-delete"], ["orders-0-future"])
    run_moves(broker, idle)
    assert home_of(broker) == C


def test_asking_twice_changes_nothing(broker: FakeBroker) -> None:
    broker.lead(isr=(1,), replicas=(1,))
    broker.produce(3)
    ask(broker, B)
    future = broker.store.future_log(P0)
    assert ask(broker, B) is Error.NONE
    assert broker.store.future_log(P0) is future
    run_moves(broker, idle)
    assert home_of(broker) == B


def test_a_replica_that_is_not_here_is_made_there_later(broker: FakeBroker) -> None:
    there = TopicPartition(TOPIC, 1)
    assert ask(broker, C, there) is Error.REPLICA_NOT_AVAILABLE
    broker.order(1, isr=(1,), replicas=(1,), partitions=[1])
    log = broker.store.get(there)
    assert log is not None
    assert log.log_directory.path == C
    assert ask(broker, C, TopicPartition("unheard-of", 0)) is Error.UNKNOWN_TOPIC_OR_PARTITION


def test_what_cannot_be_is_refused(broker: FakeBroker) -> None:
    broker.lead(isr=(1,), replicas=(1,))
    assert ask(broker, "/elsewhere") is Error.LOG_DIR_NOT_FOUND
    assert ask(broker, B, TopicPartition("t" * 230, 0)) is Error.INVALID_TOPIC_EXCEPTION
    broker.store.directories[2].fail(OSError(errno.EIO, "gone"), "testing")
    assert ask(broker, C) is Error.KAFKA_STORAGE_ERROR
    # The offline directory may contain a future log, so no second one is allowed.
    assert ask(broker, B) is Error.KAFKA_STORAGE_ERROR
    assert broker.store.future_log(P0) is None


def follower(broker: FakeBroker, batches: Sequence[tuple[int, int]]) -> None:
    """Follow broker 2, with a batch of one record for each (offset, epoch)."""
    broker.follow(2)
    log = broker.partition.log
    assert log is not None
    for offset, epoch in batches:
        data = bytearray(batch(1))
        data[0:8], data[12:16] = offset.to_bytes(8, "big"), epoch.to_bytes(4, "big")
        log.append_as_follower(data)


def test_a_truncation_is_followed(broker: FakeBroker) -> None:
    follower(broker, [(0, 1), (1, 1), (2, 2), (3, 2)])
    ask(broker, B)
    future = broker.store.future_log(P0)
    assert future is not None
    # The copy was complete when the log was truncated and rewritten: the end offsets alone do not show it.
    future.append_as_follower(b"".join(content(broker)))
    log = broker.partition.log
    assert log is not None
    log.truncate_suffix(Offset(2))
    for offset in (2, 3):
        data = bytearray(batch(1))
        data[0:8], data[12:16] = offset.to_bytes(8, "big"), (5).to_bytes(4, "big")
        log.append_as_follower(data)
    after = content(broker)
    run_moves(broker, idle)
    assert home_of(broker) == B
    assert content(broker) == after
    assert [entry.epoch for entry in broker.partition.log.leader_epochs.entries()] == [1, 5]  # type: ignore[union-attr]


def test_a_log_that_begins_anew_is_followed(broker: FakeBroker) -> None:
    follower(broker, [(0, 1), (1, 1)])
    ask(broker, B)
    log = broker.partition.log
    assert log is not None
    log.truncate_fully_and_start_at(Offset(100))
    run_moves(broker, idle)
    new = broker.partition.log
    assert new is not None
    assert (new.log_directory.path, new.log_start_offset, new.log_end_offset) == (B, 100, 100)


def test_a_stopped_broker_resumes(broker: FakeBroker) -> None:
    broker.lead(isr=(1,), replicas=(1,))
    broker.produce(5)
    before = content(broker)
    ask(broker, B)
    broker.store.close(threads=1)
    again = FakeBroker(disk=broker.disk, directories=[A, B, C])
    assert again.store.future_log(P0) is not None
    assert P0 not in again.replicas.moves
    again.order(1, (1,), (1,), is_new=False)
    assert P0 in again.replicas.moves
    run_moves(again, idle)
    assert home_of(again) == B
    assert content(again) == before


def test_a_deleted_topic_takes_its_copy_along(broker: FakeBroker) -> None:
    broker.lead(isr=(1,), replicas=(1,))
    broker.produce(5)
    ask(broker, B)
    request = StopReplicaRequest(
        controller_id=1,
        controller_epoch=1,
        broker_epoch=-1,
        topic_states=[
            StopReplicaTopicState(
                topic_name=TOPIC,
                partition_states=[
                    StopReplicaPartitionState(partition_index=0, leader_epoch=-2, delete_partition=True)
                ],
            )
        ],
    )
    broker.run(broker.replicas.roles.stop_replicas, request)
    assert broker.store.get(P0) is None
    assert broker.store.future_log(P0) is None
    assert not len(broker.replicas.moves)
    assert (names_in(broker, A), names_in(broker, B)) == (["orders-0-delete"], ["orders-0-delete"])
    run_moves(broker, idle)


@pytest.mark.parametrize("failing", [A, B])
def test_a_directory_fails_meanwhile(broker: FakeBroker, failing: str) -> None:
    broker.lead(isr=(1,), replicas=(1,))
    broker.produce(5)
    ask(broker, B)
    log_directory = broker.store.directory(failing)

    def fail(one: FakeBroker) -> None:
        log_directory.fail(OSError(errno.EIO, "gone"), "testing")
        one.replicas.upkeep._give_up_directory(log_directory)

    fail(broker)
    run_moves(broker, idle)
    assert not len(broker.replicas.moves)
    if failing == A:
        assert P0 in broker.replicas.hosted.offline
    else:
        assert home_of(broker) == A
        assert broker.store.future_log(P0) is None
        (answer,) = broker.produce(1)
        assert answer[P0].error is Error.NONE


def test_a_throttle_slows_it_down(make_broker: Callable[..., FakeBroker]) -> None:
    broker = make_broker(directories=[A, B])
    broker.store.prefer(P0, A)
    broker.config.apply_dynamic({"replica.alter.log.dirs.io.max.bytes.per.second": "1000"}, {})
    broker.lead(isr=(1,), replicas=(1,))
    for _ in range(100):
        broker.produce(1)
    size = sum(map(len, content(broker)))

    promoted = broker.replicas.moves.on_promoted
    moved_at: list[float] = []

    def note(partition: Partition) -> None:
        promoted(partition)
        moved_at.append(trio.current_time())

    broker.replicas.moves.on_promoted = note

    async def body() -> float:
        broker.clock.follows_trio = True
        begun = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.replicas.moves.run)
            assert await alter(broker, B) is Error.NONE
            await trio.sleep(60)
            nursery.cancel_scope.cancel()
        broker.clock.follows_trio = False
        return moved_at[0] - begun

    took_s = trio.run(body, clock=MockClock(autojump_threshold=0))
    assert home_of(broker) == B
    assert size / 1000 - 2 <= took_s <= size / 1000 + 2


def test_parked_fetches_are_answered_from_the_new_log(broker: FakeBroker) -> None:
    broker.lead(isr=(1,), replicas=(1,))
    broker.produce(2)
    call = broker.fetch(2)
    assert not call.responses
    ask(broker, B)
    run_moves(broker, idle)
    broker.produce(1)
    (data,) = [partitions_of(call)[0]] if call.responses else [None]
    again = broker.fetch(2)
    assert partitions_of(again)[0].high_watermark == 3
    assert data is None or data.error_code == 0


def test_a_moving_log_is_not_compacted(make_broker: Callable[..., FakeBroker]) -> None:
    broker = make_broker(directories=[A, B])
    broker.store.prefer(P0, A)
    broker.lead(isr=(1,), replicas=(1,))
    log = broker.partition.log
    assert log is not None
    log.update_config(LogConfig(cleanup_policy=("compact",), min_insync_replicas=1))
    assert log in broker.replicas.compaction.cleaner.candidates()
    ask(broker, B)
    assert log not in broker.replicas.compaction.cleaner.candidates()


def test_the_request_as_it_comes(broker: FakeBroker) -> None:
    from cluster.handlers import alter_replica_log_dirs
    from tests.unit.handlers.calls import KeptCall

    broker.lead(isr=(1,), replicas=(1,))
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(path=B, topics=[AlterReplicaLogDirTopic(name=TOPIC, partitions=[0, 1])]),
            AlterReplicaLogDir(path="/x", topics=[AlterReplicaLogDirTopic(name=TOPIC, partitions=[2])]),
        ]
    )
    response = broker.run(alter_replica_log_dirs.handle, KeptCall(broker, request, 2))
    (topic,) = response.results
    assert {one.partition_index: one.error_code for one in topic.partitions} == {
        0: Error.NONE,
        1: Error.REPLICA_NOT_AVAILABLE,
        2: Error.LOG_DIR_NOT_FOUND,
    }


def test_leader_and_isr_does_not_begin_a_move_twice(broker: FakeBroker) -> None:
    broker.lead(isr=(1,), replicas=(1,))
    broker.produce(5)
    ask(broker, B)
    request = leader_and_isr(2, (1, 2), (1, 2), broker.next_epoch())
    broker.run(broker.replicas.roles.become_leader_or_follower, request, 7)
    assert len(broker.replicas.moves) == 1
    run_moves(broker, idle)
    assert home_of(broker) == B
    assert not broker.partition.is_leader


MANY = range(6 * 64)
LAST = TopicPartition(TOPIC, MANY[-1])


def change_roles_while(broker: FakeBroker, happening: Callable[[], object]) -> list[Error]:
    """Make many partitions lead in a new epoch, and call `happening` once all of them have their logs."""
    codes: list[Error] = []

    async def body() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.replicas.moves.run)
            request = leader_and_isr(1, (1,), (1,), broker.next_epoch(), MANY)
            provide = broker.replicas.roles._logs.provide

            async def provide_and_wait(*arguments: object) -> None:
                await provide(*arguments)  # type: ignore[arg-type]
                happening()
                await wait_all_tasks_blocked()

            broker.replicas.roles._logs.provide = provide_and_wait  # type: ignore[method-assign]
            response = await broker.replicas.roles.become_leader_or_follower(request, 7)
            codes.extend(Error(one.error_code) for one in response.topics[0].partition_errors)
            nursery.cancel_scope.cancel()

    trio.run(body, clock=MockClock(autojump_threshold=0))
    return codes


def test_a_log_that_moves_while_roles_change_is_not_written_in_its_old_directory(broker: FakeBroker) -> None:
    broker.order(2, isr=(1, 2), replicas=(1, 2), partitions=MANY)
    partition = broker.replicas.hosted.find(LAST)
    assert partition.log is not None
    source = partition.log.log_directory.path
    assert ask(broker, B if source == A else A, LAST) is Error.NONE
    assert set(change_roles_while(broker, lambda: None)) == {Error.NONE}
    log = broker.store.get(LAST)
    assert log is not None
    assert log.log_directory.path != source
    assert partition.leader_log is log
    (answer,) = broker.produce(3, key=LAST)
    assert answer[LAST].error is Error.NONE
    assert log.log_end_offset == 3


def test_a_directory_that_fails_while_roles_change_gives_none(broker: FakeBroker) -> None:
    broker.order(2, isr=(1, 2), replicas=(1, 2), partitions=MANY)
    home = broker.store.directory(A)
    failed = [log.topic_partition for log in broker.store.logs_in(home)]
    codes = change_roles_while(broker, lambda: home.fail(OSError(errno.EIO, "broken"), "a test"))
    assert [TopicPartition(TOPIC, index) for index in MANY if codes[index]] == sorted(failed)
    assert {code for code in codes if code} == {Error.KAFKA_STORAGE_ERROR}
    assert sorted(broker.replicas.hosted.offline) == sorted(failed)
    assert not any(broker.replicas.hosted.get(key) for key in failed)


def test_assigning_it_again_just_when_it_arrives_changes_nothing(broker: FakeBroker) -> None:
    broker.lead(isr=(1,), replicas=(1,))
    broker.produce(3)
    assert ask(broker, B) is Error.NONE
    moves = broker.replicas.moves
    offload = moves.control

    async def after_the_move(call: Callable[[], object]) -> object:
        await wait_all_tasks_blocked()
        return await offload(call)

    async def body() -> Error:
        async with trio.open_nursery() as nursery:
            moves.control = after_the_move
            nursery.start_soon(broker.replicas.moves.run)
            answer = await alter(broker, B)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        return answer

    assert trio.run(body, clock=MockClock(autojump_threshold=0)) is Error.NONE
    assert home_of(broker) == B


def test_a_full_disk_under_the_copy_leaves_the_log_alone(broker: FakeBroker) -> None:
    disk = broker.disk
    assert isinstance(disk, SimulatedDisk)
    broker.lead(isr=(1,), replicas=(1,))
    broker.produce(5)
    ask(broker, B)
    future = broker.store.future_log(P0)
    assert future is not None
    disk.fail_at(1, errno.ENOSPC)
    run_moves(broker, idle)
    disk.fail_at(None)
    assert future.log_directory.is_offline
    assert not broker.store.directory(A).is_offline
    assert home_of(broker) == A


def test_a_disk_that_cannot_be_read_fails_the_source(broker: FakeBroker) -> None:
    broker.lead(isr=(1,), replicas=(1,))
    broker.produce(5)
    ask(broker, B)
    broker.disk.fail_read_at(1)
    run_moves(broker, idle)
    broker.disk.fail_read_at(None)
    assert broker.store.directory(A).is_offline
    assert not broker.store.directory(B).is_offline
    assert not len(broker.replicas.moves)
