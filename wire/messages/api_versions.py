"""ApiVersions: which APIs at which versions the broker serves; the first request of most clients.

Its response header is always version 0, so that a client of any age can read the answer. A version that
is too new is answered in version 0 with UNSUPPORTED_VERSION and the supported range of this API
(KIP-511).

Versions:
    1: throttle time.
    2: on a quota violation the answer comes before the throttling.
    3: flexible; the client names its software; features.
    4: a feature range may start at 0.
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import BOOL, INT16, INT32, INT64, STRING, Request, Response, Struct, array, field


class ApiVersionsRequest(Request, api=ApiKey.API_VERSIONS, versions="0-4", flexible="3+"):
    client_software_name: str = field(STRING, versions="3+", ignorable=True)
    client_software_version: str = field(STRING, versions="3+", ignorable=True)


class ApiVersion(Struct):
    api_key: int = field(INT16)
    min_version: int = field(INT16)
    max_version: int = field(INT16)


class SupportedFeatureKey(Struct):
    name: str = field(STRING)
    min_version: int = field(INT16)
    max_version: int = field(INT16)


class FinalizedFeatureKey(Struct):
    name: str = field(STRING)
    max_version_level: int = field(INT16)
    min_version_level: int = field(INT16)


class ApiVersionsResponse(Response, api=ApiKey.API_VERSIONS, versions="0-4", flexible="3+"):
    error_code: int = field(INT16)
    api_keys: Sequence[ApiVersion] = field(array(ApiVersion))
    throttle_time_ms: int = field(INT32, versions="1+", ignorable=True)
    supported_features: Sequence[SupportedFeatureKey] = field(
        array(SupportedFeatureKey), versions="3+", tag=0, ignorable=True
    )
    finalized_features_epoch: int = field(INT64, versions="3+", default=-1, tag=1, ignorable=True)
    finalized_features: Sequence[FinalizedFeatureKey] = field(
        array(FinalizedFeatureKey), versions="3+", tag=2, ignorable=True
    )
    zk_migration_ready: bool = field(BOOL, versions="3+", tag=3, ignorable=True)
