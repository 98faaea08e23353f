"""The configuration of one broker: a file's values, ZooKeeper's dynamic ones over them, and the typed result."""

import logging
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

from cluster.configuration.authorizer_settings import authorizer_settings, is_authorizer_setting
from cluster.configuration.catalogue import broker_settings, dynamic_settings, nearest_name
from cluster.configuration.errors import ConfigError
from cluster.configuration.listener_names import OWN_PREFIX, base_name, listener_name, own_setting
from cluster.configuration.served_values import ServedValues
from cluster.configuration.setting import Service, Setting, UpdateMode, Value
from cluster.configuration.store_settings import STORE_SETTINGS
from cluster.configuration.synonyms import BROKER_SYNONYMS, TOPIC_DEFAULTS, synonyms_of
from security.errors import SecurityConfigError
from security.zookeeper_access import ZooKeeperAccess, zookeeper_access
from storage.log_config import LogConfig
from wire.types import BrokerId

logger = logging.getLogger(__name__)

_WARNED: Final = {
    "metric.reporters": "metrics are read from ottla.metrics.port",
    "kafka.metrics.reporters": "metrics are read from ottla.metrics.port",
}
"""Settings with no effect here although operators rely on them, with the reason."""
UNLIMITED: Final = (1 << 63) - 1


