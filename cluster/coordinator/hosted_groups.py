"""The groups that this broker coordinates, by the partition of ``__consumer_offsets`` that they belong to.

A partition is absent (another broker's), loading, or owned. Each gaining or losing it carries a leader epoch; what
comes with an older one came late and is ignored.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from cluster.coordinator.committed_offsets import CommittedOffsets
from cluster.replication.timing_wheel import TimerEntry
from cluster.statemachines.group import Group
from wire.types import NO_LEADER_EPOCH, LeaderEpoch


class CallTimer(TimerEntry):
    """A timer that makes one call when its time comes."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], None]) -> None:
        super().__init__()
        self._call = call

    def expire(self) -> None:
        self._call()


@dataclass(slots=True, eq=False)
class HostedGroup:
    """A group with its offsets and the timers that watch it."""

    group: Group
    partition: int
    offsets: CommittedOffsets = field(default_factory=CommittedOffsets)
    members: dict[str, CallTimer] = field(default_factory=dict)
    joins: CallTimer | None = None
    syncs: CallTimer | None = None

    def timers(self) -> Iterator[TimerEntry]:
        """Give all timers, for cancelling them."""
        yield from self.members.values()
        if self.joins is not None:
            yield self.joins
        if self.syncs is not None:
            yield self.syncs


@dataclass(slots=True, eq=False)
class GroupsPartition:
    """One partition of ``__consumer_offsets`` that we lead; ``is_loading`` until its log has been read."""

    partition: int
    epoch: LeaderEpoch
    is_loading: bool = True
    groups: dict[str, HostedGroup] = field(default_factory=dict)


class HostedGroups:
    """Which partitions are ours, and the groups in them."""

    def __init__(self) -> None:
        self._partitions: dict[int, GroupsPartition] = {}
        self._latest: dict[int, LeaderEpoch] = {}

    def begin_loading(
        self, partition: int, epoch: LeaderEpoch
    ) -> tuple[GroupsPartition | None, GroupsPartition | None]:
        """Note that we lead a partition.

        Returns:
            The partition to load, None where the news is old; and what was hosted of it before, which ends.
        """
        if epoch <= self._latest.get(partition, NO_LEADER_EPOCH):
            return None, None
        self._latest[partition] = epoch
        before = self._partitions.get(partition)
        loading = self._partitions[partition] = GroupsPartition(partition, epoch)
        return loading, before

    def unload(self, partition: int, epoch: LeaderEpoch | None) -> GroupsPartition | None:
        """Note that we do not lead a partition any more; with None in any case, as it was deleted.

        Returns:
            What was hosted of it, None where nothing was or the news is old.
        """
        if epoch is not None:
            if epoch < self._latest.get(partition, NO_LEADER_EPOCH):
                return None
            self._latest[partition] = epoch
        return self._partitions.pop(partition, None)

    def is_current(self, loading: GroupsPartition) -> bool:
        """Whether a partition is still hosted under the leadership that it is being loaded for."""
        return self._partitions.get(loading.partition) is loading

    def get(self, partition: int) -> GroupsPartition | None:
        """Give a partition that is loading or owned."""
        return self._partitions.get(partition)

    def __iter__(self) -> Iterator[GroupsPartition]:
        return iter(tuple(self._partitions.values()))

    def owned(self) -> Iterable[GroupsPartition]:
        """Give the partitions whose groups are known."""
        return [hosted for hosted in self._partitions.values() if not hosted.is_loading]

    def groups(self) -> Iterator[HostedGroup]:
        """Give all known groups."""
        for hosted in self.owned():
            yield from hosted.groups.values()
