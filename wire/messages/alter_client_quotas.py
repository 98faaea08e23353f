"""AlterClientQuotas: set or remove quotas of users, client ids and addresses (KIP-546).

Versions:
    1: compact lengths and tagged fields (flexible).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import BOOL, FLOAT64, INT16, INT32, STRING, Request, Response, Struct, array, field


class EntityData(Struct):
    entity_type: str = field(STRING)
    entity_name: str | None = field(STRING, nullable="0+")


class OpData(Struct):
    key: str = field(STRING)
    value: float = field(FLOAT64)
    remove: bool = field(BOOL)


class EntryData(Struct):
    entity: Sequence[EntityData] = field(array(EntityData))
    ops: Sequence[OpData] = field(array(OpData))


class AlterClientQuotasRequest(Request, api=ApiKey.ALTER_CLIENT_QUOTAS, versions="0-1", flexible="1+"):
    entries: Sequence[EntryData] = field(array(EntryData))
    validate_only: bool = field(BOOL)


class EntryDataResponse(Struct):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    entity: Sequence[EntityData] = field(array(EntityData))


class AlterClientQuotasResponse(Response, api=ApiKey.ALTER_CLIENT_QUOTAS, versions="0-1", flexible="1+"):
    throttle_time_ms: int = field(INT32)
    entries: Sequence[EntryDataResponse] = field(array(EntryDataResponse))
