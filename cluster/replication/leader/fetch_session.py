"""The partitions that one client or follower fetches, and which of them have news (KIP-227, server side).

Rules of this file:

- A session reads only its *dirty* items: those that a request named, and those whose partition has changed since they
  were last found without news. A clean item costs nothing: it is registered with its partition, which calls it at the
  next change. A fetch without a session is a session of one request, with every item dirty.
- An item is clean when its fetch offset is the end of what it may read, and the client knows the high watermark and
  the log's start. Items with records, with an error or with a diverging epoch stay dirty, and move to the end of the
  order, so that no partition starves under a response limit.
- At most one fetch of a session is parked; a later one takes its place.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from timing.timing_wheel import TimerEntry
from wire.types import (
    NO_BROKER,
    NO_LEADER_EPOCH,
    NO_OFFSET,
    NO_TOPIC_ID,
    BrokerId,
    LeaderEpoch,
    MonotonicSeconds,
    Offset,
    TopicId,
    TopicPartition,
)

if TYPE_CHECKING:
    from cluster.replication.partition.partition import Partition
    from cluster.replication.partition.remote_replica import RemoteReplica
    from wire.messages.fetch import FetchPartition, FetchRequest, PartitionData

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
TOPIC_IDS_SINCE: Final = 13
_MAX_EPOCH: Final = 0x7FFFFFFF

ItemKey = tuple[TopicId | str, int]


def next_epoch(epoch: int) -> int:
    """Return the epoch of a session's next request."""
    return 1 if epoch == _MAX_EPOCH else epoch + 1


class Isolation(Enum):
    """How far a fetch reads."""

    LOG_END = "log end"  # followers
    HIGH_WATERMARK = "high watermark"  # consumers
    COMMITTED = "last stable offset"  # consumers that read committed transactions only


@dataclass(frozen=True, slots=True)
class FetchClient:
    """A consumer, for choosing its nearest replica."""

    rack_id: str
    listener_name: str


@dataclass(frozen=True, slots=True)
class FetchParams:
    """The arguments of a fetch besides its partitions.

    Attributes:
        replica_id: The follower that fetches, or -1 for a consumer.
        max_wait_ms: How long it may be parked.
        min_bytes: How many bytes it waits for.
        max_bytes: How many bytes the answer may hold; the first batch may exceed it.
        isolation: How far it reads.
        require_leader: Whether only the leader may answer.
        hard_limit: Whether no batch may exceed a limit: clients older than version 3.
        client: The consumer, if it can be sent to a nearer replica; else None.
        admit: Returns whether an answer may be sent; False if its client is over its quota and gets an empty one. None
            if all may be sent.
    """

    replica_id: BrokerId = NO_BROKER
    max_wait_ms: int = 0
    min_bytes: int = 1
    max_bytes: int = 0x7FFFFFFF
    isolation: Isolation = Isolation.HIGH_WATERMARK
    require_leader: bool = True
    hard_limit: bool = False
    client: FetchClient | None = None
    admit: "Admit | None" = None

    @property
    def is_follower(self) -> bool:
        """Whether a replica fetches."""
        return self.replica_id >= 0


Admit = Callable[["list[tuple[FetchItem, PartitionData]]"], bool]
OnFetched = Callable[["list[tuple[FetchItem, PartitionData]]"], None]
"""Called with the partitions of an answer; the records are valid until the log deletes them."""


class ParkedFetch(TimerEntry):
    """A fetch that waits for data, or for its time to pass.

    Attributes:
        params: What it asked for.
        on_done: Called with the answers.
        sizes: How many bytes there are for each item that has any.
        size: Their sum.
    """

    __slots__ = ("_wake", "on_done", "params", "size", "sizes")

    def __init__(
        self, params: FetchParams, on_done: OnFetched, wake: "Callable[[FetchItem | None], None]"
    ) -> None:
        super().__init__()
        self.params = params
        self.on_done = on_done
        self.sizes: dict[FetchItem, int] = {}
        self.size = 0
        self._wake = wake

    def found(self, item: "FetchItem", size: int) -> None:
        """Note how many bytes there are for an item now."""
        self.size += size - self.sizes.get(item, 0)
        self.sizes[item] = size

    def wake(self, item: "FetchItem | None") -> None:
        """React to a change of a partition; None means that the answer is due in any case."""
        self._wake(item)

    def expire(self) -> None:
        """Answer the fetch, because its time is over."""
        self._wake(None)


