"""Taking over partitions of ``__transaction_state``, unloading them, and following those that others lead.

On becoming the leader the rest of the log is read, **to the log's end**: a new leader's high watermark lags, and
stopping there would lose acknowledged state. Nothing is served, though, before the high watermark has reached that
end, too: what only this leader has may be lost with it, and a marker sent, or a partition verified, by such a record
would be a second fate of the transaction.

A load that fails (the disk, a record that cannot be read) is tried again, and clients are told to wait, until
another broker leads. Half of a partition is never served: ids in the other half would be forgotten.

What a restarted broker would have to read from the beginning is in a snapshot, which leaders and followers write.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from cluster.coordinator.snapshots import CHANGES_MIN, FOLLOWER_REST_S, Candidate, Snapshots
from cluster.coordinator.transactions.hosted_transactions import HostedPartition
from cluster.coordinator.transactions.state_records import peek_state
from cluster.coordinator.transactions.stored_transactions import StoredTransactions
from cluster.coordinator.transactions.transaction_coordinator import TransactionCoordinator
from cluster.coordinator.transactions.transaction_pieces import TRANSACTIONS
from cluster.statemachines.transaction import TransactionState
from storage.errors import LogError
from storage.log_read import read_range
from wire.errors import ApiError, Error, RemoteProtocolError
from wire.internal_topics import TRANSACTION_STATE
from wire.types import LeaderEpoch, Offset, TopicPartition

if TYPE_CHECKING:
    from cluster.replication.replicas import Replicas
    from storage.log import Log
    from timing.clock import Clock

logger = logging.getLogger(__name__)

FOLLOW_EVERY_S: Final = 5.0
"""How often a follower reads what it has replicated, and how often snapshots are thought of."""
_SLICE: Final = 1_000
"""Records taken in, or looked at, between two turns of the loop."""
_LOADS_AT_ONCE: Final = 4
_RETRY_S: Final = 5.0

Changed = Sequence[tuple[TopicPartition, LeaderEpoch]]


class TransactionLoader:
    """Has the ids of the partitions that this broker leads, and no others.

    Args:
        replicas: The broker's partitions.
        coordinator: Where ids are hosted.
        clock: Times loads.
        nursery: Where loads run.
        offload: Runs reads of files beside the loop.
    """

    def __init__(
        self,
        replicas: "Replicas",
        coordinator: TransactionCoordinator,
        clock: "Clock",
        nursery: trio.Nursery,
        offload: Callable[[Callable[[], object]], Awaitable[object]] = trio.to_thread.run_sync,
    ) -> None:
        self._replicas = replicas
        self._coordinator = coordinator
        self._hosted = coordinator.hosted
        self._clock = clock
        self._nursery = nursery
        self._offload = offload
        self._snapshots = Snapshots(TRANSACTIONS, clock, offload)
        self._loads = trio.CapacityLimiter(_LOADS_AT_ONCE)
        self._followed: dict[int, StoredTransactions | None] = {}
        self.longest_load_s = 0.0

    # Told by the replicas

    def leadership_changed(self, leading: Changed, following: Changed) -> None:
        """Take note of the partitions that this broker begins to lead, and to follow."""
        for partition, epoch in following:
            if partition.topic == TRANSACTION_STATE:
                self._unload(partition.partition, epoch)
        for partition, epoch in leading:
            if partition.topic == TRANSACTION_STATE:
                self._lead(partition.partition, epoch)

    def stopped(self, partitions: Sequence[tuple[TopicPartition, LeaderEpoch | None]]) -> None:
        """Take note of partitions whose replica here was deleted."""
        for partition, _ in partitions:
            if partition.topic == TRANSACTION_STATE:
                self._unload(partition.partition, None)

    def _lead(self, number: int, epoch: LeaderEpoch) -> None:
        partition = self._hosted.begin_loading(number, epoch)
        if partition is None:
            return
        followed = self._followed.pop(number, None)
        if followed is not None:
            partition.stored = followed
        self._nursery.start_soon(self._load, partition, name=f"load of {TRANSACTION_STATE}-{number}")

    def _unload(self, number: int, epoch: LeaderEpoch | None) -> None:
        partition = self._hosted.unload(number, epoch)
        if partition is not None:
            self._coordinator.markers.unload(partition)
            partition.transactions = {}
            logger.info("unloaded the transactions of %s-%d", TRANSACTION_STATE, number)
        if epoch is None:
            self._followed.pop(number, None)
        elif partition is not None:
            self._followed[number] = partition.stored
        elif self._hosted.get(number) is None:
            self._followed.setdefault(number, None)

    # Leading

    async def _load(self, partition: HostedPartition) -> None:
        while self._hosted.is_current(partition):
            try:
                await self._load_once(partition)
                return
            except ApiError:
                return  # the leadership has gone on; whoever has it loads
            except (LogError, OSError, RemoteProtocolError) as failure:
                logger.error(
                    "cannot load the transactions of %s-%d: %s", TRANSACTION_STATE, partition.number, failure
                )
                partition.stored = StoredTransactions(Offset(0), is_exact=False)
                await trio.sleep(_RETRY_S)

    async def _load_once(self, partition: HostedPartition) -> None:
        async with self._loads:
            began = self._clock.monotonic()
            await self._read_to_end(partition)
            await self._wait_replicated(partition)
            if await self._host(partition):
                took = self._clock.monotonic() - began
                self.longest_load_s = max(self.longest_load_s, took)
                logger.info(
                    "loaded %d transactional ids of %s-%d in %.2f s",
                    len(partition.stored.values),
                    TRANSACTION_STATE,
                    partition.number,
                    took,
                )
                self._coordinator.loaded(partition)

    async def _read_to_end(self, partition: HostedPartition) -> None:
        at = TopicPartition(TRANSACTION_STATE, partition.number)
        log = self._replicas.leader_log(at)
        if partition.stored.knows_nothing or not partition.stored.is_good_for(log):
            partition.stored = await self._snapshots.begin(log)
        stored = partition.stored
        while self._hosted.is_current(partition):
            log = self._replicas.leader_log(at)
            if stored.next_offset >= log.log_end_offset:
                return
            end = log.log_end_offset
            if not await self._take_in(stored, log, end, lambda: self._hosted.is_current(partition), 0.0):
                raise LogError(f"nothing can be read at offset {stored.next_offset}")

    async def _wait_replicated(self, partition: HostedPartition) -> None:
        """Wait until every in-sync replica has what was read."""
        at = TopicPartition(TRANSACTION_STATE, partition.number)
        while self._hosted.is_current(partition):
            replica = self._replicas.partition_or_error(at)
            log = self._replicas.leader_log(at)
            if log.high_watermark >= partition.stored.next_offset:
                return
            wait = _Replication()
            replica.waiters.await_high_watermark(partition.stored.next_offset, wait)
            await wait.over.wait()

    async def _host(self, partition: HostedPartition) -> bool:
        """Take in what is open, and serve; False if the partition was unloaded meanwhile."""
        for count, (transactional_id, value) in enumerate(tuple(partition.stored.values.items()), 1):
            state = peek_state(value)
            if state is TransactionState.ONGOING or state.is_prepared:
                partition.find(transactional_id)
            if count % _SLICE == 0:
                await trio.lowlevel.checkpoint()
        if not self._hosted.is_current(partition):
            return False
        partition.is_loading = False
        return True

    # Following

    async def follow(self) -> None:
        """Keep up with the partitions that others lead, for ever. Cancelled, it leaves off where it is."""
        while True:
            await trio.sleep(FOLLOW_EVERY_S)
            for number in tuple(self._followed):
                try:
                    await self._follow(number)
                except (LogError, OSError, RemoteProtocolError) as failure:
                    logger.warning("cannot follow %s-%d: %s", TRANSACTION_STATE, number, failure)
                    if self._followed.get(number) is not None:
                        self._followed[number] = None
            await self.write_snapshots()

    async def _follow(self, number: int) -> None:
        partition = self._replicas.hosted.get(TopicPartition(TRANSACTION_STATE, number))
        log = None if partition is None else partition.log
        if log is None or number not in self._followed:
            return
        stored = self._followed[number]
        if stored is None or not stored.is_good_for(log):
            fresh = await self._snapshots.begin(log)
            if self._followed.get(number, fresh) is not stored:
                return
            stored = self._followed[number] = fresh

        def is_ours() -> bool:
            return self._followed.get(number) is stored

        while is_ours() and stored.next_offset < log.high_watermark:
            if not await self._take_in(stored, log, log.high_watermark, is_ours, FOLLOWER_REST_S):
                return

    # Snapshots

    async def write_snapshots(self, least: int = CHANGES_MIN, rest_s: float = FOLLOWER_REST_S) -> None:
        """Write a snapshot of every partition that has changed enough since its last one.

        Args:
            least: How many records count as enough.
            rest_s: What is left to others between pieces.
        """
        await self._snapshots.write_due(self._candidates(), least, rest_s)

    def _candidates(self) -> Iterator[Candidate[StoredTransactions]]:
        led = [(partition.number, partition.stored) for partition in self._hosted.owned()]
        followed = [(number, stored) for number, stored in self._followed.items() if stored is not None]
        for number, stored in (*led, *followed):
            partition = self._replicas.hosted.get(TopicPartition(TRANSACTION_STATE, number))
            if partition is not None and partition.log is not None:
                yield Candidate(partition.log, stored, partial(self._has, number, stored))

    def _has(self, number: int, stored: StoredTransactions) -> bool:
        partition = self._hosted.get(number)
        return (self._followed.get(number) if partition is None else partition.stored) is stored

    # Reading

    async def _take_in(
        self,
        stored: StoredTransactions,
        log: "Log",
        end: Offset,
        is_ours: Callable[[], bool],
        rest_s: float,
    ) -> bool:
        """Read once and take it in; False if that led no further."""
        size = self._coordinator.settings.load_buffer_size
        read = log.read(stored.next_offset, size, upper_bound=end, min_one_batch=True)
        file_range = read.file_range
        if file_range is None:
            # Compaction left nothing of the rest.
            stored.next_offset = end
            stored.epoch = log.leader_epochs.epoch_for_offset(Offset(end - 1))
            return True
        found: list[bytes] = []
        await self._offload(lambda: found.append(read_range(file_range)))
        before = stored.next_offset
        if not is_ours():
            return True
        records = 0
        for count in stored.apply(found[0]):
            records += count
            if records >= _SLICE:
                records = 0
                await trio.sleep(rest_s)
                if not is_ours():
                    return True
        await trio.lowlevel.checkpoint()
        return stored.next_offset > before


class _Replication:
    """Waits in a partition's queue of acknowledgements, as a produce does."""

    def __init__(self) -> None:
        self.over = trio.Event()

    @property
    def is_complete(self) -> bool:
        """Whether the wait is over."""
        return self.over.is_set()

    def settle(self, topic_partition: TopicPartition, error: Error) -> None:
        """The high watermark has come, or the leadership has gone: whoever waits looks again."""
        del topic_partition, error
        self.over.set()
