"""IncrementalAlterConfigs: set, delete, append to or subtract from single configuration values (KIP-339).

Versions:
    1: compact lengths and tagged fields (flexible).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import BOOL, INT8, INT16, INT32, STRING, Request, Response, Struct, array, field


class AlterableConfig(Struct):
    name: str = field(STRING)
    config_operation: int = field(INT8)
    value: str | None = field(STRING, nullable="0+")


class AlterConfigsResource(Struct):
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configs: Sequence[AlterableConfig] = field(array(AlterableConfig))


class IncrementalAlterConfigsRequest(
    Request, api=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions="0-1", flexible="1+"
):
    resources: Sequence[AlterConfigsResource] = field(array(AlterConfigsResource))
    validate_only: bool = field(BOOL)


class AlterConfigsResourceResponse(Struct):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)


class IncrementalAlterConfigsResponse(
    Response, api=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions="0-1", flexible="1+"
):
    throttle_time_ms: int = field(INT32)
    responses: Sequence[AlterConfigsResourceResponse] = field(array(AlterConfigsResourceResponse))
