"""The fetch sessions of a broker: a bounded number of them, the least useful of which are evicted (KIP-227).

A new session takes the slot of, in this order: the one unused for longest, if that is two minutes; else the least of
the evictable ones, followers' ranking above clients', larger ones above smaller. A session is evictable by clients
when it is two minutes old; by followers, also when it is a client's.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from cluster.replication.leader.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    TOPIC_IDS_SINCE,
    FetchSession,
    next_epoch,
)
from wire.errors import ApiError, Error
from wire.types import MonotonicSeconds, TopicId

if TYPE_CHECKING:
    from wire.messages.fetch import FetchRequest

EVICTION_S: Final = 120.0
CLIENT_PARTITIONS_MAX: Final = 500_000
"""How many partitions the sessions of clients may hold together: each takes a few hundred bytes."""


class FetchSessionCache:
    """Finds or makes the session of each fetch.

    Args:
        slots: How many sessions are kept, ``max.incremental.fetch.session.cache.slots``.
        new_id: Returns a random number from 1 to 2**31 - 1.

    Attributes:
        evictions: How many sessions were evicted.
    """

    __slots__ = ("_new_id", "_sessions", "_slots", "evictions")

    def __init__(self, slots: int, new_id: Callable[[], int]) -> None:
        self._slots = slots
        self._new_id = new_id
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()  # the one unused for longest first
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def cached_partitions(self) -> int:
        """How many partitions the sessions hold together."""
        return sum(len(session.items) for session in self._sessions.values())

    def begin(
        self,
        request: "FetchRequest",
        version: int,
        names: Mapping[TopicId, str],
        now: MonotonicSeconds,
        *,
        is_follower: bool,
    ) -> FetchSession:
        """Return the session that a request belongs to, updated with what the request names.

        Raises:
            ApiError: the session is gone, is at another epoch, or names topics by id and the request by name, or the
                reverse.
        """
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != NO_SESSION:
                self._remove(request.session_id)
            session = FetchSession(now, is_follower=is_follower, uses_topic_ids=version >= TOPIC_IDS_SINCE)
            session.update(request, names)
            if request.session_epoch == INITIAL_EPOCH:
                self._keep(session, now)
            return session
        found = self._sessions.get(request.session_id)
        if found is None:
            raise ApiError(Error.FETCH_SESSION_ID_NOT_FOUND)
        if found.epoch != request.session_epoch:
            raise ApiError(Error.INVALID_FETCH_SESSION_EPOCH)
        if found.uses_topic_ids != (version >= TOPIC_IDS_SINCE):
            raise ApiError(Error.FETCH_SESSION_TOPIC_ID_ERROR)
        found.update(request, names)
        if not found.items:
            self._remove(found.session_id)
            return FetchSession(now, is_follower=is_follower, uses_topic_ids=found.uses_topic_ids)
        found.epoch = next_epoch(found.epoch)
        found.is_incremental = True
        found.last_fetch = now
        self._sessions.move_to_end(found.session_id)
        return found

    def forget(self, session: FetchSession) -> None:
        """Drop a session whose id its client did not receive."""
        self._remove(session.session_id)

    def _keep(self, session: FetchSession, now: MonotonicSeconds) -> None:
        if self._slots <= 0 or (not session.is_follower and not self._has_room_for(session)):
            return
        if len(self._sessions) >= self._slots and not self._evict_for(session, now):
            return
        session_id = self._new_id()
        while session_id in self._sessions:
            session_id = self._new_id()
        session.session_id = session_id
        self._sessions[session_id] = session

    def _has_room_for(self, new: FetchSession) -> bool:
        """Whether a client's session fits in; one that does not is answered without a session."""
        if len(new.items) < CLIENT_PARTITIONS_MAX // 1000:
            return True  # as many as there are slots are always allowed
        held = sum(len(each.items) for each in self._sessions.values() if not each.is_follower)
        return held + len(new.items) <= CLIENT_PARTITIONS_MAX

    def _evict_for(self, new: FetchSession, now: MonotonicSeconds) -> bool:
        oldest = next(iter(self._sessions.values()))
        if now - oldest.last_fetch > EVICTION_S:
            victim = oldest
        else:
            evictable = [
                session
                for session in self._sessions.values()
                if now - session.created > EVICTION_S or (new.is_follower and not session.is_follower)
            ]
            if not evictable:
                return False
            victim = min(evictable, key=_worth)
            if _worth(new) < _worth(victim):
                return False
        self._remove(victim.session_id)
        self.evictions += 1
        return True

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        parked = session.parked
        session.session_id = NO_SESSION
        session.close()
        if parked is not None:
            # Its client has stopped using it, or learns from its next request that the session is gone.
            parked.wake(None)


def _worth(session: FetchSession) -> tuple[bool, int, int]:
    return (session.is_follower, len(session.items), session.session_id)
