"""The groups that this broker coordinates, by the partition of ``__consumer_offsets`` that they belong to.

A partition is absent (another broker's), loading, or owned. Each gaining or losing it carries a leader epoch; what
comes with an older one came late and is ignored.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from cluster.coordinator.committed_offsets import CommittedOffsets
from cluster.coordinator.java_hash import partition_for
from cluster.coordinator.stored_partition import StoredGroup, StoredPartition
from cluster.statemachines.group import Group
from timing.timing_wheel import TimerEntry
from wire.errors import Error
from wire.types import NO_LEADER_EPOCH, LeaderEpoch, Offset


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
    """A group with what is stored of it and the timers that watch it."""

    group: Group
    partition: "HostedPartition"
    stored: StoredGroup
    members: dict[str, CallTimer] = field(default_factory=dict)
    joins: CallTimer | None = None
    syncs: CallTimer | None = None

    @property
    def offsets(self) -> CommittedOffsets:
        """Its committed offsets."""
        return self.stored.offsets

    def timers(self) -> Iterator[TimerEntry]:
        """Return all timers, for cancelling them."""
        yield from self.members.values()
        if self.joins is not None:
            yield self.joins
        if self.syncs is not None:
            yield self.syncs


@dataclass(slots=True, eq=False)
class HostedPartition:
    """One partition of ``__consumer_offsets`` that we lead; ``is_loading`` until its log has been read.

    Attributes:
        number: Which partition.
        epoch: The epoch of our leadership.
        stored: What its log says, as far as we know.
        groups: The groups, by id.
    """

    number: int
    epoch: LeaderEpoch
    stored: StoredPartition = field(default_factory=lambda: StoredPartition(Offset(0)))
    is_loading: bool = True
    groups: dict[str, HostedGroup] = field(default_factory=dict)

    def host(self, group: Group) -> HostedGroup:
        """Take a group in, with what is stored of it."""
        hosted = self.groups[group.group_id] = HostedGroup(group, self, self.stored.group(group.group_id))
        return hosted

    def drop(self, hosted: HostedGroup) -> None:
        """Let go of a group, and of what was stored of it."""
        group_id = hosted.group.group_id
        if self.groups.get(group_id) is hosted:
            del self.groups[group_id]
            self.stored.groups.pop(group_id, None)


class HostedGroups:
    """Which partitions are ours, and the groups in them.

    Args:
        partition_count: How many partitions ``__consumer_offsets`` has.
        leads: Whether this broker leads a partition of it at this moment. A role changes, or a disk fails, before
            we are told; answers must not be given from a state that others may be changing.
    """

    def __init__(self, partition_count: Callable[[], int], leads: Callable[[int], bool]) -> None:
        self._partition_count = partition_count
        self._leads = leads
        self._partitions: dict[int, HostedPartition] = {}
        self._latest: dict[int, LeaderEpoch] = {}

    # Groups

    def status(self, group_id: str, *, empty_allowed: bool = False) -> Error:
        """Return NONE if this broker coordinates the group and knows it, else the client's error.

        Args:
            group_id: The group.
            empty_allowed: Whether the empty id will do: offsets may be kept under it, members not.
        """
        if not group_id and not empty_allowed:
            return Error.INVALID_GROUP_ID
        number = self.partition_of(group_id)
        partition = self._partitions.get(number)
        if partition is None or not self._leads(number):
            return Error.NOT_COORDINATOR
        return Error.COORDINATOR_LOAD_IN_PROGRESS if partition.is_loading else Error.NONE

    def partition_of(self, group_id: str) -> int:
        """Return the partition of ``__consumer_offsets`` that a group belongs to."""
        return partition_for(group_id, self._partition_count())

    def find(self, group_id: str) -> HostedGroup | None:
        """Return a known group; call it only where ``status`` is NONE."""
        partition = self._partitions.get(self.partition_of(group_id))
        return None if partition is None else partition.groups.get(group_id)

    def find_or_make(self, group_id: str) -> HostedGroup:
        """Return a group, a new one if there is none; call it only where ``status`` is NONE."""
        partition = self._partitions[self.partition_of(group_id)]
        found = partition.groups.get(group_id)
        return partition.host(Group(group_id)) if found is None else found

    def groups(self) -> Iterator[HostedGroup]:
        """Return all known groups."""
        for hosted in self.owned():
            yield from hosted.groups.values()

    # Partitions

    def begin_loading(self, number: int, epoch: LeaderEpoch) -> HostedPartition | None:
        """Note that we lead a partition.

        Returns:
            The partition, which is to be loaded; None where the news is old, or we led it before: then only the
            epoch is new, for a leader's log was not changed by anybody else.
        """
        if epoch <= self._latest.get(number, NO_LEADER_EPOCH):
            return None
        self._latest[number] = epoch
        before = self._partitions.get(number)
        if before is not None:
            before.epoch = epoch
            return None
        loading = self._partitions[number] = HostedPartition(number, epoch)
        return loading

    def unload(self, number: int, epoch: LeaderEpoch | None) -> HostedPartition | None:
        """Note that we do not lead a partition any more; with None in any case, as it was deleted.

        Returns:
            What was hosted of it, None where nothing was or the news is old.
        """
        if epoch is None:
            # A topic made again under the name begins with the first epoch.
            self._latest.pop(number, None)
        elif epoch < self._latest.get(number, NO_LEADER_EPOCH):
            return None
        else:
            self._latest[number] = epoch
        return self._partitions.pop(number, None)

    def is_current(self, partition: HostedPartition) -> bool:
        """Whether a partition is still hosted under the leadership that it was begun for."""
        return self._partitions.get(partition.number) is partition

    def get(self, number: int) -> HostedPartition | None:
        """Return a partition that is loading or owned."""
        return self._partitions.get(number)

    def __iter__(self) -> Iterator[HostedPartition]:
        return iter(tuple(self._partitions.values()))

    def owned(self) -> Iterable[HostedPartition]:
        """Return the partitions whose groups are known."""
        return [hosted for hosted in self._partitions.values() if not hosted.is_loading]
