"""Markers find their partitions' leaders, however long that takes, within one leadership of their coordinator."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest
import trio

from cluster.coordinator.transactions.hosted_transactions import HostedPartition
from cluster.coordinator.transactions.marker_sender import MarkerSender
from cluster.coordinator.transactions.peer_channel import PeerChannel
from cluster.network.broker_client import ConnectionFailedError
from cluster.statemachines.transaction import Transaction, TransactionRecord, TransactionState
from tests.unit.coordinator.in_memory import run
from timing.timing_wheel import Timer
from wire.errors import Error
from wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from wire.types import BrokerId, LeaderEpoch, ProducerEpoch, ProducerId, TopicPartition, WallMs

HERE, NEAR, FAR = BrokerId(1), BrokerId(2), BrokerId(3)
P = [TopicPartition("orders", number) for number in range(4)]


class Led(NamedTuple):
    """The part of a partition's state that names its leader."""

    leader: BrokerId


class Peer(NamedTuple):
    """Another broker, as a node and as the connection to it."""

    world: "World"
    broker_id: BrokerId

    async def request(self, message, version):
        return await self.world.answer(self.broker_id, message)

    def close(self) -> None:
        """Close nothing."""


class World:
    """A cluster of three brokers: who leads what, and what leaders answer."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.leaders = {P[0]: HERE, P[1]: NEAR, P[2]: NEAR, P[3]: FAR}
        self.dead: set[BrokerId] = set()
        self.deleted: set[TopicPartition] = set()
        self.errors: dict[TopicPartition, list[Error | Exception]] = {}
        self.written: list[tuple[BrokerId, ProducerId, TopicPartition, bool, int]] = []
        self.requests: list[BrokerId] = []
        self.gates: dict[BrokerId, trio.Event] = {}
        self.completed: list[Transaction] = []
        self.leader_epoch = LeaderEpoch(5)
        timer = Timer()
        nursery.start_soon(timer.run)
        self.sender = MarkerSender(
            HERE,
            self,
            "PLAINTEXT",
            self,
            lambda broker: PeerChannel(lambda: self.node(broker, ""), lambda node: node),
            self.exists,
            lambda number: self.leader_epoch,
            lambda partition, transaction: self.completed.append(transaction),
            timer,
            nursery,
        )

    # Metadata

    def partition(self, topic: str, number: int):
        leader = self.leaders.get(TopicPartition(topic, number))
        return None if leader is None else Led(leader)

    def node(self, broker_id: BrokerId, listener: str):
        if broker_id in self.dead:
            return None

        return Peer(self, broker_id)

    async def exists(self, at: TopicPartition) -> bool:
        await trio.lowlevel.checkpoint()
        return at not in self.deleted

    # Leaders

    def write(self, markers, on_done) -> None:
        on_done(
            [
                {
                    at: self.outcome(HERE, marker.producer_id, at, marker.committed, marker.coordinator_epoch)
                    for at in marker.partitions
                }
                for marker in markers
            ]
        )

    async def answer(self, broker_id: BrokerId, message):
        self.requests.append(broker_id)
        gate = self.gates.get(broker_id)
        if gate is not None:
            await gate.wait()
        await trio.lowlevel.checkpoint()
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(
                                    partition_index=index,
                                    error_code=self.outcome(
                                        broker_id,
                                        marker.producer_id,
                                        TopicPartition(topic.name, index),
                                        marker.transaction_result,
                                        marker.coordinator_epoch,
                                    ),
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in message.markers
            ]
        )

    def outcome(self, broker_id, producer_id, at, commit, epoch) -> Error:
        self.written.append((broker_id, producer_id, at, commit, epoch))
        errors = self.errors.get(at)
        if not errors:
            return Error.NONE
        error = errors.pop(0)
        if isinstance(error, Exception):
            raise error
        return error


def partition(epoch: int = 5) -> HostedPartition:
    return HostedPartition(0, LeaderEpoch(epoch), is_loading=False)


def decided(*places: TopicPartition, commit: bool = True, producer_id: int = 7) -> Transaction:
    state = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
    record = TransactionRecord(
        ProducerId(producer_id), ProducerEpoch(0), 1, state, frozenset(places), WallMs(1)
    )
    return Transaction(f"t{producer_id}", record)


def in_world(body: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await body(World(nursery))
            nursery.cancel_scope.cancel()

    run(main)


@pytest.mark.parametrize("commit", [True, False])
def test_every_partition_gets_its_marker_in_one_request_a_broker(commit: bool) -> None:
    async def body(world: World) -> None:
        transaction = decided(*P, commit=commit)
        world.sender.send(partition(), transaction)
        await trio.sleep(0.01)
        assert sorted(world.written) == [
            (leader, 7, at, commit, 5) for leader, at in zip((HERE, NEAR, NEAR, FAR), P, strict=True)
        ]
        assert sorted(world.requests) == [NEAR, FAR]
        assert world.completed == [transaction]
        assert not transaction.unmarked

    in_world(body)


def test_markers_of_many_transactions_share_requests() -> None:
    async def body(world: World) -> None:
        for number in range(50):
            world.sender.send(partition(), decided(P[1], producer_id=number))
        await trio.sleep(0.01)
        assert world.requests == [NEAR]
        assert len(world.completed) == 50

    in_world(body)


def test_one_request_never_has_two_fates_of_a_producer() -> None:
    async def body(world: World) -> None:
        world.sender.send(partition(), decided(P[1]))
        world.sender.send(partition(), decided(P[2], commit=False))
        await trio.sleep(0.01)
        assert world.requests == [NEAR, NEAR]
        assert len(world.completed) == 2

    in_world(body)


@pytest.mark.parametrize(
    "error",
    [
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.NOT_ENOUGH_REPLICAS,
        Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Error.REQUEST_TIMED_OUT,
        Error.KAFKA_STORAGE_ERROR,
        Error.UNKNOWN_SERVER_ERROR,
        ConnectionFailedError(5, "broken"),
    ],
)
def test_what_fails_is_sent_again_to_the_leader_of_then(error) -> None:
    async def body(world: World) -> None:
        world.errors[P[1]] = [error]
        transaction = decided(P[1], P[3])
        world.sender.send(partition(), transaction)
        await trio.sleep(0.01)
        assert transaction.unmarked == {P[1]}
        world.leaders[P[1]] = FAR
        await trio.sleep(0.1)
        assert world.written[-1][0] == FAR
        assert world.completed == [transaction]

    in_world(body)


def test_pauses_grow_to_a_second_and_no_further() -> None:
    async def body(world: World) -> None:
        world.errors[P[0]] = [Error.NOT_ENOUGH_REPLICAS] * 1000
        world.sender.send(partition(), decided(P[0]))
        await trio.sleep(60)
        assert 60 < len(world.written) < 70
        assert not world.completed

    in_world(body)


def test_a_leader_that_is_dead_or_unknown_is_waited_for() -> None:
    async def body(world: World) -> None:
        world.dead.add(FAR)
        del world.leaders[P[2]]
        world.sender.send(partition(), decided(P[2], P[3]))
        other = decided(P[1], producer_id=8)
        world.sender.send(partition(), other)
        await trio.sleep(5)
        assert world.completed == [other]
        assert world.sender.waiting_by_broker()[-1] == 2
        world.dead.clear()
        world.leaders[P[2]] = NEAR
        await trio.sleep(1.1)
        assert len(world.completed) == 2
        assert set(world.sender.waiting_by_broker().values()) == {0}

    in_world(body)


def test_only_a_partition_that_zookeeper_does_not_know_is_left_out() -> None:
    async def body(world: World) -> None:
        del world.leaders[P[3]]
        transaction = decided(P[1], P[3])
        world.sender.send(partition(), transaction)
        await trio.sleep(10)
        assert transaction.unmarked == {P[3]}
        world.deleted.add(P[3])
        await trio.sleep(1.1)
        assert world.completed == [transaction]

    in_world(body)


@pytest.mark.parametrize("error", [Error.TRANSACTION_COORDINATOR_FENCED, Error.INVALID_PRODUCER_EPOCH])
def test_a_fenced_marker_comes_once_more_with_the_present_epoch(error: Error) -> None:
    async def body(world: World) -> None:
        world.leader_epoch = LeaderEpoch(9)
        world.errors[P[1]] = [error]
        world.sender.send(partition(), decided(P[1]))
        await trio.sleep(0.1)
        assert [written[-1] for written in world.written] == [5, 9]
        assert len(world.completed) == 1
        assert world.sender.abandoned == 0
        world.errors[P[1]] = [error] * 2
        world.sender.send(partition(), decided(P[1], P[3]))
        await trio.sleep(0.1)
        # The marker of that partition is abandoned after a second refusal; the others must not wait for it for ever.
        assert len(world.completed) == 2
        assert world.sender.abandoned == 1

    in_world(body)


def test_markers_of_an_unloaded_partition_are_dropped_and_those_of_its_next_life_are_not() -> None:
    async def body(world: World) -> None:
        world.dead.add(FAR)
        world.gates[NEAR] = trio.Event()
        first, second = partition(), partition(7)
        old, new = decided(P[1], P[3]), decided(P[1], P[3])
        world.sender.send(first, old)
        await trio.sleep(0.01)
        world.sender.unload(first)
        world.sender.send(second, new)
        world.gates[NEAR].set()
        world.dead.clear()
        await trio.sleep(1.1)
        assert world.completed == [new]
        assert old.unmarked == {P[1], P[3]}

    in_world(body)


def test_a_slow_request_does_not_hold_up_what_comes_after_it() -> None:
    async def body(world: World) -> None:
        gate = world.gates[NEAR] = trio.Event()
        world.sender.send(partition(), decided(P[1]))
        await trio.sleep(0.01)
        del world.gates[NEAR]
        later = decided(P[2], producer_id=8)
        world.sender.send(partition(), later)
        await trio.sleep(0.2)
        assert world.completed == [later]
        gate.set()
        await trio.sleep(0.01)
        assert len(world.completed) == 2

    in_world(body)


def test_a_transaction_without_partitions_is_complete() -> None:
    async def body(world: World) -> None:
        world.sender.send(partition(), decided())
        assert len(world.completed) == 1

    in_world(body)
