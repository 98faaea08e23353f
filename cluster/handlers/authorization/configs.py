"""The permissions for reading and changing configurations."""

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from cluster.handlers.authorization.guards import narrow
from cluster.handlers.config_resources import ResourceType as ConfigResourceType
from cluster.security.acl import CLUSTER_NAME, Operation, ResourceType
from wire.errors import Error
from wire.messages import alter_configs, describe_configs, incremental_alter_configs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cluster.handlers.authorization.guards import Guarded
    from cluster.handlers.call import ApiCall

_OF_BROKERS: Final = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)


def describe_configs_guard(call: "ApiCall[Guarded]") -> bool:
    """Require DESCRIBE_CONFIGS on each topic, and on the cluster for brokers and their loggers."""
    _narrow(
        call,
        call.request.resources,
        Operation.DESCRIBE_CONFIGS,
        "results",
        lambda resource, error: describe_configs.DescribeConfigsResult(
            error_code=error,
            error_message=error.text,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        ),
    )
    return True


def alter_configs_guard(call: "ApiCall[Guarded]") -> bool:
    """Require ALTER_CONFIGS on each topic, and on the cluster for brokers."""
    _narrow(
        call,
        _sound(call),
        Operation.ALTER_CONFIGS,
        "responses",
        lambda resource, error: alter_configs.AlterConfigsResourceResponse(
            error_code=error,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        ),
    )
    return True


def incremental_alter_configs_guard(call: "ApiCall[Guarded]") -> bool:
    """Require ALTER_CONFIGS on each topic, and on the cluster for brokers and their loggers."""
    _narrow(
        call,
        _sound(call),
        Operation.ALTER_CONFIGS,
        "responses",
        lambda resource, error: incremental_alter_configs.AlterConfigsResourceResponse(
            error_code=error,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        ),
    )
    return True


def _sound(call: "ApiCall[Guarded]") -> "Sequence[Any]":
    """Return the resources that are named only once: the handler refuses the others anyway."""
    resources = call.request.resources
    counts = Counter((each.resource_type, each.resource_name) for each in resources)
    return [each for each in resources if counts[each.resource_type, each.resource_name] == 1]


def _narrow(
    call: "ApiCall[Guarded]",
    asked: "Sequence[Any]",
    operation: Operation,
    answers: str,
    refuse: "Callable[[Any, Error], Any]",
) -> None:
    refusals, refused = [], set()
    for resource in asked:
        error = _refusal(call, resource, operation)
        if error is not None:
            refusals.append(refuse(resource, error))
            refused.add((resource.resource_type, resource.resource_name))
    if refusals:
        permitted = [
            each for each in call.request.resources if (each.resource_type, each.resource_name) not in refused
        ]
        narrow(call, "resources", permitted, answers, refusals)


def _refusal(call: "ApiCall[Guarded]", resource: Any, operation: Operation) -> Error | None:
    if resource.resource_type == ConfigResourceType.TOPIC:
        permitted = call.may(operation, ResourceType.TOPIC, resource.resource_name)
        return None if permitted else Error.TOPIC_AUTHORIZATION_FAILED
    if resource.resource_type in _OF_BROKERS:
        permitted = call.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)
        return None if permitted else Error.CLUSTER_AUTHORIZATION_FAILED
    return None  # the handler refuses such resources
