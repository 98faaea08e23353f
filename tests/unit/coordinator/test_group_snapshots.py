"""Snapshots: what they keep, when they are valid for a log, and that groups can go on while one is written."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
import trio

from cluster.coordinator import group_pieces, snapshots
from cluster.coordinator.group_pieces import GROUPS, encode_pieces, read_pieces
from cluster.coordinator.offset_bytes import CommittedOffset, place_of, value_of
from cluster.coordinator.partition_loader import FOLLOW_EVERY_S
from cluster.coordinator.snapshot_bytes import SnapshotError, SnapshotPlace, open_snapshot, seal
from cluster.coordinator.stored_partition import StoredPartition
from storage.compaction.cleaner import Cleaner, CleanerSettings
from storage.compaction.cleaning import clean
from storage.disk import RealDisk
from storage.log_config import LogConfig
from tests.unit.coordinator.in_memory import NOON, OneLogReplicas, StoppedClock, producer
from tests.unit.coordinator.one_broker import Broker, another
from wire.errors import Error
from wire.records.builder import build_batch
from wire.records.record import Record
from wire.types import LeaderEpoch, Offset, ProducerId, TopicId, TopicPartition, WallMs

PLACE = SnapshotPlace(
    TopicId(b"t" * 16), 3, Offset(70), LeaderEpoch(2), Offset(80), LeaderEpoch(4), WallMs(NOON)
)
COMPACTED = LogConfig(
    segment_bytes=2_000,
    cleanup_policy=frozenset({"compact"}),
    min_cleanable_dirty_ratio=0.0,
    file_delete_delay_ms=0,
)


def state(groups: int, offsets: int) -> StoredPartition:
    """Make a state with groups, offsets, and an offset that waits for a transaction."""
    stored = StoredPartition(PLACE.next_offset, PLACE.epoch)
    for number in range(groups):
        group = stored.group(f"g{number}")
        group.value = b"\0\3group %d" % number
        for index in range(offsets):
            value = value_of(CommittedOffset(Offset(index), metadata=f"of {number}"))
            group.offsets.put(place_of(TopicPartition("orders", index)), value, Offset(index))
    group = stored.group("in a transaction")
    held = {place_of(TopicPartition("paid", 1)): value_of(CommittedOffset(Offset(5)))}
    group.offsets.hold(ProducerId(7), held, Offset(60))
    stored.hold(ProducerId(7), "in a transaction")
    return stored


def contents(stored: StoredPartition) -> dict[str, object]:
    """Return the groups of a state, without what is on its way to the log."""
    return {
        name: (group.value, group.offsets.kept, group.offsets.held)
        for name, group in stored.groups.items()
        if not group.is_empty
    }


def read_back(data: bytes) -> StoredPartition:
    place, pieces = open_snapshot(data)
    stored = StoredPartition(place.next_offset, place.epoch)
    for _ in read_pieces(stored, pieces):
        pass
    return stored


@pytest.mark.parametrize("offsets", [0, 1, 2, 5])
def test_a_snapshot_says_what_it_was_told(offsets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_pieces, "PIECE", 2)
    stored = state(3, offsets)
    data = seal(PLACE, list(encode_pieces(stored)))
    assert open_snapshot(data)[0] == PLACE
    found = read_back(data)
    assert contents(found) == contents(stored)
    assert found.open == stored.open


def test_damage_of_any_byte_is_noticed() -> None:
    data = seal(PLACE, list(encode_pieces(state(1, 2))))
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        with pytest.raises(SnapshotError):
            open_snapshot(bytes(damaged))
    for end in range(len(data)):
        with pytest.raises(SnapshotError):
            open_snapshot(data[:end])


def test_what_is_whole_but_not_ours_is_refused() -> None:
    for pieces, reason in [([b"\x90"], "cannot be read"), ([b"\x96\x09\xa1g\xc0\x90\x90\x90"], "of kind 9")]:
        with pytest.raises(SnapshotError, match=reason):
            read_back(seal(PLACE, pieces))


# On a log


@asynccontextmanager
async def restarted(broker: Broker, epoch: int = 1) -> AsyncIterator[Broker]:
    """Restart a broker, and make it lead."""
    async with trio.open_nursery() as nursery:
        fresh = another(broker, nursery)
        await fresh.led(epoch)
        yield fresh
        nursery.cancel_scope.cancel()


async def with_snapshot(broker: Broker, offsets: int = 200) -> Path:
    """Make a broker lead, commit `offsets` offsets and write a snapshot; return the snapshot's file."""
    await broker.led(0)
    for offset in range(offsets):
        broker.shell.commit(offset, offset % 50)
    await broker.loader.write_snapshots(least=1, rest_s=0)
    return Path(broker.replicas.log.directory) / GROUPS.file_name


async def begun_at(broker: Broker) -> Offset:
    """Return the offset from which the log is read after a restart; its start if no snapshot is valid."""
    found = snapshots.Snapshots(GROUPS, broker.shell.clock, broker._offload)
    return (await found.begin(broker.replicas.log)).next_offset


