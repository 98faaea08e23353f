"""A group coordinator without a broker: writes that the test completes, a real log, trio's mock clock."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import trio
from trio.testing import MockClock

from cluster.coordinator.group_admin import GroupAdmin
from cluster.coordinator.group_coordinator import GroupCoordinator
from cluster.coordinator.group_records import KeyedRecord
from cluster.coordinator.group_settings import GroupSettings
from cluster.coordinator.hosted_groups import HostedGroup, HostedGroups, HostedPartition
from cluster.coordinator.offset_bytes import CommittedOffset
from cluster.coordinator.offset_commits import OffsetCommits
from cluster.coordinator.offsets_log import OffsetsLog, Writer
from cluster.replication.leader.delayed_produce import ProduceResult
from cluster.statemachines.group_effects import JoinAnswer, SyncAnswer
from cluster.statemachines.group_join import Join
from simulation.clock import SimulatedClock
from storage.disk import RealDisk
from storage.errors import LogError
from storage.log import Log
from storage.log_config import LogConfig
from storage.store import LogStore
from timing.timing_wheel import Timer
from wire.errors import ApiError, Error
from wire.internal_topics import CONSUMER_OFFSETS
from wire.records.end_transaction import build_end_transaction_marker
from wire.types import (
    Generation,
    LeaderEpoch,
    MonotonicSeconds,
    Offset,
    ProducerId,
    TopicPartition,
    WallMs,
)

PARTITION = TopicPartition(CONSUMER_OFFSETS, 0)
NOON = 1_700_000_000_000


class HeldLog:
    """Takes writes, and completes them on `complete`, or at once while `holds` is False."""

    def __init__(self) -> None:
        self.holds = False
        self.written: list[Sequence[KeyedRecord]] = []
        self.forgotten: list[KeyedRecord] = []
        self.writers: list[Writer | None] = []
        self._waiting: list[Callable[[Error], None]] = []
        self._next = 0

    def append(self, partition: HostedPartition, records, on_done, writer=None, token=None) -> None:
        self.written.append(records)
        self.writers.append(writer)
        self._append(len(records), on_done)

    def append_marker(self, partition: HostedPartition, marker: bytearray, on_done) -> None:
        self._append(1, on_done)

    def _append(self, count: int, on_done) -> None:
        offset = Offset(self._next)
        self._next += count

        def done(error: Error) -> None:
            on_done(error, offset if error is Error.NONE else Offset(-1))

        if self.holds:
            self._waiting.append(done)
        else:
            done(Error.NONE)

    def append_and_forget(self, number: int, records) -> None:
        self.forgotten.extend(records)

    def complete(self, error: Error = Error.NONE, index: int = 0) -> None:
        """Complete a waiting write, by default the first."""
        self._waiting.pop(index)(error)


class Shell:
    """One coordinator that leads the only partition, 0, and the answers to its clients."""

    def __init__(self, log: HeldLog | OffsetsLog, **settings: int) -> None:
        self.leads = True
        self.log = log
        self.timer = Timer()
        self.clock = SimulatedClock()
        self.ids = 0
        self.hosted = HostedGroups(lambda: 1, lambda number: self.leads)
        self.coordinator = GroupCoordinator(
            GroupSettings(**settings), self.hosted, log, self.timer, self.clock, self._id
        )
        self.offsets = OffsetCommits(self.coordinator)
        self.admin = GroupAdmin(self.coordinator)
        self.joins: dict[str, list[JoinAnswer]] = {}
        self.syncs: dict[str, list[SyncAnswer]] = {}

    def _id(self) -> str:
        self.ids += 1
        return str(self.ids)

    def lead(self) -> HostedPartition:
        partition = self.hosted.led.begin_loading(0, LeaderEpoch(5))
        assert partition is not None
        partition.is_loading = False
        return partition

    def group(self, group_id: str = "g") -> HostedGroup:
        found = self.hosted.find(group_id)
        assert found is not None
        return found

    def join(self, name: str, member_id: str = "", group_id: str = "g", **changes) -> None:
        answers = self.joins.setdefault(name, [])
        fields = {
            "token": None,
            "member_id": member_id,
            "new_member_id": "",
            "instance_id": None,
            "client_id": name,
            "client_host": "/192.0.2.1",
            "rebalance_timeout_ms": 60_000,
            "session_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": (("range", b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"),),
            "require_known_member_id": False,
        }
        self.coordinator.join(group_id, Join(**(fields | changes)), answers.append)

    def sync(self, name: str, assignments: dict[str, bytes] | None = None, group_id: str = "g") -> None:
        joined = self.joins[name][-1]
        self.coordinator.sync(
            group_id,
            member_id=joined.member_id,
            instance_id=None,
            generation=joined.generation,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments or {},
            on_done=self.syncs.setdefault(name, []).append,
        )

    async def stable(self, *names: str, group_id: str = "g", **changes) -> None:
        """Form a stable group of these members, the first its leader."""
        for name in names:
            self.join(name, group_id=group_id, **changes)
        await trio.sleep(6.1)
        joined = {name: self.joins[name][-1] for name in names}
        for name in names[1:]:
            self.sync(name, group_id=group_id)
        parts = {answer.member_id: f"part of {name}".encode() for name, answer in joined.items()}
        self.sync(names[0], parts, group_id=group_id)

    def commit(self, offset: int, partition: int = 0, topic: str = "orders", group_id: str = "g", **changes):
        """Commit one offset; return the list that will get the outcome."""
        outcomes: list[Error] = []
        at = TopicPartition(topic, partition)
        committed = changes.pop("committed", None) or CommittedOffset(
            Offset(offset), commit_timestamp=self.clock.wall_ms()
        )
        fields = {"member_id": "", "instance_id": None, "generation": Generation(-1)} | changes
        writer = fields.pop("writer", None)
        do = self.offsets.commit
        if writer is not None:
            do = self.offsets.commit_in_transaction
            fields["writer"] = writer
        do(
            group_id,
            offsets={at: committed},
            on_done=lambda results: outcomes.append(results[at]),
            **fields,
        )
        return outcomes

    def end_transaction(self, *, commit: bool, writer: Writer | None = None) -> list[Error]:
        """Write a transaction's marker; return the list that will get the outcome."""
        outcomes: list[Error] = []
        writer = producer() if writer is None else writer
        marker = build_end_transaction_marker(
            committed=commit,
            coordinator_epoch=0,
            producer_id=writer.producer_id,
            producer_epoch=writer.producer_epoch,
            timestamp=self.clock.wall_ms(),
        )
        self.offsets.write_marker(0, writer.producer_id, marker, outcomes.append, commit=commit)
        return outcomes

    def position(self, partition: int = 0, topic: str = "orders", group_id: str = "g", stable: bool = False):
        """Return the answer to a client that asks for one partition: an offset, an error, or None."""
        at = TopicPartition(topic, partition)
        error, found = self.offsets.committed(group_id, [at], require_stable=stable)
        if error is not Error.NONE:
            return error
        value = found[at]
        return value.offset if isinstance(value, CommittedOffset) else value