class ConfigSource(IntEnum):
    """The source of a value; the numbers are those of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT = 3
    STATIC = 4
    DEFAULT = 5


class SourcedValue(NamedTuple):
    """A value as text, under the name and from the source that gave it."""

    name: str
    text: str | None
    source: ConfigSource


class BrokerConfig(ServedValues):
    """Every served setting as a typed attribute, and the layers that the values come from.

    Values of settings that can change at run time are replaced in place by `apply_dynamic`, so code reads
    `config.x` where it needs x and keeps no copy. One loop owns a configuration.

    Args:
        originals: What the file and the command line give, by name.

    Raises:
        ConfigError: a value cannot be used, or asks for something that is not served.
    """

    def __init__(self, originals: Mapping[str, str]) -> None:
        self.originals: Mapping[str, str] = dict(originals)
        self.dynamic_broker: Mapping[str, str] = {}
        self.dynamic_default: Mapping[str, str] = {}
        self._listeners: list[Callable[[frozenset[str]], None]] = []
        self._values: dict[str, Value] = {}
        _warn_of_unknown(self.originals)
        for name, text in self.originals.items():
            setting = broker_settings().get(base_name(name))
            if setting is not None:
                _require_served(setting, name, text)
        self._set_values(_resolve(self._layers()))
        _check_together(self)

    @property
    def log_directories(self) -> tuple[Path, ...]:
        """The directories of the log, absolute, in the order given."""
        paths = (Path(part.strip()) for part in self.log_dirs.split(",") if part.strip())
        return tuple(dict.fromkeys(path.absolute() for path in paths))

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener on which brokers talk to each other."""
        return listener_name(self.inter_broker_listener_name or self.security_inter_broker_protocol)

    @property
    def control_plane_listener(self) -> str | None:
        """The name of the listener that controllers send their requests to; None where it is the inter-broker one."""
        name = self.control_plane_listener_name
        return None if not name else listener_name(name)

    @property
    def leader_replication_throttled_rate(self) -> int:
        """Bytes a second that leaders send for throttled replicas; `UNLIMITED` without a throttle."""
        return self._throttle("leader.replication.throttled.rate")

    @property
    def follower_replication_throttled_rate(self) -> int:
        """Bytes a second that followers copy for throttled replicas; `UNLIMITED` without a throttle."""
        return self._throttle("follower.replication.throttled.rate")

    @property
    def replica_alter_log_dirs_rate(self) -> int:
        """Bytes a second that are copied between log directories; `UNLIMITED` without a throttle."""
        return self._throttle("replica.alter.log.dirs.io.max.bytes.per.second")

    @cached_property
    def zookeeper_access(self) -> ZooKeeperAccess:
        """The TLS and authentication for ZooKeeper; the stores are read on first access.

        Raises:
            ConfigError: a setting, a store or a password cannot be used.
        """
        try:
            return zookeeper_access(self._text_of)
        except SecurityConfigError as error:
            raise ConfigError(error.key, None, error.reason) from None

    def _text_of(self, name: str) -> str | None:
        value = self._values[name]
        return None if value is None else text_of(value)

    def value(self, name: str) -> Value:
        """Return the present value of any broker setting by name."""
        return self._values[name]

    def number_of_listener(self, listener: str, name: str) -> int:
        """Return the present value of a number that a listener may have of its own, else the broker's."""
        value = self._values.get(own_setting(listener, name), self._values[name])
        if not isinstance(value, int):
            raise TypeError(f"{name} is no number")
        return value

    def of_listener(self, listener: str, name: str) -> Value:
        """Return the present value of a setting that a listener may have of its own, else the broker's."""
        return self._values.get(own_setting(listener, name), self._values[name])

    def own_of_listener(self, listener: str, name: str) -> Value:
        """Return a listener's own value of a setting; None if it has none."""
        return self._values.get(own_setting(listener, name))

    def of_mechanism(self, listener: str, mechanism: str, name: str) -> Value:
        """Return a setting's value for one SASL mechanism of a listener, else the listener's, else the broker's."""
        own = own_setting(listener, f"{mechanism.lower()}.{name}")
        return self._values[own] if own in self._values else self.of_listener(listener, name)

    def own_of_mechanism(self, listener: str, mechanism: str, name: str) -> Value:
        """Return a listener's own value of a setting for one SASL mechanism; None if it has none."""
        return self._values.get(own_setting(listener, f"{mechanism.lower()}.{name}"))

    def log_config_defaults(self) -> LogConfig:
        """Return the configuration of a topic without settings of its own, from the present values."""
        return LogConfig.from_strings(
            {topic: text_of(self._values[broker]) for topic, broker in TOPIC_DEFAULTS.items()}
        )

    def sources_of(self, name: str) -> Iterator[SourcedValue]:
        """Return every source that has a value for a setting, the one in effect first."""
        names = synonyms_of(name)
        for layer, source in self._layers():
            for synonym in names:
                if synonym in layer:
                    yield SourcedValue(synonym, layer[synonym], source)
        for synonym in names:
            default = broker_settings()[synonym].default if synonym in broker_settings() else None
            if default is not None:
                yield SourcedValue(synonym, default, ConfigSource.DEFAULT)

    def own_settings(self) -> list[Setting]:
        """Return the settings of individual listeners, under their full names."""
        names = {name: None for layer, _ in self._layers() for name in layer if name.startswith(OWN_PREFIX)}
        settings = broker_settings()
        return [
            settings[base_name(name)]._replace(name=name) for name in names if base_name(name) in settings
        ]

    def on_change(self, listener: Callable[[frozenset[str]], None]) -> None:
        """Call a listener with the names of the settings that have a new value, after each dynamic change."""
        self._listeners.append(listener)

    def check_dynamic(self, values: Mapping[str, str], *, per_broker: bool) -> None:
        """Check values that are about to be stored as dynamic configuration.

        Args:
            values: The whole dynamic configuration of the broker, or of all brokers.
            per_broker: Whether they belong to one broker; the default of all brokers cannot have per-broker settings.

        Raises:
            ConfigError: one of them cannot change at run time, or has a wrong value.
        """
        for name, text in values.items():
            setting = dynamic_settings().get(name) or broker_settings().get(base_name(name))
            if setting is None:
                continue  # an unknown setting is stored, as Kafka does
            if name.startswith(OWN_PREFIX) and setting.name in STORE_SETTINGS:
                if not per_broker:
                    raise ConfigError(
                        name, setting.shown(text), "a value for one broker: it cannot be a default of all"
                    )
            elif setting.update is UpdateMode.READ_ONLY:
                raise ConfigError(
                    name, setting.shown(text), "no change at run time: it holds from start to stop"
                )
            elif setting.update is UpdateMode.AT_START:
                raise ConfigError(
                    name, setting.shown(text), "no change at run time: Ottla reads it when the broker starts"
                )
            elif setting.update is UpdateMode.PER_BROKER and not per_broker:
                raise ConfigError(
                    name, setting.shown(text), "a value for one broker: it cannot be a default of all"
                )
            _require_served(setting, name, text)

    def apply_dynamic(self, broker: Mapping[str, str], default: Mapping[str, str]) -> frozenset[str]:
        """Apply the dynamic configuration that ZooKeeper has, and call the listeners with the changes.

        A value that cannot be used is left out with a warning: it was stored without a check.

        Args:
            broker: What is stored for this broker.
            default: What is stored for all brokers.

        Returns:
            The names of the settings whose value changed.
        """
        self.dynamic_broker = _usable(broker)
        self.dynamic_default = _usable(default)
        before = self._values
        self._set_values(_resolve(self._layers()) | {"broker.id": self.broker_id})
        names = before.keys() | self._values.keys()  # a listener's own setting can be added and removed
        changed = frozenset(name for name in names if before.get(name) != self._values.get(name))
        if changed:
            for listener in self._listeners:
                listener(changed)
        return changed

    def with_dynamic(self, broker: Mapping[str, str]) -> "BrokerConfig":
        """Return a copy of this configuration with other dynamic values of this broker."""
        other = copy(self)
        other._listeners = []
        other.apply_dynamic(broker, self.dynamic_default)
        return other

    def assign_broker_id(self, broker_id: BrokerId) -> None:
        """Set the id of a broker that was configured without one."""
        self._set_values(self._values | {"broker.id": broker_id})

    def _throttle(self, name: str) -> int:
        text = self.dynamic_broker.get(name, self.dynamic_default.get(name))
        return UNLIMITED if text is None else int(text)

    def _layers(self) -> tuple[tuple[Mapping[str, str], ConfigSource], ...]:
        return (
            (self.dynamic_broker, ConfigSource.DYNAMIC_BROKER),
            (self.dynamic_default, ConfigSource.DYNAMIC_DEFAULT),
            (self.originals, ConfigSource.STATIC),
        )

    def _set_values(self, values: dict[str, Value]) -> None:
        self._values = values
        self.__dict__.update({name.replace(".", "_"): values[name] for name in broker_settings()})


