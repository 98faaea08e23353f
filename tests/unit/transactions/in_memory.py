"""A transaction coordinator without a broker: writes that the test completes, markers that it records."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from cluster.coordinator.transactions.hosted_transactions import HostedPartition, HostedTransactions
from cluster.coordinator.transactions.transaction_coordinator import TransactionCoordinator
from cluster.coordinator.transactions.transaction_settings import TransactionSettings
from cluster.statemachines.transaction_requests import Producer
from simulation.clock import SimulatedClock
from storage.log_config import LogConfig
from tests.unit.coordinator.in_memory import OneLogReplicas, run
from timing.timing_wheel import Timer
from wire.errors import Error
from wire.internal_topics import TRANSACTION_STATE
from wire.types import LeaderEpoch, Offset, ProducerId, TopicPartition

PARTITION = TopicPartition(TRANSACTION_STATE, 0)
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class HeldLog:
    """Takes writes, and completes them on `complete`, or at once while `holds` is False."""

    def __init__(self) -> None:
        self.holds = False
        self.written: list[dict[str, bytes | None]] = []
        self._waiting: list[Callable[[Error], None]] = []
        self._next = 0

    def append(self, partition: HostedPartition, values, timeout_ms, on_done) -> None:
        first = self._next
        self._next += len(values)
        self.written.append(dict(values))

        def done(error: Error) -> None:
            if error is Error.NONE:
                partition.stored.wrote(
                    Offset(first), Offset(first + len(values)), LeaderEpoch(partition.epoch), dict(values)
                )
            on_done(error)

        if self.holds:
            self._waiting.append(done)
        else:
            done(Error.NONE)

    def complete(self, error: Error = Error.NONE) -> None:
        """Complete the first waiting write."""
        self._waiting.pop(0)(error)


class SeenMarkers:
    """Stands in for the sender of markers."""

    def __init__(self) -> None:
        self.sent: list[tuple[HostedPartition, object]] = []

    def send(self, partition: HostedPartition, transaction) -> None:
        self.sent.append((partition, transaction))

    def unload(self, partition: HostedPartition) -> None:
        self.sent = [each for each in self.sent if each[0] is not partition]


class Shell:
    """One coordinator that leads the only partition, 0, and the answers to its clients."""

    def __init__(self, log=None, **settings: int) -> None:
        self.leads = True
        self.log = HeldLog() if log is None else log
        self.timer = Timer()
        self.clock = SimulatedClock()
        self.hosted = HostedTransactions(lambda: 1, lambda number: self.leads)
        self.next_id: int | Error = 1000
        self.coordinator = TransactionCoordinator(
            TransactionSettings(**settings), self.hosted, self.log, self._take, self.timer, self.clock
        )
        self.markers = self.coordinator.markers = SeenMarkers()

    async def _take(self) -> ProducerId | Error:
        await trio.lowlevel.checkpoint()
        if isinstance(self.next_id, Error):
            return self.next_id
        self.next_id += 1
        return ProducerId(self.next_id)

    def lead(self, epoch: int = 5) -> HostedPartition:
        partition = self.hosted.led.begin_loading(0, LeaderEpoch(epoch))
        assert partition is not None
        partition.is_loading = False
        return partition

    async def init(self, transactional_id: str = "t", expected: Producer | None = None, timeout_ms=60_000):
        """Ask for a producer; return the list that will get the answer."""
        answers: list = []
        await self.coordinator.initialise(transactional_id, timeout_ms, expected, answers.append)
        return answers

    async def producer(self, transactional_id: str = "t") -> Producer:
        (answer,) = await self.init(transactional_id)
        assert answer.error is Error.NONE
        return answer.producer

    def add(self, producer: Producer, *places: TopicPartition, transactional_id: str = "t") -> list[Error]:
        answers: list[Error] = []
        self.coordinator.add_partitions(transactional_id, producer, places or (P0,), answers.append)
        return answers

    def end(self, producer: Producer, *, commit: bool = True, transactional_id: str = "t") -> list[Error]:
        answers: list[Error] = []
        self.coordinator.end(transactional_id, producer, commit=commit, on_done=answers.append)
        return answers

    def mark(self) -> None:
        """Make every partition acknowledge the markers that were sent."""
        for partition, transaction in self.markers.sent:
            transaction.unmarked.clear()
            self.coordinator.marked(partition, transaction)
        self.markers.sent.clear()

    def state(self, transactional_id: str = "t") -> str:
        found = self.coordinator.describe(transactional_id)
        return found.name if isinstance(found, Error) else found.state.kafka_name


def run_shell(body: Callable[[Shell], Awaitable[None]], **settings: int) -> None:
    """Run a test's body with a coordinator on a held log, its timer running."""

    async def main() -> None:
        shell = Shell(**settings)
        shell.lead()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(shell.timer.run)
            await body(shell)
            nursery.cancel_scope.cancel()

    run(main)


class StateReplicas(OneLogReplicas):
    """The replicas of a broker that has one partition of ``__transaction_state``, on a real log."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, LogConfig(), PARTITION)
