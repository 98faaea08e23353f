"""AlterConfigs 0 to 2: replace the whole stored configuration of topics or brokers.

Each resource succeeds or fails by itself. What is stored is announced through ZooKeeper, and every broker
takes it over while it runs.
"""

from functools import partial
from typing import TYPE_CHECKING

from cluster.handlers.config_resources import (
    Altering,
    change_entity,
    check_entries,
    entity_of,
    repeated_resources,
)
from cluster.handlers.failures import EXPECTED_FAILURES, failure_of
from wire.apis import ApiKey
from wire.messages.alter_configs import (
    AlterConfigsRequest,
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
    repeated = repeated_resources((r.resource_type, r.resource_name) for r in request.resources)
    responses = []
    for resource in request.resources:
        values = {config.name: config.value for config in resource.configs if config.value is not None}
        code, message = 0, None
        try:
            check_entries(
                (resource.resource_type, resource.resource_name),
                repeated,
                [config.name for config in resource.configs],
                [config.name for config in resource.configs if config.value is None],
            )
            entity = entity_of(call.broker, resource.resource_type, resource.resource_name)
            replaced = partial(_replaced_by, values)
            await change_entity(call.broker, entity, replaced, validate_only=request.validate_only)
        except EXPECTED_FAILURES as exception:
            failure = failure_of(exception)
            code, message = failure.code, failure.message
        responses.append(
            AlterConfigsResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return AlterConfigsResponse(responses=responses)


def _replaced_by(values: dict[str, str], _: dict[str, str]) -> dict[str, str]:
    """Return the new configuration, whatever the present one is."""
    return values
