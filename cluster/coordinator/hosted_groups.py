"""The groups that this broker coordinates, by the partition of ``__consumer_offsets`` that they belong to."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from cluster.coordinator.committed_offsets import CommittedOffsets
from cluster.coordinator.led_partitions import LedPartitions
from cluster.coordinator.stored_partition import StoredGroup, StoredPartition
from cluster.statemachines.group import Group
from timing.timing_wheel import CallTimer, TimerEntry
from wire.errors import Error
from wire.types import LeaderEpoch, Offset


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
    """The groups in the partitions that are ours.

    Args:
        partition_count: Returns how many partitions ``__consumer_offsets`` has.
        leads: Whether this broker leads a partition of it at this moment.

    Attributes:
        led: The partitions.
    """

    def __init__(self, partition_count: Callable[[], int], leads: Callable[[int], bool]) -> None:
        self.led = LedPartitions(HostedPartition, partition_count, leads, led_on=_take_epoch)

    def status(self, group_id: str, *, empty_allowed: bool = False) -> Error:
        """Return NONE if this broker coordinates the group and knows it, else the client's error.

        Args:
            group_id: The group.
            empty_allowed: Whether the empty id will do: offsets may be kept under it, members not.
        """
        if not group_id and not empty_allowed:
            return Error.INVALID_GROUP_ID
        owner = self.led.owner_of(group_id)
        return owner if isinstance(owner, Error) else Error.NONE

    def find(self, group_id: str) -> HostedGroup | None:
        """Return a known group; call it only where ``status`` is NONE."""
        partition = self.led.get(self.led.number_of(group_id))
        return None if partition is None else partition.groups.get(group_id)

    def find_or_make(self, group_id: str) -> HostedGroup:
        """Return a group, a new one if there is none; call it only where ``status`` is NONE."""
        partition = self.led.get(self.led.number_of(group_id))
        assert partition is not None
        found = partition.groups.get(group_id)
        return partition.host(Group(group_id)) if found is None else found

    def groups(self) -> Iterator[HostedGroup]:
        """Return all known groups."""
        for hosted in self.led.owned():
            yield from hosted.groups.values()


def _take_epoch(partition: HostedPartition, epoch: LeaderEpoch) -> None:
    """Write under the new epoch to a log that nobody else has changed since the last one."""
    partition.epoch = epoch