class FetchItem:
    """One partition of a session: the last request for it, and the last answer.

    Attributes:
        topic: The topic's name; empty while its id is unknown here.
        topic_id: The topic's id, or ``NO_TOPIC_ID`` for clients that name topics.
        partition_index: The partition's number.
        topic_partition: Both together; None while the name is not known.
        fetch_offset: Where to read from.
        max_bytes: How many bytes to read.
        current_leader_epoch: The leader epoch that the client knows, or -1.
        last_fetched_epoch: The epoch of the follower's last record, or -1.
        log_start_offset: Where the follower's log starts, or -1.
        sent_high_watermark: The high watermark of the last answer.
        sent_log_start: The log start of the last answer.
        partition: The partition that the item is registered with.
        remote: The follower's state at its leader, if the item was found level with the leader's end.
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "partition_index",
        "remote",
        "sent_high_watermark",
        "sent_log_start",
        "session",
        "topic",
        "topic_id",
        "topic_partition",
    )

    def __init__(self, session: "FetchSession", topic: str, topic_id: TopicId, partition_index: int) -> None:
        self.session = session
        self.topic = topic
        self.topic_id = topic_id
        self.partition_index = partition_index
        self.topic_partition = TopicPartition(topic, partition_index) if topic else None
        self.fetch_offset: Offset = NO_OFFSET
        self.max_bytes = 0
        self.current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
        self.last_fetched_epoch: LeaderEpoch = NO_LEADER_EPOCH
        self.log_start_offset: Offset = NO_OFFSET
        self.sent_high_watermark: Offset = NO_OFFSET
        self.sent_log_start: Offset = NO_OFFSET
        self.partition: Partition | None = None
        self.remote: RemoteReplica | None = None

    @property
    def operation(self) -> ParkedFetch | None:
        """The fetch that waits for this partition, if one does."""
        return self.session.parked

    def asked(self, request: "FetchPartition") -> None:
        """Update the item with a request's values for this partition."""
        self.fetch_offset = request.fetch_offset
        self.max_bytes = request.partition_max_bytes
        self.current_leader_epoch = request.current_leader_epoch
        self.last_fetched_epoch = request.last_fetched_epoch
        self.log_start_offset = request.log_start_offset

    def resolve(self, names: Mapping[TopicId, str]) -> None:
        """Look up the topic's name, if it is not known yet."""
        name = names.get(self.topic_id)
        if name:
            self.topic = name
            self.topic_partition = TopicPartition(name, self.partition_index)

    def watch(self, partition: "Partition") -> None:
        """Register for the partition's next change."""
        self.partition = partition
        if self.session.is_follower:
            partition.waiters.watch_log_end(self)
            if not self.session.is_persistent:
                return
        partition.waiters.watch_watermark(self)

    def unwatch(self) -> None:
        """Leave all registers."""
        self.leave_level()
        if self.partition is not None:
            self.partition.waiters.forget(self)
            self.partition = None

    def is_level(self, remote: "RemoteReplica") -> None:
        """Note that the follower has all records of its leader, which each later fetch of the session confirms."""
        self.remote = remote
        remote.level_session = self.session

    def leave_level(self) -> None:
        """Note that the partition is named by a request again, or no longer fetched."""
        if self.remote is not None:
            if self.remote.level_session is self.session:
                self.remote.level_session = None
            self.remote = None

    def log_end_moved(self) -> None:
        """Records were appended: a follower that was level until now lags from here on."""
        session = self.session
        session.dirty[self] = None
        if self.remote is not None:
            self.remote.was_level_at(session.last_fetch)
            self.leave_level()
        if session.parked is not None:
            session.parked.wake(self)

    def watermark_moved(self) -> None:
        """Handle a move of the watermark: news for a consumer; a follower learns it from its next answer anyway."""
        session = self.session
        session.dirty[self] = None
        if session.parked is not None and not session.is_follower:
            session.parked.wake(self)

    def role_changed(self) -> None:
        """Handle a change of role: the request is out of date, so answer it at once."""
        session = self.session
        session.dirty[self] = None
        if session.parked is not None:
            session.parked.wake(None)

    def __repr__(self) -> str:
        return f"FetchItem({self.topic or self.topic_id.hex()}-{self.partition_index}@{self.fetch_offset})"


