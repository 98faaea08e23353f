"""DescribeConfigs 0 to 4: every setting of a topic, of this broker, or of its loggers, with the source of its value.

A broker describes itself only; an empty broker name describes the stored default of all brokers.
Secrets are never shown. Sources and synonyms are Kafka's: a topic's own value, the broker's dynamic value, the
dynamic default, the file, the built-in default.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from cluster.configuration.broker_config import ConfigSource, SourcedValue, text_of
from cluster.configuration.catalogue import broker_settings, dynamic_settings, topic_settings
from cluster.configuration.setting import Kind, Setting, UpdateMode
from cluster.configuration.synonyms import TOPIC_DEFAULTS
from cluster.handlers.config_resources import Describing, ResourceType, require_this_broker, require_topic
from cluster.handlers.context import HasConfig
from cluster.handlers.failures import EXPECTED_FAILURES, failure_of
from cluster.handlers.log_levels import logger_levels
from cluster.zookeeper.znodes import TOPICS
from wire.apis import ApiKey
from wire.errors import ApiError, Error
from wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry

_BROKER_LOGGER_SOURCE = 6


def register(registry: "Registry") -> None:
    """Serve DescribeConfigs."""
    registry.add_async(ApiKey.DESCRIBE_CONFIGS, 0, 4, handle)


async def handle(call: "ApiCall[Describing]") -> DescribeConfigsResponse:
    """Describe each resource by itself: one that cannot be described has its own error."""
    request: DescribeConfigsRequest = call.request
    results = []
    for resource in request.resources:
        try:
            configs = await _describe(call.broker, resource)
        except EXPECTED_FAILURES as exception:
            failure = failure_of(exception)
            result = DescribeConfigsResult(error_code=failure.code, error_message=failure.message)
        else:
            wanted = resource.configuration_keys
            chosen = [config for config in configs if not wanted or config.name in wanted]
            result = DescribeConfigsResult(configs=[_trimmed(config, call) for config in chosen])
        results.append(
            result.replace(resource_type=resource.resource_type, resource_name=resource.resource_name)
        )
    return DescribeConfigsResponse(results=results)


def _trimmed(
    config: DescribeConfigsResourceResult, call: "ApiCall[Describing]"
) -> DescribeConfigsResourceResult:
    """Leave out what the client did not ask for, and the flag that version 1 replaced by the source."""
    request: DescribeConfigsRequest = call.request
    return config.replace(
        is_default=config.is_default and call.version == 0,
        synonyms=config.synonyms if request.include_synonyms else [],
        documentation=config.documentation if request.include_documentation else None,
    )


async def _describe(
    broker: "Describing", resource: DescribeConfigsResource
) -> list[DescribeConfigsResourceResult]:
    name = resource.resource_name
    match resource.resource_type:
        case ResourceType.TOPIC:
            require_topic(broker, name)
            stored, _ = await broker.store.read_config(TOPICS, name)
            return topic_configs(broker, stored)
        case ResourceType.BROKER if not name:
            return [_default_config(broker, key) for key in sorted(broker.config.dynamic_default)]
        case ResourceType.BROKER:
            require_this_broker(broker, name)
            set_at_run_time = broker.config.dynamic_broker.keys() | broker.config.dynamic_default.keys()
            return [
                _broker_config(broker, setting)
                for setting in (
                    *broker_settings().values(),
                    *broker.config.own_settings(),
                    *(each for each in dynamic_settings().values() if each.name in set_at_run_time),
                )
            ]
        case ResourceType.BROKER_LOGGER:
            require_this_broker(broker, name)
            return [
                DescribeConfigsResourceResult(name=key, value=level, config_source=_BROKER_LOGGER_SOURCE)
                for key, level in logger_levels().items()
            ]
    raise ApiError(
        Error.INVALID_REQUEST, f"resources of the kind {resource.resource_type} have no configuration"
    )


def topic_configs(broker: HasConfig, stored: "dict[str, str]") -> list[DescribeConfigsResourceResult]:
    """Describe every setting of a topic.

    Args:
        broker: Whose settings are the defaults.
        stored: The topic's own settings.
    """

    def sources(setting: Setting) -> Iterable[SourcedValue]:
        if setting.name in stored:
            yield SourcedValue(setting.name, stored[setting.name], ConfigSource.TOPIC)
        if setting.name in TOPIC_DEFAULTS:
            yield from broker.config.sources_of(TOPIC_DEFAULTS[setting.name])

    def value(setting: Setting) -> str | None:
        if setting.name in stored:
            return stored[setting.name]
        if setting.name in TOPIC_DEFAULTS:
            return text_of(broker.config.value(TOPIC_DEFAULTS[setting.name]))
        return setting.default

    return [_entry(setting, value, sources, read_only=False) for setting in topic_settings().values()]


def _broker_config(broker: "Describing", setting: Setting) -> DescribeConfigsResourceResult:
    def value(setting: Setting) -> str | None:
        # A setting that falls back to another is shown as it is: null says "look at my synonym".
        given = next(broker.config.sources_of(setting.name), None)
        return given.text if given is not None and given.name == setting.name else setting.default

    def sources(setting: Setting) -> Iterable[SourcedValue]:
        return broker.config.sources_of(setting.name)

    return _entry(setting, value, sources, read_only=setting.update is UpdateMode.READ_ONLY)


def _default_config(broker: "Describing", name: str) -> DescribeConfigsResourceResult:
    """Describe one setting of the stored default of all brokers."""
    setting = broker_settings().get(name) or dynamic_settings().get(name)
    text = broker.config.dynamic_default[name]
    shown = None if setting is not None and setting.is_sensitive else text
    return DescribeConfigsResourceResult(
        name=name,
        value=shown,
        config_source=ConfigSource.DYNAMIC_DEFAULT,
        is_sensitive=setting is not None and setting.is_sensitive,
        synonyms=[DescribeConfigsSynonym(name=name, value=shown, source=ConfigSource.DYNAMIC_DEFAULT)],
        config_type=Kind.STRING if setting is None else setting.kind,
        documentation=None if setting is None else setting.doc,
    )


def _entry(
    setting: Setting,
    value: Callable[[Setting], str | None],
    sources: Callable[[Setting], Iterable[SourcedValue]],
    *,
    read_only: bool,
) -> DescribeConfigsResourceResult:
    synonyms = list(sources(setting))
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    secret = setting.is_sensitive
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=None if secret else value(setting),
        read_only=read_only,
        is_default=source is ConfigSource.DEFAULT,
        config_source=source,
        is_sensitive=secret,
        synonyms=[
            DescribeConfigsSynonym(name=each.name, value=None if secret else each.text, source=each.source)
            for each in synonyms
        ],
        config_type=setting.kind,
        documentation=setting.doc,
    )
