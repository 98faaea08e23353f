"""DescribeConfigs: configuration of topics and brokers, and where each value comes from.

Versions:
    1: source and synonyms instead of is_default.
    2: on a quota violation the answer comes before the throttling.
    3: type and documentation.
    4: compact lengths and tagged fields (flexible).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import BOOL, INT8, INT16, INT32, STRING, Request, Response, Struct, array, field


class DescribeConfigsResource(Struct):
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configuration_keys: Sequence[str] | None = field(array(STRING), nullable="0+")


class DescribeConfigsRequest(Request, api=ApiKey.DESCRIBE_CONFIGS, versions="0-4", flexible="4+"):
    resources: Sequence[DescribeConfigsResource] = field(array(DescribeConfigsResource))
    include_synonyms: bool = field(BOOL, versions="1+")
    include_documentation: bool = field(BOOL, versions="3+")


class DescribeConfigsSynonym(Struct):
    name: str = field(STRING)
    value: str | None = field(STRING, nullable="0+")
    source: int = field(INT8)


class DescribeConfigsResourceResult(Struct):
    name: str = field(STRING)
    value: str | None = field(STRING, nullable="0+")
    read_only: bool = field(BOOL)
    is_default: bool = field(BOOL, versions="0")
    config_source: int = field(INT8, versions="1+", default=-1, ignorable=True)
    is_sensitive: bool = field(BOOL)
    synonyms: Sequence[DescribeConfigsSynonym] = field(
        array(DescribeConfigsSynonym), versions="1+", ignorable=True
    )
    config_type: int = field(INT8, versions="3+", ignorable=True)
    documentation: str | None = field(STRING, versions="3+", nullable="0+", ignorable=True)


class DescribeConfigsResult(Struct):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configs: Sequence[DescribeConfigsResourceResult] = field(array(DescribeConfigsResourceResult))


class DescribeConfigsResponse(Response, api=ApiKey.DESCRIBE_CONFIGS, versions="0-4", flexible="4+"):
    throttle_time_ms: int = field(INT32)
    results: Sequence[DescribeConfigsResult] = field(array(DescribeConfigsResult))
