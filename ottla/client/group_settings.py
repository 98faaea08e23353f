"""When a group's batches are done, and how it reads."""

from collections.abc import Sequence
from enum import Enum
from typing import Any, Final

from ottla.client.positions import Starts
from ottla.client.record_batch import OnBad


class Done(Enum):
    """When a batch counts as done."""

    BY_NEXT = "by asking for the next one"
    EXPLICIT = "by saying so"


EXPLICIT: Final = Done.EXPLICIT


class GroupSettings:
    """How a group reads; times in seconds. The attributes are the arguments of `Kafka.group`."""

    def __init__(
        self,
        *,
        start: Starts,
        done: Done = Done.BY_NEXT,
        commit_interval: float | None = 5.0,
        commits: bool = True,
        session_timeout: float = 45.0,
        heartbeat_interval: float = 3.0,
        rebalance_timeout: float = 60.0,
        stall_timeout: float | None = None,
        leave: bool | None = None,
        max_records: int | None = None,
        on_bad: OnBad = "raise",
        on_batch: Sequence[Any] = (),
        on_commit: Sequence[Any] = (),
        topic_timeout: float = 30.0,
    ) -> None:
        self.start = start
        self.done = done
        self.commit_interval = commit_interval
        self.commits = commits
        self.session_timeout = session_timeout
        self.heartbeat_interval = heartbeat_interval
        self.rebalance_timeout = rebalance_timeout
        self.stall_timeout = stall_timeout
        self.leave = leave
        self.max_records = max_records
        self.on_bad = on_bad
        self.on_batch = on_batch
        self.on_commit = on_commit
        self.topic_timeout = topic_timeout
        if not 0 < heartbeat_interval < session_timeout:
            raise ValueError("heartbeat_interval is positive and less than session_timeout")
        if stall_timeout is not None and stall_timeout <= 0:
            raise ValueError("stall_timeout is positive, or None")
