"""IncrementalAlterConfigs 0 and 1: set, remove, append to and subtract from individual settings.

For topics, brokers, and the levels of this broker's loggers. Lists can be appended to and subtracted from,
starting from the default where nothing is stored.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from cluster.configuration.catalogue import broker_settings, dynamic_settings, topic_settings
from cluster.configuration.listener_names import base_name
from cluster.configuration.setting import Kind, Setting
from cluster.handlers.config_resources import (
    Altering,
    ResourceType,
    alter_each,
    change_entity,
    entity_of,
    require_this_broker,
)
from cluster.handlers.log_levels import LEVELS, ROOT, logger_levels, set_level
from wire.apis import ApiKey
from wire.errors import ApiError, Error
from wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry


class _Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def register(registry: "Registry") -> None:
    """Serve IncrementalAlterConfigs."""
    registry.add_async(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, handle)


async def handle(call: "ApiCall[Altering]") -> IncrementalAlterConfigsResponse:
    """Change each resource by itself."""
    request: IncrementalAlterConfigsRequest = call.request
    responses = await alter_each(
        request.resources,
        lambda resource: _alter(call.broker, resource, validate_only=request.validate_only),
        AlterConfigsResourceResponse,
        lacks_value=lambda config: config.value is None and config.config_operation != _Operation.DELETE,
    )
    return IncrementalAlterConfigsResponse(responses=responses)


async def _alter(broker: "Altering", resource: AlterConfigsResource, *, validate_only: bool) -> None:
    _check_operations(resource.configs)
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        require_this_broker(broker, resource.resource_name)
        _alter_loggers(resource.configs, validate_only=validate_only)
        return
    entity = entity_of(broker, resource.resource_type, resource.resource_name)
    of_topic = resource.resource_type == ResourceType.TOPIC
    await change_entity(
        broker,
        entity,
        lambda present: changed(present, resource.configs, of_topic=of_topic),
        validate_only=validate_only,
    )


def changed(
    present: Mapping[str, str], changes: Sequence[AlterableConfig], *, of_topic: bool
) -> dict[str, str]:
    """Return a configuration after the changes.

    Args:
        present: What is stored.
        changes: What is asked for.
        of_topic: Whether the settings are a topic's rather than a broker's.

    Raises:
        ApiError: a setting that is not a list is to be appended to or subtracted from.
    """
    result = dict(present)
    for change in changes:
        name, value = change.name, change.value or ""
        match change.config_operation:
            case _Operation.SET:
                result[name] = value
            case _Operation.DELETE:
                result.pop(name, None)
            case operation:
                elements = _elements(_list_setting(name, of_topic=of_topic), result.get(name))
                given = dict.fromkeys(element.strip() for element in value.split(",") if element.strip())
                if operation == _Operation.APPEND:
                    elements = list(dict.fromkeys(elements) | given)
                else:
                    elements = [element for element in elements if element not in given]
                result[name] = ",".join(elements)
    return result


def _elements(setting: Setting, stored: str | None) -> list[str]:
    text = setting.default or "" if stored is None else stored
    return [element.strip() for element in text.split(",") if element.strip()]


def _list_setting(name: str, *, of_topic: bool) -> Setting:
    if of_topic:
        setting = topic_settings().get(name)
    else:
        setting = broker_settings().get(base_name(name)) or dynamic_settings().get(name)
    if setting is None or setting.kind is not Kind.LIST:
        raise ApiError(
            Error.INVALID_CONFIG, f"{name} is no list: it can be set, not appended to or subtracted from"
        )
    return setting


def _check_operations(changes: Sequence[AlterableConfig]) -> None:
    operations = [operation.value for operation in _Operation]
    for change in changes:
        if change.config_operation not in operations:
            raise ApiError(
                Error.INVALID_REQUEST, f"{change.name}: unknown operation {change.config_operation}"
            )


def _alter_loggers(changes: Sequence[AlterableConfig], *, validate_only: bool) -> None:
    known = logger_levels()
    for change in changes:
        if change.name not in known:
            raise ApiError(Error.INVALID_CONFIG, f"there is no logger {change.name}")
        if change.config_operation == _Operation.SET:
            if change.value not in LEVELS:
                raise ApiError(
                    Error.INVALID_CONFIG, f"a level is one of {', '.join(LEVELS)}, not {change.value}"
                )
        elif change.config_operation != _Operation.DELETE:
            raise ApiError(Error.INVALID_REQUEST, "a level can be set or removed")
        elif change.name == ROOT:
            raise ApiError(Error.INVALID_REQUEST, "the root logger always has a level")
    if validate_only:
        return
    for change in changes:
        set_level(change.name, change.value if change.config_operation == _Operation.SET else None)