def text_of(value: Value) -> str:
    """Return a value in the form that it has in a file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _warn_of_unknown(originals: Mapping[str, str]) -> None:
    for name, reason in _WARNED.items():
        if originals.get(name):
            logger.warning("%s=%s has no effect: %s", name, originals[name], reason)
    for name in originals:
        if base_name(name) in broker_settings() or is_authorizer_setting(name):
            continue
        if name in dynamic_settings():
            raise ConfigError(name, originals[name], "to be set at run time: no file may hold it")
        near = nearest_name(name)
        logger.warning("unknown setting %s%s", name, f": did you mean {near}?" if near else "")


def _require_served(setting: Setting, name: str, text: str) -> None:
    value = setting.parse(text)
    if setting.service is Service.REFUSED and value != setting.default_value and value not in ("", ()):
        default = setting.default if setting.default else "no value"
        raise ConfigError(name, setting.shown(text), f"{default} ({setting.reason})")


def _usable(values: Mapping[str, str]) -> dict[str, str]:
    usable = {}
    for name, text in values.items():
        setting = dynamic_settings().get(name) or broker_settings().get(base_name(name))
        try:
            if setting is not None:
                _require_served(setting, name, text)
        except ConfigError as error:
            logger.warning("a dynamic setting is left out: %s", error)
        else:
            usable[name] = text
    return usable


def _resolve(layers: tuple[tuple[Mapping[str, str], ConfigSource], ...]) -> dict[str, Value]:
    """Return every setting its value: the strongest layer's, then its default, then its synonyms'."""
    values: dict[str, Value] = {}
    for name, setting in broker_settings().items():
        text = next((layer[name] for layer, _ in layers if name in layer), setting.default)
        values[name] = None if text is None else setting.parse(text)
    for name, sources in BROKER_SYNONYMS.items():
        if values[name] is None:
            values[name] = next(
                (
                    _scaled(values[source.name], source.factor)
                    for source in sources
                    if values[source.name] is not None
                ),
                None,
            )
    if values["broker.id"] == -1:
        values["broker.id"] = values["node.id"]
    return values | _resolve_own(layers)


def _resolve_own(layers: tuple[tuple[Mapping[str, str], ConfigSource], ...]) -> dict[str, Value]:
    """Return the values of the settings of individual listeners."""
    values: dict[str, Value] = {}
    for layer, _ in reversed(layers):
        for name, text in layer.items():
            if name.startswith(OWN_PREFIX):
                setting = broker_settings().get(base_name(name))
                if setting is not None:
                    values[name] = setting.parse(text)
    return values


def _scaled(value: Value, factor: int) -> Value:
    if factor == 1 or not isinstance(value, int):
        return value
    return -1 if value < 0 else value * factor  # a negative time means no limit in every unit


def _check_together(config: BrokerConfig) -> None:
    """Check what a table cannot: required values, and values that must be consistent with each other."""
    values: Any = config
    if not values.zookeeper_connect:
        raise ConfigError("zookeeper.connect", None, "the ZooKeeper servers, as host:port,host:port")
    if not config.log_directories:
        raise ConfigError("log.dirs", config.log_dirs, "at least one directory")
    _check_identity(config)
    authorizer_settings(config)
    rules = (
        (config.log_retention_ms != 0, "log.retention.ms", "at least 1, or -1 for no limit"),
        (config.log_roll_ms >= 1, "log.roll.ms", "at least 1"),
        (
            config.replica_fetch_wait_max_ms <= config.replica_lag_time_max_ms,
            "replica.fetch.wait.max.ms",
            "at most replica.lag.time.max.ms, or idle followers leave the in-sync replicas",
        ),
        (
            config.replica_fetch_wait_max_ms <= config.replica_socket_timeout_ms,
            "replica.fetch.wait.max.ms",
            "at most replica.socket.timeout.ms",
        ),
        (
            -1 <= config.offsets_commit_required_acks <= config.offsets_topic_replication_factor,
            "offsets.commit.required.acks",
            "-1 to offsets.topic.replication.factor",
        ),
        (
            config.queued_max_request_bytes <= 0
            or config.queued_max_request_bytes >= config.socket_request_max_bytes,
            "queued.max.request.bytes",
            "at least socket.request.max.bytes",
        ),
        (
            config.max_connections_per_ip > 0 or bool(config.max_connections_per_ip_overrides),
            "max.connections.per.ip",
            "at least 1 where max.connections.per.ip.overrides is empty",
        ),
        (
            config.group_min_session_timeout_ms <= config.group_max_session_timeout_ms,
            "group.min.session.timeout.ms",
            "at most group.max.session.timeout.ms",
        ),
        (
            "inter.broker.listener.name" not in config.originals
            or "security.inter.broker.protocol" not in config.originals,
            "inter.broker.listener.name",
            "no value where security.inter.broker.protocol has one",
        ),
        (
            config.connections_max_idle_ms < 0
            or config.connection_failed_authentication_delay_ms < config.connections_max_idle_ms,
            "connection.failed.authentication.delay.ms",
            "less than connections.max.idle.ms",
        ),
        (
            not config.security_inter_broker_protocol.startswith("SASL")
            or config.sasl_mechanism_inter_broker_protocol != "GSSAPI",
            "sasl.mechanism.inter.broker.protocol",
            "a mechanism that is served, which Kerberos is not: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER",
        ),
        (
            _is_spoken(config.inter_broker_protocol_version),
            "inter.broker.protocol.version",
            "3.0 to 3.9",
        ),
    )
    for holds, name, expected in rules:
        if not holds:
            raise ConfigError(name, text_of(config.value(name)), expected)


def _check_identity(config: BrokerConfig) -> None:
    given = {name: config.originals[name] for name in ("broker.id", "node.id") if name in config.originals}
    if len(set(given.values())) > 1:
        raise ConfigError(
            "node.id", given["node.id"], f"the value of broker.id, which is {given['broker.id']}"
        )
    name = next(iter(given), "broker.id")
    if config.broker_id_generation_enable:
        if not -1 <= config.broker_id <= config.reserved_broker_max_id:
            raise ConfigError(
                name,
                config.broker_id,
                f"0 to {config.reserved_broker_max_id} (reserved.broker.max.id), or -1",
            )
    elif config.broker_id < 0:
        raise ConfigError(name, config.broker_id, "at least 0 where broker.id.generation.enable is false")


def _is_spoken(release: str) -> bool:
    major, minor = release.split("-")[0].split(".")[:2]
    return (major == "3" and int(minor) <= 9) or release in ("4.0-IV0", "4.0-IV1")
