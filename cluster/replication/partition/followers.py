"""The followers of a partition, as its leader knows them."""

from collections.abc import Callable, Collection, Iterable

from cluster.replication.partition.remote_replica import RemoteReplica
from wire.errors import ApiError, Error
from wire.types import NO_LEADER_EPOCH, BrokerId, MonotonicSeconds, Offset


class Followers:
    """The followers of one partition if this broker leads; none if it follows.

    Attributes:
        remotes: Each follower's progress, by broker id.
        silent: Those that have not fetched in this epoch: they may not know it yet, or be parked elsewhere.
    """

    __slots__ = ("remotes", "silent")

    def __init__(self) -> None:
        self.remotes: dict[BrokerId, RemoteReplica] = {}
        self.silent: set[BrokerId] = set()

    def assign(self, broker_ids: Iterable[BrokerId]) -> None:
        """Keep the progress of these followers, and forget the others."""
        self.remotes = {each: self.remotes.get(each) or RemoteReplica(each) for each in broker_ids}

    def begin_epoch(
        self, leader_end: Offset, now: MonotonicSeconds, isr: Collection[int], *, is_new_leader: bool
    ) -> None:
        """Start over in a new leader epoch, with the ISR that it begins with."""
        for remote in self.remotes.values():
            remote.reset(leader_end, now, is_new_leader=is_new_leader, is_in_sync=remote.broker_id in isr)
        self.silent = set(self.remotes)

    def clear(self) -> None:
        """Forget all of them: this broker no longer leads."""
        self.remotes = {}
        self.silent = set()

    def get(self, broker_id: BrokerId, current_leader_epoch: int) -> RemoteReplica:
        """Return the follower that fetches.

        Raises:
            ApiError: it is not an assigned replica, as far as we know.
        """
        remote = self.remotes.get(broker_id)
        if remote is None:
            # If the fetch names a leader epoch, we may not know of this replica in that epoch yet: the follower
            # retries.
            known = current_leader_epoch != NO_LEADER_EPOCH
            raise ApiError(Error.UNKNOWN_LEADER_EPOCH if known else Error.NOT_LEADER_OR_FOLLOWER)
        return remote

    def low_watermark(self, log_start_offset: Offset, is_alive: Callable[[BrokerId], bool]) -> Offset:
        """Return the smallest log start among the leader's, which is passed in, and those of the live followers."""
        low = log_start_offset
        for remote in self.remotes.values():
            if remote.log_start_offset < low and is_alive(remote.broker_id):
                low = remote.log_start_offset
        return low
