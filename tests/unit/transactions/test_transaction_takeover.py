"""Taking over a partition of transaction state: all of it, and only what every in-sync replica has."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import pytest
import trio

from cluster.coordinator.group_records import KeyedRecord
from cluster.coordinator.partition_loader import PartitionLoader
from cluster.coordinator.snapshot_bytes import SnapshotPlace, open_snapshot, seal
from cluster.coordinator.transactions import transaction_pieces
from cluster.coordinator.transactions.state_log import StateLog
from cluster.coordinator.transactions.state_records import state_key, state_value
from cluster.coordinator.transactions.stored_transactions import StoredTransactions
from cluster.coordinator.transactions.transaction_pieces import TRANSACTIONS
from cluster.coordinator.transactions.transaction_takeover import TransactionTakeover
from cluster.replication.partition.waiters import Waiters
from cluster.statemachines.transaction import TransactionRecord
from storage.log import AppendOrigin
from tests.unit.coordinator.in_memory import NOON, run
from tests.unit.transactions.in_memory import P1, PARTITION, Shell, StateReplicas
from wire.errors import Error
from wire.internal_topics import TRANSACTION_STATE
from wire.records.builder import build_batch
from wire.types import LeaderEpoch, Offset, ProducerId, TopicId, WallMs

EMPTY = TransactionRecord(ProducerId(1))


class HostedPartition(NamedTuple):
    waiters: Waiters
    log: Any


class Broker:
    """A coordinator on one real log, with its loader."""

    def __init__(self, replicas: StateReplicas, nursery: trio.Nursery) -> None:
        self.replicas = replicas
        self.waiters = Waiters(PARTITION)
        replicas.partition_or_error = lambda at: HostedPartition(self.waiters, replicas.log)
        self.shell = Shell()
        self.shell.coordinator._log = StateLog(replicas, self.shell.clock)
        self.reads = 0
        self.loader = PartitionLoader(
            TRANSACTION_STATE,
            replicas,
            self.shell.hosted.led,
            TransactionTakeover(replicas, self.shell.coordinator),
            TRANSACTIONS,
            self.shell.clock,
            nursery,
            self.shell.coordinator.settings.load_buffer_size,
            self._offload,
        )
        nursery.start_soon(self.shell.timer.run)
        nursery.start_soon(self.loader.follow)

    async def _offload(self, read):
        self.reads += 1
        await trio.lowlevel.checkpoint()
        return read()

    async def lead(self, epoch: int) -> None:
        self.replicas.is_leader = True
        self.replicas.epoch = LeaderEpoch(epoch)
        self.loader.leadership_changed([(PARTITION, LeaderEpoch(epoch))], [])
        await trio.testing.wait_all_tasks_blocked()

    def follow(self, epoch: int) -> None:
        self.replicas.is_leader = False
        self.loader.leadership_changed([], [(PARTITION, LeaderEpoch(epoch))])

    def append(self, *records: KeyedRecord) -> None:
        self.replicas.log.append_as_leader(
            build_batch(records), self.replicas.epoch, WallMs(NOON), origin=AppendOrigin.COORDINATOR
        )
        self.replicate()

    def replicate(self) -> None:
        log = self.replicas.log
        log.advance_high_watermark(log.log_end_offset)
        self.waiters.fire_high_watermark(log.high_watermark, Error.NONE)

    @property
    def is_loading(self) -> bool:
        return self.shell.hosted.led.get(0).is_loading


@pytest.fixture
def on_a_log(tmp_path: Path):
    def go(body: Callable[[Broker, trio.Nursery], Awaitable[None]]) -> None:
        async def main() -> None:
            async with trio.open_nursery() as nursery:
                await body(Broker(StateReplicas(tmp_path / "a"), nursery), nursery)
                nursery.cancel_scope.cancel()

        run(main)

    return go


def restarted(broker: Broker, nursery: trio.Nursery) -> Broker:
    """Return the same broker after a restart, with only what is on disk."""
    directory = broker.replicas.directory
    broker.replicas.store.close(clean=True)
    return Broker(StateReplicas(directory), nursery)


async def history(broker: Broker) -> None:
    """Write one id in each state that a log can have, and one that has expired."""
    shell = broker.shell
    for name in ("empty", "ongoing", "committing", "aborted", "gone"):
        producer = await shell.producer(name)
        if name in ("ongoing", "committing", "aborted"):
            shell.add(producer, P1, transactional_id=name)
        if name in ("committing", "aborted"):
            shell.end(producer, commit=name == "committing", transactional_id=name)
        if name == "aborted":
            shell.mark_one(name)
    broker.append(KeyedRecord(NOON, state_key("gone"), None))


@pytest.fixture(autouse=True)
def _mark_one(monkeypatch):
    def mark_one(self: Shell, name: str) -> None:
        for partition, transaction in tuple(self.markers.sent):
            if transaction.transactional_id == name:
                transaction.unmarked.clear()
                self.coordinator.marked(partition, transaction)
                self.markers.sent.remove((partition, transaction))

    monkeypatch.setattr(Shell, "mark_one", mark_one, raising=False)


STATES = {
    "empty": "Empty",
    "ongoing": "Ongoing",
    "committing": "PrepareCommit",
    "aborted": "CompleteAbort",
    "gone": "TRANSACTIONAL_ID_NOT_FOUND",
}


def test_a_restarted_coordinator_knows_every_id_and_goes_on_with_decided_ones(on_a_log) -> None:
    async def body(broker: Broker, nursery: trio.Nursery) -> None:
        await broker.lead(0)
        await history(broker)
        again = restarted(broker, nursery)
        await again.lead(1)
        again.replicate()
        await trio.testing.wait_all_tasks_blocked()
        assert {name: again.shell.state(name) for name in STATES} == STATES
        ((partition, transaction),) = again.shell.markers.sent
        assert (partition.epoch, transaction.transactional_id) == (1, "committing")
        assert transaction.unmarked == {P1}
        # Ids that are out of use are kept as bytes only.
        assert set(partition.transactions) >= {"ongoing", "committing"}

    on_a_log(body)


def test_a_follower_that_kept_up_reads_nothing_again(on_a_log) -> None:
    async def body(broker: Broker, nursery: trio.Nursery) -> None:
        await broker.lead(0)
        await history(broker)
        again = restarted(broker, nursery)
        again.replicate()
        again.follow(1)
        await trio.sleep(6)
        assert again.reads == 2, "one for a snapshot, one for the log"
        await again.lead(2)
        assert again.reads == 2
        assert {name: again.shell.state(name) for name in STATES} == STATES

    on_a_log(body)


def test_nothing_is_served_before_it_is_replicated(on_a_log) -> None:
    async def body(broker: Broker, nursery: trio.Nursery) -> None:
        await broker.lead(0)
        producer = await broker.shell.producer()
        broker.shell.add(producer)
        broker.replicas.replicates = False
        broker.replicas.outcome = Error.REQUEST_TIMED_OUT
        broker.shell.end(producer)
        again = restarted(broker, nursery)
        await again.lead(1)
        assert again.is_loading
        assert not again.shell.markers.sent
        assert again.shell.add(producer) == [Error.COORDINATOR_LOAD_IN_PROGRESS]
        again.replicate()
        await trio.testing.wait_all_tasks_blocked()
        assert not again.is_loading
        assert len(again.shell.markers.sent) == 1

    on_a_log(body)


def test_a_write_without_an_answer_is_found_by_the_next_load(on_a_log) -> None:
    async def body(broker: Broker, nursery: trio.Nursery) -> None:
        await broker.lead(0)
        producer = await broker.shell.producer()
        broker.replicas.outcome = Error.REQUEST_TIMED_OUT
        assert broker.shell.add(producer) == [Error.COORDINATOR_NOT_AVAILABLE]
        assert broker.shell.state() == "Empty"
        broker.replicas.outcome = Error.NONE
        broker.follow(1)
        broker.replicate()
        await broker.lead(2)
        assert broker.shell.state() == "Ongoing"

    on_a_log(body)


def test_an_unknown_kind_of_key_is_stepped_over(on_a_log) -> None:
    async def body(broker: Broker, nursery: trio.Nursery) -> None:
        await broker.lead(0)
        await broker.shell.producer()
        broker.append(KeyedRecord(NOON, b"\0\5later", b"x"))
        again = restarted(broker, nursery)
        await again.lead(1)
        again.replicate()
        await trio.testing.wait_all_tasks_blocked()
        assert again.shell.state() == "Empty"

    on_a_log(body)


def test_a_value_that_cannot_be_read_keeps_the_partition_loading(on_a_log, caplog) -> None:
    async def body(broker: Broker, nursery: trio.Nursery) -> None:
        broker.append(KeyedRecord(NOON, state_key("t"), b"\0\7" + bytes(40)))
        await broker.lead(0)
        await trio.sleep(20)
        assert broker.is_loading
        assert "cannot load __transaction_state-0" in caplog.text
        # The next record of that id would do, but half a partition is never served.
        broker.follow(1)
        assert broker.shell.hosted.led.get(0) is None

    on_a_log(body)


def test_a_new_epoch_of_the_same_leader_reloads_nothing(on_a_log) -> None:
    async def body(broker: Broker, nursery: trio.Nursery) -> None:
        await broker.lead(0)
        await history(broker)
        partition = broker.shell.hosted.led.get(0)
        sent = list(broker.shell.markers.sent)
        for epoch in (1, 2, 3):
            await broker.lead(epoch)
        assert broker.shell.hosted.led.get(0) is partition
        assert partition.epoch == 0
        assert broker.shell.markers.sent == sent

    on_a_log(body)


def test_a_deleted_partition_is_forgotten(on_a_log) -> None:
    async def body(broker: Broker, nursery: trio.Nursery) -> None:
        await broker.lead(4)
        await history(broker)
        broker.loader.stopped([(PARTITION, None)])
        assert broker.shell.hosted.led.get(0) is None
        assert not broker.shell.markers.sent
        # When it is created again, it begins with the first epoch.
        await broker.lead(0)
        assert broker.shell.hosted.led.get(0) is not None

    on_a_log(body)


# Snapshots


def snapshot_of(broker: Broker) -> Path:
    return Path(broker.replicas.log.directory) / TRANSACTIONS.file_name


# The last record of the history is not the coordinator's own: a leader does not read its log.
@pytest.mark.parametrize(("writer", "after"), [("leader", 2), ("follower", 1)])
def test_a_restarted_coordinator_reads_only_what_came_after_the_snapshot(
    on_a_log, writer: str, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(broker: Broker, nursery: trio.Nursery) -> None:
        await broker.lead(0)
        await history(broker)
        if writer == "follower":
            broker = restarted(broker, nursery)
            broker.replicate()
            broker.follow(1)
            await trio.sleep(6)
        await broker.loader.write_snapshots(least=1, rest_s=0)
        broker.replicas.epoch = LeaderEpoch(1)
        broker.append(KeyedRecord(NOON, state_key("empty"), None))
        again = restarted(broker, nursery)
        taken_in = count_records(monkeypatch)
        await again.lead(2)
        again.replicate()
        await trio.testing.wait_all_tasks_blocked()
        assert sum(taken_in) == after
        found = {name: again.shell.state(name) for name in STATES}
        assert found == STATES | {"empty": "TRANSACTIONAL_ID_NOT_FOUND"}
        ((partition, transaction),) = again.shell.markers.sent
        assert (partition.epoch, transaction.transactional_id) == (2, "committing")

    on_a_log(body)


def count_records(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of records in each read of the log."""
    counts: list[int] = []
    apply = StoredTransactions.apply

    def counting(self: StoredTransactions, data: bytes) -> Iterator[int]:
        for count in apply(self, data):
            counts.append(count)
            yield count

    monkeypatch.setattr(StoredTransactions, "apply", counting)
    return counts


