"""The partitions of a coordinator's topic that this broker leads, and since which leader epoch.

A partition is absent (another broker's), loading, or owned. Each gain or loss carries a leader epoch; one with an older
epoch came late and is ignored. Waiting work is tied to the partition's object, not to an epoch number: a partition that
was lost and gained again is another object, whose load starts that work again (KAFKA-15468, KAFKA-16352).
"""

from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from cluster.coordinator.java_hash import partition_for
from wire.errors import Error
from wire.types import NO_LEADER_EPOCH, LeaderEpoch


class LedPartition(Protocol):
    """The attributes that the partitions of both coordinators have.

    Attributes:
        stored: The state that its log holds, as far as it has been read: a `Stored` of the coordinator's own kind.
        is_loading: Whether its log is still being read.
    """

    stored: Any
    is_loading: bool

    @property
    def number(self) -> int:
        """Which partition."""
        ...


P = TypeVar("P", bound=LedPartition)


class LedPartitions(Generic[P]):
    """The partitions of one coordinator's topic.

    Args:
        make: Makes a partition that is loading, by its number and the epoch of our leadership.
        partition_count: Returns how many partitions the topic has.
        leads: Whether this broker leads a partition at this moment. Roles change and disks fail before that is noted
            here; answers must not come from a state that another broker may be changing.
        led_on: Called with a partition that we keep leading in a new epoch.
    """

    def __init__(
        self,
        make: Callable[[int, LeaderEpoch], P],
        partition_count: Callable[[], int],
        leads: Callable[[int], bool],
        led_on: Callable[[P, LeaderEpoch], None] | None = None,
    ) -> None:
        self._make = make
        self._partition_count = partition_count
        self._leads = leads
        self._led_on = led_on
        self._partitions: dict[int, P] = {}
        self._latest: dict[int, LeaderEpoch] = {}

    def number_of(self, key: str) -> int:
        """Return the number of the partition that a group's or a transactional id belongs to."""
        return partition_for(key, self._partition_count())

    def owner_of(self, key: str) -> P | Error:
        """Return the partition that an id belongs to if its state is known here, else the client's error."""
        number = self.number_of(key)
        partition = self._partitions.get(number)
        if partition is None or not self._leads(number):
            return Error.NOT_COORDINATOR
        return Error.COORDINATOR_LOAD_IN_PROGRESS if partition.is_loading else partition

    def begin_loading(self, number: int, epoch: LeaderEpoch) -> P | None:
        """Note that we lead a partition.

        Returns:
            The partition, which must now be loaded; None if the epoch is old, or if we led it already: then nobody else
            has written to it.
        """
        if epoch <= self._latest.get(number, NO_LEADER_EPOCH):
            return None
        self._latest[number] = epoch
        before = self._partitions.get(number)
        if before is not None:
            if self._led_on is not None:
                self._led_on(before, epoch)
            return None
        loading = self._partitions[number] = self._make(number, epoch)
        return loading

    def unload(self, number: int, epoch: LeaderEpoch | None) -> P | None:
        """Note that we no longer lead a partition; an epoch of None, for a deleted one, is never too old.

        Returns:
            The partition that was hosted; None if there was none, or if the epoch is old.
        """
        if epoch is None:
            # A topic created again under this name begins with the first epoch.
            self._latest.pop(number, None)
        elif epoch < self._latest.get(number, NO_LEADER_EPOCH):
            return None
        else:
            self._latest[number] = epoch
        return self._partitions.pop(number, None)

    def is_current(self, partition: P) -> bool:
        """Whether a partition is still hosted under the leadership that it was made for."""
        return self._partitions.get(partition.number) is partition

    def get(self, number: int) -> P | None:
        """Return a partition that is loading or owned."""
        return self._partitions.get(number)

    def __iter__(self) -> Iterator[P]:
        return iter(tuple(self._partitions.values()))

    def owned(self) -> list[P]:
        """Return the partitions whose state is known."""
        return [each for each in self._partitions.values() if not each.is_loading]
