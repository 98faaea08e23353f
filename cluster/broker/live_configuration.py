"""Configuration that changes while the broker runs: read from ZooKeeper at start, and followed from then on."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

from cluster.configuration.stored_passwords import StoredPasswords
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

_SLICE: Final = 64
"""Topics whose settings are read between two turns of the loop."""
EntityFollower: TypeAlias = Callable[[Mapping[str, Mapping[str, str]], bool], None]
"""Takes configurations by entity path, and whether these are all entities of the type."""

_OF_TOPICS: Final = frozenset(name for default in TOPIC_DEFAULTS.values() for name in synonyms_of(default))
"""The broker settings that are defaults of topic settings."""


class LiveConfiguration:
    """The dynamic part of a broker's configuration, and the settings of topics.

    Attributes:
        on_unclean_election: Called when unclean elections become allowed, for a topic or, by None, for all.
        on_broker_change: Awaited after each change of this broker's settings, even one that sets the same values.
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
        self.on_broker_change: Callable[[], Awaitable[None]] | None = None
        self._config = config
        self._store = store
        self._changes = changes
        self._logs: LogStore | None = None
        self._followers: dict[str, list[EntityFollower]] = {}

    def follow_entities(self, entity_type: str, follower: EntityFollower) -> None:
        """Call a follower with the configurations of a type of entity, at `load` and after each change.

        It is called again whenever `follow` begins: a broker that was away for long may have missed changes.

        Args:
            entity_type: ``users``, ``clients`` or ``ips``.
            follower: Called with the configurations by path below the type (`<user>`, or
                `<user>/clients/<client>`; sanitized), and whether these are all there are. A path without a
                configuration has an empty one.
        """
        self._followers.setdefault(entity_type, []).append(follower)

    async def load(self) -> dict[str, LogConfig]:
        """Read everything; `follow` applies later changes.

        Returns:
            The log configuration of each topic that has settings of its own.
        """
        await self._changes.mark_read()
        await self._renew_passwords()
        await self._apply_broker()
        await self._load_entities()
        return await self._log_configs(await self._store.read_config_names(TOPICS))

    def attach(self, logs: "LogStore") -> None:
        """Apply changes to the logs, too, now that they are open."""
        self._logs = logs

    async def follow(self) -> None:
        """Apply changes until cancelled, or until the session expires: then call it again."""
        try:
            await self._load_entities()
            await self._changes.follow(self._changed)
        except SessionExpiredError:
            logger.info("changes of configuration are followed again when the session is renewed")

    async def _changed(self, entity_path: str) -> None:
        """Apply the changed configuration of one entity; `entity_path` is its path below /config."""
        entity_type, _, name = entity_path.partition("/")
        try:
            if entity_type == TOPICS:
                await self._apply_topic(name)
            elif entity_type in self._followers:
                config, _ = await self._store.read_config(entity_type, name)
                for follower in self._followers[entity_type]:
                    follower({name: config}, False)
            elif entity_type == BROKERS and name in (DEFAULT_ENTITY, str(self._config.broker_id)):
                await self._apply_broker()
                if self.on_broker_change is not None:
                    await self.on_broker_change()
        except MalformedZnodeError as error:
            logger.warning("the configuration of %s is left as it was: %s", entity_path, error)

    async def _load_entities(self) -> None:
        """Read the configurations of every entity that has a follower."""
        for entity_type, followers in self._followers.items():
            names = await self._store.read_config_paths(entity_type)
            configs = await self._store.read_configs(entity_type, names)
            for follower in followers:
                follower(configs, True)

    async def _apply_topic(self, topic: str) -> None:
        config = (await self._log_configs([topic]))[topic]
        logger.info("the settings of the topic %s have changed", topic)
        if self._logs is not None:
            self._logs.update_topic_configs({topic: config})
        if config.unclean_leader_election_enable and self.on_unclean_election is not None:
            self.on_unclean_election(topic)

    async def _renew_passwords(self) -> None:
        """Encrypt passwords again with the present secret if the old one had encrypted them."""
        passwords, name = StoredPasswords(self._config), str(self._config.broker_id)
        stored, _ = await self._store.read_config(BROKERS, name)
        if passwords.renewed(stored) != stored:
            await self._store.change_config(BROKERS, name, passwords.renewed)
            logger.info("stored passwords are encrypted by the new password.encoder.secret")

    async def _apply_broker(self) -> None:
        own, _ = await self._store.read_config(BROKERS, str(self._config.broker_id))
        default, _ = await self._store.read_config(BROKERS, DEFAULT_ENTITY)
        passwords = StoredPasswords(self._config)
        changed = self._config.apply_dynamic(passwords.decoded(own), passwords.decoded(default))
        if not changed:
            return
        logger.info("settings have changed: %s", ", ".join(sorted(changed)))
        if self._logs is not None and changed & _OF_TOPICS:
            self._logs.update_default_config(self._config.log_config_defaults())
            topics = {log.topic_partition.topic for log in self._logs.all_logs()}
            self._logs.update_topic_configs(await self._log_configs(sorted(topics)))
        allowed = "unclean.leader.election.enable" in changed and self._config.unclean_leader_election_enable
        if allowed and self.on_unclean_election is not None:
            self.on_unclean_election(None)

    async def _log_configs(self, topics: Sequence[str]) -> dict[str, LogConfig]:
        """Return the log configuration of topics: their own settings over the broker's."""
        own = await self._store.read_configs(TOPICS, topics)
        defaults = self._config.log_config_defaults()
        configs: dict[str, LogConfig] = {}
        for count, topic in enumerate(topics):
            configs[topic] = read_topic_config(topic, own.get(topic, {}), defaults)
            if count % _SLICE == _SLICE - 1:
                await trio.lowlevel.checkpoint()
        return configs