@pytest.mark.parametrize("what", ["flipped", "cut", "empty", "not ours", "of another log"])
def test_without_a_good_snapshot_the_log_is_read(on_a_log, what: str) -> None:
    async def body(broker: Broker, nursery: trio.Nursery) -> None:
        await broker.lead(0)
        await history(broker)
        await broker.loader.write_snapshots(least=1, rest_s=0)
        file = snapshot_of(broker)
        place, _ = open_snapshot(file.read_bytes())
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        contents = {
            "flipped": data,
            "cut": data[:-30],
            "empty": b"",
            "not ours": seal(place, [msgpack.packb([["ongoing"], [b"nothing that a coordinator wrote"]])]),
            "of another log": seal(replace(place, epoch=LeaderEpoch(9)), []),
        }
        file.write_bytes(contents[what])
        again = restarted(broker, nursery)
        await again.lead(1)
        again.replicate()
        await trio.testing.wait_all_tasks_blocked()
        assert {name: again.shell.state(name) for name in STATES} == STATES

    on_a_log(body)


def test_no_snapshot_is_written_while_a_write_is_undecided(on_a_log) -> None:
    async def body(broker: Broker, nursery: trio.Nursery) -> None:
        await broker.lead(0)
        producer = await broker.shell.producer()
        broker.replicas.outcome = Error.REQUEST_TIMED_OUT
        broker.shell.add(producer)
        await broker.loader.write_snapshots(least=1, rest_s=0)
        assert not snapshot_of(broker).exists()

    on_a_log(body)


def test_a_snapshot_is_of_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_pieces, "PIECE", 1)
    stored = StoredTransactions(Offset(5), LeaderEpoch(1), {name: state_value(EMPTY) for name in "abc"})
    pieces = transaction_pieces.encode_pieces(stored)
    first = next(pieces)
    del stored.values["b"]
    stored.values["d"] = state_value(EMPTY)
    place = SnapshotPlace(
        TopicId(bytes(16)), 0, Offset(5), LeaderEpoch(1), Offset(5), LeaderEpoch(1), WallMs(NOON)
    )
    found = TRANSACTIONS.start(place)
    for _ in TRANSACTIONS.read(found, open_snapshot(seal(place, [first, *pieces]))[1]):
        pass
    assert list(found.values) == ["a", "b", "c"]
    assert (found.next_offset, found.epoch, found.snapshot_at) == (5, 1, NOON)
