"""Topics that are created because a client asked for them."""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cluster.handlers.failures import EXPECTED_FAILURES, failure_of
from wire.errors import Error
from wire.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from wire.messages.create_topics import CreatableTopic, CreatableTopicConfig

if TYPE_CHECKING:
    from cluster.configuration.broker_config import BrokerConfig
    from cluster.controller.topic_admin import TopicAdmin

logger = logging.getLogger(__name__)


class AutoCreation:
    """Creates topics with the broker's defaults, each once at a time.

    Args:
        config: The defaults.
        topic_admin: Creates topics, which any broker may.
    """

    def __init__(self, config: "BrokerConfig", topic_admin: "TopicAdmin") -> None:
        self._config = config
        self._topic_admin = topic_admin
        self._under_way: set[str] = set()
        self._told: dict[str, Error] = {}

    async def create(self, names: Sequence[str]) -> dict[str, Error]:
        """Create topics, and return for each the error that its client gets meanwhile.

        A topic that is there now is LEADER_NOT_AVAILABLE until its leader is known; one that another
        request is creating is UNKNOWN_TOPIC_OR_PARTITION. Cancelled, it leaves topics created or not.
        """
        answers = dict.fromkeys(names, Error.UNKNOWN_TOPIC_OR_PARTITION)
        mine = [name for name in answers if name not in self._under_way]
        self._under_way.update(mine)
        try:
            for name in mine:
                answers[name] = await self._create(name)
        finally:
            self._under_way.difference_update(mine)
        return answers

    async def _create(self, name: str) -> Error:
        try:
            await self._topic_admin.create_topic(new_topic(name, self._config))
        except EXPECTED_FAILURES as exception:
            failure = failure_of(exception)
            if failure.error is Error.TOPIC_ALREADY_EXISTS:
                return Error.LEADER_NOT_AVAILABLE
            if self._told.get(name) is not failure.error:  # clients ask again and again: log it once
                self._told[name] = failure.error
                logger.warning("the topic %s was asked for and cannot be created: %s", name, exception)
            return failure.error
        self._told.pop(name, None)
        logger.info("the topic %s was asked for and has been created", name)
        return Error.LEADER_NOT_AVAILABLE


def new_topic(name: str, config: "BrokerConfig") -> CreatableTopic:
    """Return the settings of an auto-created topic: the defaults, or those that an internal topic needs."""
    if name == CONSUMER_OFFSETS:
        return _internal(
            name,
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )
    if name == TRANSACTION_STATE:
        return _internal(
            name,
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )
    return CreatableTopic(
        name=name,
        num_partitions=config.num_partitions,
        replication_factor=config.default_replication_factor,
    )


def _internal(name: str, partitions: int, factor: int, values: Mapping[str, str]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in values.items()],
    )
