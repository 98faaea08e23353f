"""The progress of fetching one partition from its leader, and the offset to truncate the log to."""

from typing import TYPE_CHECKING, Final

from wire.types import (
    NO_LEADER_EPOCH,
    NO_TOPIC_ID,
    LeaderEpoch,
    MonotonicSeconds,
    Offset,
    TopicId,
    TopicPartition,
)

if TYPE_CHECKING:
    from cluster.replication.partition.partition import Partition
    from storage.log import Log

UNDEFINED_OFFSET: Final = Offset(-1)
FIRST_BACKOFF_S: Final = 0.05


class FetchState:
    """One partition of one fetcher, for one leader epoch: a new epoch brings a new object.

    Attributes:
        partition: The partition; its log is what is fetched into.
        topic_id: The topic's id, or ``NO_TOPIC_ID``.
        leader_epoch: The epoch of the leader that is fetched from.
        fetch_offset: Where to fetch from next.
        last_fetched_epoch: The epoch of the last record before it, or -1 where none is known.
        log_start_offset: Where the local log starts, as sent to the leader.
        lag: How far the leader's high watermark is ahead; None before the first answer.
        asked: Whether a fetch from ``fetch_offset`` was sent: an answer to any other fetch is not applied.
        resume_at: When to fetch the partition again after an error; None if there was none.
        backoff_s: How many seconds to wait after the next error.
    """

    __slots__ = (
        "asked",
        "backoff_s",
        "fetch_offset",
        "lag",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start_offset",
        "partition",
        "resume_at",
        "topic_id",
    )

    def __init__(self, partition: "Partition", log: "Log") -> None:
        self.partition = partition
        self.topic_id: TopicId = log.topic_id
        self.leader_epoch: LeaderEpoch = partition.leader_epoch
        self.last_fetched_epoch: LeaderEpoch = log.leader_epochs.latest
        self.fetch_offset: Offset = log.log_end_offset
        self.log_start_offset: Offset = log.log_start_offset
        self.lag: int | None = None
        self.asked = False
        self.resume_at: MonotonicSeconds | None = None
        self.backoff_s = FIRST_BACKOFF_S

    @property
    def topic_partition(self) -> TopicPartition:
        """Which partition."""
        return self.partition.topic_partition

    @property
    def has_topic_id(self) -> bool:
        """Whether the topic's id is known."""
        return self.topic_id != NO_TOPIC_ID

    def moved_to(self, fetch_offset: Offset, last_fetched_epoch: LeaderEpoch) -> None:
        """Fetch from another offset next."""
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.asked = False

    def delay(self, now: MonotonicSeconds, max_backoff_s: float) -> None:
        """Delay the next fetch of the partition, longer each time until a fetch succeeds."""
        if self.resume_at is None:
            self.resume_at = MonotonicSeconds(now + min(self.backoff_s, max_backoff_s))
            self.backoff_s = min(self.backoff_s * 2, max_backoff_s)
        self.asked = False

    def __repr__(self) -> str:
        return f"FetchState({self.topic_partition}@{self.fetch_offset}, epoch={self.leader_epoch})"


def truncation_offset(log: "Log", epoch: LeaderEpoch, end_offset: Offset, fetch_offset: Offset) -> Offset:
    """Return the offset to truncate a follower's log to, given the leader's answer (KIP-101, KIP-279).

    Worked example: our log ends at 130; epoch 4, which follows 2, began at 100, and 5 at 120. A leader that has epoch 4
    up to 110 answers (4, 110): we know epoch 4, which ended here at 120, so 110 is common and the rest is cut off. A
    leader that has epoch 3 up to 105 answers (3, 105): we do not know 3; the largest that we know below it is 2, and it
    ended at 100: cut there, and let the next fetch test what is below.

    Args:
        log: The follower's log.
        epoch: The largest epoch of the leader's not above ours; -1 if it names none.
        end_offset: Where that epoch ended at the leader; -1 if it does not know.
        fetch_offset: The offset of our fetch.
    """
    end = log.log_end_offset
    if end_offset == UNDEFINED_OFFSET:
        return min(fetch_offset, end)
    if epoch == NO_LEADER_EPOCH:
        return min(end_offset, end)
    ours = log.leader_epochs.end_offset_for(epoch, end)
    if ours is None or ours.end_offset < 0:
        return min(end_offset, end)
    if ours.epoch != epoch:
        return min(ours.end_offset, end)
    return min(ours.end_offset, end_offset, end)