def test_a_restarted_coordinator_reads_only_what_came_after_its_snapshot(on_a_log) -> None:
    async def body(broker: Broker) -> None:
        await with_snapshot(broker)
        at = broker.replicas.log.log_end_offset
        broker.shell.commit(1_000, 3)
        assert await begun_at(broker) == at
        async with restarted(broker) as fresh:
            assert fresh.reads == 2, "one for the snapshot, one for the tail"
            assert [fresh.shell.position(p) for p in (0, 3, 49)] == [150, 1_000, 199]

    on_a_log(body)


def test_a_follower_writes_snapshots_too_and_a_stopping_broker_does(on_a_log) -> None:
    async def body(broker: Broker) -> None:
        await broker.led(0)
        async with trio.open_nursery() as nursery:
            follower = Broker(broker.replicas, nursery)
            follower.follow(0)
            broker.replicas.is_leader = True
            for offset in range(50):
                broker.shell.commit(offset, offset)
            await trio.sleep(FOLLOW_EVERY_S * 1.5)
            assert await begun_at(follower) == 0, "too little has come"
            await follower.loader.write_snapshots(least=1, rest_s=0)
            assert await begun_at(follower) == 50
            nursery.cancel_scope.cancel()

    on_a_log(body)


def test_a_snapshot_is_written_when_enough_has_come(on_a_log, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(broker: Broker) -> None:
        await broker.led(0)
        for offset in range(snapshots.CHANGES_MIN):
            broker.shell.commit(offset, offset % 10)
        await trio.sleep(FOLLOW_EVERY_S * 1.5)
        assert await begun_at(broker) == snapshots.CHANGES_MIN

    on_a_log(body)


@pytest.mark.parametrize("what", ["flipped", "cut", "empty", "missing"])
def test_without_a_good_file_the_log_is_read(on_a_log, what: str) -> None:
    async def body(broker: Broker) -> None:
        file = await with_snapshot(broker)
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        if what == "missing":
            file.unlink()
        else:
            file.write_bytes({"flipped": data, "cut": data[:-40], "empty": b""}[what])
        assert await begun_at(broker) == 0
        async with restarted(broker) as fresh:
            assert fresh.shell.position(49) == 199

    on_a_log(body)


def cut(broker: Broker, to: int) -> None:
    broker.replicas.log.truncate_suffix(Offset(to))


def replace_tail(broker: Broker) -> None:
    """Replace our last record by two of another leader."""
    log = broker.replicas.log
    end = log.log_end_offset
    log.truncate_suffix(Offset(end - 1))
    strange = build_batch([Record(0, NOON, b"\0\7what", b""), Record(0, NOON, b"\0\7what", b"")])
    log.append_as_leader(strange, LeaderEpoch(1), WallMs(NOON))


@pytest.mark.parametrize(
    "change",
    [
        lambda broker: cut(broker, 199),
        replace_tail,
        lambda broker: setattr(broker.replicas.log, "topic_id", TopicId(b"x" * 16)),
        lambda broker: broker.replicas.log.truncate_fully_and_start_at(Offset(500)),
    ],
    ids=["cut", "another leader's", "another topic's", "begun anew"],
)
def test_a_snapshot_of_another_log_is_not_used(on_a_log, change: Callable[[Broker], object]) -> None:
    async def body(broker: Broker) -> None:
        await with_snapshot(broker)
        broker.follow(1)
        change(broker)
        assert await begun_at(broker) == broker.replicas.log.log_start_offset

    on_a_log(body)


def test_a_machine_that_lost_the_logs_tail_loses_the_snapshot_with_it(on_a_log) -> None:
    async def body(broker: Broker) -> None:
        await with_snapshot(broker)
        replicas = broker.replicas
        segment = Path(replicas.log.directory) / f"{0:020}.log"
        replicas.store.close(clean=False)
        with segment.open("r+b") as file:
            file.truncate(segment.stat().st_size - 1)
        broker.replicas = OneLogReplicas(replicas.directory)
        assert broker.replicas.log.log_end_offset == 199
        assert await begun_at(broker) == 0

    on_a_log(body)


def test_an_old_snapshot_is_not_used_as_deletions_may_be_gone_without_a_trace(on_a_log) -> None:
    async def body(broker: Broker) -> None:
        await with_snapshot(broker)
        for later_ms, start in ((59_999, 200), (60_000, 0)):
            later = WallMs(broker.shell.clock.wall_ms() + later_ms)
            aged = snapshots.Snapshots(GROUPS, StoppedClock(later), broker._offload)
            assert (await aged.begin(broker.replicas.log)).next_offset == start
        # While the broker runs the snapshot is rewritten long before, even without new records.
        await trio.sleep(100)
        assert await begun_at(broker) == 200

    on_a_log(body, LogConfig(delete_retention_ms=60_000))


def test_nothing_is_written_where_deletions_leave_the_log_at_once(on_a_log) -> None:
    async def body(broker: Broker) -> None:
        await with_snapshot(broker)
        await trio.sleep(FOLLOW_EVERY_S * 3)
        assert await begun_at(broker) == 0

    on_a_log(body, LogConfig(delete_retention_ms=1_000))


def test_a_snapshot_is_good_for_a_log_that_compaction_has_gone_through_since(on_a_log) -> None:
    async def body(broker: Broker) -> None:
        file = await with_snapshot(broker)
        for offset in range(200, 400):
            broker.shell.commit(offset, offset % 7)
        replicas = broker.replicas
        cleaner = Cleaner(replicas.store, CleanerSettings(memory=1 << 20))
        cleaning = cleaner.pick(WallMs(NOON))
        assert cleaning is not None
        assert cleaner.finish(cleaning, clean(cleaning.job, RealDisk()))
        assert await begun_at(broker) == 200
        expected = [broker.shell.position(partition) for partition in range(50)]
        async with restarted(broker) as fresh:
            assert [fresh.shell.position(partition) for partition in range(50)] == expected
            file.unlink()
            async with restarted(fresh) as without:
                assert [without.shell.position(partition) for partition in range(50)] == expected

    on_a_log(body, COMPACTED)


@pytest.mark.parametrize("seed", range(20))
def test_groups_go_on_while_a_snapshot_is_written(
    on_a_log, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(group_pieces, "PIECE", 2)
    monkeypatch.setattr(snapshots, "_AT_ONCE", 1)
    chance = Random(seed)

    async def body(broker: Broker) -> None:
        await broker.led(0)
        for _ in range(40):
            change(broker, chance)
        written = trio.Event()

        async def write() -> None:
            await broker.loader.write_snapshots(least=1, rest_s=0)
            written.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            while not written.is_set():
                change(broker, chance)
                await trio.lowlevel.checkpoint()
        for _ in range(chance.randrange(20)):
            change(broker, chance)
        log = broker.replicas.log
        file = Path(log.directory) / GROUPS.file_name
        assert 0 < await begun_at(broker) < log.log_end_offset + 1
        async with restarted(broker) as fresh:
            with_it = contents(fresh.shell.hosted.led.get(0).stored)
            file.unlink()
            async with restarted(fresh) as from_the_log:
                assert contents(from_the_log.shell.hosted.led.get(0).stored) == with_it

    on_a_log(body)


def change(broker: Broker, chance: Random) -> None:
    """Make a random change to a group: a commit, one in a transaction, the end of a transaction, or a deletion."""
    shell = broker.shell
    group = f"g{chance.randrange(3)}"
    partition = chance.randrange(6)
    match chance.randrange(6):
        case 0 | 1 | 2:
            shell.commit(chance.randrange(1_000), partition, group_id=group)
        case 3:
            shell.commit(chance.randrange(1_000), partition, group_id=group, writer=producer())
        case 4:
            committed = chance.random() < 0.5
            shell.end_transaction(commit=committed)
        case _:
            at = TopicPartition("orders", partition)
            hosted = shell.hosted.find(group)
            # A deletion also drops what a transaction holds, which the log does not record (nor does it in Kafka).
            if hosted is not None and not hosted.offsets.is_unstable(place_of(at)):
                shell.admin.delete_offsets(group, [at])


def test_a_commit_that_was_given_up_on_but_is_in_the_log_is_found_by_the_next_load(on_a_log) -> None:
    async def body(broker: Broker) -> None:
        await broker.led(0)
        shell = broker.shell
        shell.commit(1)
        outcome = broker.replicas.outcome
        broker.replicas.outcome = Error.REQUEST_TIMED_OUT
        assert shell.commit(2) == [Error.REQUEST_TIMED_OUT]
        broker.replicas.outcome = outcome
        shell.commit(3, 1)
        assert shell.position() == 1
        await broker.loader.write_snapshots(least=1, rest_s=0)
        broker.follow(1)
        await broker.led(2)
        assert [shell.position(0), shell.position(1)] == [2, 3]
        async with restarted(broker, 3) as fresh:
            assert [fresh.shell.position(0), fresh.shell.position(1)] == [2, 3]

    on_a_log(body)


def test_the_end_of_a_transaction_leaves_what_a_later_one_holds() -> None:
    stored = state(0, 0)
    place = place_of(TopicPartition("paid", 2))
    group = stored.group("in a transaction")
    group.offsets.hold(ProducerId(7), {place: value_of(CommittedOffset(Offset(9)))}, Offset(75))
    stored.end_transaction(ProducerId(7), commit=True, marker=Offset(70))
    assert [at.partition for at, _ in group.offsets] == [1]
    assert list(group.offsets.held[ProducerId(7)]) == [place]
    stored.end_transaction(ProducerId(7), commit=False)
    assert not group.offsets.held
    assert [at.partition for at, _ in group.offsets] == [1]
