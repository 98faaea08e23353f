"""Starts to serve the groups of a loaded partition of ``__consumer_offsets``, and ends those of a lost one."""

import logging

import trio

from cluster.coordinator.group_coordinator import GroupCoordinator
from cluster.coordinator.group_records import group_in
from cluster.coordinator.hosted_groups import HostedPartition
from cluster.coordinator.partition_loader import SLICE
from cluster.statemachines.group import Group, GroupState
from wire.errors import Error, RemoteProtocolError

logger = logging.getLogger(__name__)


class GroupTakeover:
    """What the group coordinator does with a partition that it takes over or loses.

    Args:
        coordinator: Where groups are hosted.
    """

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator
        self._led = coordinator.hosted.led

    async def serve(self, partition: HostedPartition) -> bool:
        """Host the stored groups; return False if the partition was unloaded meanwhile."""
        if not await self._host_groups(partition):
            return False
        partition.is_loading = False
        await self._watch_members(partition)
        return True

    def unloaded(self, partition: HostedPartition) -> None:
        """Answer every request that waits in a group of a partition that we no longer lead."""
        for hosted in partition.groups.values():
            self._coordinator.end(hosted, Error.NOT_COORDINATOR)
        partition.groups = {}

    async def _host_groups(self, partition: HostedPartition) -> bool:
        """Rebuild the stored groups; return False if the partition was unloaded meanwhile."""
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
            if count % SLICE == 0:
                await trio.lowlevel.checkpoint()
                if not self._led.is_current(partition):
                    return False
        return self._led.is_current(partition)

    async def _watch_members(self, partition: HostedPartition) -> None:
        """Start a full session timeout for every member, because their heartbeats went elsewhere until now."""
        coordinator = self._coordinator
        count = 0
        for hosted in tuple(partition.groups.values()):
            group = hosted.group
            if not self._led.is_current(partition):
                return
            if group.state is GroupState.STABLE and len(group.members) > coordinator.settings.max_size:
                coordinator.rebalance_oversized(hosted)
            for member_id, member in tuple(group.members.items()):
                if member_id not in hosted.members and group.state is not GroupState.DEAD:
                    coordinator.watch(hosted, member_id, member.session_timeout_ms)
                    count += 1
            if count >= SLICE:
                count = 0
                await trio.lowlevel.checkpoint()
