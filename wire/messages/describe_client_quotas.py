"""DescribeClientQuotas: quotas whose entity matches a filter (KIP-546).

Versions:
    1: compact lengths and tagged fields (flexible).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import BOOL, FLOAT64, INT8, INT16, INT32, STRING, Request, Response, Struct, array, field


class ComponentData(Struct):
    entity_type: str = field(STRING)
    match_type: int = field(INT8)
    match: str | None = field(STRING, nullable="0+")


class DescribeClientQuotasRequest(Request, api=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions="0-1", flexible="1+"):
    components: Sequence[ComponentData] = field(array(ComponentData))
    strict: bool = field(BOOL)


class EntityData(Struct):
    entity_type: str = field(STRING)
    entity_name: str | None = field(STRING, nullable="0+")


class ValueData(Struct):
    key: str = field(STRING)
    value: float = field(FLOAT64)


class EntryData(Struct):
    entity: Sequence[EntityData] = field(array(EntityData))
    values: Sequence[ValueData] = field(array(ValueData))


class DescribeClientQuotasResponse(
    Response, api=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions="0-1", flexible="1+"
):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    entries: Sequence[EntryData] | None = field(array(EntryData), nullable="0+")