class FetchSession:
    """The partitions that one client fetches, in one request or many.

    Attributes:
        session_id: Its id, or ``NO_SESSION`` for a fetch that stands alone.
        epoch: The epoch that the next request must carry.
        is_follower: Whether a replica fetches.
        uses_topic_ids: Whether the partitions are named by topic id.
        is_incremental: Whether answers leave out what the client knows: from the second request on.
        items: All partitions, by topic id or name, and number.
        dirty: Those that may have news, in the order in which they are read.
        isolation: How far the last request reads.
        last_fetch: When the last request came.
        created: When the session was made.
        parked: The fetch that waits, if one does.
        denied: The topics that its client may not read: each fetch answers their partitions with the error.
        denied_for: The client and the generation of the access rules that `denied` was decided for; None if it is to be
            decided.
    """

    __slots__ = (
        "created",
        "denied",
        "denied_for",
        "dirty",
        "epoch",
        "is_follower",
        "is_incremental",
        "isolation",
        "items",
        "last_fetch",
        "parked",
        "session_id",
        "uses_topic_ids",
    )

    def __init__(self, now: MonotonicSeconds, *, is_follower: bool, uses_topic_ids: bool) -> None:
        self.session_id = NO_SESSION
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.is_follower = is_follower
        self.uses_topic_ids = uses_topic_ids
        self.is_incremental = False
        self.isolation = Isolation.LOG_END if is_follower else Isolation.HIGH_WATERMARK
        self.items: dict[ItemKey, FetchItem] = {}
        self.dirty: dict[FetchItem, None] = {}
        self.last_fetch = now
        self.created = now
        self.parked: ParkedFetch | None = None
        self.denied: frozenset[str] = frozenset()
        self.denied_for: tuple[object, int] | None = None

    @property
    def is_persistent(self) -> bool:
        """Whether it outlives its request."""
        return self.session_id != NO_SESSION

    def update(self, request: "FetchRequest", names: Mapping[TopicId, str]) -> None:
        """Add, change and forget the partitions as a request says; those it names become dirty."""
        by_id = self.uses_topic_ids
        items, dirty = self.items, self.dirty
        if request.topics:
            self.denied_for = None
        for topic in request.topics:
            topic_key = topic.topic_id if by_id else topic.topic
            for asked in topic.partitions:
                key = (topic_key, asked.partition)
                item = items.get(key)
                if item is None:
                    name = names.get(topic.topic_id, "") if by_id else topic.topic
                    topic_id = topic.topic_id if by_id else NO_TOPIC_ID
                    item = items[key] = FetchItem(self, name, topic_id, asked.partition)
                item.asked(asked)
                dirty[item] = None
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            return  # a full fetch names all that it wants, and Kafka ignores the partitions that it forgets
        for forgotten in request.forgotten_topics_data:
            topic_key = forgotten.topic_id if by_id else forgotten.topic
            for partition in forgotten.partitions:
                item = items.pop((topic_key, partition), None)
                if item is not None:
                    item.unwatch()
                    dirty.pop(item, None)

    def must_answer(self, item: FetchItem, data: "PartitionData") -> bool:
        """Return whether an incremental answer must include this partition; record the values that it answers."""
        news = (
            bool(data.records)
            or data.high_watermark != item.sent_high_watermark
            or data.log_start_offset != item.sent_log_start
            or data.preferred_read_replica >= 0
            or data.diverging_epoch.end_offset >= 0
            or data.error_code != 0
        )
        # After an error the partition counts as news again, whatever its high watermark is then.
        item.sent_high_watermark = NO_OFFSET if data.error_code else data.high_watermark
        item.sent_log_start = data.log_start_offset
        return news

    def deny(self, topics: frozenset[str], decided_for: tuple[object, int] | None) -> None:
        """Set the topics that the client may not read; partitions whose verdict changes become dirty.

        Args:
            topics: Their names.
            decided_for: The client and the generation of the access rules; None if the next fetch must decide again.
        """
        changed = topics ^ self.denied
        self.denied = topics
        self.denied_for = decided_for
        if changed:
            for item in self.items.values():
                if item.topic in changed:
                    self.dirty[item] = None

    def close(self) -> None:
        """Leave every register."""
        for item in self.items.values():
            item.unwatch()
        self.items.clear()
        self.dirty.clear()
