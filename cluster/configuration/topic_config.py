"""The settings of topics: checked before they are stored, and read into a log's configuration."""

import logging
from collections.abc import Mapping

from cluster.configuration.catalogue import nearest_name, topic_settings
from cluster.configuration.errors import ConfigError
from cluster.configuration.setting import Kind, Service
from storage.log_config import LogConfig

logger = logging.getLogger(__name__)


def check_topic_config(values: Mapping[str, str]) -> None:
    """Check the settings of a topic before they are stored.

    Raises:
        ConfigError: a name is unknown, a value is wrong or asks for something that is not served, or two values are
            inconsistent.
    """
    for name, text in values.items():
        setting = topic_settings().get(name)
        if setting is None:
            near = nearest_name(name, topic_settings())
            hint = f": did you mean {near}?" if near else ""
            raise ConfigError(name, text, f"the name of a topic setting{hint}")
        value = setting.parse(text)
        if setting.service is Service.REFUSED and value != setting.default_value:
            raise ConfigError(name, text, f"{setting.default} ({setting.reason})")
        if name.endswith(".replication.throttled.replicas"):
            _check_throttled(name, text)
    config = LogConfig.from_strings(values)
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise ConfigError(
            "min.compaction.lag.ms",
            config.min_compaction_lag_ms,
            "at most the value of max.compaction.lag.ms",
        )


def read_topic_config(topic: str, values: Mapping[str, str], defaults: LogConfig) -> LogConfig:
    """Return the configuration of a topic's logs from what is stored for it.

    A value that cannot be used is left out with a warning: it was stored without a check, and a broker must start all
    the same.

    Args:
        topic: The topic, for the warning.
        values: Its stored settings.
        defaults: The values of settings that it does not have; see `BrokerConfig.log_config_defaults`.
    """
    usable = {}
    for name, text in values.items():
        setting = topic_settings().get(name)
        if setting is None:
            continue
        try:
            setting.parse(text)
        except ConfigError as error:
            logger.warning("a setting of the topic %s is left out: %s", topic, error)
        else:
            usable[name] = text
    return LogConfig.from_strings(usable, defaults)


def list_valued(name: str) -> bool:
    """Whether a topic setting is a list, to which an incremental change may append."""
    setting = topic_settings().get(name)
    return setting is not None and setting.kind is Kind.LIST


def _check_throttled(name: str, text: str) -> None:
    for part in text.split(","):
        partition, colon, broker = part.strip().partition(":")
        if part.strip() in ("", "*", "none"):
            continue
        if not (colon and partition.isdigit() and broker.isdigit()):
            raise ConfigError(name, text, "partition:broker,partition:broker,... or *")
