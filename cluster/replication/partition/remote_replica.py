"""A follower as its leader knows it: how far it has fetched, and when it was last level with the leader.

A follower is *caught up* while its log end equals the leader's, and for ``replica.lag.time.max.ms`` after the last
moment at which it did. That moment is derived from its fetches:

- a fetch from the leader's log end means that it is level now, at the time of this fetch;
- a fetch from where the leader's log ended at the *previous* fetch means that it was level then. So a follower that is
  always one small append behind, under a constant load, still counts as caught up.

With fetch sessions a partition without news is not read at each fetch. It was level all along: when its leader
appends again, `was_level_at` records the session's latest fetch, before the append makes the replica lag.
"""

from typing import Final, Protocol

from wire.types import NO_OFFSET, BrokerId, MonotonicSeconds, Offset

NEVER: Final = MonotonicSeconds(float("-inf"))


class Heard(Protocol):
    """A fetch session, as evidence that its follower is alive."""

    last_fetch: MonotonicSeconds


class RemoteReplica:
    """A follower's progress as its leader sees it. Only the partition changes it.

    Attributes:
        broker_id: The follower.
        log_end_offset: Where its log ends, which is where it fetches; unknown before its first fetch.
        log_start_offset: Where its log starts; unknown before its first fetch.
        last_caught_up: When it was last level with the leader.
        last_fetch: When it last fetched.
        last_fetch_leader_end: Where the leader's log ended at that fetch.
        level_session: The session each of whose fetches confirms that the replica is still level; None if it lags.
    """

    __slots__ = (
        "broker_id",
        "last_caught_up",
        "last_fetch",
        "last_fetch_leader_end",
        "level_session",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: BrokerId) -> None:
        self.broker_id = broker_id
        self.log_end_offset: Offset = NO_OFFSET
        self.log_start_offset: Offset = NO_OFFSET
        self.last_caught_up: MonotonicSeconds = NEVER
        self.last_fetch: MonotonicSeconds = NEVER
        self.last_fetch_leader_end: Offset = NO_OFFSET
        self.level_session: Heard | None = None

    def fetched(
        self, fetch_offset: Offset, log_start_offset: Offset, leader_end: Offset, now: MonotonicSeconds
    ) -> None:
        """Record a fetch.

        Args:
            fetch_offset: Where the follower asked from: its log end.
            log_start_offset: Where its log starts.
            leader_end: Where the leader's log ended *before* the read that serves this fetch: if it were taken
                afterwards, the follower of a busy partition would never look level.
            now: When the fetch came.
        """
        if fetch_offset >= leader_end:
            self.last_caught_up = max(self.last_caught_up, now)
        elif fetch_offset >= self.last_fetch_leader_end:
            self.last_caught_up = max(self.last_caught_up, self.last_fetch)
        self.log_start_offset = log_start_offset
        self.log_end_offset = fetch_offset
        self.last_fetch_leader_end = max(leader_end, self.last_fetch_leader_end)
        self.last_fetch = now

    def was_level_at(self, moment: MonotonicSeconds) -> None:
        """Record that the replica, which has fetched nothing new since it was level, was still level at ``moment``."""
        self.last_caught_up = max(self.last_caught_up, moment)
        self.last_fetch = max(self.last_fetch, moment)

    def reset(
        self, leader_end: Offset, now: MonotonicSeconds, *, is_new_leader: bool, is_in_sync: bool
    ) -> None:
        """Start over in a new leader epoch.

        A member of the ISR counts as level now, so that it has the whole lag time to fetch; any other as never level,
        so that it does not hold the high watermark back. Its log end is forgotten, too: its broker may have restarted
        with a shorter log, and only a fetch shows that.
        """
        self.last_caught_up = now if is_in_sync else NEVER
        self.level_session = None
        if is_new_leader or not is_in_sync:
            self.log_start_offset = NO_OFFSET
            self.log_end_offset = NO_OFFSET
            self.last_fetch_leader_end = NO_OFFSET
            self.last_fetch = NEVER
        else:
            self.last_fetch_leader_end = leader_end
            self.last_fetch = now

    def is_caught_up(self, leader_end: Offset, now: MonotonicSeconds, max_lag_s: float) -> bool:
        """Whether the replica is level, or was within the last ``max_lag_s`` seconds."""
        return self.log_end_offset == leader_end or now - self.last_caught_up <= max_lag_s

    def was_heard(self, now: MonotonicSeconds, max_lag_s: float) -> bool:
        """Whether the replica, or its session while it is clean, has fetched in the last ``max_lag_s`` seconds."""
        last = self.last_fetch
        if self.level_session is not None:
            last = max(last, self.level_session.last_fetch)
        return now - last <= max_lag_s

    def __repr__(self) -> str:
        return (
            f"RemoteReplica({self.broker_id}, log_end_offset={self.log_end_offset}, "
            f"last_caught_up={self.last_caught_up})"
        )
