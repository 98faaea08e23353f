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
    """A group, its stored state, and the timers that watch it."""

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
        """Return all timers, to cancel them."""
        yield from self.members.values()
        if self.joins is not None:
            yield self.joins
        if self.syncs is not None:
            yield self.syncs


@dataclass(slots=True, eq=False)
class HostedPartition:
    """One partition of ``__consumer_offsets`` that we lead; ``is_loading`` until its log has been read.

    Attributes:
        number: The partition's number.
        epoch: The epoch of our leadership.
        stored: The state that its log holds, as far as it has been read.
        groups: The groups, by id.
    """

    number: int
    epoch: LeaderEpoch
    stored: StoredPartition = field(default_factory=lambda: StoredPartition(Offset(0)))
    is_loading: bool = True
    groups: dict[str, HostedGroup] = field(default_factory=dict)

    def host(self, group: Group) -> HostedGroup:
        """Add a group, with its stored state."""
        hosted = self.groups[group.group_id] = HostedGroup(group, self, self.stored.group(group.group_id))
        return hosted

    def drop(self, hosted: HostedGroup) -> None:
        """Remove a group and its stored state."""
        group_id = hosted.group.group_id
        if self.groups.get(group_id) is hosted:
            del self.groups[group_id]
            self.stored.groups.pop(group_id, None)


class HostedGroups:
    """The groups in the partitions that this broker leads.

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
            empty_allowed: Whether the empty id is valid: it can have offsets, but no members.
        """
        if not group_id and not empty_allowed:
            return Error.INVALID_GROUP_ID
        owner = self.led.owner_of(group_id)
        return owner if isinstance(owner, Error) else Error.NONE

    def find(self, group_id: str) -> HostedGroup | None:
        """Return a known group; call it only if ``status`` is NONE."""
        partition = self.led.get(self.led.number_of(group_id))
        return None if partition is None else partition.groups.get(group_id)

    def find_or_make(self, group_id: str) -> HostedGroup:
        """Return a group, a new one if there is none; call it only if ``status`` is NONE."""
        partition = self.led.get(self.led.number_of(group_id))
        assert partition is not None
        found = partition.groups.get(group_id)
        return partition.host(Group(group_id)) if found is None else found

    def groups(self) -> Iterator[HostedGroup]:
        """Return all known groups."""
        for hosted in self.led.owned():
            yield from hosted.groups.values()


def _take_epoch(partition: HostedPartition, epoch: LeaderEpoch) -> None:
    """Adopt a new epoch; the stored state stays valid, because nobody else has written to the log meanwhile."""
    partition.epoch = epoch
