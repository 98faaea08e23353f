"""Taking over partitions of a coordinator's topic, unloading them, and following those that others lead.

The state read from a partition's log is kept through these roles: a follower reads what it replicates up to the high
watermark every few seconds; on becoming the leader it reads the rest, **to the log's end**: a new leader's high
watermark lags, and stopping there would lose acknowledged state. On becoming a follower it keeps its state. Everything
is read in slices, so that the loop does not stall. Leaders and followers write a snapshot now and then, so that a
restarted broker need not read the log from its start.

A load that fails (the disk, a log that cannot be read) is retried until another broker leads; meanwhile clients get
COORDINATOR_LOAD_IN_PROGRESS. A partly read partition is never served: commits would be set back, and transactional ids
forgotten.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

import trio

from cluster.coordinator.led_partitions import LedPartition, LedPartitions
from cluster.coordinator.snapshots import (
    CHANGES_MIN,
    FOLLOWER_REST_S,
    Candidate,
    SnapshotKind,
    Snapshots,
    Stored,
)
from storage.errors import LogError
from storage.log_read import read_range
from wire.errors import ApiError, RemoteProtocolError
from wire.types import LeaderEpoch, Offset, TopicPartition

if TYPE_CHECKING:
    from cluster.replication.replicas import Replicas
    from storage.log import Log
    from timing.clock import Clock

logger = logging.getLogger(__name__)

FOLLOW_EVERY_S: Final = 5.0
"""How often a follower reads what it has replicated, and how often due snapshots are written."""
SLICE: Final = 500
"""Records or ids processed between two turns of the loop."""
_LOADS_AT_ONCE: Final = 4
_RETRY_S: Final = 5.0
"""The pause before a failed load is retried."""

Changed = Sequence[tuple[TopicPartition, LeaderEpoch]]
S = TypeVar("S", bound=Stored)


P = TypeVar("P", bound=LedPartition)
P_contra = TypeVar("P_contra", bound=LedPartition, contravariant=True)


class Takeover(Protocol[P_contra]):
    """What a coordinator does with a partition that it takes over or loses."""

    async def serve(self, partition: P_contra) -> bool:
        """Serve a partition whose log has been read to its end; return False if it was unloaded meanwhile.

        Returns:
            Whether `is_loading` is over.

        Raises:
            ApiError: the leadership has moved.
            LogError, OSError, RemoteProtocolError: the stored state cannot be served; it is read again.
        """
        ...

    def unloaded(self, partition: P_contra) -> None:
        """End the work that waits for a partition that we no longer lead."""
        ...


class PartitionLoader(Generic[P, S]):
    """Keeps the coordinator's partitions loaded while this broker leads them, and followed while others do.

    Args:
        topic: The coordinator's topic.
        replicas: The broker's partitions.
        led: The coordinator's partitions.
        takeover: What the coordinator does with them.
        kind: How their snapshots are written.
        clock: Times loads.
        nursery: Where loads run.
        buffer_size: ``offsets.load.buffer.size`` or its like: bytes read at a time.
        offload: Runs reads of files outside the loop.
    """

    def __init__(
        self,
        topic: str,
        replicas: "Replicas",
        led: LedPartitions[P],
        takeover: Takeover[P],
        kind: SnapshotKind[S],
        clock: "Clock",
        nursery: trio.Nursery,
        buffer_size: int,
        offload: Callable[[Callable[[], object]], Awaitable[object]] = trio.to_thread.run_sync,
    ) -> None:
        self._topic = topic
        self._replicas = replicas
        self._led = led
        self._takeover = takeover
        self._clock = clock
        self._nursery = nursery
        self._buffer_size = buffer_size
        self._offload = offload
        self._snapshots = Snapshots(kind, clock, offload)
        self._loads = trio.CapacityLimiter(_LOADS_AT_ONCE)
        self._followed: dict[int, S | None] = {}
        self.longest_load_s = 0.0

    # Called by the replicas

    def leadership_changed(self, leading: Changed, following: Changed) -> None:
        """Load the partitions that this broker begins to lead, and unload those that it begins to follow."""
        for partition, epoch in following:
            if partition.topic == self._topic:
                self._unload(partition.partition, epoch)
        for partition, epoch in leading:
            if partition.topic == self._topic:
                self._lead(partition.partition, epoch)

    def stopped(self, partitions: Sequence[tuple[TopicPartition, LeaderEpoch | None]]) -> None:
        """Unload partitions whose replica here was deleted."""
        for partition, _ in partitions:
            if partition.topic == self._topic:
                self._unload(partition.partition, None)

    def _lead(self, number: int, epoch: LeaderEpoch) -> None:
        partition = self._led.begin_loading(number, epoch)
        if partition is None:
            return
        followed = self._followed.pop(number, None)
        if followed is not None:
            partition.stored = followed
        self._nursery.start_soon(self._load, partition, name=f"load of {self._topic}-{number}")

    def _unload(self, number: int, epoch: LeaderEpoch | None) -> None:
        partition = self._led.unload(number, epoch)
        if partition is not None:
            self._takeover.unloaded(partition)
            logger.info("unloaded %s-%d", self._topic, number)
        if epoch is None:
            self._followed.pop(number, None)
        elif partition is not None:
            self._followed[number] = partition.stored
        elif self._led.get(number) is None:
            self._followed.setdefault(number, None)

    # Leading

    async def _load(self, partition: P) -> None:
        is_retry = False
        while self._led.is_current(partition):
            try:
                async with self._loads:
                    await self._load_once(partition, anew=is_retry)
                return
            except ApiError:
                return  # the leadership has moved; its new owner loads
            except (LogError, OSError, RemoteProtocolError) as failure:
                logger.error("cannot load %s-%d: %s", self._topic, partition.number, failure)
                is_retry = True
                await trio.sleep(_RETRY_S)

    async def _load_once(self, partition: P, *, anew: bool) -> None:
        began = self._clock.monotonic()
        await self._read_to_end(partition, anew=anew)
        if await self._takeover.serve(partition):
            took = self._clock.monotonic() - began
            self.longest_load_s = max(self.longest_load_s, took)
            logger.info("loaded %s-%d in %.2f s", self._topic, partition.number, took)

    async def _read_to_end(self, partition: P, *, anew: bool) -> None:
        at = TopicPartition(self._topic, partition.number)
        log = self._replicas.leader_log(at)
        if anew or partition.stored.knows_nothing or not partition.stored.is_good_for(log):
            partition.stored = await self._snapshots.begin(log)
        stored: S = partition.stored
        while self._led.is_current(partition):
            log = self._replicas.leader_log(at)
            if stored.next_offset >= log.log_end_offset:
                return
            end = log.log_end_offset
            if not await self._take_in(stored, log, end, lambda: self._led.is_current(partition), 0.0):
                raise LogError(f"nothing can be read at offset {stored.next_offset}")

    # Following

    async def follow(self) -> None:
        """Keep up with the partitions that others lead, and write due snapshots, until cancelled."""
        while True:
            await trio.sleep(FOLLOW_EVERY_S)
            for number in tuple(self._followed):
                try:
                    await self._follow(number)
                except (LogError, OSError, RemoteProtocolError) as failure:
                    logger.warning("cannot follow %s-%d: %s", self._topic, number, failure)
                    if self._followed.get(number) is not None:
                        self._followed[number] = None
            await self.write_snapshots()

    async def _follow(self, number: int) -> None:
        partition = self._replicas.hosted.get(TopicPartition(self._topic, number))
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
            rest_s: The pause for other tasks between pieces, in seconds.
        """
        await self._snapshots.write_due(self._candidates(), least, rest_s)

    def _candidates(self) -> Iterator[Candidate[S]]:
        led = [(partition.number, partition.stored) for partition in self._led.owned()]
        followed = [(number, stored) for number, stored in self._followed.items() if stored is not None]
        for number, stored in (*led, *followed):
            partition = self._replicas.hosted.get(TopicPartition(self._topic, number))
            if partition is not None and partition.log is not None:
                yield Candidate(partition.log, stored, partial(self._has, number, stored))

    def _has(self, number: int, stored: S) -> bool:
        partition = self._led.get(number)
        return (self._followed.get(number) if partition is None else partition.stored) is stored

    # Reading

    async def _take_in(
        self,
        stored: S,
        log: "Log",
        end: Offset,
        is_ours: Callable[[], bool],
        rest_s: float,
    ) -> bool:
        """Read once and apply it; return False if that made no progress."""
        read = log.read(stored.next_offset, self._buffer_size, upper_bound=end, min_one_batch=True)
        file_range = read.file_range
        if file_range is None:
            # Compaction removed all of the rest.
            stored.read_to(end, log.leader_epochs.epoch_for_offset(Offset(end - 1)))
            return True
        found: list[bytes] = []
        await self._offload(lambda: found.append(read_range(file_range)))
        before = stored.next_offset
        if not is_ours():
            return True
        records = 0
        for count in stored.apply(found[0]):
            records += count
            if records >= SLICE:
                records = 0
                await trio.sleep(rest_s)
                if not is_ours():
                    return True
        await trio.lowlevel.checkpoint()
        return stored.next_offset > before
