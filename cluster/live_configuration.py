"""Configuration that changes while the broker runs: read from ZooKeeper at start, and followed from then on."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from cluster.configuration.synonyms import TOPIC_DEFAULTS, synonyms_of
from cluster.configuration.topic_config import read_topic_config
from cluster.zookeeper.client import SessionExpiredError
from cluster.zookeeper.znodes import BROKERS, DEFAULT_ENTITY, TOPICS, MalformedZnodeError
from storage.log_config import LogConfig

if TYPE_CHECKING:
    from cluster.configuration.broker_config import BrokerConfig
    from cluster.zookeeper.broker_store import BrokerStore
    from cluster.zookeeper.config_changes import ConfigChanges
    from storage.store import LogStore

logger = logging.getLogger(__name__)

_OF_TOPICS: Final = frozenset(name for default in TOPIC_DEFAULTS.values() for name in synonyms_of(default))
"""The broker settings that topics without settings of their own go by."""


class LiveConfiguration:
    """The dynamic part of a broker's configuration, and the settings of topics.

    Attributes:
        on_unclean_election: Told when unclean elections become allowed, for a topic or, by None, for all.
    """

    def __init__(
        self,
        config: "BrokerConfig",
        store: "BrokerStore",
        changes: "ConfigChanges",
    ) -> None:
        """Make it.

        Args:
            config: The broker's configuration, which is changed in place.
            store: Reads what ZooKeeper holds.
            changes: The notifications of changes.
        """
        self.on_unclean_election: Callable[[str | None], None] | None = None
        self._config = config
        self._store = store
        self._changes = changes
        self._logs: LogStore | None = None
        self._own_of_topic: dict[str, dict[str, str]] = {}

    async def load(self) -> dict[str, LogConfig]:
        """Read everything; changes from now on are told by `follow`.

        Returns:
            The log configuration of each topic that has settings of its own.
        """
        await self._changes.mark_read()
        await self._apply_broker()
        names = await self._store.read_config_names(TOPICS)
        own = await self._store.read_configs(TOPICS, names)
        self._own_of_topic = {topic: dict(values) for topic, values in own.items() if values}
        defaults = self._config.log_config_defaults()
        return {
            topic: read_topic_config(topic, values, defaults) for topic, values in self._own_of_topic.items()
        }

    def attach(self, logs: "LogStore") -> None:
        """Have changes take effect on logs, now that they are open."""
        self._logs = logs
        self._config.on_change(self._broker_changed)

    async def topic_config(self, topic: str) -> LogConfig:
        """Read a topic's log configuration from ZooKeeper: that of a new topic is not announced."""
        values, _ = await self._store.read_config(TOPICS, topic)
        self._own_of_topic[topic] = dict(values)
        return read_topic_config(topic, values, self._config.log_config_defaults())

    async def follow(self) -> None:
        """Take over changes until cancelled, or until the session expires: then call it again."""
        try:
            await self._changes.follow(self._changed)
        except SessionExpiredError:
            logger.info("changes of configuration are followed again when the session is renewed")

    async def _changed(self, entity_path: str) -> None:
        """Take over the configuration of one entity; `entity_path` is its path below /config."""
        entity_type, _, name = entity_path.partition("/")
        try:
            if entity_type == TOPICS:
                await self._apply_topic(name)
            elif entity_type == BROKERS and name in (DEFAULT_ENTITY, str(self._config.broker_id)):
                await self._apply_broker()
        except MalformedZnodeError as error:
            logger.warning("the configuration of %s is left as it was: %s", entity_path, error)

    async def _apply_topic(self, topic: str) -> None:
        config = await self.topic_config(topic)
        logger.info("the settings of the topic %s are now %s", topic, self._own_of_topic.get(topic))
        if self._logs is not None:
            self._logs.update_topic_config(topic, config)
        if config.unclean_leader_election_enable and self.on_unclean_election is not None:
            self.on_unclean_election(topic)

    async def _apply_broker(self) -> None:
        own, _ = await self._store.read_config(BROKERS, str(self._config.broker_id))
        default, _ = await self._store.read_config(BROKERS, DEFAULT_ENTITY)
        changed = self._config.apply_dynamic(own, default)
        if changed:
            logger.info("settings changed: %s", ", ".join(sorted(changed)))
        if (
            "unclean.leader.election.enable" in changed
            and self._config.unclean_leader_election_enable
            and self.on_unclean_election is not None
        ):
            self.on_unclean_election(None)

    def _broker_changed(self, changed: frozenset[str]) -> None:
        """Give every log the new defaults, over which its topic's own settings hold."""
        if self._logs is None or not changed & _OF_TOPICS:
            return
        defaults = self._config.log_config_defaults()
        self._logs.update_default_config(defaults)
        for topic in {log.topic_partition.topic for log in self._logs.all_logs()}:
            own = self._own_of_topic.get(topic, {})
            self._logs.update_topic_config(topic, read_topic_config(topic, own, defaults))
