"""The partitions of a coordinator's topic that this broker leads, and since which leader epoch.

A partition is absent (another broker's), loading, or owned. Each gaining or losing it carries a leader epoch; what
comes with an older one came late and is ignored. Work that waits is tied to the partition's object, not to an epoch
number: a partition that was lost and gained again is another object, whose load begins that work anew (KAFKA-15468,
KAFKA-16352).
"""

from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from cluster.coordinator.java_hash import partition_for
from wire.errors import Error
from wire.types import NO_LEADER_EPOCH, LeaderEpoch


class LedPartition(Protocol):
    """What every coordinator's partition has.

    Attributes:
        stored: What its log says, as far as it has been read: a `Stored` of the coordinator's own kind.
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
        leads: Whether this broker leads a partition at this moment. A role changes, or a disk fails, before it is
            noted here; answers must not come from a state that others may be changing.
        led_on: Called with a partition that we led before and lead on in a new epoch.
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
            The partition, which is to be loaded; None where the news is old, or we led it before: nobody else has
            written to it then.
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
        """Note that we do not lead a partition any more; with None in any case, as it was deleted.

        Returns:
            What was hosted of it, None where nothing was or the news is old.
        """
        if epoch is None:
            # A topic created again under the name begins with the first epoch.
            self._latest.pop(number, None)
        elif epoch < self._latest.get(number, NO_LEADER_EPOCH):
            return None
        else:
            self._latest[number] = epoch
        return self._partitions.pop(number, None)

    def is_current(self, partition: P) -> bool:
        """Whether a partition is still hosted under the leadership that it was begun for."""
        return self._partitions.get(partition.number) is partition

    def get(self, number: int) -> P | None:
        """Return a partition that is loading or owned."""
        return self._partitions.get(number)

    def __iter__(self) -> Iterator[P]:
        return iter(tuple(self._partitions.values()))

    def owned(self) -> list[P]:
        """Return the partitions whose state is known."""
        return [each for each in self._partitions.values() if not each.is_loading]
