"""Configurations of topics and brokers: what they are, where they come from, and changing them."""

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.client.admin.descriptions import (
    ConfigChange,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    ConfigValue,
    ResourceKind,
)
from ottla.client.admin.router import Router, raise_for
from ottla.client.errors import ClientError
from wire.schema import Request
from wire.types import BrokerId


class ConfigsAdmin:
    """The admin client's calls for configurations."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def describe_configs(
        self, resources: Sequence[ConfigResource], *, synonyms: bool = False
    ) -> dict[ConfigResource, list[ConfigValue]]:
        """Return the settings of topics and brokers, by resource.

        Args:
            resources: Which ones.
            synonyms: Whether to list every place that each value could come from.

        Raises:
            ClientError: of the first resource that has an error.
        """
        from wire.messages import describe_configs as api

        described: dict[ConfigResource, list[ConfigValue]] = {}
        for broker_id, group in _by_broker(resources).items():
            request = api.DescribeConfigsRequest(
                resources=[
                    api.DescribeConfigsResource(
                        resource_type=resource.kind,
                        resource_name=resource.name,
                        configuration_keys=None,
                    )
                    for resource in group
                ],
                include_synonyms=synonyms,
            )
            answer: api.DescribeConfigsResponse = await self._on_named(broker_id, request)
            for result in answer.results:
                resource = ConfigResource(ResourceKind(result.resource_type), result.resource_name)
                raise_for(result.error_code, result.error_message, resource_text(resource))
                described[resource] = [
                    ConfigValue(
                        config.name,
                        config.value,
                        ConfigSource(config.config_source),
                        config.is_sensitive,
                        config.read_only,
                        tuple(
                            ConfigSynonym(each.name, each.value, ConfigSource(each.source))
                            for each in config.synonyms
                        ),
                    )
                    for config in result.configs
                ]
        return described

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Sequence[ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change single settings of topics and brokers, leaving the others as they are.

        Args:
            changes: What to change of each resource; no setting twice.
            validate_only: Whether to check only.

        Raises:
            ClientError: of the first resource that has an error; others may have been changed.
        """
        from wire.messages import incremental_alter_configs as api

        problem: ClientError | None = None
        for broker_id, group in _by_broker(tuple(changes)).items():
            request = api.IncrementalAlterConfigsRequest(
                resources=[
                    api.AlterConfigsResource(
                        resource_type=resource.kind,
                        resource_name=resource.name,
                        configs=[
                            api.AlterableConfig(
                                name=change.name, config_operation=change.operation, value=change.value
                            )
                            for change in changes[resource]
                        ],
                    )
                    for resource in group
                ],
                validate_only=validate_only,
            )
            answer: api.IncrementalAlterConfigsResponse = await self._on_named(broker_id, request)
            for result in answer.responses:
                resource = ConfigResource(ResourceKind(result.resource_type), result.resource_name)
                try:
                    raise_for(result.error_code, result.error_message, resource_text(resource))
                except ClientError as error:
                    problem = problem or error
        if problem is not None:
            raise problem

    async def _on_named(self, broker_id: BrokerId | None, request: Request) -> Any:
        """Ask the broker that the resources name, if they name one: a broker answers only for itself."""
        return await (
            self._router.ask_any(request)
            if broker_id is None
            else self._router.ask_broker(broker_id, request)
        )


def resource_text(resource: ConfigResource) -> str:
    """Name a resource for people."""
    match resource:
        case (ResourceKind.BROKER, ""):
            return "the default of all brokers"
        case (ResourceKind.TOPIC, name):
            return f"topic {name!r}"
    return f"{resource.kind.name.lower().replace('_', ' ')} {resource.name}"


def _by_broker(resources: Sequence[ConfigResource]) -> dict[BrokerId | None, list[ConfigResource]]:
    groups: dict[BrokerId | None, list[ConfigResource]] = {}
    for resource in resources:
        named = resource.kind is not ResourceKind.TOPIC and resource.name
        groups.setdefault(BrokerId(int(resource.name)) if named else None, []).append(resource)
    return groups
