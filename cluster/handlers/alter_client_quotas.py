"""AlterClientQuotas 0 and 1: set and remove the quotas of users, client ids and addresses; any broker answers.

Each entity succeeds or fails by itself. The other settings of its configuration, such as a user's SCRAM credentials,
stay. Values that are meaningless or would divide by zero are refused, although Kafka stores them.
"""

from typing import TYPE_CHECKING, Protocol

from cluster.handlers.context import HasConnectionLimits, HasStore
from cluster.handlers.failures import EXPECTED_FAILURES, failure_of
from cluster.handlers.quota_entities import IP, StoredEntity, quota_text, read_entity
from cluster.network.address_limits import AddressLimitError
from cluster.security.authorizer import audit_logger, quoted
from cluster.security.quotas.entities import DEFAULT
from cluster.zookeeper.entity_configs import change_entity_config
from wire.apis import ApiKey
from wire.errors import ApiError, Error
from wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    EntryDataResponse,
)

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry


class _Broker(HasConnectionLimits, HasStore, Protocol):
    """The parts of a broker that this API reaches."""


def register(registry: "Registry") -> None:
    """Serve AlterClientQuotas."""
    registry.add_async(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, handle)


async def handle(call: "ApiCall[_Broker]") -> AlterClientQuotasResponse:
    """Change each entity's quotas, and answer for each."""
    request: AlterClientQuotasRequest = call.request
    answers = []
    for entry in request.entries:
        code, message = 0, None
        try:
            await _alter(call, entry, validate_only=request.validate_only)
        except EXPECTED_FAILURES as exception:
            failure = failure_of(exception)
            code, message = failure.code, failure.message
        answers.append(EntryDataResponse(error_code=code, error_message=message, entity=list(entry.entity)))
    return AlterClientQuotasResponse(entries=answers)


async def _alter(call: "ApiCall[_Broker]", entry: EntryData, *, validate_only: bool) -> None:
    entity = read_entity(entry.entity)
    changes = _changes(entity, entry)
    if IP in entity.parts and entity.parts[IP] is not DEFAULT:
        await _require_address(call, str(entity.parts[IP]))
    if validate_only:
        return

    def changed(present: dict[str, str]) -> dict[str, str]:
        result = dict(present)
        for key, value in changes.items():
            if value is None:
                result.pop(key, None)
            else:
                result[key] = value
        return result

    await change_entity_config(call.broker.store, entity.entity_type, entity.path, changed)
    audit_logger.info(
        "principal=%s quotas of=%s changed=%s",
        quoted(str(call.principal)),
        quoted(f"{entity.entity_type}/{entity.path}"),
        quoted(", ".join(f"{key}={'removed' if value is None else value}" for key, value in changes.items())),
    )


def _changes(entity: StoredEntity, entry: EntryData) -> dict[str, str | None]:
    """Return the values to set by key; None removes one.

    Raises:
        ApiError: a key is not one of the entity's, is there twice, or has an invalid value.
    """
    changes: dict[str, str | None] = {}
    for change in entry.ops:
        if change.key not in entity.keys:
            raise ApiError(Error.INVALID_REQUEST, f"such an entity has no quota {change.key!r}")
        if change.key in changes:
            raise ApiError(Error.INVALID_REQUEST, f"{change.key} is changed twice")
        changes[change.key] = None if change.remove else quota_text(change.key, change.value)
    return changes


async def _require_address(call: "ApiCall[_Broker]", host: str) -> None:
    try:
        await call.broker.connection_limits.addresses(host)
    except AddressLimitError as error:
        raise ApiError(Error.INVALID_REQUEST, str(error)) from None
