"""Keeps the metadata fresh: asks at intervals, and at once where something says that they are old.

Asked for at once, answers come as fast as the back-off allows (KIP-580): the first without delay, those after it
further and further apart, until nobody has asked for a while.
"""

import logging
import random
from collections.abc import Callable
from typing import Final

from ottla.client import runtime
from ottla.client.backoff import Backoff
from ottla.client.broker_links import BrokerLinks
from ottla.client.errors import (
    AuthenticationError,
    ClientError,
    ClusterChanged,
    UnknownTopic,
    error_for,
)
from ottla.client.metadata import ClusterMetadata, TopicMetadata
from ottla.client.settings import ConnectionSettings
from wire.errors import Error
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic

_log = logging.getLogger(__name__)

TOPIC_MAX_IDLE_S: Final = 300.0
"""A topic that was unused for this long is no longer asked for (``metadata.max.idle.ms``)."""
_QUIET_S: Final = 2.0
"""After this long without a request for metadata, the next one is sent without delay again."""


class MetadataRefresh:
    """Asks for metadata, in one task.

    Args:
        links: The connections.
        metadata: What is kept fresh.
        settings: The intervals.
        source: Where the jitter comes from.

    Attributes:
        on_update: Called after each answer, without arguments; they must not wait.
    """

    def __init__(
        self,
        links: BrokerLinks,
        metadata: ClusterMetadata,
        settings: ConnectionSettings,
        source: random.Random,
    ) -> None:
        self.on_update: list[Callable[[], None]] = []
        self._links = links
        self._metadata = metadata
        self._settings = settings
        self._backoff = Backoff(settings.retry_backoff, settings.retry_backoff_max, source)
        self._used: dict[str, float] = {}
        self._pinned: dict[str, int] = {}
        self._all_topics = 0
        self._asked = runtime.new_event()
        self._unasked = runtime.new_event()
        self._updated = runtime.new_event()
        self._error: ClientError | None = None
        self._answered_at = -float("inf")

    def ask(self) -> None:
        """Ask for the metadata soon: something says that they are old."""
        self._asked.set()

    def use(self, topic: str) -> None:
        """Keep a topic fresh for the next minutes; one that is unknown is asked for at once."""
        is_new = topic not in self._used
        self._used[topic] = runtime.current_time()
        if topic not in self._metadata.topics:
            self._asked.set()
            if is_new:
                self._unasked.set()

    def pin(self, topic: str) -> None:
        """Keep a topic fresh until `unpin`."""
        self._pinned[topic] = self._pinned.get(topic, 0) + 1
        if topic not in self._metadata.topics:
            self._asked.set()
            self._unasked.set()

    def unpin(self, topic: str) -> None:
        """Undo a `pin`."""
        self._pinned[topic] -= 1
        if not self._pinned[topic]:
            del self._pinned[topic]

    def pin_all(self) -> None:
        """Keep all topics fresh, for subscriptions by pattern, until `unpin_all`."""
        self._all_topics += 1
        self._asked.set()

    def unpin_all(self) -> None:
        """Undo a `pin_all`."""
        self._all_topics -= 1

    async def wait_update(self) -> None:
        """Ask, and wait until an answer came or an attempt failed."""
        self._asked.set()
        await self._updated.wait()

    async def topic(self, name: str, timeout_s: float) -> TopicMetadata:
        """Return a topic, waiting for one that is being created.

        Raises:
            UnknownTopic: The cluster does not know it within ``timeout_s``.
            NotAuthorized: It may not be described.
            ClientError: No broker answered within ``timeout_s``.
        """
        self.use(name)
        with runtime.move_on_after(timeout_s):
            while name not in self._metadata.topics:
                error = self._metadata.topic_errors.get(name)
                if error in (Error.TOPIC_AUTHORIZATION_FAILED, Error.INVALID_TOPIC_EXCEPTION):
                    raise error_for(error, f"topic {name!r}", topic=name)
                await self.wait_update()
        found = self._metadata.topics.get(name)
        if found is not None:
            return found
        if self._error is not None:
            raise self._error
        error = self._metadata.topic_errors.get(name, Error.UNKNOWN_TOPIC_OR_PARTITION)
        raise UnknownTopic(
            f"the cluster has no topic {name!r} ({error.name}, asked for {timeout_s:g} s)", topic=name
        )

    async def run(self) -> None:
        """Ask whenever it is due, until cancelled.

        Raises:
            ClusterChanged: The addresses lead to another cluster now.
            AuthenticationError: The credentials are refused.
        """
        quick = 0
        asked_at = runtime.current_time()
        while True:
            with runtime.cancel_scope(deadline=self._answered_at + self._settings.metadata_max_age):
                await self._asked.wait()
            now = runtime.current_time()
            quick = 0 if now - asked_at > _QUIET_S else quick + 1
            if quick:
                # A topic that was not asked for before waits for nothing.
                with runtime.cancel_scope(deadline=asked_at + self._backoff.delay_s(quick - 1)):
                    await self._unasked.wait()
            asked_at = runtime.current_time()
            self._asked, self._unasked = runtime.new_event(), runtime.new_event()
            try:
                await self.refresh()
            except (ClusterChanged, AuthenticationError):
                raise
            except ClientError as error:
                self._error = error
                _log.warning("no metadata: %s", error)
                self._asked.set()
                if runtime.current_time() - self._answered_at > self._settings.rebootstrap_after:
                    self._links.bootstrap_again()
            updated, self._updated = self._updated, runtime.new_event()
            updated.set()
            if any(error.refresh_metadata for error in self._metadata.topic_errors.values()):
                self._asked.set()
            self._links.close_idle()

    async def refresh(self) -> None:
        """Ask once.

        Raises:
            ClientError: No broker answered.
            ClusterChanged: The answer is another cluster's.
        """
        request = self._request()
        answer = await self._links.ask_any(request)
        known = self._metadata.cluster_id
        if known is not None and answer.cluster_id is not None and answer.cluster_id != known:
            raise ClusterChanged(
                f"the addresses lead to the cluster {answer.cluster_id} now; the client began with {known}"
            )
        if not answer.brokers:
            raise ClientError("the broker knows no brokers yet")
        self._error = None
        self._answered_at = runtime.current_time()
        self._metadata.update(answer, all_topics=request.topics is None)
        self._links.metadata_changed()
        for each in list(self.on_update):
            each()

    def _request(self) -> MetadataRequest:
        before = runtime.current_time() - TOPIC_MAX_IDLE_S
        for name in [name for name, used in self._used.items() if used < before]:
            del self._used[name]
            self._metadata.topic_errors.pop(name, None)
            if name not in self._pinned and not self._all_topics:
                self._metadata.forget(name)
        topics = None
        if not self._all_topics:
            topics = [MetadataRequestTopic(name=name) for name in sorted({*self._used, *self._pinned})]
        return MetadataRequest(topics=topics, allow_auto_topic_creation=False)
