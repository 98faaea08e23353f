"""DescribeClientQuotas 0 and 1: the quotas that ZooKeeper has, of the entities that a filter selects.

A filter that is not strict also selects entities with further parts: for a user, also those of its clients. Without any
component it selects everything.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from cluster.handlers.context import HasStore
from cluster.handlers.quota_entities import CLIENT_ID, IP, KEYS_OF_CLIENTS, KINDS, USER
from cluster.security.quotas.entities import DEFAULT, Name
from cluster.zookeeper.quota_znodes import CONNECTION_RATE, decode_name, entity_of, read_number
from cluster.zookeeper.znodes import CLIENTS, IPS, USERS
from wire.apis import ApiKey
from wire.errors import ApiError, Error
from wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry

_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2


def register(registry: "Registry") -> None:
    """Serve DescribeClientQuotas."""
    registry.add_async(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, handle)


async def handle(call: "ApiCall[HasStore]") -> DescribeClientQuotasResponse:
    """Read every entity that may match, and answer with those that match and have a quota."""
    request: DescribeClientQuotasRequest = call.request
    try:
        _check(request.components)
    except ApiError as error:
        return DescribeClientQuotasResponse(error_code=error.error, error_message=error.message, entries=None)
    wanted = {component.entity_type: component for component in request.components}
    entries = []
    for entity_type in (USERS, CLIENTS, IPS):
        paths = await call.broker.store.read_config_paths(entity_type)
        configs = await call.broker.store.read_configs(entity_type, paths)
        for path, config in configs.items():
            parts = _parts(entity_type, path)
            values = _values(f"{entity_type}/{path}", IP in parts, config)
            if values and _matches(parts, wanted, strict=request.strict):
                entries.append(EntryData(entity=_entity(parts), values=values))
    return DescribeClientQuotasResponse(error_message=None, entries=entries)


def _check(components: Sequence[ComponentData]) -> None:
    kinds = [component.entity_type for component in components]
    for component in components:
        if component.entity_type == "":
            raise ApiError(Error.INVALID_REQUEST, "a component has no type")
        if kinds.count(component.entity_type) > 1:
            raise ApiError(Error.INVALID_REQUEST, f"the type {component.entity_type} stands there twice")
        if component.entity_type not in KINDS:
            raise ApiError(Error.UNSUPPORTED_VERSION, f"unknown type of entity {component.entity_type!r}")
        if component.match_type not in (_EXACT, _DEFAULT, _ANY):
            raise ApiError(Error.INVALID_REQUEST, f"unknown kind of match {component.match_type}")
        if component.match_type == _EXACT and component.match is None:
            raise ApiError(Error.INVALID_REQUEST, "an exact match needs a name")
    if IP in kinds and len(kinds) > 1:
        raise ApiError(Error.INVALID_REQUEST, "an ip is not asked for together with a user or client id")


def _parts(entity_type: str, path: str) -> dict[str, Name]:
    if entity_type == IPS:
        return {IP: decode_name(path)}
    entity = entity_of(entity_type, path)
    parts = {USER: entity.user, CLIENT_ID: entity.client_id}
    return {kind: name for kind, name in parts.items() if name is not None}


def _values(path: str, of_address: bool, config: Mapping[str, str]) -> list[ValueData]:
    keys = (CONNECTION_RATE,) if of_address else sorted(KEYS_OF_CLIENTS)
    found = ((key, read_number(path, key, config)) for key in keys)
    return [ValueData(key=key, value=value) for key, value in found if value is not None]


def _matches(parts: Mapping[str, Name], wanted: Mapping[str, ComponentData], *, strict: bool) -> bool:
    if strict and parts.keys() != wanted.keys():
        return False
    for kind, component in wanted.items():
        name = parts.get(kind)
        if name is None:
            return False
        if component.match_type == _EXACT and name != component.match:
            return False
        if component.match_type == _DEFAULT and name is not DEFAULT:
            return False
    return True


def _entity(parts: Mapping[str, Name]) -> list[EntityData]:
    return [
        EntityData(entity_type=kind, entity_name=None if name is DEFAULT else str(name))
        for kind, name in parts.items()
    ]