def run(body: Callable[[], Awaitable[None]]) -> None:
    """Run a test's body on a clock that jumps ahead when all tasks wait."""
    trio.run(body, clock=MockClock(autojump_threshold=0))


def run_shell(body: Callable[[Shell], Awaitable[None]], **settings: int) -> None:
    """Run a test's body with a coordinator on a held log, its timer running."""

    async def main() -> None:
        shell = Shell(HeldLog(), **settings)
        shell.lead()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(shell.timer.run)
            await body(shell)
            nursery.cancel_scope.cancel()

    run(main)


class StoppedClock:
    """A clock that stands still."""

    def __init__(self, wall_ms: int = NOON) -> None:
        self._wall_ms = WallMs(wall_ms)

    def wall_ms(self) -> WallMs:
        return self._wall_ms

    def monotonic(self) -> MonotonicSeconds:
        return MonotonicSeconds(0.0)


class OneLogReplicas:
    """The replicas of a broker that has one partition of ``__consumer_offsets``, on a real log."""

    def __init__(
        self, directory: Path, config: LogConfig | None = None, partition: TopicPartition = PARTITION
    ) -> None:
        self.directory = directory
        self.config = LogConfig() if config is None else config
        directory.mkdir(exist_ok=True)
        self.clock = StoppedClock()
        self.store = LogStore.open([directory], self.config, {}, self.clock, RealDisk())
        found = self.store.get(partition)
        self.log: Log = self.store.create(partition) if found is None else found
        self.is_leader = True
        self.epoch = LeaderEpoch(0)
        self.replicates = True
        self.outcome = Error.NONE
        self.hosted = self

    def get(self, at: TopicPartition) -> "OneLogReplicas":
        """Return this object, which is also its only partition: it has the log."""
        return self

    def leader_log(self, at: TopicPartition) -> Log:
        if not self.is_leader:
            raise ApiError(Error.NOT_LEADER_OR_FOLLOWER)
        return self.log

    def append(
        self, batches, acks, timeout_ms, on_done, *, origin, internal_topics_allowed, tokens=None
    ) -> None:
        """Append, and acknowledge at once, as without followers, with the result `outcome`."""
        ((at, batch),) = batches
        try:
            result = self.leader_log(at).append_as_leader(batch, self.epoch, WallMs(NOON), origin=origin)
        except (ApiError, LogError) as failure:
            error = failure.error if isinstance(failure, ApiError) else failure.kafka_error
            on_done({at: ProduceResult(error)})
            return
        if self.replicates:
            self.log.advance_high_watermark(self.log.log_end_offset)
        on_done({at: ProduceResult(self.outcome, result.first_offset)})

    def reopened(self) -> "OneLogReplicas":
        """Close the logs and open them again, as a restarted broker does."""
        self.store.close(clean=True)
        return OneLogReplicas(self.directory, self.config)


def producer(number: int = 7) -> Writer:
    return Writer(ProducerId(number), 0)
