"""The follower's half of a fetch session (KIP-227): sends the leader only what changed since the last request.

- The first request is full: it names every partition and asks for a session. If the leader creates one, later requests
  are incremental: partitions whose offset, epoch or log start changed, and those to forget.
- Any failure, of the network or of the session, starts over with a full request that also closes the old session.
- A session names topics by id or by name, never both; to change from one to the other, it starts over.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cluster.replication.follower.fetch_state import FetchState
from cluster.replication.leader.fetch_session import INITIAL_EPOCH, NO_SESSION, next_epoch
from wire.errors import Error
from wire.messages.fetch import FetchPartition, FetchResponse, FetchTopic, ForgottenTopic
from wire.types import TopicId, TopicPartition


class SessionRequest(NamedTuple):
    """The part of a fetch that the session decides.

    Attributes:
        session_id: The session, or 0.
        session_epoch: The number of this request in it; 0 asks for a new session.
        topics: The partitions to add or change.
        forgotten: The partitions to forget.
        by_id: Whether topics are named by id.
    """

    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]
    by_id: bool


class FollowerSession:
    """The state of one session with one leader."""

    __slots__ = ("_by_id", "_epoch", "_forgotten", "_known", "_session_id", "_told")

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._by_id = True
        self._known: dict[TopicPartition, TopicId] = {}  # what the session contains once the answer has come
        self._told: dict[TopicPartition, TopicId] = {}  # what the request under way adds
        self._forgotten: dict[TopicPartition, TopicId] = {}  # what it removes

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to fetch or to forget."""
        return not self._known and not self._told

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._known

    def build(
        self,
        states: Mapping[TopicPartition, FetchState],
        changed: Iterable[TopicPartition],
        dropped: Iterable[TopicPartition],
        max_bytes: int,
        *,
        by_id: bool,
    ) -> SessionRequest:
        """Return the next request, and mark the states that it names as asked.

        Args:
            states: Every partition that may be fetched now.
            changed: Those of them that differ from the last request.
            dropped: Partitions dropped since the last request, some of which may have been added again.
            max_bytes: How many bytes to ask for per partition.
            by_id: Whether topics can be named by id: the other broker understands it, and every topic has one.
        """
        if by_id != self._by_id:
            self.restart()
            self._by_id = by_id
        is_full = self._epoch == INITIAL_EPOCH
        if is_full:
            self._known.clear()
        named = list(states) if is_full else [one for one in changed if one in states]
        self._told = {}
        self._forgotten = {}
        for topic_partition in dropped:
            topic_id = self._known.get(topic_partition)
            if topic_id is not None and topic_partition not in states:
                self._forgotten[topic_partition] = topic_id
        topics: dict[tuple[str, TopicId], list[FetchPartition]] = {}
        for topic_partition in named:
            state = states[topic_partition]
            self._told[topic_partition] = state.topic_id
            state.asked = True
            topics.setdefault((topic_partition.topic, state.topic_id), []).append(
                FetchPartition(
                    partition=topic_partition.partition,
                    current_leader_epoch=state.leader_epoch,
                    fetch_offset=state.fetch_offset,
                    last_fetched_epoch=state.last_fetched_epoch,
                    log_start_offset=state.log_start_offset,
                    partition_max_bytes=max_bytes,
                )
            )
        return SessionRequest(
            self._session_id,
            self._epoch,
            [
                FetchTopic(topic=name, topic_id=topic_id, partitions=partitions)
                for (name, topic_id), partitions in topics.items()
            ],
            self._forgotten_topics(),
            by_id,
        )

    def answered(self, response: FetchResponse) -> bool:
        """Process the head of an answer; return False if it reports a broken session, and so holds no data."""
        if response.error_code:
            if response.error_code == Error.FETCH_SESSION_ID_NOT_FOUND:
                self._session_id = NO_SESSION
            self.restart()
            return False
        if response.session_id == NO_SESSION:
            # The leader keeps no session for us, or has just closed it: the next request is full again.
            self._session_id = NO_SESSION
            self.restart()
            return True
        for topic_partition in self._forgotten:
            self._known.pop(topic_partition, None)
        self._known.update(self._told)
        self._told, self._forgotten = {}, {}
        self._session_id = response.session_id
        self._epoch = next_epoch(self._epoch)
        return True

    def restart(self) -> None:
        """Start over: the next request is full, and closes the old session, if any."""
        self._epoch = INITIAL_EPOCH
        self._known, self._told, self._forgotten = {}, {}, {}

    def _forgotten_topics(self) -> list[ForgottenTopic]:
        topics: dict[tuple[str, TopicId], list[int]] = {}
        for topic_partition, topic_id in self._forgotten.items():
            topics.setdefault((topic_partition.topic, topic_id), []).append(topic_partition.partition)
        return [
            ForgottenTopic(topic=name, topic_id=topic_id, partitions=partitions)
            for (name, topic_id), partitions in topics.items()
        ]
