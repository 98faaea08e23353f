"""UpdateFeatures: change finalised feature levels (KIP-584). KRaft clusters serve it, we refuse it.

Versions:
    1: upgrade type instead of allow_downgrade; validate_only.
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import BOOL, INT8, INT16, INT32, STRING, Request, Response, Struct, array, field


class FeatureUpdateKey(Struct):
    feature: str = field(STRING)
    max_version_level: int = field(INT16)
    allow_downgrade: bool = field(BOOL, versions="0")
    upgrade_type: int = field(INT8, versions="1+", default=1)


class UpdateFeaturesRequest(Request, api=ApiKey.UPDATE_FEATURES, versions="0-1", flexible="0+"):
    timeout_ms: int = field(INT32, default=60000)
    feature_updates: Sequence[FeatureUpdateKey] = field(array(FeatureUpdateKey))
    validate_only: bool = field(BOOL, versions="1+")


class UpdatableFeatureResult(Struct):
    feature: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")


class UpdateFeaturesResponse(Response, api=ApiKey.UPDATE_FEATURES, versions="0-1", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    results: Sequence[UpdatableFeatureResult] = field(array(UpdatableFeatureResult))
