"""Taking over partitions of ``__consumer_offsets``, giving them up, and following those that others lead.

What the log says of a partition (`stored_partition`) goes with it through these roles: a follower reads what it
replicates up to the high watermark every few seconds; on becoming the leader it reads the rest, **to the log's end**:
a new leader's high watermark lags, and stopping there would lose acknowledged commits. On becoming a follower it keeps
what it has. Everything is read in slices, so that the loop is not stalled. What a restarted broker would have to read
from the beginning is in a snapshot, which leaders and followers write now and then.

A load that fails (the disk, a log that cannot be read) is tried again until another broker leads; meanwhile clients
get COORDINATOR_LOAD_IN_PROGRESS. Serving what was read so far would hand out positions that the groups have long
passed.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from cluster.coordinator.group_coordinator import GroupCoordinator
from cluster.coordinator.group_pieces import GROUPS
from cluster.coordinator.group_records import group_in
from cluster.coordinator.hosted_groups import HostedPartition
from cluster.coordinator.snapshots import CHANGES_MIN, FOLLOWER_REST_S, Candidate, Snapshots
from cluster.coordinator.stored_partition import StoredPartition
from cluster.statemachines.group import Group, GroupState
from storage.errors import LogError
from storage.log_read import read_range
from wire.errors import ApiError, Error, RemoteProtocolError
from wire.internal_topics import CONSUMER_OFFSETS
from wire.types import LeaderEpoch, Offset, TopicPartition

if TYPE_CHECKING:
    from cluster.replication.replicas import Replicas
    from storage.log import Log

logger = logging.getLogger(__name__)

FOLLOW_EVERY_S: Final = 5.0
"""How often a follower reads what it has replicated, and how often snapshots are thought of."""
_SLICE: Final = 500
"""Records taken in between two turns of the loop."""
_LOADS_AT_ONCE: Final = 4
_RETRY_S: Final = 5.0
"""How long after a load that failed it is tried again."""

Changed = Sequence[tuple[TopicPartition, LeaderEpoch]]


class GroupLoader:
    """Has the groups of the partitions that this broker leads, and no others.

    Args:
        replicas: The broker's partitions.
        coordinator: Where groups are hosted.
        nursery: Where loads run.
        buffer_size: ``offsets.load.buffer.size``: bytes read at a time.
        offload: Runs reads of files beside the loop.
    """

    def __init__(
        self,
        replicas: "Replicas",
        coordinator: GroupCoordinator,
        nursery: trio.Nursery,
        buffer_size: int,
        offload: Callable[[Callable[[], object]], Awaitable[object]] = trio.to_thread.run_sync,
    ) -> None:
        self._replicas = replicas
        self._coordinator = coordinator
        self._hosted = coordinator.hosted
        self._nursery = nursery
        self._buffer_size = buffer_size
        self._offload = offload
        self._snapshots = Snapshots(GROUPS, coordinator.clock, offload)
        self._loads = trio.CapacityLimiter(_LOADS_AT_ONCE)
        self._followed: dict[int, StoredPartition | None] = {}

    # Told by the replicas

    def leadership_changed(self, leading: Changed, following: Changed) -> None:
        """Take note of the partitions that this broker begins to lead, and to follow."""
        for partition, epoch in following:
            if partition.topic == CONSUMER_OFFSETS:
                self._unload(partition.partition, epoch)
        for partition, epoch in leading:
            if partition.topic == CONSUMER_OFFSETS:
                self._lead(partition.partition, epoch)

    def stopped(self, partitions: Sequence[tuple[TopicPartition, LeaderEpoch | None]]) -> None:
        """Take note of partitions whose replica here was deleted."""
        for partition, _ in partitions:
            if partition.topic == CONSUMER_OFFSETS:
                self._unload(partition.partition, None)

    def _lead(self, number: int, epoch: LeaderEpoch) -> None:
        partition = self._hosted.begin_loading(number, epoch)
        if partition is None:
            return
        followed = self._followed.pop(number, None)
        if followed is not None:
            partition.stored = followed
        self._nursery.start_soon(self._load, partition, name=f"load of {CONSUMER_OFFSETS}-{number}")

    def _unload(self, number: int, epoch: LeaderEpoch | None) -> None:
        partition = self._hosted.unload(number, epoch)
        if partition is not None:
            for hosted in partition.groups.values():
                self._coordinator.end(hosted, Error.NOT_COORDINATOR)
            partition.groups = {}
            logger.info("unloaded the groups of %s-%d", CONSUMER_OFFSETS, number)
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
                return  # the leadership has moved; its new owner loads
            except (LogError, OSError) as failure:
                logger.error(
                    "the groups of %s-%d cannot be loaded: %s", CONSUMER_OFFSETS, partition.number, failure
                )
                await trio.sleep(_RETRY_S)

    async def _load_once(self, partition: HostedPartition) -> None:
        async with self._loads:
            began = self._coordinator.clock.monotonic()
            await self._read_to_end(partition)
            if await self._host_groups(partition):
                await self._watch_members(partition)
                took = self._coordinator.clock.monotonic() - began
                logger.info(
                    "%d groups of %s-%d are loaded after %.2f s",
                    len(partition.groups),
                    CONSUMER_OFFSETS,
                    partition.number,
                    took,
                )

    async def _read_to_end(self, partition: HostedPartition) -> None:
        at = TopicPartition(CONSUMER_OFFSETS, partition.number)
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

    async def _host_groups(self, partition: HostedPartition) -> bool:
        """Make groups of what is stored; False if the partition was unloaded meanwhile."""
        stored = partition.stored
        for count, (group_id, kept) in enumerate(tuple(stored.groups.items()), 1):
            if kept.is_empty:
                del stored.groups[group_id]
                continue
            group = Group(group_id)
            if kept.value is not None:
                try:
                    group = group_in(group_id, kept.value)
                except RemoteProtocolError as error:
                    logger.error("the record of group %s cannot be read: %s", group_id, error)
            partition.host(group)
            if count % _SLICE == 0:
                await trio.lowlevel.checkpoint()
                if not self._hosted.is_current(partition):
                    return False
        if not self._hosted.is_current(partition):
            return False
        partition.is_loading = False
        return True

    async def _watch_members(self, partition: HostedPartition) -> None:
        """Return every member a full session, as their heartbeats went elsewhere until now."""
        coordinator = self._coordinator
        count = 0
        for hosted in tuple(partition.groups.values()):
            group = hosted.group
            if not self._hosted.is_current(partition):
                return
            if group.state is GroupState.STABLE and len(group.members) > coordinator.settings.max_size:
                coordinator.rebalance_oversized(hosted)
            for member_id, member in tuple(group.members.items()):
                if member_id not in hosted.members and group.state is not GroupState.DEAD:
                    coordinator.watch(hosted, member_id, member.session_timeout_ms)
                    count += 1
            if count >= _SLICE:
                count = 0
                await trio.lowlevel.checkpoint()

    # Following

    async def follow(self) -> None:
        """Keep up with the partitions that others lead, for ever. Cancelled, it leaves off where it is."""
        while True:
            await trio.sleep(FOLLOW_EVERY_S)
            for number in tuple(self._followed):
                try:
                    await self._follow(number)
                except (LogError, OSError) as failure:
                    logger.warning("%s-%d cannot be followed: %s", CONSUMER_OFFSETS, number, failure)
            await self.write_snapshots()

    async def _follow(self, number: int) -> None:
        partition = self._replicas.hosted.get(TopicPartition(CONSUMER_OFFSETS, number))
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

    def _candidates(self) -> Iterator[Candidate[StoredPartition]]:
        led = [(partition.number, partition.stored) for partition in self._hosted.owned()]
        followed = [(number, stored) for number, stored in self._followed.items() if stored is not None]
        for number, stored in (*led, *followed):
            partition = self._replicas.hosted.get(TopicPartition(CONSUMER_OFFSETS, number))
            if partition is not None and partition.log is not None:
                yield Candidate(partition.log, stored, partial(self._has, number, stored))

    def _has(self, number: int, stored: StoredPartition) -> bool:
        partition = self._hosted.get(number)
        return (self._followed.get(number) if partition is None else partition.stored) is stored

    # Reading

    async def _take_in(
        self,
        stored: StoredPartition,
        log: "Log",
        end: Offset,
        is_ours: Callable[[], bool],
        rest_s: float,
    ) -> bool:
        """Read once and take it in; False if that led no further."""
        read = log.read(stored.next_offset, self._buffer_size, upper_bound=end, min_one_batch=True)
        file_range = read.file_range
        if file_range is None:
            # Compaction left nothing of the rest.
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
            if records >= _SLICE:
                records = 0
                await trio.sleep(rest_s)
                if not is_ours():
                    return True
        await trio.lowlevel.checkpoint()
        return stored.next_offset > before
