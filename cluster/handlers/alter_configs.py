"""AlterConfigs 0 to 2: replace the whole stored configuration of topics or brokers.

Each resource succeeds or fails by itself. Stored values are announced through ZooKeeper, and every broker applies them
while it runs.
"""

from typing import TYPE_CHECKING

from cluster.handlers.config_resources import Altering, alter_each, change_entity, entity_of
from wire.apis import ApiKey
from wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry


def register(registry: "Registry") -> None:
    """Serve AlterConfigs."""
    registry.add_async(ApiKey.ALTER_CONFIGS, 0, 2, handle)


async def handle(call: "ApiCall[Altering]") -> AlterConfigsResponse:
    """Replace each resource's configuration; a setting that is not named goes back to its default."""
    request: AlterConfigsRequest = call.request

    async def replace(resource: AlterConfigsResource) -> None:
        values = {config.name: config.value for config in resource.configs if config.value is not None}
        entity = entity_of(call.broker, resource.resource_type, resource.resource_name)
        await change_entity(call.broker, entity, lambda _: values, validate_only=request.validate_only)

    responses = await alter_each(
        request.resources,
        replace,
        AlterConfigsResourceResponse,
        lacks_value=lambda config: config.value is None,
    )
    return AlterConfigsResponse(responses=responses)
