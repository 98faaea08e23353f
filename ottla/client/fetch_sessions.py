"""Fetch sessions (KIP-227): what must be said to a broker, and what it knows already. No I/O.

A session names only the partitions whose place has changed. Its epoch counts the requests; an answer that the
broker has lost it, or any broken connection, begins a new one with everything in full.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from wire.types import NO_LEADER_EPOCH, LeaderEpoch, TopicPartition

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1


class FetchPlace(NamedTuple):
    """From where a partition is to be fetched; it is sent again only where it has changed.

    Attributes:
        offset: The next offset.
        leader_epoch: The epoch that we believe the leader to be in, -1 for none.
        last_epoch: The epoch of the batch before the offset, -1 for none (KIP-320).
        size_max: The most bytes wanted.
    """

    offset: int
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    last_epoch: LeaderEpoch = NO_LEADER_EPOCH
    size_max: int = 1 << 20


class SessionRequest(NamedTuple):
    """What the next Fetch says."""

    session_id: int
    epoch: int
    changed: dict[TopicPartition, FetchPlace]
    forgotten: list[TopicPartition]


class FetchSession:
    """One broker's session with us."""

    def __init__(self) -> None:
        self._id = 0
        self._epoch = INITIAL_EPOCH
        self._known: dict[TopicPartition, FetchPlace] = {}

    @property
    def is_full(self) -> bool:
        """Whether the next request names everything."""
        return self._epoch == INITIAL_EPOCH

    def next_request(self, wanted: Mapping[TopicPartition, FetchPlace]) -> SessionRequest:
        """Return what to say so that the broker serves exactly ``wanted``."""
        if self.is_full:
            self._known = dict(wanted)
            return SessionRequest(self._id, INITIAL_EPOCH, dict(wanted), [])
        forgotten = [partition for partition in self._known if partition not in wanted]
        changed = {
            partition: place for partition, place in wanted.items() if self._known.get(partition) != place
        }
        for partition in forgotten:
            del self._known[partition]
        self._known.update(changed)
        return SessionRequest(self._id, self._epoch, changed, forgotten)

    def answered(self, session_id: int) -> None:
        """Note an answer without error; id 0 means that the broker keeps no session."""
        if session_id == 0:
            self.reset()
            return
        self._id = session_id
        self._epoch = 1 if self._epoch >= 0x7FFFFFFF else self._epoch + 1

    def reset(self, *, keep_id: bool = False) -> None:
        """Begin with everything in full; the id tells the broker to drop the old session."""
        if not keep_id:
            self._id = 0
        self._epoch = INITIAL_EPOCH
        self._known = {}
